"""Tensors that have no array of their shape behind them: rows of a table (`selected_rows.py`), and what has changed since (`stale.py`)."""
