"""Tensor arrays whose elements differ in rows or levels of detail: the rows of all elements one behind the other.

Such an array has the levels of its elements, joined, and one above these: which of the topmost sequences (or rows, where elements have no
levels) belong to which element. That one has three axes, [elements + 1, 1, 1], which tells such arrays from those whose elements are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from polyreme import dispatch, math
from polyreme.dialects import host, nn
from polyreme.ir.dims import Dim
from polyreme.ir.types import TensorType, i64
from polyreme.tensor import Tensor

__all__ = [
    "elements_of", "empty_ragged", "is_ragged", "joined", "numbers_below", "ragged_element", "ragged_length", "spread", "with_element",
]  # fmt: skip


def is_ragged(levels: Sequence[Tensor] | None) -> TypeGuard[Sequence[Tensor]]:
    """Whether levels are those of an array whose elements differ."""
    return levels is not None and len(levels) > 0 and levels[0].ndim == 3


def elements_of(levels: Sequence[Tensor]) -> Tensor:
    """The offsets of the elements of such an array, int64 [elements + 1]."""
    return math.reshape(levels[0], [levels[0].type.shape[0]])


def numbers_below(limit: Tensor, count: Dim | None = None) -> Tensor:
    """The numbers from 0 to `limit`, int64 []; `count` is the name of how many there are, a new one by default."""
    recorder = dispatch.active_trace()
    assert recorder is not None
    made: Tensor = dispatch.call(host.Range, limit, count=recorder.fresh_size() if count is None else count)
    return made


def spread(array: Tensor, levels: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """An array [L, rows, …] of elements alike, with their levels, as one whose elements may differ; and its levels."""
    count, rows = array.type.shape[:2]
    top = _size(levels[0].type.shape[0] - 1 if levels else rows)
    each = dispatch.call(nn.BroadcastTo, math.reshape(top, [1]), shape=(count,))
    joined_levels = [_offsets(_repeated(_lengths(level), count)) for level in levels]
    return math.reshape(array, [count * rows, *array.type.shape[2:]]), [_marked(_offsets(each)), *joined_levels]


def empty_ragged(kind: TensorType, levels: int) -> tuple[Tensor, list[Tensor]]:
    """An array without elements, for those like `kind`, which have so many levels; and its levels."""
    start = dispatch.full((1,), 0, i64)
    return dispatch.full((0, *kind.shape[1:]), 0, kind.dtype), [_marked(start), *(dispatch.full((1,), 0, i64) for _ in range(levels))]


def with_element(
    array: Tensor, levels: Sequence[Tensor], x: Tensor, own: Sequence[Tensor], index: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The array with `x`, whose levels are `own`, as the element `index` (int64 []): in place of that one, or behind the last; elements
    that are passed over have no rows.
    """
    top = elements_of(levels)
    assert len(own) == len(levels) - 1
    length = _size(top.type.shape[0] - 1)
    count = _size(own[0].type.shape[0] - 1 if own else x.type.shape[0])
    places = numbers_below(math.maximum(length, index + 1))
    sizes = math.concat([_lengths(top), dispatch.full((1,), 0, i64)], 0)
    old = math.gather(sizes, math.minimum(places, length), 0)
    made = [_marked(_offsets(math.where(math.equal(places, index), count, old)))]
    start, stop = (_at(top, math.minimum(place, length)) for place in (index, index + 1))
    for level, new in zip(levels[1:], own, strict=True):
        made.append(_offsets(_spliced(_lengths(level), start, stop, _lengths(new))))
        start, stop = _at(level, start), _at(level, stop)
    return _spliced(array, start, stop, x), made


def ragged_element(array: Tensor, levels: Sequence[Tensor], index: Tensor, rows: Dim | None = None) -> tuple[Tensor, list[Tensor]]:
    """The element `index` (int64 []), and its levels; `rows` is the name of its number of rows, a new one by default."""
    top = elements_of(levels)
    start, stop = _at(top, index), _at(top, index + 1)
    found = []
    for level in levels[1:]:
        inside = math.gather(level, numbers_below(stop - start + 1) + start, 0)
        start, stop = _at(level, start), _at(level, stop)
        found.append(math.subtract(inside, start))
    return math.gather(array, numbers_below(stop - start, rows) + start, 0), found


def ragged_length(levels: Sequence[Tensor]) -> Tensor:
    """How many elements there are, int64 [1]."""
    return math.reshape(_size(levels[0].type.shape[0] - 1), [1])


def joined(levels: Sequence[Tensor]) -> Tensor:
    """How many rows each element has, int64 [elements]."""
    offsets = elements_of(levels)
    for level in levels[1:]:
        offsets = math.gather(level, offsets, 0)
    return _lengths(offsets)


def _marked(top: Tensor) -> Tensor:
    return math.reshape(top, [top.type.shape[0], 1, 1])


def _size(size: Dim) -> Tensor:
    made: Tensor = dispatch.call(nn.DimValue, size=size, dtype=i64)
    return made


def _at(offsets: Tensor, index: Tensor) -> Tensor:
    return math.reshape(math.gather(offsets, math.reshape(index, [1]), 0), [])


def _lengths(offsets: Tensor) -> Tensor:
    return math.subtract(offsets[1:], offsets[:-1])


def _offsets(sizes: Tensor) -> Tensor:
    return math.concat([dispatch.full((1,), 0, i64), dispatch.call(nn.Cumsum, sizes, axis=0)], 0)


def _repeated(sizes: Tensor, count: Dim) -> Tensor:
    wide = dispatch.call(nn.BroadcastTo, math.unsqueeze(sizes, 0), shape=(count, sizes.type.shape[0]))
    return math.reshape(wide, [count * sizes.type.shape[0]])


def _spliced(x: Tensor, start: Tensor, stop: Tensor, new: Tensor) -> Tensor:
    """`new` in place of the rows [start, stop) of `x`."""
    old, count = _size(x.type.shape[0]), _size(new.type.shape[0])
    places = numbers_below(old - (stop - start) + count)
    behind = places - count + (stop - start)
    inside = math.where(math.less_than(places, start + count), places - start + old, behind)
    chosen = math.where(math.less_than(places, start), places, inside)
    return math.gather(math.concat([x, new], 0), chosen, 0)
