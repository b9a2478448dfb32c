"""Sizes that are computed from what a program is fed: each is a number until it is known, and then a size with a name.

What is needed of the numbers is computed with them, so that a run is refused in front of what it would not fit. Numbers are given as
sizes where these are known, else as integer tensors of one element.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch
from polyreme.dialects import host
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import ScalarType, f64, i64
from polyreme.tensor import Tensor

__all__ = ["are_fed", "axis_count", "every", "expanded", "extent", "numbers", "reshaped"]

# A size as far as it is known.
Fed = Dim | Tensor


def are_fed(sizes: Sequence[Fed]) -> bool:
    """Whether some of the sizes are known only when the program runs."""
    return any(isinstance(size, Tensor) for size in sizes)


def extent(size: Fed, name: str, least: int = 0) -> Dim:
    """A size of a result, which an argument called `name` gives: at least `least`."""
    if not isinstance(size, Tensor):
        return size
    number = _number(size)
    return _size(number, _compare(ops.GreaterEqual, number, least), f"the sizes in '{name}' to be at least {least}")


def axis_count(count: Tensor, size: Dim, name: str) -> Dim:
    """How many there are to be along an axis of `size`: from 1 to all."""
    number, most = _number(count), _number(size)
    fits = _call(ops.LogicalAnd, _compare(ops.GreaterEqual, number, 1), _call(ops.LessEqual, number, most))
    return _size(number, fits, f"'{name}' to be from 1 to the size of the axis")


def reshaped(x: Tensor, shape: Sequence[Fed]) -> Tensor:
    """The same elements in another shape: one size may be -1 (whatever is left), a size of 0 keeps that of `x`."""
    old = x.type.shape
    whole = product(old)
    asked, count = _vector(shape), _number(whole)
    kept = _vector([old[i] if i < len(old) else 0 for i in range(len(shape))])
    asked = _call(ops.Where, _compare(ops.Equal, asked, 0), kept, asked)
    is_open = _compare(ops.Equal, asked, -1)
    rest = _call(ops.FloorDivide, count, _call(ops.Maximum, _all(ops.Prod, _call(ops.Where, is_open, _number(1), asked)), _number(1)))
    found = _call(ops.Where, is_open, rest, asked)
    # As floats, too: a product of whole numbers may wrap around.
    exact = _call(ops.Equal, _all(ops.Prod, found), count)
    large = _call(ops.Equal, _all(ops.Prod, _cast(found, f64)), _cast(count, f64))
    none_negative = _all(ops.All, _compare(ops.GreaterEqual, found, 0))
    fits = _call(ops.LogicalAnd, none_negative, _call(ops.LogicalAnd, exact, large))
    sizes = [
        size
        if not isinstance(size, Tensor) and size not in (0, -1)
        else _size(_at(found, axis), fits, f"size {axis} of a shape that the tensor's elements fill")
        for axis, size in enumerate(shape)
    ]
    flat = _call(ops.Reshape, x, shape=(whole,))
    # All of them, which types cannot say.
    part = _call(ops.Slice, flat, starts=(0,), stops=(product(sizes),), strides=(1,))
    return _call(ops.Reshape, part, shape=tuple(sizes))


def expanded(x: Tensor, shape: Sequence[Fed]) -> Tensor:
    """Repeated along axes of size 1, with new axes in front where `shape` is longer; -1 keeps a size."""
    front = len(shape) - x.ndim
    if front < 0:
        raise ValueError(f"expand expected a shape of at least {x.ndim} axes but got {len(shape)}")
    sizes: list[Dim] = []
    for axis, size in enumerate(shape):
        old = x.type.shape[axis - front] if axis >= front else 1
        if not isinstance(size, Tensor):
            sizes.append(old if axis >= front and size == -1 else size)
            continue
        number = _number(size)
        if axis >= front:
            number = _call(ops.Where, _compare(ops.Equal, number, -1), _number(old), number)
        if old == 1:
            sizes.append(extent(number, "shape"))
            continue
        fits = _call(ops.LogicalOr, _call(ops.Equal, number, _number(old)), _compare(ops.Equal, _number(old), 1))
        fits = _call(ops.LogicalAnd, fits, _compare(ops.GreaterEqual, number, 0))
        made = _size(number, fits, f"size {axis} of 'shape' to be -1 or that of the tensor, which may be 1")
        # A single one is the last one, which stands for all behind it.
        places = _call(ops.Minimum, _call(ops.Iota, shape=(made,), axis=0, dtype=i64), _number(old - 1))
        x = _call(ops.Gather, x, places, axis=axis - front)
        sizes.append(made)
    return _call(ops.BroadcastTo, x, shape=tuple(sizes))


def every(x: Tensor, axis: int, start: Tensor, stop: Tensor | None, step: int) -> Tensor:
    """The elements `start`, `start + step`, … below `stop` along an axis, as many of these as there are. Neither counts from the end."""
    end = _number(x.type.shape[axis])
    first = _call(ops.Minimum, _number(start), end)
    last = end if stop is None else _call(ops.Minimum, _number(stop), end)
    count = _how_many(_call(ops.Sub, last, first), step)
    places = _call(ops.Iota, shape=(_size(count, _compare(ops.GreaterEqual, count, 0), "a slice"),), axis=0, dtype=i64)
    return _call(ops.Gather, x, _call(ops.Add, _call(ops.Mul, places, _number(step)), first), axis=axis)


def numbers(start: Fed, end: Fed, step: int, dtype: ScalarType) -> Tensor:
    """The whole numbers from `start` on, `step` apart, that stand before `end`."""
    first = _number(start)
    count = _how_many(_call(ops.Sub, _number(end), first), step)
    places = _call(ops.Iota, shape=(_size(count, _compare(ops.GreaterEqual, count, 0), "a range"),), axis=0, dtype=i64)
    return _cast(_call(ops.Add, _call(ops.Mul, places, _number(step)), first), dtype)


def _how_many(distance: Tensor, step: int) -> Tensor:
    """How many steps there are within a distance, int64 []."""
    over = _call(ops.Add, distance, _number(step - (1 if step > 0 else -1)))
    return _call(ops.Maximum, _call(ops.FloorDivide, over, _number(step)), _number(0))


def _size(number: Tensor, fits: Tensor, need: str) -> Dim:
    recorder = dispatch.active_trace()
    assert recorder is not None, "numbers are known where nothing is recorded"
    count = recorder.fresh_size()
    dispatch.call(host.Size, number, fits, count=count, need=need)
    return count


def _call(cls: type[Op], *operands: object, **attributes: object) -> Tensor:
    made: Tensor = dispatch.call(cls, *operands, **attributes)
    return made


def _number(size: Fed) -> Tensor:
    """A size as a number, int64 []."""
    if isinstance(size, Tensor):
        return _cast(_call(ops.Reshape, size, shape=()), i64)
    return dispatch.full((), size, i64) if isinstance(size, int) else _call(ops.DimValue, size=size, dtype=i64)


def _vector(sizes: Sequence[Fed]) -> Tensor:
    """Sizes as numbers, int64 [n]."""
    return _call(ops.Concat, [_call(ops.Reshape, _number(size), shape=(1,)) for size in sizes], axis=0)


def _at(vector: Tensor, place: int) -> Tensor:
    return _call(ops.Reshape, _call(ops.Slice, vector, starts=(place,), stops=(place + 1,), strides=(1,)), shape=())


def _compare(cls: type[Op], x: Tensor, number: int) -> Tensor:
    return _call(cls, x, _number(number))


def _all(cls: type[Op], x: Tensor) -> Tensor:
    """A reduction to one number."""
    return _call(cls, x, axis=(0,), keepdims=False)


def _cast(x: Tensor, dtype: ScalarType) -> Tensor:
    return x if x.type.dtype == dtype else _call(ops.Cast, x, dtype=dtype)
