"""The order of sequences by their lengths: a rank table has the number and the length of each sequence, the longest first."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.array import going_on, rank_table_of
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths, sequence_of_rows
from polyreme.operators.sequence.ragged import numbers_below
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


@operator(legacy=spelled("reorder_lod_tensor_by_rank", {"X": "x", "RankTable": "table", "X@LOD": "levels"}, "Out Out@LOD"))
def reorder_lod_tensor_by_rank(x: Tensor, table: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """The rows of `x`, one for each sequence, or its sequences, in the order of the table."""
    order = table[:, 0]
    if not levels:
        return math.gather(x, order, 0), []
    if len(levels) > 1:
        raise UnsupportedError(f"expected at most one level of detail of 'X' of 'reorder_lod_tensor_by_rank' but got {len(levels)}")
    offsets = _offsets(math.gather(lengths(levels[0]), order, 0))
    belongs = sequence_of_rows(offsets, x)
    rows = dispatch.call(nn.Iota, shape=(x.type.shape[0],), axis=0, dtype=i64)
    starts = math.gather(levels[0], order, 0)
    places = math.add(math.gather(starts, belongs, 0), math.subtract(rows, math.gather(offsets, belongs, 0)))
    return math.gather(x, places, 0), [offsets]


@operator(legacy=spelled("shrink_rnn_memory", {"X": "x", "RankTable": "table", "I": "i", "X@LOD": "levels"}))
def shrink_memory(x: Tensor, table: Tensor, i: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """The rows of `x`, one for each sequence in the order of the table, of the sequences that have a row with the number `i`."""
    if levels:
        raise UnsupportedError("expected a row for each sequence as 'X' of 'shrink_rnn_memory' but it has levels of detail")
    return math.gather(x, numbers_below(going_on(table, i)), 0)


@operator(legacy=spelled("lod_tensor_to_array", {"X": "x", "RankTable": "table", "X@LOD": "levels"}, "Out Out@LOD"))
def lod_tensor_to_array(x: Tensor, table: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """An array whose element `t` has the rows with number `t` of the sequences that have one, in the order of the table.

    It is one tensor [steps, sequences, ...], with the table as its level of detail: that says how many rows an element has.
    """
    if len(levels or []) != 1:
        raise UnsupportedError(f"expected one level of detail of 'X' of 'lod_tensor_to_array' but got {len(levels or [])}")
    offsets = last_level(levels or [], "X")
    steps = math.reshape(numbers_below(math.reshape(max_sequence_len(table), [])), [-1, 1])
    own = math.minimum(steps, math.unsqueeze(math.scale(table[:, 1], 1, -1), 0))
    places = math.add(math.unsqueeze(math.gather(offsets, table[:, 0], 0), 0), own)
    rows = math.gather(x, math.reshape(places, [-1]), 0)
    return math.reshape(rows, [*places.type.shape, *x.type.shape[1:]]), [table]


@operator(legacy=spelled("array_to_lod_tensor", {"X": "array", "RankTable": "table", "X@LOD": "levels"}, "Out Out@LOD"))
def array_to_lod_tensor(array: Tensor, table: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """The sequences whose rows by steps are the elements of an array: what `lod_tensor_to_array` was given."""
    if rank_table_of(levels) is None:
        raise UnsupportedError(
            "expected an array that 'lod_tensor_to_array' gave as 'X' of 'array_to_lod_tensor' but its elements have as many rows at all "
            "steps; compute rows by steps in a DynamicRNN"
        )
    ranks = math.argsort(table[:, 0])
    offsets = _offsets(math.gather(table[:, 1], ranks, 0))
    rows = numbers_below(math.sum(table[:, 1]))
    belongs = sequence_of_rows(offsets, rows)
    width = dispatch.call(nn.DimValue, size=array.type.shape[1], dtype=i64)
    step = math.subtract(rows, math.gather(offsets, belongs, 0))
    flat = math.reshape(array, [array.type.shape[0] * array.type.shape[1], *array.type.shape[2:]])
    return math.gather(flat, math.add(math.multiply(step, width), math.gather(ranks, belongs, 0)), 0), [offsets]


def _offsets(size: Tensor) -> Tensor:
    """The offsets of sequences of these lengths."""
    return math.concat([dispatch.full((1,), 0, i64), dispatch.call(nn.Cumsum, size, axis=0)], 0)
