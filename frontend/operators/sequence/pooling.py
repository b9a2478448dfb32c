"""Sequences reduced to a row each, and what is repeated or normalized along them.

`levels` are the offsets of the levels of `x`, int64, the longest sequences first; an operator works on those of the last level.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.math.common import cast_to
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_LEVELS = {"X": "x", "X@LOD": "levels"}


def last_level(levels: Sequence[Tensor], what: str) -> Tensor:
    """The offsets of the sequences that are rows; an error for a tensor without any."""
    if not levels:
        raise UnsupportedError(
            f"expected sequences in '{what}' but it has no levels of detail; declare the input with lod_level=1 and feed a LoDTensor"
        )
    return levels[-1]


def sequence_of_rows(offsets: Tensor, rows: Tensor) -> Tensor:
    """For each row of a tensor the number of the sequence that it belongs to."""
    count = rows.type.shape[0]
    marks = math.zeros([count + 1], i64)
    ends = offsets[1:]
    marks = math.scatter_nd_add(marks, math.unsqueeze(ends, -1), math.ones_like(ends))
    return dispatch.call(nn.Cumsum, marks, axis=0)[:-1]


def lengths(offsets: Tensor) -> Tensor:
    """How long the sequences are."""
    return math.subtract(offsets[1:], offsets[:-1])


def sum_of_sequences(x: Tensor, offsets: Tensor) -> Tensor:
    """The sums of the rows of each sequence [sequences, ...]."""
    start = dispatch.full((offsets.type.shape[0] - 1, *x.type.shape[1:]), 0, x.type.dtype)
    return math.index_add(start, sequence_of_rows(offsets, x), 0, x)


def peaks(x: Tensor, offsets: Tensor) -> Tensor:
    """The greatest of the rows of each sequence, element by element, and the least number there is for one without rows. As in Paddle the
    gradient goes to the first of several that are equal.
    """
    rows, width = x.type.shape[0], x.type.shape[1:]
    filled = math.concat([x, dispatch.full((1, *width), float("-inf"), x.type.dtype)], 0)
    size, starts = lengths(offsets), offsets[:-1]
    numbers = dispatch.call(nn.Iota, shape=(rows + 1,), axis=0, dtype=i64)
    longest = math.maximum(math.max(size), dispatch.full((), 1, i64))
    steps = math.reshape(math.nonzero(math.less_than(numbers, longest)), [-1, 1])
    behind = dispatch.call(nn.DimValue, size=rows, dtype=i64)
    places = math.where(math.less_than(steps, math.unsqueeze(size, 0)), math.add(steps, math.unsqueeze(starts, 0)), behind)
    laid = math.reshape(math.gather(filled.detach(), math.reshape(places, [-1]), 0), [*places.type.shape, *width])
    first = math.reshape(starts, [starts.type.shape[0], *[1] * len(width)])
    return math.take_along_axis(filled, math.add(math.argmax(laid, 0), first), 0, broadcast=False)


def per_sequence(v: Tensor, x: Tensor) -> Tensor:
    """A vector of one value per sequence, shaped so that it broadcasts to rows like those of `x`."""
    return math.reshape(cast_to(v, x.type.dtype), [v.type.shape[0], *[1] * (x.ndim - 1)])


@operator(legacy=spelled("sequence_pool", _LEVELS, "Out MaxIndex Out@LOD", ignored="is_test"))
def sequence_pool(
    x: Tensor, levels: list[Tensor] | None = None, *, pooltype: str = "AVERAGE", pad_value: float = 0.0
) -> tuple[Tensor, None, list[Tensor]]:
    """A row for each sequence: the SUM, AVERAGE, SQRT (the sum over the root of the length), MAX, FIRST or LAST of its rows; `pad_value`
    for a sequence without rows. The levels above stay.
    """
    given = levels or []
    offsets = last_level(given, "X")
    size = lengths(offsets)
    some = math.maximum(size, math.ones_like(size))
    kind = pooltype.upper()
    if kind in ("SUM", "AVERAGE", "SQRT"):
        made = sum_of_sequences(x, offsets)
        divisor = cast_to(some, x.type.dtype)
        if kind != "SUM":
            made = math.divide(made, per_sequence(math.sqrt(divisor) if kind == "SQRT" else divisor, x))
    elif kind == "MAX":
        made = peaks(x, offsets)
    elif kind in ("FIRST", "LAST"):
        place = offsets[:-1] if kind == "FIRST" else math.scale(offsets[1:], 1, -1)
        limit = dispatch.call(nn.DimValue, size=x.type.shape[0], dtype=i64)
        made = math.gather(x, math.maximum(math.minimum(place, math.scale(limit, 1, -1)), math.zeros_like(place)), 0)
    else:
        raise UnsupportedError(f"expected the pooltype SUM, AVERAGE, SQRT, MAX, FIRST or LAST but got '{pooltype}'")
    empty = per_sequence(math.equal(size, math.zeros_like(size)), x).astype("bool")
    return math.where(empty, dispatch.full((), pad_value, x.type.dtype), made), None, given[:-1]


@operator(legacy=spelled("sequence_softmax", _LEVELS, ignored="use_cudnn data_format"))
def sequence_softmax(x: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """The softmax of the rows of each sequence, which are one number each."""
    offsets = last_level(levels or [], "X")
    belongs = sequence_of_rows(offsets, x)
    risen = math.exp(math.subtract(x, math.gather(peaks(x.detach(), offsets), belongs, 0)))
    return math.divide(risen, math.gather(sum_of_sequences(risen, offsets), belongs, 0))
