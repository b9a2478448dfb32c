"""Convolution, of any spatial rank."""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array, pad_array, window_view
from polyreme.dialects.shape_rules import Shape, check_same_dtype, is_negative, shape_text, window_positions
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve_all
from polyreme.ir.types import TensorType


@op("nn.conv", Pure)
class Conv(Op):
    """A convolution of `x` [batch, channels, *sizes] with `weight` [out, channels / groups, *kernel], as neural networks mean it: nothing is flipped.

        %y = nn.conv %x, %w, %b {strides = [2, 2], padding = [1, 1, 1, 1]} : tensor<Nx8x14x14xf32>      // %x: tensor<Nx3x28x28xf32>, %w: tensor<8x3x3x3xf32>, %b: tensor<8xf32>

    `padding` counts zeros before and after each spatial axis: [low, high, low, high, …]. An empty list stands for ones (strides, dilations) or
    zeros (padding). With groups, the i-th part of the output channels sees only the i-th part of the input channels.
    """

    x = operand()
    weight = operand()
    bias = optional()
    strides = attr(tuple[Dim, ...], default=())
    padding = attr(tuple[Dim, ...], default=())
    dilations = attr(tuple[Dim, ...], default=())
    groups = attr(int, default=1)

    @staticmethod
    def infer(x: TensorType, weight: TensorType, bias: TensorType | None, *, strides: Shape, padding: Shape, dilations: Shape, groups: int) -> TensorType:
        check(x.rank >= 3, f"expected an operand of shape [batch, channels, *sizes] but got {shape_text(x.shape)}")
        check(weight.rank == x.rank, f"expected a weight of rank {x.rank} but got {shape_text(weight.shape)}")
        check_same_dtype([x, weight] if bias is None else [x, weight, bias])
        check(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
        check(groups >= 1, f"expected groups of at least 1 but got {groups}")
        out, per_group = weight.shape[:2]
        check(x.shape[1] == per_group * groups, f"expected {per_group * groups} channels for the weight {shape_text(weight.shape)} and {groups} groups but got {x.shape[1]}")
        check(out % groups == 0, f"expected a number of output channels that {groups} groups divide but got {out}")
        fits = bias is None or bias.shape == (out,)
        check(fits, f"expected a bias of shape {shape_text((out,))} but got {shape_text(getattr(bias, 'shape', ()))}")
        strides, pairs, dilations = conv_numbers(x.rank - 2, strides, padding, dilations)
        sizes = []
        for size, kernel, stride, (low, high), dilation in zip(x.shape[2:], weight.shape[2:], strides, pairs, dilations, strict=True):
            check(not is_negative(kernel - 1), f"expected a kernel of at least 1 but got {kernel}")
            room = size + low + high - (kernel - 1) * dilation - 1
            check(not is_negative(room), f"expected at least {(kernel - 1) * dilation + 1} elements for the kernel but got {size} padded by {low} and {high}")
            sizes.append(window_positions(size + low + high, kernel, stride, dilation))
        return x.with_shape((x.shape[0], out, *sizes))

    @staticmethod
    def reference(x: Array, weight: Array, bias: Array | None, *, strides: Shape, padding: Shape, dilations: Shape, groups: int) -> Array:
        spatial = x.ndim - 2
        steps, pairs, gaps = conv_numbers(spatial, strides, padding, dilations)
        low, high = ((0, 0, *resolve_all(p)) for p in zip(*pairs, strict=True))
        dtype = x.dtype
        if dtype.kind == "V" or dtype == np.float16:
            x, weight = x.astype(np.float32), weight.astype(np.float32)
        padded = pad_array(x, low, high, (0,) * x.ndim, 0) if any(low) or any(high) else x
        windows = window_view(padded, range(2, x.ndim), weight.shape[2:], resolve_all(steps), resolve_all(gaps))
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


def conv_numbers(spatial: int, strides: Shape, padding: Shape, dilations: Shape) -> tuple[Shape, list[tuple[Dim, Dim]], Shape]:
    """Strides, (low, high) pairs and dilations per spatial axis, defaults filled in; `InferError` when one does not fit."""
    strides = strides or (1,) * spatial
    dilations = dilations or (1,) * spatial
    padding = padding or (0,) * (2 * spatial)
    for values, name, count, least in ((strides, "strides", spatial, 1), (dilations, "dilations", spatial, 1), (padding, "padding", 2 * spatial, 0)):
        check(len(values) == count, f"expected {count} values in '{name}' but got {len(values)}")
        check(not any(is_negative(v - least) for v in values), f"expected values of at least {least} in '{name}' but got {shape_text(values)}")
    return strides, list(zip(padding[::2], padding[1::2], strict=True)), dilations
