"""Sequences laid out by steps: row `t` of the layout has the rows with number `t` of all sequences. A sequence that has ended has its last
row again, and the memories that it had there: its last step is repeated, so that no value or gradient is computed that Paddle does not.
"""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths, sequence_of_rows
from polyreme.tensor import Tensor


def longest_first(offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The sequences in the order of their lengths, the longest first; and the place that each has among them."""
    order = math.argsort(math.scale(lengths(offsets), -1), stable=True)
    return order, math.argsort(order)


def laid_out(x: Tensor, offsets: Tensor, order: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers of the steps of the sequences of `x`, int64 [steps, 1]; where the rows of each stand, [steps, sequences]; and which
    sequences have one. They stand in their own order or in the given one.
    """
    size, first = lengths(offsets), offsets[:-1]
    if order is not None:
        size, first = math.gather(size, order, 0), math.gather(first, order, 0)
    numbers = dispatch.call(nn.Iota, shape=(x.type.shape[0],), axis=0, dtype=i64)
    steps = math.reshape(math.nonzero(math.less_than(numbers, math.max(size))), [-1, 1])
    last = math.scale(dispatch.call(nn.DimValue, size=x.type.shape[0], dtype=i64), 1, -1)
    places = math.minimum(math.add(steps, math.unsqueeze(first, 0)), last)
    return steps, places, math.less_than(steps, math.unsqueeze(size, 0))


@operator(legacy=spelled("steps_of_sequences", {"X": "x", "X@LOD": "levels"}, "Places Mask Ranks"))
def steps_of_sequences(x: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Where the rows of each step stand in `x`, int64 [steps, sequences]; whether a sequence has a row after it, bool of the same shape;
    and the place of each sequence among all, the longest first, int64 [sequences].
    """
    offsets = last_level(levels or [], "X")
    size = lengths(offsets)
    rows = x.type.shape[0]
    numbers = dispatch.call(nn.Iota, shape=(rows,), axis=0, dtype=i64)
    steps = math.reshape(math.nonzero(math.less_than(numbers, math.max(size))), [-1, 1])
    last = math.scale(dispatch.call(nn.DimValue, size=rows, dtype=i64), 1, -1)
    own = math.minimum(steps, math.unsqueeze(math.scale(size, 1, -1), 0))
    places = math.add(math.unsqueeze(offsets[:-1], 0), own)
    places = math.minimum(math.maximum(places, dispatch.full((), 0, i64)), last)
    return places, math.less_than(steps, math.unsqueeze(math.scale(size, 1, -1), 0)), longest_first(offsets)[1]


@operator(legacy=spelled("rows_by_steps", {"X": "x", "Places": "places"}))
def rows_by_steps(x: Tensor, places: Tensor) -> Tensor:
    """The rows [steps, sequences, ...] of `x` that stand at `places`."""
    return math.reshape(math.gather(x, math.reshape(places, [-1]), 0), [*places.type.shape, *x.type.shape[1:]])


@operator(legacy=spelled("kept_where_last", {"X": "x", "Before": "before", "Mask": "mask"}))
def kept_where_last(x: Tensor, before: Tensor, mask: Tensor) -> Tensor:
    """The rows of `x` of sequences that go on, as the mask [sequences] says, and of the others those of `before`."""
    return math.where(math.reshape(mask, [mask.type.shape[0], *[1] * (x.ndim - 1)]), x, before)


@operator(legacy=spelled("sequences_of_steps", {"X": "x", "Like": "like", "Like@LOD": "levels"}, "Out Out@LOD"))
def sequences_of_steps(x: Tensor, like: Tensor, levels: list[Tensor] | None = None) -> tuple[Tensor, list[Tensor]]:
    """Of rows by steps [steps, sequences, ...] the sequences that they were, those of `like`."""
    return rows_of_steps(x, like, last_level(levels or [], "Like")), list(levels or [])


def rows_of_steps(x: Tensor, like: Tensor, offsets: Tensor, ranks: Tensor | None = None) -> Tensor:
    """The rows of `x` [steps, sequences, ...] one behind the other, as those of `like`, whose sequences have these offsets; `ranks` are the
    places of sequences in `x`, where they stand there in another order.
    """
    belongs = sequence_of_rows(offsets, like)
    numbers = dispatch.call(nn.Iota, shape=(like.type.shape[0],), axis=0, dtype=i64)
    step = math.subtract(numbers, math.gather(offsets, belongs, 0))
    width = dispatch.call(nn.DimValue, size=x.type.shape[1], dtype=i64)
    flat = math.reshape(x, [x.type.shape[0] * x.type.shape[1], *x.type.shape[2:]])
    column = belongs if ranks is None else math.gather(ranks, belongs, 0)
    return math.gather(flat, math.add(math.multiply(step, width), column), 0)
