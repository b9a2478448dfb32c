"""Code that modules become: compiled, kept and found again, for models and for single eager ops; and looking at it."""
