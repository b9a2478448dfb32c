"""Sequences reduced to a row each, and what is repeated or normalized along them.

`levels` are the offsets of the levels of `x`, int64, the longest sequences first; an operator works on those of the last level.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import i64
from polyreme.math.common import cast_to, check_within
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


def zeros_where_right(wrong: Tensor, why: str) -> Tensor:
    """int64 zeros of the shape of `wrong`. Where that holds it is a ValueError, of a program one of the run, which has to use the zeros."""
    made: Tensor = check_within(cast_to(wrong, i64), 1, lambda low, high, size: ValueError(why), wraps=False)
    return made


def with_as_many(x: Tensor, one: Dim, other: Dim, why: str) -> Tensor:
    """`x`, int64, where two sizes are equal, and otherwise an error as in `zeros_where_right`."""
    if one == other:
        return x
    counts = [dispatch.call(nn.DimValue, size=size, dtype=i64) for size in (one, other)]
    return math.add(x, zeros_where_right(math.not_equal(*counts), why))


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


def rows_or(x: Tensor, places: Tensor, inside: Tensor, filler: Tensor) -> Tensor:
    """The rows of `x` at `places`, and the row `filler` where `inside`, of the same shape, is false: `x` may have no rows at all."""
    rows, width = x.type.shape[0], x.type.shape[1:]
    behind = dispatch.call(nn.DimValue, size=rows, dtype=i64)
    held = math.reshape(math.where(inside, places, behind), [-1])
    row = math.add(math.reshape(filler, [1, *filler.type.shape]), dispatch.full((1, *width), 0, x.type.dtype))
    taken = math.gather(math.concat([x, row], 0), held, 0)
    return taken if places.ndim == 1 else math.reshape(taken, [*places.type.shape, *width])


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
        # Only of sequences that have rows, as there may be none to read.
        some_rows = math.reshape(math.nonzero(math.greater_than(size, math.zeros_like(size))), [-1])
        filler = dispatch.full((size.type.shape[0], *x.type.shape[1:]), pad_value, x.type.dtype)
        return math.scatter(filler, some_rows, math.gather(x, math.gather(place, some_rows, 0), 0)), None, given[:-1]
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
