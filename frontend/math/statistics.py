"""Medians, histograms, draws from a distribution, and two small helpers of training: `increment` and `shard_index`."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import f32, i1, i64
from polyreme.math.common import axes_of, cast_to, check_within, number_of, same_sizes, tensor_arg
from polyreme.math.elementwise import add, divide, in_place, multiply, scale, where
from polyreme.math.manipulation import reshape, take_along_axis, transpose, unsqueeze
from polyreme.math.reduction import amax
from polyreme.math.search import cumsum, sort
from polyreme.random import default_generator
from polyreme.tensor import Tensor

__all__ = ["histogram", "increment", "median", "multinomial", "nanmedian", "shard_index"]
METHODS = list(__all__)

Array = np.ndarray[Any, Any]


def median(x: Tensor, axis: Any = None, keepdim: bool = False, mode: str = "avg", name: str | None = None) -> Any:
    """The middle element along `axis` (of all elements for None); nan where there is one.

    Of an even number of elements it is the mean of the two middle ones, in float32 (float64 for float64), or with `mode="min"` the lower
    one in the dtype of `x`, and then with an axis its position as well.
    """
    tensor_arg(x, "median")
    if isinstance(axis, (list, tuple)) and not axis:
        raise ValueError("Axis list should not be empty.")
    if x.ndim == 0:
        if axis not in (-1, 0, None):
            raise AssertionError("when input 0-D, axis can only be [-1, 0] or default None")
    elif axis is not None and (not isinstance(axis, int) or not -x.ndim <= axis < x.ndim):
        raise ValueError(f"In median, axis should be none or an integer in range [-rank(x), rank(x)), but got {axis!r}")
    _check_mode(mode)
    if mode == "avg" and x.dtype.name != "float64":
        x = cast_to(x, f32)
    return _median(x, axis, keepdim, mode, skip_nan=False)


def nanmedian(x: Tensor, axis: Any = None, keepdim: bool = False, mode: str = "avg", name: str | None = None) -> Any:
    """As `median`, of the elements that are not nan; nan (and position -1) where there are none. Several axes may be given, and the dtype
    stays.
    """
    tensor_arg(x, "nanmedian")
    if isinstance(axis, (list, tuple)) and not axis:
        raise ValueError("Axis list should not be empty.")
    _check_mode(mode)
    return _median(x, axis, keepdim, mode, skip_nan=True)


def _check_mode(mode: str) -> None:
    if mode not in ("avg", "min"):
        raise ValueError(f"Mode {mode} is not supported. Must be avg or min.")


def _median(x: Tensor, axis: Any, keepdim: bool, mode: str, *, skip_nan: bool) -> Any:
    axes = axes_of(axis, x.ndim, "median") or tuple(range(x.ndim))
    rest = [i for i in range(x.ndim) if i not in axes]
    shape = [1 if i in axes else d for i, d in enumerate(x.shape)] if keepdim else [x.shape[i] for i in rest]
    with_index = mode == "min" and axis is not None and not isinstance(axis, (list, tuple))
    count = product(x.shape[a] for a in axes)
    rows = reshape(transpose(x, [*rest, *axes]), [product(x.shape[i] for i in rest), count])
    if not isinstance(rows._held(), np.ndarray) and count != 0 and not with_index:
        return reshape(_traced_median(rows, count, mode, skip_nan), shape)
    values = rows._array("median()")
    if count and not len(values):
        nothing = reshape(rows[:, 0], shape)
        return (nothing, dispatch.full(tuple(shape), -1, i64)) if with_index else nothing
    if not count:
        empty = dispatch.full(tuple(shape), np.nan if x.type.dtype.is_float else 0, x.type.dtype)
        return (empty, dispatch.full(tuple(shape), -1, i64)) if with_index else empty
    low, high = _middle(values, skip_nan)
    if mode == "min":
        high = low
    result = _picked(rows, low, high, even=not with_index)
    return (
        (reshape(result, shape), dispatch.constant(np.where(_absent(values, low), -1, low).reshape(shape)))
        if with_index
        else reshape(result, shape)
    )


def _traced_median(rows: Tensor, count: Dim, mode: str, skip_nan: bool) -> Tensor:
    """The median of each row, of elements that are not known yet: nan, which is sorted to the end, is looked for there."""
    ordered = sort(rows, -1)
    if skip_nan and rows.type.dtype.is_float:
        return _median_of_numbers(rows, ordered, mode)
    low, high, last = (ordered[:, k] for k in ((count - 1) // 2, count // 2, count - 1))
    middle = low if mode == "min" else divide(add(low, high), dispatch.full((), 2, rows.type.dtype))
    middle = _shared(rows, low, low if mode == "min" else high, middle)
    return where(dispatch.call(ops.IsNan, last), last, middle) if rows.type.dtype.is_float else middle


def _median_of_numbers(rows: Tensor, ordered: Tensor, mode: str) -> Tensor:
    """The median of the elements of each row that are not nan, which stand first in the sorted rows; nan where there are none."""
    numbers = cast_to(dispatch.call(ops.LogicalNot, dispatch.call(ops.IsNan, rows)), i64)
    valid = dispatch.call(ops.Sum, numbers, axis=(1,), keepdims=True)
    zero, one, two = (dispatch.full((), n, i64) for n in (0, 1, 2))
    before = dispatch.call(ops.Maximum, dispatch.call(ops.Sub, valid, one), zero)
    low = take_along_axis(ordered, dispatch.call(ops.FloorDivide, before, two), 1, broadcast=False)
    high = take_along_axis(ordered, dispatch.call(ops.FloorDivide, valid, two), 1, broadcast=False)
    even = dispatch.call(ops.Equal, dispatch.call(ops.Mod, valid, two), zero)
    mean = divide(add(low, high), dispatch.full((), 2, rows.type.dtype))
    chosen = low if mode == "min" else where(even, where(dispatch.call(ops.Equal, valid, zero), low, mean), low)
    other = low if mode == "min" else where(even, high, low)
    return reshape(_shared(rows, *(reshape(part, [rows.shape[0]]) for part in (low, other, chosen))), chosen.shape)


def _shared(rows: Tensor, low: Tensor, high: Tensor, middle: Tensor) -> Tensor:
    """`middle`, the mean of two elements of each row: where the two are equal, its gradient goes evenly to all elements equal to them, as
    in Paddle and as `_picked` has it.
    """
    if rows.stop_gradient or not rows.type.dtype.is_float:
        return middle
    bottom = dispatch.full((), -np.inf, rows.type.dtype)
    tied = dispatch.call(ops.LogicalAnd, dispatch.call(ops.Equal, low, high), dispatch.call(ops.IsFinite, low))
    equal = dispatch.call(ops.Equal, rows, reshape(low, [rows.shape[0], 1]))
    return where(tied, amax(where(equal, rows, bottom), -1), middle)


def _middle(values: Array, skip_nan: bool) -> tuple[Array, Array]:
    """The positions in each row of the two middle elements (of the first nan where a row has one that counts); they are one for an odd
    number of elements.
    """
    order = np.argsort(values, -1, kind="stable")  # nan comes last
    missing = np.isnan(values.astype(np.float64, copy=False)) if values.dtype.kind != "i" else np.zeros(values.shape, bool)
    valid = (~missing).sum(-1) if skip_nan else np.full(len(values), values.shape[-1])
    low, high = (np.take_along_axis(order, np.maximum(k, 0)[:, None], -1)[:, 0] for k in ((valid - 1) // 2, valid // 2))
    broken = missing.any(-1) & (not skip_nan) | (valid == 0)
    first = missing.argmax(-1)
    return np.where(broken, first, low), np.where(broken, first, high)


def _absent(values: Array, low: Array) -> Array:
    """Whether every element of a row is nan."""
    return np.asarray(np.isnan(values.astype(np.float64, copy=False)).all(-1)) if values.dtype.kind != "i" else np.zeros(low.shape, bool)


def _picked(rows: Tensor, low: Array, high: Array, *, even: bool) -> Tensor:
    """The mean of the elements at two positions of each row. Where the two are equal the gradient goes evenly to all elements equal to them
    (`even`), as in Paddle.
    """
    count, values = rows.shape[-1], rows._array("median()")
    flat, number = reshape(rows, [-1]), np.arange(len(low))
    at = lambda place: dispatch.call(ops.Gather, flat, dispatch.constant(number * count + place), axis=0)
    lower = values[number, low]
    tied = (lower == values[number, high]) & np.isfinite(lower.astype(np.float64))
    first = at(low)
    if rows.type.dtype.kind == "f":
        mean = first if np.array_equal(low, high) else scale(add(first, at(high)), 0.5)
    else:
        mean = first if np.array_equal(low, high) else _half(add(first, at(high)))
    if not even or rows.stop_gradient or not tied.any():
        return mean
    equal = values == lower[:, None]
    equal[~tied, 0] = True
    shared = amax(where(dispatch.constant(equal), rows, dispatch.full((), -np.inf, rows.type.dtype)), -1)
    return where(dispatch.constant(tied), shared, mean)


def _half(x: Tensor) -> Tensor:
    """Half of whole numbers, rounded towards zero."""
    size = dispatch.call(ops.FloorDivide, dispatch.call(ops.Abs, x), dispatch.full((), 2, x.type.dtype))
    return multiply(size, dispatch.call(ops.Sign, x))


def histogram(
    input: Tensor,
    bins: int = 100,
    min: float = 0.0,
    max: float = 0.0,
    weight: Tensor | None = None,
    density: bool = False,
    name: str | None = None,
) -> Tensor:
    """How many elements fall into each of `bins` equal parts of [min, max], both ends included: int64, or float32 sums of `weight` if it is
    given.

    Equal ends stand for the least and the largest element (one below and above, if those are equal). With `density`, the share of the
    elements per unit, in float32.
    """
    low, high, bins = float(number_of(min)), float(number_of(max)), int(number_of(bins))
    if bins < 1:
        raise ValueError(f"histogram expected at least one bin but got {bins}")
    if high < low:
        raise ValueError(f"histogram expected max to be min or more but got max={high} and min={low}")
    if tensor_arg(input, "histogram").dtype.name not in ("int32", "int64", "float32", "float64"):
        raise RuntimeError(f"histogram expected int32, int64, float32 or float64 but got {input.dtype.name}")
    if weight is not None and not same_sizes(input.type.shape, weight.type.shape):
        raise ValueError(f"histogram expected a weight per element, of shape {list(input.shape)}, but got {list(weight.shape)}")
    dtype = input.type.dtype
    x = reshape(input.detach(), [-1])
    counted = f32 if weight is not None or density else i64
    if product(x.type.shape) == 0:
        return dispatch.full((bins,), 0, f32)
    number = lambda value: dispatch.full((), value if dtype.is_float else int(value), dtype)
    known = dispatch.full(x.type.shape, True, i1) if not dtype.is_float else dispatch.call(ops.LogicalNot, dispatch.call(ops.IsNan, x))
    first, last = number(low), number(high)
    if low == high:
        beyond = (np.inf, -np.inf) if dtype.is_float else (np.iinfo(dtype.np).max, np.iinfo(dtype.np).min)
        first = dispatch.call(ops.Min, where(known, x, number(beyond[0])), axis=(), keepdims=False)
        last = dispatch.call(ops.Max, where(known, x, number(beyond[1])), axis=(), keepdims=False)
        flat = dispatch.call(ops.Equal, first, last)
        first, last = where(flat, first - 1, first), where(flat, last + 1, last)
    inside = known & (x >= first) & (x <= last)
    place = dispatch.call(ops.Div, multiply(where(inside, x, first) - first, number(bins)), last - first)
    place = dispatch.call(ops.Minimum, cast_to(place, i64), dispatch.full((), bins - 1, i64))
    # What lies outside goes to a bin of its own, which is cut off.
    place = where(inside, place, dispatch.full((), bins, i64))
    each = dispatch.full(x.type.shape, 1, counted) if weight is None else cast_to(reshape(weight.detach(), [-1]), f32)
    found = dispatch.call(ops.ScatterAdd, each, place, axis=0, size=bins + 1)[:bins]
    if not density:
        return found
    width = divide(cast_to(last - first, f32), dispatch.full((), bins, f32))
    total = dispatch.call(ops.Sum, found, axis=(), keepdims=False)
    return divide(found, multiply(total, width))


def multinomial(x: Tensor, num_samples: Any = 1, replacement: bool = False, name: str | None = None) -> Tensor:
    """Positions drawn by the weights in each row of `x`, int64: by the running sum of the weights, one uniform number per draw, as Paddle
    draws them on the CPU.

    Without `replacement` what is drawn is taken out, so no position comes twice; a traced function can draw one number that way.
    """
    count = int(number_of(num_samples))
    if tensor_arg(x, "multinomial").dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"multinomial expected float32 or float64 but got {x.dtype.name}")
    if x.ndim not in (1, 2):
        raise ValueError(f"multinomial expected a vector of weights, or rows of them, but got shape {list(x.shape)}")
    if count <= 0:
        raise ValueError(f"multinomial expected num_samples above 0 but got {count}")
    if not isinstance(x._held(), np.ndarray) and (replacement or count == 1):
        return _traced_multinomial(x, count)
    weights = x._array("multinomial()").reshape(-1, x.shape[-1])
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            "multinomial expected finite weights of 0 or more but got " + str(weights[~(np.isfinite(weights) & (weights >= 0))][0])
        )
    if (weights.sum(-1) <= 0).any():
        raise ValueError("multinomial expected weights with a sum above 0 but got a row of zeros")
    if not replacement and ((weights > 0).sum(-1) < count).any():
        raise ValueError(
            f"multinomial without replacement expected at least num_samples={count} weights above 0 in each row but got "
            f"{int((weights > 0).sum(-1).min())}"
        )
    draws = default_generator().uniform((len(weights), count), 0.0, 1.0, x.type.dtype)._array("multinomial()")
    drawn = np.empty((len(weights), count), np.int64)
    for row, given, numbers in zip(drawn, weights, draws, strict=True):
        running = np.add.accumulate(given, dtype=given.dtype)
        running /= running[-1]
        for k, number in enumerate(numbers):
            row[k] = chosen = int(np.searchsorted(running, number))
            if not replacement and k < count - 1:
                share = running[chosen] - (running[chosen - 1] if chosen else running.dtype.type(0))
                left = running.dtype.type(1.0 - float(share))
                running[chosen:] -= share
                running /= left
    return dispatch.constant(drawn.reshape(*x.shape[:-1], count))


def _traced_multinomial(x: Tensor, count: int) -> Tensor:
    """Draws with replacement by weights that are not known yet, so that they cannot be checked: as many running sums as lie below the
    number are passed over.
    """
    running = cumsum(x, -1)
    shares = divide(running, running[..., -1:])
    draws = default_generator().uniform((*x.type.shape[:-1], count), 0.0, 1.0, x.type.dtype)
    passed = dispatch.call(ops.Less, unsqueeze(shares, -2), unsqueeze(draws, -1))
    return dispatch.call(ops.Sum, cast_to(passed, i64), axis=(-1,), keepdims=False)


_increment = in_place(lambda x, value: add(x, dispatch.full((), value if x.type.dtype.is_float else int(value), x.type.dtype)))


def increment(x: Tensor, value: float = 1.0, name: str | None = None) -> Tensor:
    """`x`, a tensor of one element, with `value` added to it in place."""
    if product(tensor_arg(x, "increment").type.shape) not in (0, 1):
        raise ValueError(f"increment expected a tensor of one element but got shape {list(x.shape)}")
    if x.dtype.name not in ("float32", "float64", "int32", "int64"):
        raise RuntimeError(f"increment expected float32, float64, int32 or int64 but got {x.dtype.name}")
    return _increment(x, value)


def shard_index(input: Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Tensor:
    """Positions in [0, index_num) as positions within shard `shard_id` of `nshards` equal ones, and `ignore_value` for those in other
    shards.
    """
    if tensor_arg(input, "shard_index", "input").dtype.name not in ("int32", "int64"):
        raise RuntimeError(f"shard_index expected int32 or int64 but got {input.dtype.name}")
    if index_num <= 0 or nshards <= 0 or not 0 <= shard_id < nshards:
        raise ValueError(
            f"shard_index expected index_num and nshards above 0 and shard_id in [0, {nshards}) but got {index_num}, {nshards} and "
            f"{shard_id}"
        )
    input = check_within(
        input,
        index_num,
        lambda low, high, size: ValueError(f"shard_index expected positions in [0, {size}) but got values from {low} to {high}"),
        wraps=False,
    )
    size = dispatch.full((), -(-index_num // nshards), input.type.dtype)
    mine = dispatch.call(ops.Equal, dispatch.call(ops.FloorDivide, input, size), dispatch.full((), shard_id, input.type.dtype))
    return dispatch.call(ops.Where, mine, dispatch.call(ops.Mod, input, size), dispatch.full((), ignore_value, input.type.dtype))
