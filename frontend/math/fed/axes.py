"""Operators along an axis that a program is fed: which one is known when the program runs.

Elements of `x` lie in memory as those of [before, size, behind] do, where `size` is that of the axis, and the others are the products of
those in front of it and behind it. So an operator along any axis is one along the middle axis of three, with a change of shape before and
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import i64
from polyreme.math.fed import places as fed_places
from polyreme.math.fed.sizes import Fed, as_number, as_size, as_vector, axis_number, call, compare, element, over_all
from polyreme.tensor import Tensor

__all__ = ["Along", "expanded_at", "gathered", "joined", "reduced", "sections", "without_axes"]


class Along:
    """`x` with a fed axis in the middle: `middle` is [before, size, behind], and `place` the number of the axis from 0, int64 []."""

    def __init__(self, x: Tensor, axis: Fed):
        self.x = x
        self.place = axis_number(as_number(axis), x.ndim)
        self.sizes = as_vector(x.type.shape)
        self.numbers = _counted(x.ndim)
        self.is_it = call(ops.Equal, self.numbers, self.place)
        before = self._product(call(ops.Less, self.numbers, self.place))
        size = self._product(self.is_it)
        self.size = _size(size)
        self.middle = _shaped(x, [_size(before), self.size, _size(self._product(call(ops.Greater, self.numbers, self.place)))])

    def _product(self, chosen: Tensor) -> Tensor:
        return over_all(ops.Prod, call(ops.Where, chosen, self.sizes, as_number(1)))

    def with_size(self, made: Tensor, size: Dim) -> Tensor:
        """[before, size, behind] in the shape of `x`, whose axis has this size."""
        vector = call(ops.Where, self.is_it, as_number(size), self.sizes)
        return _shaped(made, [d if d == size else _size(element(vector, i)) for i, d in enumerate(self.x.type.shape)])

    def without(self, made: Tensor) -> Tensor:
        """[before, 1, behind] in the shape of `x` without the axis."""
        return without_axes(self.with_size(made, 1), [self.place])


def without_axes(x: Tensor, axes: Sequence[Fed]) -> Tensor:
    """`x` without these axes, which are different ones of one element each."""
    numbers, gone = _counted(x.ndim), dispatch.full((x.ndim,), 0, i64)
    for axis in axes:
        gone = call(ops.Add, gone, call(ops.Cast, call(ops.Equal, numbers, axis_number(as_number(axis), x.ndim)), dtype=i64))
    # Those that stay are in front, in their order.
    order = call(ops.Argsort, gone, axis=0)
    sizes = call(ops.Gather, as_vector(x.type.shape), order, axis=0)
    most = over_all(ops.Max, gone)
    whole = over_all(ops.Prod, call(ops.Where, compare(ops.Equal, gone, 1), as_vector(x.type.shape), as_number(1)))
    fits = call(ops.LogicalAnd, compare(ops.LessEqual, most, 1), compare(ops.Equal, whole, 1))
    as_size(most, fits, "axes to be different, and of one element each,")
    return _shaped(x, [_size(element(sizes, i)) for i in range(x.ndim - len(axes))])


def reduced(x: Tensor, axes: Sequence[Fed], keepdim: bool, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Reduced along one axis after the other by `reduce`, which turns [before, size, behind] into [before, 1, behind]."""
    made = x
    for axis in axes:
        along = Along(made, axis)
        made = along.with_size(reduce(along.middle), 1)
    return made if keepdim else without_axes(made, axes)


def joined(tensors: Sequence[Tensor], axis: Tensor) -> Tensor:
    """One behind the other along the axis, of which they may have different numbers of elements."""
    along = [Along(x, axis) for x in tensors]
    first = along[0]
    for other in along[1:]:
        same = call(ops.LogicalOr, first.is_it, call(ops.Equal, other.sizes, first.sizes))
        as_size(first.place, over_all(ops.All, same), "tensors of equal sizes but for the axis along which they are joined, which")
    before, _, behind = first.middle.type.shape
    middle = [_shaped(one.middle, [before, one.size, behind]) for one in along]
    made = call(ops.Concat, middle, axis=1)
    return first.with_size(made, made.type.shape[1])


def gathered(x: Tensor, index: Tensor, axis: Tensor) -> Tensor:
    """The slices along the axis at the positions of a vector, or at the one of a number, which has no axis."""
    along = Along(x, axis)
    made = math.gather(along.middle, index, 1)
    if index.ndim:
        return along.with_size(made, made.type.shape[1])
    before, _, behind = along.middle.type.shape
    return along.without(call(ops.Reshape, made, shape=(before, 1, behind)))


def sections(x: Tensor, axis: Tensor, sizes: Sequence[Fed] | int) -> list[Tensor]:
    """Parts of these sizes along the axis, of which one may be -1, or so many equal parts."""
    along = Along(x, axis)
    if isinstance(sizes, int):
        length = as_number(along.size)
        fits = compare(ops.Equal, call(ops.Mod, length, as_number(sizes)), 0)
        part = as_size(call(ops.FloorDivide, length, as_number(sizes)), fits, f"an axis to split into {sizes} equal parts, each")
        sizes = [part] * sizes
    parts = fed_places.parts(along.middle, 1, list(map(as_number, sizes)))
    return [along.with_size(part, part.type.shape[1]) for part in parts]


def expanded_at(x: Tensor, axis: Tensor) -> Tensor:
    """With a new axis of one element there."""
    place, numbers = axis_number(axis, x.ndim + 1), _counted(x.ndim + 1)
    sizes = as_vector([*x.type.shape, 1])
    moved = call(ops.Gather, sizes, call(ops.Maximum, call(ops.Sub, numbers, as_number(1)), as_number(0)), axis=0)
    found = call(ops.Where, call(ops.Equal, numbers, place), as_number(1), call(ops.Where, call(ops.Less, numbers, place), sizes, moved))
    return _shaped(x, [_size(element(found, i)) for i in range(x.ndim + 1)])


def _size(number: Tensor) -> Dim:
    return as_size(number, compare(ops.GreaterEqual, number, 0), "a size of 0 or more")


def _shaped(x: Tensor, sizes: Sequence[Dim]) -> Tensor:
    """The same elements in a shape of which only the run knows that they fill it."""
    whole = product(x.type.shape)
    flat = call(ops.Reshape, x, shape=(whole,))
    part = call(ops.Slice, flat, starts=(0,), stops=(product(sizes),), strides=(1,))
    return call(ops.Reshape, part, shape=tuple(sizes))


def _counted(count: int) -> Tensor:
    return call(ops.Iota, shape=(count,), axis=0, dtype=i64)
