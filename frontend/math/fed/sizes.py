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

__all__ = [
    "Fed",
    "are_fed",
    "as_dtype",
    "as_number",
    "as_size",
    "as_vector",
    "axis_count",
    "axis_number",
    "call",
    "compare",
    "element",
    "every",
    "expanded",
    "extent",
    "floats",
    "numbers",
    "over_all",
    "reshaped",
    "steps_within",
]

# A size as far as it is known.
Fed = Dim | Tensor


def are_fed(sizes: Sequence[Fed]) -> bool:
    """Whether some of the sizes are known only when the program runs."""
    return any(isinstance(size, Tensor) for size in sizes)


def extent(size: Fed, name: str, least: int = 0) -> Dim:
    """A size of a result, which an argument called `name` gives: at least `least`."""
    if not isinstance(size, Tensor):
        return size
    number = as_number(size)
    return as_size(number, compare(ops.GreaterEqual, number, least), f"the sizes in '{name}' to be at least {least}")


def axis_number(axis: Tensor, rank: int) -> Tensor:
    """Which of `rank` axes a number means, which may count from the end: from 0, int64 []."""
    number = as_number(axis)
    place = call(ops.Where, compare(ops.Less, number, 0), call(ops.Add, number, as_number(rank)), number)
    as_size(place, compare(ops.Less, place, rank), f"'axis' to be one of {rank} axes")
    return place


def axis_count(count: Tensor, size: Dim, name: str) -> Dim:
    """How many there are to be along an axis of `size`: from 1 to all."""
    number, most = as_number(count), as_number(size)
    fits = call(ops.LogicalAnd, compare(ops.GreaterEqual, number, 1), call(ops.LessEqual, number, most))
    return as_size(number, fits, f"'{name}' to be from 1 to the size of the axis")


def reshaped(x: Tensor, shape: Sequence[Fed]) -> Tensor:
    """The same elements in another shape: one size may be -1 (whatever is left), a size of 0 keeps that of `x`."""
    old = x.type.shape
    whole = product(old)
    asked, count = as_vector(shape), as_number(whole)
    kept = as_vector([old[i] if i < len(old) else 0 for i in range(len(shape))])
    asked = call(ops.Where, compare(ops.Equal, asked, 0), kept, asked)
    is_open = compare(ops.Equal, asked, -1)
    rest = call(ops.FloorDivide, count, call(ops.Maximum, over_all(ops.Prod, call(ops.Where, is_open, as_number(1), asked)), as_number(1)))
    found = call(ops.Where, is_open, rest, asked)
    # As floats, too: a product of whole numbers may wrap around.
    exact = call(ops.Equal, over_all(ops.Prod, found), count)
    large = call(ops.Equal, over_all(ops.Prod, as_dtype(found, f64)), as_dtype(count, f64))
    none_negative = over_all(ops.All, compare(ops.GreaterEqual, found, 0))
    fits = call(ops.LogicalAnd, none_negative, call(ops.LogicalAnd, exact, large))
    sizes = [
        size
        if not isinstance(size, Tensor) and size not in (0, -1)
        else as_size(element(found, axis), fits, f"size {axis} of a shape that the tensor's elements fill")
        for axis, size in enumerate(shape)
    ]
    flat = call(ops.Reshape, x, shape=(whole,))
    # All of them, which types cannot say.
    part = call(ops.Slice, flat, starts=(0,), stops=(product(sizes),), strides=(1,))
    return call(ops.Reshape, part, shape=tuple(sizes))


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
        number = as_number(size)
        if axis >= front:
            number = call(ops.Where, compare(ops.Equal, number, -1), as_number(old), number)
        if old == 1:
            sizes.append(extent(number, "shape"))
            continue
        fits = call(ops.LogicalOr, call(ops.Equal, number, as_number(old)), compare(ops.Equal, as_number(old), 1))
        fits = call(ops.LogicalAnd, fits, compare(ops.GreaterEqual, number, 0))
        made = as_size(number, fits, f"size {axis} of 'shape' to be -1 or that of the tensor, which may be 1")
        # A single one is the last one, which stands for all behind it.
        places = call(ops.Minimum, call(ops.Iota, shape=(made,), axis=0, dtype=i64), as_number(old - 1))
        x = call(ops.Gather, x, places, axis=axis - front)
        sizes.append(made)
    return call(ops.BroadcastTo, x, shape=tuple(sizes))


def every(x: Tensor, axis: int, start: Tensor, stop: Tensor | None, step: int) -> Tensor:
    """The elements `start`, `start + step`, … below `stop` along an axis, as many of these as there are. Neither counts from the end."""
    end = as_number(x.type.shape[axis])
    first = call(ops.Minimum, as_number(start), end)
    last = end if stop is None else call(ops.Minimum, as_number(stop), end)
    count = steps_within(call(ops.Sub, last, first), step)
    places = call(ops.Iota, shape=(as_size(count, compare(ops.GreaterEqual, count, 0), "a slice"),), axis=0, dtype=i64)
    return call(ops.Gather, x, call(ops.Add, call(ops.Mul, places, as_number(step)), first), axis=axis)


def numbers(start: Fed, end: Fed, step: Fed, dtype: ScalarType) -> Tensor:
    """The whole numbers from `start` on, `step` apart, that stand before `end`."""
    first = as_number(start)
    count = steps_within(call(ops.Sub, as_number(end), first), step)
    fits = compare(ops.NotEqual, as_number(step), 0)
    places = call(ops.Iota, shape=(as_size(count, fits, "a step other than 0"),), axis=0, dtype=i64)
    return as_dtype(call(ops.Add, call(ops.Mul, places, as_number(step)), first), dtype)


def floats(start: Tensor, end: Tensor, step: Tensor) -> Tensor:
    """The numbers from `start` on, `step` apart, that stand before `end`, of floats of one dtype without axes. How many these are is
    computed in that dtype.
    """
    steps = call(ops.Ceil, call(ops.Div, call(ops.Sub, end, start), step))
    zero = dispatch.full((), 0, step.type.dtype)
    fits = call(ops.LogicalAnd, call(ops.NotEqual, step, zero), call(ops.IsFinite, steps))
    count = as_size(as_number(call(ops.Maximum, steps, zero)), fits, "a step other than 0, and a number of steps")
    places = call(ops.Iota, shape=(count,), axis=0, dtype=step.type.dtype)
    return call(ops.Add, call(ops.Mul, places, step), start)


def steps_within(distance: Tensor, step: Fed) -> Tensor:
    """How many steps there are within a distance, int64 []; none where they lead away from it, or nowhere."""
    number = as_number(step)
    over = call(ops.Add, distance, call(ops.Sub, number, call(ops.Sign, number)))
    return call(ops.Maximum, call(ops.FloorDivide, over, number), as_number(0))


def as_size(number: Tensor, fits: Tensor, need: str) -> Dim:
    """The name of a number as a size, from where it is known on. A run in which `fits` is false is refused: `expected {need} but got …`."""
    recorder = dispatch.active_trace()
    assert recorder is not None, "numbers are known where nothing is recorded"
    count = recorder.fresh_size()
    dispatch.call(host.Size, number, fits, count=count, need=need)
    return count


def call(cls: type[Op], *operands: object, **attributes: object) -> Tensor:
    made: Tensor = dispatch.call(cls, *operands, **attributes)
    return made


def as_number(size: Fed) -> Tensor:
    """A size as a number, int64 []."""
    if isinstance(size, Tensor):
        return as_dtype(call(ops.Reshape, size, shape=()), i64)
    return dispatch.full((), size, i64) if isinstance(size, int) else call(ops.DimValue, size=size, dtype=i64)


def as_vector(sizes: Sequence[Fed]) -> Tensor:
    """Sizes, or other whole numbers, int64 [n]."""
    return call(ops.Concat, [call(ops.Reshape, as_number(size), shape=(1,)) for size in sizes], axis=0)


def element(vector: Tensor, place: int) -> Tensor:
    """One of a vector's numbers, of rank 0."""
    return call(ops.Reshape, call(ops.Slice, vector, starts=(place,), stops=(place + 1,), strides=(1,)), shape=())


def compare(cls: type[Op], x: Tensor, number: int) -> Tensor:
    return call(cls, x, as_number(number))


def over_all(cls: type[Op], x: Tensor) -> Tensor:
    """A reduction to one number."""
    return call(cls, x, axis=(0,), keepdims=False)


def as_dtype(x: Tensor, dtype: ScalarType) -> Tensor:
    return x if x.type.dtype == dtype else call(ops.Cast, x, dtype=dtype)
