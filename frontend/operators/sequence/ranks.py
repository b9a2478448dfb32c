"""The order of sequences by their lengths: a rank table has the number and the length of each sequence, the longest first."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.ir.types import i64
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths
from polyreme.tensor import Tensor


@operator(legacy=spelled("lod_rank_table", {"X": "x", "X@LOD": "levels"}))
def lod_rank_table(x: Tensor, levels: list[Tensor] | None = None, *, level: int = 0) -> Tensor:
    """The numbers and the lengths of the sequences of a level, int64 [sequences, 2]; those of equal length stay in order."""
    last_level(levels or [], "X")
    given = levels or []
    if not 0 <= level < len(given):
        raise UnsupportedError(f"expected a level below {len(given)} for 'lod_rank_table' but got {level}")
    size = lengths(given[level])
    order = math.argsort(math.scale(size, -1), stable=True)
    return math.stack([order, math.gather(size, order, 0)], 1)


@operator(legacy=spelled("max_sequence_len", {"RankTable": "table"}))
def max_sequence_len(table: Tensor) -> Tensor:
    """The length of the longest sequence, int64 [1]."""
    return math.reshape(math.maximum(math.max(table[:, 1]), dispatch.full((), 0, i64)), [1])


@operator(legacy=spelled("reorder_lod_tensor_by_rank", {"X": "x", "RankTable": "table", "X@LOD": "levels"}))
def reorder_lod_tensor_by_rank(x: Tensor, table: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """The rows of `x`, one for each sequence, in the order of the table."""
    if levels:
        raise UnsupportedError("expected a row for each sequence as 'X' of 'reorder_lod_tensor_by_rank' but it has levels of detail")
    return math.gather(x, table[:, 0], 0)
