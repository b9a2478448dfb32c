"""Programs as people write them, each run eagerly and compiled; `driver.py` says how. They stand in modules of their own because pytest
rewrites the asserts of tests.
"""
