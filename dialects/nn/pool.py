"""Pooling over windows, of any spatial rank.

How many windows fit, and which elements each one covers, is Paddle's: with `ceil_mode` a last window may reach past the padding, and one
that covers no element at all gives -inf, or for a mean the quotient of 0 and a count that is 0 (nan) or, behind a gap, negative.
"""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array, pad_array, reduce_array, window_view
from polyreme.dialects.nn.conv import conv_numbers
from polyreme.dialects.shape_rules import Shape, is_negative, shape_text
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.dims import Dim, ceildiv, floordiv
from polyreme.ir.evaluate import resolve, resolve_all
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import TensorType, scalar_type


def pool_axis(size: Dim, kernel: Dim, stride: Dim, low: Dim, high: Dim, ceil_mode: bool) -> tuple[Dim, Dim]:
    """How many windows there are along an axis, and how many elements of padding after it they need (at least `high`)."""
    room = size + low + high - kernel
    if not ceil_mode:
        return floordiv(room, stride) + 1, high
    positions = ceildiv(room, stride) + 1
    return positions, (positions - 1) * stride + kernel - size - low


def pool_numbers(spatial: int, kernel: Shape, strides: Shape, padding: Shape) -> tuple[Shape, list[tuple[Dim, Dim]]]:
    """Strides (the kernel's sizes when empty) and (low, high) pairs per spatial axis."""
    check_attr(len(kernel) == spatial, f"expected {spatial} values in 'kernel' but got {len(kernel)}")
    check_attr(not any(is_negative(k - 1) for k in kernel), f"expected values of at least 1 in 'kernel' but got {shape_text(kernel)}")
    strides, pairs, _ = conv_numbers(spatial, strides or kernel, padding, ())
    return strides, pairs


def _infer(x: TensorType, kernel: Shape, strides: Shape, padding: Shape, ceil_mode: bool) -> TensorType:
    check(x.rank >= 3, f"expected an operand of shape [batch, channels, *sizes] but got {shape_text(x.shape)}")
    strides, pairs = pool_numbers(x.rank - 2, kernel, strides, padding)
    sizes = []
    for size, window, stride, (low, high) in zip(x.shape[2:], kernel, strides, pairs, strict=True):
        check(
            not is_negative(size + low + high - window),
            f"expected at least {window} elements for the kernel but got {size} padded by {low} and {high}",
        )
        sizes.append(pool_axis(size, window, stride, low, high, ceil_mode)[0])
    return x.with_shape((*x.shape[:2], *sizes))


def _windows(x: Array, kernel: Shape, strides: Shape, padding: Shape, ceil_mode: bool, value: float) -> Array:
    steps, pairs = pool_numbers(x.ndim - 2, kernel, strides, padding)
    sizes, steps = resolve_all(kernel), resolve_all(steps)
    low, high = [0, 0], [0, 0]
    for size, window, step, pair in zip(x.shape[2:], sizes, steps, pairs, strict=True):
        before, after = resolve_all(pair)
        low.append(before)
        high.append(resolve(pool_axis(size, window, step, before, after, ceil_mode)[1]))
    padded = pad_array(x, low, high, (0,) * x.ndim, value)
    return window_view(padded, range(2, x.ndim), sizes, steps, (1,) * len(sizes))


@op("nn.max_pool", Pure)
class MaxPool(Op):
    """The largest element of each window of `x` [batch, channels, *sizes].

        %y = nn.max_pool %x {kernel = [2, 2], strides = [2, 2]} : tensor<Nx1x2x2xf32>      // %x: tensor<Nx1x4x4xf32>

    nan where a window has one. `padding` is [low, high, low, high, …] and never wins: a window of padding alone gives -inf, or the least
    integer. Strides left empty are the kernel's sizes. An axis has floor((size + low + high - kernel) / stride) + 1 windows; with
    `ceil_mode` the quotient is rounded up, and the last window may reach past the padding. `kernel` and `strides` have a value per spatial
    axis.
    """

    x = operand()
    kernel = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...], default=())
    padding = attr(tuple[Dim, ...], default=())
    ceil_mode = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, kernel: Shape, strides: Shape, padding: Shape, ceil_mode: bool) -> TensorType:
        check_type(x.dtype.kind in "fiu", f"expected floats or integers but got {x.dtype}")
        return _infer(x, kernel, strides, padding, ceil_mode)

    @staticmethod
    def reference(x: Array, *, kernel: Shape, strides: Shape, padding: Shape, ceil_mode: bool) -> Array:
        windows = _windows(x, kernel, strides, padding, ceil_mode, identity_of("max", scalar_type(x.dtype)))
        return reduce_array(windows, "max", tuple(range(x.ndim, windows.ndim)), False)


@op("nn.avg_pool", Pure, accuracy=SUM)
class AvgPool(Op):
    """The mean of each window of `x` [batch, channels, *sizes].

        %y = nn.avg_pool %x {kernel = [3, 3], strides = [2, 2], padding = [1, 1, 1, 1]} : tensor<Nx1x2x2xf32>
        // %x: tensor<Nx1x4x4xf32>

    `exclusive` means the mean of the elements in the window that are no padding. Otherwise zeros of the padding count, up to `low` of them
    after the axis, as in Paddle, where `low` and `high` differ only for "SAME" padding. Strides left empty are the kernel's sizes. How many
    windows there are is as in `nn.max_pool`. Sums are float64, rounded once; a window without elements gives nan, as Paddle's does.
    `kernel`, `strides`, `padding` and `ceil_mode` are as there, too.
    """

    x = operand()
    kernel = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...], default=())
    padding = attr(tuple[Dim, ...], default=())
    exclusive = attr(bool, default=True)
    ceil_mode = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, kernel: Shape, strides: Shape, padding: Shape, exclusive: bool, ceil_mode: bool) -> TensorType:
        check_type(x.dtype.is_float, f"expected floats but got {x.dtype}")
        return _infer(x, kernel, strides, padding, ceil_mode)

    @staticmethod
    def reference(x: Array, *, kernel: Shape, strides: Shape, padding: Shape, exclusive: bool, ceil_mode: bool) -> Array:
        windows = _windows(x, kernel, strides, padding, ceil_mode, 0.0)
        total = windows.sum(tuple(range(x.ndim, windows.ndim)), dtype=np.float64)
        steps, pairs = pool_numbers(x.ndim - 2, kernel, strides, padding)
        sizes, steps = resolve_all(kernel), resolve_all(steps)
        counts = np.ones((), np.int64)
        for axis, (window, step, (low, _)) in enumerate(zip(sizes, steps, pairs, strict=True), 2):
            start = np.arange(windows.shape[axis]) * step - resolve(low)
            end = np.minimum(start + window, x.shape[axis] + (0 if exclusive else resolve(low)))
            count = end - (np.maximum(start, 0) if exclusive else start)
            counts = counts * count.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        with np.errstate(divide="ignore", invalid="ignore"):
            return (total / counts).astype(x.dtype)
