"""The dynamic-graph API against Paddle 3.3.1: one table of cases, run under both modules.

`table.py` says how a case is written, the `cases_*.py` beside it are the cases, and `derived.py` makes further ones of them, so that every
name has each kind of shape. `outcome.py` runs cases under a module, `peer.py` runs them under Paddle in processes of its own, `compare.py`
says where two outcomes differ. What Paddle gave is kept in `tests/fixtures/api/`:

    python -m tests.api.record [SUBJECT ...]     run the cases under Paddle (POLYREME_PADDLE_PYTHON, or this python) and store what came
    pytest tests/api                             compare with what is stored
    pytest tests/api -m peer                     compare with Paddle itself
    python -m tests.api.try_out NAME ...         run the cases of names under both and print what differs, storing nothing
    python -m tests.coverage_api                 what is present, tested and wrong, per group
"""
