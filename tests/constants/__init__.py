"""Numeric constants of `lowering/` outside of `machines/`: numbers by which schedules and code are chosen, and that no machine's row says.

`python -m tests.constants` lists them by file. The test keeps their number from growing: what describes a machine goes to
`lowering/machines/`, what is chosen to a schedule.
"""
