"""Convolution of any spatial rank, and its two adjoints: `conv_transpose` by the input, `conv_filter` by the weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyreme.dialects.arrays import Array, fold_array, pad_array, window_view
from polyreme.dialects.shape_rules import Shape, check_same_dtype, is_negative, shape_text, window_positions
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve_all
from polyreme.ir.sizes.facts import agree, agree_all
from polyreme.ir.types import TensorType


@op("nn.conv", Pure, accuracy=SUM)
class Conv(Op):
    """A convolution of `x` [batch, channels, *sizes] with `weight` [out, channels / groups, *kernel], as neural networks mean it: nothing
    is flipped.

        %y = nn.conv %x, %w, %b {strides = [2, 2], padding = [1, 1, 1, 1]} : tensor<Nx2x2x2xf32>
        // %x: tensor<Nx1x4x4xf32>, %w: tensor<2x1x3x3xf32>, %b: tensor<2xf32>

    The result is [batch, out, *places], with floor((size + low + high - (kernel - 1) * dilation - 1) / stride) + 1 places along an axis.
    `padding` counts zeros before and after each spatial axis: [low, high, low, high, …]. An empty list stands for ones (strides, dilations)
    or zeros (padding). With groups, the i-th part of the output channels sees only the i-th part of the input channels. `bias` is [out] or
    absent. Any spatial rank of at least 1; a kernel that does not fit the padded size is refused. 16-bit floats add up in float32.
    `strides`, `dilations` and a pair of `padding` are given per spatial axis; `groups` divides both numbers of channels.
    """

    x = operand()
    weight = operand()
    bias = optional()
    strides = attr(tuple[Dim, ...], default=())
    padding = attr(tuple[Dim, ...], default=())
    dilations = attr(tuple[Dim, ...], default=())
    groups = attr(int, default=1)

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType, bias: TensorType | None, *, strides: Shape, padding: Shape, dilations: Shape, groups: int
    ) -> TensorType:
        check(x.rank >= 3, f"expected an operand of shape [batch, channels, *sizes] but got {shape_text(x.shape)}")
        check(weight.rank == x.rank, f"expected a weight of rank {x.rank} but got {shape_text(weight.shape)}")
        check_same_dtype([x, weight] if bias is None else [x, weight, bias])
        check_type(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
        check_attr(groups >= 1, f"expected groups of at least 1 but got {groups}")
        out, per_group = weight.shape[:2]
        check(
            agree(x.shape[1], per_group * groups),
            f"expected {per_group * groups} channels for the weight {shape_text(weight.shape)} and {groups} groups but got {x.shape[1]}",
        )
        check_attr(out % groups == 0, f"expected a number of output channels that {groups} groups divide but got {out}")
        fits = bias is None or agree_all(bias.shape, (out,))
        check(fits, f"expected a bias of shape {shape_text((out,))} but got {shape_text(getattr(bias, 'shape', ()))}")
        strides, pairs, dilations = conv_numbers(x.rank - 2, strides, padding, dilations)
        sizes = []
        for size, kernel, stride, (low, high), dilation in zip(x.shape[2:], weight.shape[2:], strides, pairs, dilations, strict=True):
            check(not is_negative(kernel - 1), f"expected a kernel of at least 1 but got {kernel}")
            room = size + low + high - (kernel - 1) * dilation - 1
            check(
                not is_negative(room),
                f"expected at least {(kernel - 1) * dilation + 1} elements for the kernel but got {size} padded by {low} and {high}",
            )
            sizes.append(window_positions(size + low + high, kernel, stride, dilation))
        return x.with_shape((x.shape[0], out, *sizes))

    @staticmethod
    def reference(x: Array, weight: Array, bias: Array | None, *, strides: Shape, padding: Shape, dilations: Shape, groups: int) -> Array:
        spatial = x.ndim - 2
        dtype = x.dtype
        if dtype.kind == "V" or dtype == np.float16:
            x, weight = x.astype(np.float32), weight.astype(np.float32)
        windows = _conv_windows(x, weight.shape[2:], strides, padding, dilations)
        batch, out, places = x.shape[0], weight.shape[0], windows.shape[2 : 2 + spatial]
        # [batch, groups, channels, *places, *kernel] to a batch of matrices [places, channels * kernel] by [channels * kernel, out].
        count = int(np.prod(places, dtype=np.int64))
        inner = int(np.prod(weight.shape[1:], dtype=np.int64))
        rows = windows.reshape(batch, groups, weight.shape[1], *windows.shape[2:])
        rows = rows.transpose(0, 1, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial)).reshape(batch, groups, count, inner)
        filters = weight.reshape(groups, out // groups, inner).transpose(0, 2, 1)
        with np.errstate(all="ignore"):
            product = np.matmul(rows, filters).swapaxes(-1, -2).reshape(batch, out, *places).astype(dtype, copy=False)
            return product if bias is None else product + bias.reshape(-1, *(1,) * spatial)


@op("nn.conv_transpose", Pure, accuracy=SUM)
class ConvTranspose(Op):
    """The adjoint of `nn.conv` by its input: each element of `x` [batch, channels, *places] adds its multiple of `weight` [channels, out /
    groups, *kernel].

        %y = nn.conv_transpose %x, %w {strides = [2], sizes = [9]} : tensor<Nx2x9xf32>      // %x: tensor<Nx1x4xf32>, %w: tensor<1x2x3xf32>

    `sizes` are the result's spatial sizes, for which a convolution with the same numbers makes the places of `x`; empty means the smallest
    such sizes. The result is [batch, out, *sizes]. `strides`, `padding`, `dilations` and `groups` are as in `nn.conv`.
    """

    x = operand()
    weight = operand()
    strides = attr(tuple[Dim, ...], default=())
    padding = attr(tuple[Dim, ...], default=())
    dilations = attr(tuple[Dim, ...], default=())
    groups = attr(int, default=1)
    sizes = attr(tuple[Dim, ...], default=())

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType, *, strides: Shape, padding: Shape, dilations: Shape, groups: int, sizes: Shape
    ) -> TensorType:
        check(x.rank >= 3, f"expected an operand of shape [batch, channels, *sizes] but got {shape_text(x.shape)}")
        check(weight.rank == x.rank, f"expected a weight of rank {x.rank} but got {shape_text(weight.shape)}")
        check_same_dtype([x, weight])
        check_type(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
        check_attr(
            groups >= 1 and weight.shape[0] % groups == 0, f"expected groups that divide {weight.shape[0]} channels but got {groups}"
        )
        check(agree(x.shape[1], weight.shape[0]), f"expected {weight.shape[0]} channels, the weight's first size, but got {x.shape[1]}")
        steps, pairs, gaps = conv_numbers(x.rank - 2, strides, padding, dilations)
        made = sizes or transposed_sizes(x.shape[2:], weight.shape[2:], steps, pairs, gaps)
        check_attr(len(made) == x.rank - 2, f"expected {x.rank - 2} values in 'sizes' but got {len(sizes)}")
        for size, places, kernel, step, (low, high), gap in zip(made, x.shape[2:], weight.shape[2:], steps, pairs, gaps, strict=True):
            positions = window_positions(size + low + high, kernel, step, gap)
            check(agree(positions, places), f"expected sizes from which a convolution makes {places} places but {size} makes {positions}")
        return x.with_shape((x.shape[0], weight.shape[1] * groups, *made))

    @staticmethod
    def reference(x: Array, weight: Array, *, strides: Shape, padding: Shape, dilations: Shape, groups: int, sizes: Shape) -> Array:
        spatial = x.ndim - 2
        steps, pairs, gaps = conv_numbers(spatial, strides, padding, dilations)
        made = resolve_all(sizes or transposed_sizes(x.shape[2:], weight.shape[2:], steps, pairs, gaps))
        before, after = (resolve_all(p) for p in zip(*pairs, strict=True))
        dtype = x.dtype
        if dtype.kind == "V" or dtype == np.float16:
            x, weight = x.astype(np.float32), weight.astype(np.float32)
        batch, kernel, places = x.shape[0], weight.shape[2:], x.shape[2:]
        count = int(np.prod(places, dtype=np.int64))
        taps = int(np.prod(weight.shape[1:], dtype=np.int64))
        rows = x.reshape(batch, groups, x.shape[1] // groups, count)
        filters = weight.reshape(groups, weight.shape[0] // groups, taps).swapaxes(1, 2)
        with np.errstate(all="ignore"):
            windows = np.matmul(filters, rows).reshape(batch, groups * weight.shape[1], *kernel, *places)
            windows = windows.transpose(0, 1, *range(2 + spatial, 2 + 2 * spatial), *range(2, 2 + spatial))
            padded = [size + low + high for size, low, high in zip(made, before, after, strict=True)]
            total = fold_array(windows, range(2, 2 + spatial), padded, resolve_all(steps), resolve_all(gaps))
            inside = tuple(slice(low, low + size) for size, low in zip(made, before, strict=True))
            return total[(slice(None), slice(None), *inside)].astype(dtype, copy=False)


@op("nn.conv_filter", Pure, accuracy=SUM)
class ConvFilter(Op):
    """The adjoint of `nn.conv` by its weight: for each tap of the kernel, products of `x` and `dy` summed over batch and places.

        %w = nn.conv_filter %x, %dy {kernel = [3], strides = [2]} : tensor<2x1x3xf32>      // %x: tensor<Nx1x9xf32>, %dy: tensor<Nx2x4xf32>

    `x` is a convolution's input, `dy` is shaped as its result, and the rest are its numbers; the result is shaped as its weight, [out,
    channels / groups, *kernel]. `kernel` is the size of the kernel, one value per spatial axis; `strides`, `padding`, `dilations` and
    `groups` are as in `nn.conv`.
    """

    x = operand()
    dy = operand()
    kernel = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...], default=())
    padding = attr(tuple[Dim, ...], default=())
    dilations = attr(tuple[Dim, ...], default=())
    groups = attr(int, default=1)

    @staticmethod
    def infer(x: TensorType, dy: TensorType, *, kernel: Shape, strides: Shape, padding: Shape, dilations: Shape, groups: int) -> TensorType:
        check(
            x.rank >= 3 and dy.rank == x.rank,
            f"expected operands [batch, channels, *sizes] but got {shape_text(x.shape)} and {shape_text(dy.shape)}",
        )
        check_attr(groups >= 1 and x.shape[1] % groups == 0, f"expected groups that divide {x.shape[1]} channels but got {groups}")
        check_attr(len(kernel) == x.rank - 2, f"expected {x.rank - 2} values in 'kernel' but got {len(kernel)}")
        weight = x.with_shape((dy.shape[1], x.shape[1] // groups, *kernel))
        wanted = Conv.infer(x, weight, None, strides=strides, padding=padding, dilations=dilations, groups=groups)
        check(dy == wanted, f"expected the result's gradient to be {wanted} but got {dy}")
        return weight

    @staticmethod
    def reference(x: Array, dy: Array, *, kernel: Shape, strides: Shape, padding: Shape, dilations: Shape, groups: int) -> Array:
        dtype = x.dtype
        if dtype.kind == "V" or dtype == np.float16:
            x, dy = x.astype(np.float32), dy.astype(np.float32)
        spatial, out = x.ndim - 2, dy.shape[1]
        sizes = resolve_all(kernel)
        windows = _conv_windows(x, sizes, strides, padding, dilations)
        count = int(np.prod(dy.shape[2:], dtype=np.int64))
        per_group = x.shape[1] // groups
        # Matrices [out, batch * places] by [batch * places, channels * kernel], one per group.
        left = (
            dy.reshape(dy.shape[0], groups, out // groups, count).transpose(1, 2, 0, 3).reshape(groups, out // groups, dy.shape[0] * count)
        )
        right = windows.reshape(x.shape[0], groups, per_group, *windows.shape[2:])
        right = right.transpose(1, 0, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial))
        right = right.reshape(groups, x.shape[0] * count, per_group * int(np.prod(sizes, dtype=np.int64)))
        with np.errstate(all="ignore"):
            return np.matmul(left, right).reshape(out, per_group, *sizes).astype(dtype, copy=False)


def _conv_windows(x: Array, kernel: Sequence[int], strides: Shape, padding: Shape, dilations: Shape) -> Array:
    """Views of `x` padded with zeros: [batch, channels, *places, *kernel]."""
    steps, pairs, gaps = conv_numbers(x.ndim - 2, strides, padding, dilations)
    low, high = ((0, 0, *resolve_all(p)) for p in zip(*pairs, strict=True))
    padded = pad_array(x, low, high, (0,) * x.ndim, 0) if any(low) or any(high) else x
    return window_view(padded, range(2, x.ndim), kernel, resolve_all(steps), resolve_all(gaps))


def transposed_sizes(places: Shape, kernel: Shape, strides: Shape, pairs: Sequence[tuple[Dim, ...]], dilations: Shape) -> Shape:
    """The smallest sizes from which a convolution makes `places`."""
    numbers = zip(places, kernel, strides, pairs, dilations, strict=True)
    return tuple((p - 1) * stride + (k - 1) * dilation + 1 - pair[0] - pair[1] for p, k, stride, pair, dilation in numbers)


def conv_numbers(spatial: int, strides: Shape, padding: Shape, dilations: Shape) -> tuple[Shape, list[tuple[Dim, Dim]], Shape]:
    """Strides, (low, high) pairs and dilations per spatial axis, defaults filled in; `InferError` when one does not fit."""
    strides = strides or (1,) * spatial
    dilations = dilations or (1,) * spatial
    padding = padding or (0,) * (2 * spatial)
    for values, name, count, least in (
        (strides, "strides", spatial, 1),
        (dilations, "dilations", spatial, 1),
        (padding, "padding", 2 * spatial, 0),
    ):
        check_attr(len(values) == count, f"expected {count} values in '{name}' but got {len(values)}")
        check_attr(
            not any(is_negative(v - least) for v in values), f"expected values of at least {least} in '{name}' but got {shape_text(values)}"
        )
    return strides, list(zip(padding[::2], padding[1::2], strict=True)), dilations
