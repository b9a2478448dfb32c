"""Convolution over any number of spatial axes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import as_one, inputs
from polyreme.casting.state import current
from polyreme.dialects import nn as ops
from polyreme.ir.diagnostics import InferError, caller_location
from polyreme.ir.dims import Dim, ceildiv, maximum
from polyreme.math.common import number_of, tensor_arg
from polyreme.math.manipulation import transpose
from polyreme.tensor import Tensor

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose"]


def items_of(value: Any) -> list[Any] | None:
    """The elements of a list, a tuple, or a tensor or array of one axis; None of anything else."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim == 1:
        return list(value.tolist())
    return list(value) if isinstance(value, (list, tuple)) else None


def sizes_of(value: Any, rank: int, name: str) -> tuple[int, ...]:
    """One number per spatial axis, from one for all, a list or a vector."""
    items = items_of(value) or [value] * rank
    if len(items) != rank:
        raise ValueError(f"expected one value for '{name}' or {rank} of them but got {list(items)}")
    return tuple(int(number_of(v)) for v in items)


def padding_pairs(
    padding: Any,
    rank: int,
    sizes: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    channel_last: bool,
) -> tuple[Dim, ...]:
    """Paddle's forms of padding as [low, high] per spatial axis: a number, one per axis, two per axis, pairs for all axes, "SAME", "VALID".
    """
    if isinstance(padding, str):
        kind = padding.upper()
        if kind == "VALID":
            return (0,) * (2 * rank)
        if kind != "SAME":
            raise ValueError(f"Unknown padding: '{padding}'. It can only be 'SAME' or 'VALID'.")
        result: list[Dim] = []
        for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
            total = maximum((ceildiv(size, stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
            result += [total // 2, total - total // 2]
        return tuple(result)
    items = list(padding) if isinstance(padding, (list, tuple)) else [padding]
    if items and isinstance(items[0], (list, tuple)):
        if len(items) != rank + 2:
            raise ValueError(f"expected a pair of paddings for each of {rank + 2} axes but got {padding}")
        outer = [items[0], items[-1] if channel_last else items[1]]
        if any(any(p) for p in outer):
            raise ValueError(f"expected no padding of the batch and channel axes but got {padding}")
        items = [w for pair in (items[1:-1] if channel_last else items[2:]) for w in pair]
    values = [int(number_of(v)) for v in items]
    if any(v < 0 for v in values):
        raise ValueError(f"expected paddings of 0 or more but got {padding}")
    if len(values) == 1:
        return tuple(values * (2 * rank))
    if len(values) == rank:
        return tuple(v for v in values for _ in range(2))
    if len(values) == 2 * rank:
        return tuple(values)
    raise ValueError(f"expected 1, {rank} or {2 * rank} paddings but got {padding}")


def dilations_of(dilation: Any, rank: int, padding: Any) -> tuple[int, ...]:
    """The dilation per spatial axis: with "SAME" padding Paddle takes no notice of it, so that windows are those of dilation 1."""
    given = sizes_of(dilation, rank, "dilation")
    return (1,) * rank if isinstance(padding, str) and padding.upper() == "SAME" else given


def is_channel_last(data_format: str, rank: int, name: str) -> bool:
    letters = {1: "L", 2: "HW", 3: "DHW"}[rank]
    known = [f"NC{letters}", f"N{letters}C"]
    if data_format not in known:
        raise ValueError(f"{name} expected data_format to be one of {', '.join(known)} but got '{data_format}'")
    return data_format == known[1]


def to_channel_first(x: Tensor) -> Tensor:
    return transpose(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def to_channel_last(x: Tensor) -> Tensor:
    return transpose(x, [0, *range(2, x.ndim), 1])


def _operator(rank: int, x: Tensor, weight: Tensor, groups: Any) -> str:
    """What Paddle calls a convolution."""
    channels, made = x.type.shape[1], weight.type.shape[0]
    if rank < 3 and groups != 1 and groups == channels and isinstance(made, int) and made % groups == 0:
        return "depthwise_conv2d"
    return "conv3d" if rank == 3 else "conv2d"


def _conv(
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_format: str,
    name: str,
) -> Tensor:
    tensor_arg(x, name)
    tensor_arg(weight, name, "weight")
    last = is_channel_last(data_format, rank, name)
    if x.ndim != rank + 2:
        raise InferError(f"{name} expected an input of {rank + 2} axes ({data_format}) but got shape {list(x.shape)}", caller_location())
    if last:
        x = to_channel_first(x)
    strides, dilations = sizes_of(stride, rank, "stride"), dilations_of(dilation, rank, padding)
    pairs = padding_pairs(padding, rank, x.type.shape[2:], weight.shape[2:], strides, dilations, last)
    attributes = {"strides": strides, "padding": pairs, "dilations": dilations, "groups": int(groups)}
    if current() is None:
        result = dispatch.call(ops.Conv, x, weight, bias, **attributes)
    else:
        # Here Paddle adds the bias as another operator, with rules of its own.
        result = as_one(_operator(rank, x, weight, groups), functools.partial(dispatch.call, ops.Conv, **attributes), x, weight, None)
        if rank == 1:
            (result,) = inputs("squeeze2", result)
        if bias is not None:
            result = dispatch.call(ops.Add, result, dispatch.call(ops.Reshape, bias, shape=(*bias.type.shape, *(1,) * rank)))
    return to_channel_last(result) if last else result


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """[N, C, L] by filters [out, C / groups, k]."""
    return _conv(1, x, weight, bias, stride, padding, dilation, groups, data_format, "conv1d")


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """[N, C, H, W] by filters [out, C / groups, kh, kw]."""
    return _conv(2, x, weight, bias, stride, padding, dilation, groups, data_format, "conv2d")


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """[N, C, D, H, W] by filters [out, C / groups, kd, kh, kw]."""
    return _conv(3, x, weight, bias, stride, padding, dilation, groups, data_format, "conv3d")


# --- transposed


def _conv_transpose(
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
    output_size: Any,
    data_format: str,
    name: str,
) -> Tensor:
    tensor_arg(x, name)
    tensor_arg(weight, name, "weight")
    last = is_channel_last(data_format, rank, name)
    for tensor, what in ((x, "Input x"), (weight, "Input weight")):
        if tensor.ndim != rank + 2:
            raise ValueError(f"{what} of {name} should be {rank + 2}D tensor, but received shape {list(tensor.shape)}")
    channels = x.type.shape[-1 if last else 1]
    if groups == 0:
        raise ValueError(f"The groups of {name} should not be zero.")
    if isinstance(channels, int) and channels % groups:
        raise ValueError(f"{name} expected channels that {groups} groups divide but got {channels} in shape {list(x.shape)}")
    if last:
        x = to_channel_first(x)
    strides, dilations = sizes_of(stride, rank, "stride"), dilations_of(dilation, rank, padding)
    kernel = weight.shape[2:]
    pairs = padding_pairs(padding, rank, x.type.shape[2:], kernel, strides, dilations, last)
    extra = sizes_of(output_padding, rank, "output_padding")
    least = [
        (places - 1) * step - low - high + (k - 1) * gap + 1
        for places, step, low, high, k, gap in zip(x.type.shape[2:], strides, pairs[::2], pairs[1::2], kernel, dilations, strict=True)
    ]
    if output_size is None:
        sizes = [n + more for n, more in zip(least, extra, strict=True)]
    else:
        if any(extra):
            raise ValueError("output_padding option is mutually exclusive with output_size")
        given = output_size.tolist() if isinstance(output_size, Tensor) else output_size
        sizes = list(sizes_of(given, rank, "output_size"))
    for n, smallest, step in zip(sizes, least, strides, strict=True):
        if isinstance(n, int) and isinstance(smallest, int) and not smallest <= n < smallest + step:
            raise ValueError(f"{name} expected sizes from {least} on, each less than a stride more, but got {sizes}")
    numbers = {"strides": strides, "padding": pairs, "dilations": dilations, "groups": int(groups)}
    transposed = functools.partial(dispatch.call, ops.ConvTranspose, sizes=tuple(sizes), **numbers)
    result = as_one("conv3d_transpose" if rank == 3 else "conv2d_transpose", transposed, x, weight)
    if bias is not None:
        result = dispatch.call(ops.Add, result, dispatch.call(ops.Reshape, bias, shape=(*bias.type.shape, *(1,) * rank)))
    return to_channel_last(result) if last else result


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """[N, C, L] by filters [C, out / groups, k], each element adding its multiple of the filter; `output_padding` or `output_size` choose
    among the sizes that fit.
    """
    return _conv_transpose(
        1, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, "conv1d_transpose"
    )


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """[N, C, H, W] by filters [C, out / groups, kh, kw]; see `conv1d_transpose`."""
    return _conv_transpose(
        2, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, "conv2d_transpose"
    )


def conv3d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """[N, C, D, H, W] by filters [C, out / groups, kd, kh, kw]; see `conv1d_transpose`."""
    return _conv_transpose(
        3, x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format, "conv3d_transpose"
    )
