"""Convolutions of `static.nn`, and `deform_conv2d`, with filters of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from polyreme.math import add, reshape
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.functional.conv import is_channel_last, padding_pairs, sizes_of
from polyreme.regions.deformable import deformable_conv
from polyreme.static.nn.parameters import activated, known_size, layer_name, parameter
from polyreme.tensor import Tensor

__all__ = ["conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "deform_conv2d"]


def conv2d(
    input: Tensor,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """2-D convolution with filters [num_filters, channels / groups, *filter_size], normal with deviation sqrt(2 / (channels * filter
    elements)).
    """
    return _conv(2, input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, act, name, data_format)


def conv3d(
    input: Tensor,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    """As `conv2d`, of [N, C, D, H, W]."""
    return _conv(3, input, num_filters, filter_size, stride, padding, dilation, groups, param_attr, bias_attr, act, name, data_format)


def _conv(
    rank: int,
    input: Tensor,
    num_filters: int,
    filter_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int | None,
    param_attr: Any,
    bias_attr: Any,
    act: str | None,
    name: str | None,
    data_format: str,
) -> Tensor:
    function = f"conv{rank}d"
    _check_filters(function, param_attr)
    layer = layer_name(function, name)
    channels = _channels(input, rank, data_format, function)
    split = _groups(groups, function)
    if channels % split or num_filters % split:
        raise ValueError(f"{function} expected channels and filters that {split} groups divide but got {channels} and {num_filters}")
    window = list(sizes_of(filter_size, rank, "filter_size"))
    deviation = math.sqrt(2.0 / (math.prod(window) * channels))
    weight = parameter(layer, "w", [num_filters, channels // split, *window], param_attr, input.dtype, init.Normal(0.0, deviation))
    bias = parameter(layer, "b", [num_filters], bias_attr, input.dtype)
    convolve = F.conv2d if rank == 2 else F.conv3d
    return activated(convolve(input, weight, bias, stride, padding, dilation, split, data_format), act)


def conv2d_transpose(
    input: Tensor,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """Transposed 2-D convolution with filters [channels, num_filters / groups, *filter_size]. Without `filter_size` the filters are as
    large as `output_size` needs them.
    """
    return _transposed(
        2, input, num_filters, output_size, filter_size, padding, stride, dilation, groups, param_attr, bias_attr, act, name, data_format
    )


def conv3d_transpose(
    input: Tensor,
    num_filters: int,
    output_size: Any = None,
    filter_size: Any = None,
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    """As `conv2d_transpose`, of [N, C, D, H, W]."""
    return _transposed(
        3, input, num_filters, output_size, filter_size, padding, stride, dilation, groups, param_attr, bias_attr, act, name, data_format
    )


def _transposed(
    rank: int,
    input: Tensor,
    num_filters: int,
    output_size: Any,
    filter_size: Any,
    padding: Any,
    stride: Any,
    dilation: Any,
    groups: int | None,
    param_attr: Any,
    bias_attr: Any,
    act: str | None,
    name: str | None,
    data_format: str,
) -> Tensor:
    function = f"conv{rank}d_transpose"
    _check_filters(function, param_attr)
    if num_filters == 0:
        raise ValueError("num of filters should not be 0.")
    layer = layer_name(function, name)
    channels = _channels(input, rank, data_format, function)
    split = _groups(groups, function)
    if output_size is None and filter_size is None:
        raise ValueError("output_size must be set when filter_size is None")
    if filter_size is None:
        window = _window_for(input, rank, output_size, padding, stride, dilation, data_format, function)
    else:
        window = list(sizes_of(filter_size, rank, "filter_size"))
    weight = parameter(layer, "w", [channels, num_filters // split, *window], param_attr, input.dtype)
    bias = parameter(layer, "b", [num_filters], bias_attr, input.dtype)
    convolve = F.conv2d_transpose if rank == 2 else F.conv3d_transpose
    made = convolve(
        input, weight, bias, stride, padding, dilation=dilation, groups=split, output_size=output_size, data_format=data_format
    )
    return activated(made, act)


def _window_for(
    input: Tensor, rank: int, output_size: Any, padding: Any, stride: Any, dilation: Any, data_format: str, function: str
) -> list[int]:
    """The filter size that gives this output size."""
    wanted, strides, spread = (
        sizes_of(v, rank, n) for v, n in ((output_size, "output_size"), (stride, "stride"), (dilation, "dilation"))
    )
    last = is_channel_last(data_format, rank, function)
    first = 1 if last else 2
    pads = [0] * (2 * rank) if isinstance(padding, str) else padding_pairs(padding, rank, (), (), strides, spread, last)
    found = []
    for i in range(rank):
        size = known_size(input, first + i, function, "size where filter_size is None")
        room = wanted[i] - (size - 1) * strides[i] + int(pads[2 * i]) + int(pads[2 * i + 1])
        found.append((room - 1) // spread[i] + 1)
    return found


def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Tensor:
    """2-D convolution of [N, C, H, W] whose taps are moved by `offset`, [N, 2 * deformable_groups * taps, Ho, Wo] (rows before columns, tap
    by tap), and weighted by `mask`, [N, deformable_groups * taps, Ho, Wo], unless it is None. Between pixels values are bilinear, and
    outside zero. `im2col_step` is of no effect.
    """
    layer = layer_name("deformable_conv", name)
    channels = known_size(x, 1, "deform_conv2d", "number of channels")
    if channels % groups:
        raise ValueError("num_channels must be divisible by groups.")
    window = sizes_of(filter_size, 2, "filter_size")
    deviation = math.sqrt(2.0 / (math.prod(window) * channels))
    weight = parameter(layer, "w", [num_filters, channels // groups, *window], weight_attr, x.dtype, init.Normal(0.0, deviation))
    bias = parameter(layer, "b", [num_filters], bias_attr, x.dtype)
    steps, pads, spread = (sizes_of(v, 2, n) for v, n in ((stride, "stride"), (padding, "padding"), (dilation, "dilation")))
    made = deformable_conv(x, offset, weight, mask, steps, pads, spread, deformable_groups, groups)
    return made if bias is None else add(made, reshape(bias, [1, num_filters, 1, 1]))


def _check_filters(function: str, param_attr: Any) -> None:
    assert param_attr is not False, f"param_attr should not be False in {function}."


def _groups(groups: int | None, function: str) -> int:
    if groups is not None and groups <= 0:
        raise ValueError(f"the groups of {function} should be greater than 0. Received groups: {groups}")
    return groups or 1


def _channels(input: Tensor, rank: int, data_format: str, function: str) -> int:
    if input.ndim != rank + 2:
        raise ValueError(f"{function} expected an input of {rank + 2} axes but got shape {list(input.shape)}")
    last: Sequence[int] = (-1,) if is_channel_last(data_format, rank, function) else (1,)
    return known_size(input, last[0], function, "number of channels")
