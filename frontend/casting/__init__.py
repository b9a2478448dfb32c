"""Automatic casts: what each thread casts (`state.py`), and the casting of operators' inputs (`operators.py`)."""
