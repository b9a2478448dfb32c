"""Gradients of tables that are read by rows (`is_sparse=True`): Paddle keeps such a one as the rows that were read.

Here it is a whole table, and the positions that were read go beside it: while a program is translated, each variable that is such a
gradient has the tensors of them. An operator whose entry has a slot `Grad@ROWS` is given those of what it reads in `Grad`. Operators that
Paddle has for rows give rows again, and those that were not read stay without a gradient; the results of all others are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme import math
from polyreme.loaders.program_desc import SELECTED_ROWS
from polyreme.math.scattering import rows_that_were_read
from polyreme.static.operator import Operator
from polyreme.tensor import Tensor

__all__ = ["READ_ROWS", "is_read_by_rows", "mark_rows", "positions", "rows_handed_on", "without_others"]

READ_ROWS = "@ROWS"
# What reads the rows of a table in `W` at the positions in `Ids`.
_TABLES = {"lookup_table", "lookup_table_v2"}
# Operators whose result is rows where all that they read in `X` is.
_KEEPING = {"assign", "clip", "clip_by_norm", "elementwise_mul", "merge_selected_rows", "scale", "sum"}


def is_read_by_rows(op: Operator) -> bool:
    """Whether the gradient of the table that an operator reads is the rows that were read."""
    return op.type in _TABLES and bool(op.attrs.get("is_sparse"))


def rows_handed_on(op: Operator) -> Sequence[str]:
    """What must be rows, all of it, for the result of an operator to be rows; nothing for one that gives none."""
    return op.inputs.get("X", ()) if op.type in _KEEPING else ()


def mark_rows(op: Operator) -> None:
    """Let the results of a new operator be declared as rows where they are such."""
    read = rows_handed_on(op)
    if read and all(op.block.var_recursive(name).kind == SELECTED_ROWS for name in read):
        for name in op.outputs.get("Out", ()):
            op.block.var_recursive(name).kind = SELECTED_ROWS


def positions(op: Operator, rows_of: Callable[[str], list[Tensor]]) -> list[Tensor]:
    """The positions of the rows that the result of an operator is."""
    found = [rows_of(name) for name in rows_handed_on(op)]
    return [position for group in found for position in group] if all(found) else []


def without_others(op: Operator, made: Tensor, rows: list[Tensor]) -> Tensor:
    """The result of an operator on rows: what was not read has no element that a bound or an addend could change."""
    if op.type not in ("clip", "scale"):
        return made
    return math.where(rows_that_were_read(rows, made), made, math.zeros_like(made))
