"""The pages about ops: `facts.py` finds out what there is to say, from the op table; `pages.py` says it."""
