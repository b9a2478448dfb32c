"""Pooling over any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import as_one
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.diagnostics import InferError, caller_location
from polyreme.ir.dims import Dim, Expr, maximum, product
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import i32, i64
from polyreme.math.common import cast_to, number_like, number_of, tensor_arg
from polyreme.math.elementwise import add, divide, floor_divide, minimum, multiply, scale, subtract
from polyreme.math.manipulation import reshape, stack
from polyreme.math.reduction import max as max_
from polyreme.math.reduction import mean
from polyreme.math.reduction import sum as sum_
from polyreme.nn.functional.conv import is_channel_last, items_of, padding_pairs, sizes_of, to_channel_first, to_channel_last
from polyreme.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _pool(
    cls: type[Op], rank: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, data_format: str, name: str, **attributes: Any
) -> tuple[Tensor, dict[str, Any]]:
    """The pooled tensor, and the op's attributes with every form of padding resolved."""
    tensor_arg(x, name)
    last = is_channel_last(data_format, rank, name)
    if x.ndim != rank + 2:
        raise InferError(f"{name} expected an input of {rank + 2} axes ({data_format}) but got shape {list(x.shape)}", caller_location())
    if last:
        x = to_channel_first(x)
    kernel = sizes_of(kernel_size, rank, "kernel_size")
    strides = kernel if stride is None else sizes_of(stride, rank, "stride")
    pairs = padding_pairs(padding, rank, x.type.shape[2:], kernel, strides, (1,) * rank, last)
    if isinstance(padding, str) and padding.upper() == "VALID" and attributes.get("ceil_mode"):
        raise ValueError('When Attr(padding) is "VALID", Attr(ceil_mode) must be False. Received ceil_mode: True.')
    attributes |= {"kernel": kernel, "strides": strides, "padding": pairs}
    result = dispatch.call(cls, x, **attributes)
    return to_channel_last(result) if last else result, attributes


def _max_pool(
    rank: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, return_mask: bool, ceil_mode: bool, data_format: str
) -> Any:
    if return_mask:
        operator = "max_pool2d_with_index" if rank == 2 else "max_pool3d_with_index"
        return as_one(operator, _max_pool_with_positions, rank, x, kernel_size, stride, padding, ceil_mode, data_format)
    name = f"max_pool{rank}d"
    return _pool(ops.MaxPool, rank, x, kernel_size, stride, padding, data_format, name, ceil_mode=bool(ceil_mode))[0]


def _max_pool_with_positions(
    rank: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, data_format: str
) -> tuple[Tensor, Tensor]:
    name = f"max_pool{rank}d"
    result, attributes = _pool(ops.MaxPool, rank, x, kernel_size, stride, padding, data_format, name, ceil_mode=bool(ceil_mode))
    if is_channel_last(data_format, rank, name):
        raise ValueError(f"{name} expected a data format with channels first when return_mask is set")
    return result, _positions(x, result, attributes)


def _positions(x: Tensor, pooled: Tensor, attributes: dict[str, Any]) -> Tensor:
    """Where in each channel's plane every maximum stands (the first one of equals), in int32."""
    kernel, strides, low = attributes["kernel"], attributes["strides"], attributes["padding"][::2]
    counts, spatial = pooled.type.shape[2:], x.type.shape[2:]
    # As far as the last window reaches; what stands behind it is left out.
    high = [maximum((n - 1) * s + k - lo - size, 0) for n, s, k, lo, size in zip(counts, strides, kernel, low, spatial, strict=True)]
    pairs = tuple(d for pair in zip(low, high, strict=True) for d in pair)
    padded = dispatch.call(ops.Pad, x, padding=(0, 0, 0, 0, *pairs), value=identity_of("max", x.type.dtype)) if any(pairs) else x
    axes = tuple(range(2, x.ndim))
    windows = dispatch.call(ops.Window, padded, axes=axes, sizes=kernel, strides=strides, dilations=(1,) * len(axes))
    tap = dispatch.call(
        ops.ArgMax, dispatch.call(ops.Reshape, windows, shape=(*windows.type.shape[: x.ndim], product(kernel))), axis=-1, dtype=i32
    )

    def number(value: Dim) -> Tensor:
        return dispatch.full((), value, i32)

    place = number(0)
    for i, (axis, size) in enumerate(zip(axes, spatial, strict=True)):
        # The tap's own coordinate, and the one of its window's corner.
        inside = dispatch.call(ops.Mod, dispatch.call(ops.FloorDivide, tap, number(product(kernel[i + 1 :]))), number(kernel[i]))
        window = dispatch.call(ops.Iota, shape=tuple(counts[i] if k == axis else 1 for k in range(x.ndim)), axis=axis, dtype=i32)
        corner = dispatch.call(ops.Sub, dispatch.call(ops.Mul, window, number(strides[i])), number(low[i]))
        along = dispatch.call(ops.Mul, place, number(size))
        # In a window of nothing but the least number the first one may be padding: then it is the first one inside.
        here = dispatch.call(ops.Maximum, dispatch.call(ops.Add, corner, inside), number(0))
        place = dispatch.call(ops.Add, along, here)
    return place


def max_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The largest element of each window of [N, C, L]."""
    return _max_pool(1, x, kernel_size, stride, padding, return_mask, ceil_mode, "NCL")


def max_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The largest element of each window of [N, C, H, W]."""
    return _max_pool(2, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def max_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """The largest element of each window of [N, C, D, H, W]."""
    return _max_pool(3, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format)


def _avg_pool(
    rank: int, x: Tensor, kernel_size: Any, stride: Any, padding: Any, exclusive: bool, ceil_mode: bool, divisor: Any, data_format: str
) -> Tensor:
    name = f"avg_pool{rank}d"
    if divisor is not None and not divisor > 0:
        raise ValueError(f"divisor_override must be an int greater than 0. But received {divisor}")
    options = {"ceil_mode": bool(ceil_mode), "exclusive": bool(exclusive)}
    result, attributes = _pool(ops.AvgPool, rank, x, kernel_size, stride, padding, data_format, name, **options)
    if divisor is None:
        return result
    # As in Paddle it is the mean that is scaled, so that a window that is partly padding, which an exclusive mean leaves out, gives more
    # than its sum over the divisor.
    return divide(scale(result, float(np.prod(attributes["kernel"]))), number_like(result, divisor))


def avg_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """The mean of each window of [N, C, L]; `exclusive` leaves padding out of the count."""
    return _avg_pool(1, x, kernel_size, stride, padding, exclusive, ceil_mode, None, "NCL")


def avg_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of [N, C, H, W]; `exclusive` leaves padding out of the count."""
    return _avg_pool(2, x, kernel_size, stride, padding, exclusive, ceil_mode, divisor_override, data_format)


def avg_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of [N, C, D, H, W]; `exclusive` leaves padding out of the count."""
    return _avg_pool(3, x, kernel_size, stride, padding, exclusive, ceil_mode, divisor_override, data_format)


def _adaptive(rank: int, x: Tensor, output_size: Any, data_format: str, largest: bool) -> Tensor:
    """Windows chosen so that the result has the given sizes: window i of n covers [floor(i * size / n), ceil((i + 1) * size / n))."""
    name = f"adaptive_{'max' if largest else 'avg'}_pool{rank}d"
    tensor_arg(x, name)
    last = is_channel_last(data_format, rank, name)
    if x.ndim != rank + 2:
        raise InferError(f"{name} expected an input of {rank + 2} axes ({data_format}) but got shape {list(x.shape)}", caller_location())
    if last:
        x = to_channel_first(x)
    given = items_of(output_size) or [output_size] * rank
    if len(given) != rank:
        raise ValueError(f"{name} expected one output size or {rank} of them but got {output_size}")
    wanted = [x.shape[2 + i] if n is None else _count(n) for i, n in enumerate(given)]
    sizes = x.type.shape[2:]
    if all(isinstance(size, int) and isinstance(n, int) and n > 0 and size % n == 0 for size, n in zip(sizes, wanted, strict=True)):
        kernel = tuple(size // n for size, n in zip(sizes, wanted, strict=True))
        result = dispatch.call(ops.MaxPool if largest else ops.AvgPool, x, kernel=kernel, strides=kernel)
    elif all(isinstance(n, int) and n == 1 for n in wanted):
        result = (max_ if largest else mean)(x, list(range(2, 2 + rank)), keepdim=True)
    else:
        result = x
        for axis, n in enumerate(wanted, 2):
            result = _adaptive_axis(result, axis, n, largest)
    return to_channel_last(result) if last else result


def _count(given: Any) -> Dim:
    number = number_of(given)
    return number if isinstance(number, Expr) else int(number)


def _adaptive_axis(x: Tensor, axis: int, count: Dim, largest: bool) -> Tensor:
    size = x.shape[axis]
    if isinstance(count, Expr):
        return _adaptive_free_axis(x, axis, count, largest)
    if count == 1:
        return (max_ if largest else mean)(x, axis, keepdim=True)
    parts = []
    for i in range(count):
        start, stop = i * size // count, -((-(i + 1) * size) // count)
        key = [slice(None)] * axis + [slice(start, stop)]
        parts.append((max_ if largest else mean)(x[tuple(key)], axis))
    return stack(parts, axis)


def _adaptive_free_axis(x: Tensor, axis: int, count: Expr, largest: bool) -> Tensor:
    """By as many windows as a size says that is not known while the program is built: all of the longest length, their ends masked."""
    size = x.type.shape[axis]

    def number(value: Dim) -> Tensor:
        return dispatch.full((), value, i64)

    window = dispatch.call(ops.Iota, shape=(count, 1), axis=0, dtype=i64)
    start = floor_divide(multiply(window, number(size)), number(count))
    stop = floor_divide(add(multiply(add(window, number(1)), number(size)), number(count - 1)), number(count))
    places = add(start, dispatch.call(ops.Iota, shape=(1, size // count + 2), axis=1, dtype=i64))
    taken = dispatch.call(ops.Gather, x, minimum(places, number(size - 1)), axis=axis)
    behind = [1] * (x.ndim - axis - 1)
    held = reshape(dispatch.call(ops.Less, places, stop), [*places.type.shape, *behind])
    outside = dispatch.full((), identity_of("max", x.type.dtype) if largest else 0, x.type.dtype)
    taken = dispatch.call(ops.Where, held, taken, outside)
    if largest:
        return max_(taken, axis + 1)
    lengths = reshape(cast_to(subtract(stop, start), x.type.dtype), [count, *behind])
    return divide(sum_(taken, axis + 1), lengths)


def adaptive_avg_pool1d(x: Tensor, output_size: Any, name: str | None = None) -> Tensor:
    return _adaptive(1, x, output_size, "NCL", False)


def adaptive_avg_pool2d(x: Tensor, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    return _adaptive(2, x, output_size, data_format, False)


def adaptive_avg_pool3d(x: Tensor, output_size: Any, data_format: str = "NCDHW", name: str | None = None) -> Tensor:
    return _adaptive(3, x, output_size, data_format, False)


def adaptive_max_pool1d(x: Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    return _adaptive_max(1, x, output_size, return_mask, "NCL")


def adaptive_max_pool2d(x: Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    return _adaptive_max(2, x, output_size, return_mask, "NCHW")


def adaptive_max_pool3d(x: Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    return _adaptive_max(3, x, output_size, return_mask, "NCDHW")


def _adaptive_max(rank: int, x: Tensor, output_size: Any, return_mask: bool, data_format: str) -> Any:
    largest = _adaptive(rank, x, output_size, data_format, True)
    return (largest, _adaptive_places(x, largest.shape[2:])) if return_mask else largest


def _adaptive_places(x: Tensor, counts: Sequence[int]) -> Tensor:
    """Where the maximum of each adaptive window of `x` [N, C, *sizes] is, as a number into the flattened sizes: int32 [N, C, *counts]."""
    sizes = x.shape[2:]
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes)
    found = []
    for cell in np.ndindex(*counts):
        window = tuple(slice(i * size // n, -((-(i + 1) * size) // n)) for i, size, n in zip(cell, sizes, counts, strict=True))
        flat = reshape(x[(slice(None), slice(None), *window)], [*x.shape[:2], -1])
        place = dispatch.call(ops.ArgMax, flat, axis=2, keepdims=False, dtype=i64)
        found.append(dispatch.call(ops.Gather, dispatch.constant(numbers[window].ravel().astype(np.int32)), place, axis=0))
    return reshape(stack(found, 2), [*x.shape[:2], *counts])


# --- back to where the largest stood


def _max_unpool(
    rank: int, x: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, data_format: str, output_size: Any, name: str | None
) -> Tensor:
    """Elements of `x` at the places in `indices`, counted over all spatial axes as `max_pool` with `return_mask` gives them; zeros beside.
    """
    from polyreme.math.creation import zeros
    from polyreme.math.scattering import put_along_axis

    function = f"max_unpool{rank}d"
    if data_format != {1: "NCL", 2: "NCHW", 3: "NCDHW"}[rank]:
        raise ValueError(f"{function} expected a data format with channels first but got {data_format!r}")
    if tensor_arg(x, function).ndim != rank + 2:
        raise ValueError(f"{function} expected a tensor of {rank + 2} axes but got shape {list(x.shape)}")
    tensor_arg(indices, function, "indices")
    kernel, steps, edges = (
        sizes_of(v, rank, what)
        for v, what in ((kernel_size, "kernel_size"), (kernel_size if stride is None else stride, "stride"), (padding, "padding"))
    )
    sizes = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[2:], steps, kernel, edges, strict=True)]
    if output_size is not None:
        given = [number_of(size) for size in output_size]
        given = given[2:] if len(given) == rank + 2 else given
        if len(given) != rank:
            raise ValueError(f"{function} expected output_size to have {rank} or {rank + 2} numbers but got {list(output_size)}")
        for axis, (size, usual, step) in enumerate(zip(given, sizes, steps, strict=True)):
            if isinstance(usual, int) and not usual - step < size < usual + step:
                raise ValueError(f"{function} expected output_size between {usual - step} and {usual + step} on axis {axis} but got {size}")
        sizes = given
    batch, channels = x.shape[:2]
    flat, places = reshape(x, [batch, channels, -1]), cast_to(reshape(indices, [batch, channels, -1]), i64)
    empty = zeros([batch, channels, product(sizes)], x.dtype)
    made = put_along_axis(empty, places, flat.detach(), 2, broadcast=False)
    # Each of several windows with the same largest element has the gradient of its place: it adds nothing there.
    made = add(made, put_along_axis(empty, places, subtract(flat, flat.detach()), 2, "add", broadcast=False))
    return reshape(made, [batch, channels, *sizes])


def max_unpool1d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCL", output_size: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The elements that `max_pool1d(return_mask=True)` gave, at the places that it gave with them; zeros beside."""
    return _max_unpool(1, x, indices, kernel_size, stride, padding, data_format, output_size, name)


def max_unpool2d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCHW", output_size: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The elements that `max_pool2d(return_mask=True)` gave, at the places that it gave with them; zeros beside."""
    return _max_unpool(2, x, indices, kernel_size, stride, padding, data_format, output_size, name)


def max_unpool3d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, data_format: str = "NCDHW", output_size: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The elements that `max_pool3d(return_mask=True)` gave, at the places that it gave with them; zeros beside."""
    return _max_unpool(3, x, indices, kernel_size, stride, padding, data_format, output_size, name)
