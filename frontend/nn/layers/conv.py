"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

from polyreme.dtypes import default_dtype
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.functional.conv import is_channel_last, sizes_of
from polyreme.nn.layer import Layer
from polyreme.nn.layers.defaults import defaults
from polyreme.tensor import Tensor

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]


class _Conv(Layer):
    """Filters [out, in / groups, *kernel], normal with deviation sqrt(2 / (in * kernel elements)); bias [out], zeros."""

    rank = 2
    function = "conv2d"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        *,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ):
        super().__init__()
        self._dtype = default_dtype().name if dtype is None else dtype
        if not bias:
            bias_attr = False
        if weight_attr is False:
            raise AssertionError("weight_attr should not be False in Conv.")
        if groups < 1 or in_channels % groups:
            raise ValueError(f"in_channels must be divisible by groups, but got {in_channels} channels and {groups} groups")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                f"padding_mode must be one of 'zeros', 'reflect', 'replicate', 'circular', but got padding_mode='{padding_mode}'"
            )
        if padding_mode in ("reflect", "replicate", "circular") and not isinstance(padding, int):
            raise TypeError("when padding_mode in ['reflect', 'replicate', 'circular'], type of padding must be int")
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size = list(sizes_of(kernel_size, self.rank, "kernel_size"))
        self._stride = list(sizes_of(stride, self.rank, "stride"))
        self._dilation = list(sizes_of(dilation, self.rank, "dilation"))
        self._padding, self._padding_mode = padding, padding_mode
        self._data_format = data_format
        is_channel_last(self._data_format, self.rank, type(self).__name__)
        deviation = math.sqrt(2.0 / (math.prod(self._kernel_size) * in_channels))
        shape = [out_channels, in_channels // groups, *self._kernel_size]
        self.weight = self.create_parameter(shape, weight_attr, self._dtype, default_initializer=init.Normal(0.0, deviation), device=device)
        self.bias = self.create_parameter([out_channels], bias_attr, self._dtype, is_bias=True, device=device)

    def forward(self, x: Tensor) -> Tensor:
        padding = self._padding
        if self._padding_mode != "zeros":
            x = F.pad(x, [padding] * (2 * self.rank), self._padding_mode, data_format=self._data_format)
            padding = 0
        convolve = getattr(F, self.function)
        return convolve(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)

    def extra_repr(self) -> str:
        text = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        if self._stride != [1] * self.rank:
            text += f", stride={self._stride}"
        if self._padding != 0:
            text += f", padding={self._padding}"
        if self._padding_mode != "zeros":
            text += f", padding_mode={self._padding_mode}"
        if self._dilation != [1] * self.rank:
            text += f", dilation={self._dilation}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        return f"{text}, data_format={self._data_format}"


@defaults(data_format="NCL")
class Conv1D(_Conv):
    """Convolution of [N, C, L]."""

    rank, function = 1, "conv1d"


class Conv2D(_Conv):
    """Convolution of [N, C, H, W]."""


@defaults(data_format="NCDHW")
class Conv3D(_Conv):
    """Convolution of [N, C, D, H, W]."""

    rank, function = 3, "conv3d"


class _ConvTranspose(Layer):
    """Filters [in, out / groups, *kernel], Xavier; bias [out], zeros."""

    rank = 2
    function = "conv2d_transpose"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ):
        super().__init__()
        self._dtype = default_dtype().name
        if weight_attr is False:
            raise AssertionError("weight_attr should not be False in Conv.")
        is_channel_last(data_format, self.rank, type(self).__name__)
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size = list(sizes_of(kernel_size, self.rank, "kernel_size"))
        self._stride = list(sizes_of(stride, self.rank, "stride"))
        self._dilation = list(sizes_of(dilation, self.rank, "dilation"))
        self._padding, self._data_format = padding, data_format
        self.output_padding = output_padding
        self.weight = self.create_parameter([in_channels, out_channels // groups, *self._kernel_size], weight_attr)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        convolve = getattr(F, self.function)
        made: Tensor = convolve(
            x, self.weight, self.bias, stride=self._stride, padding=self._padding,
            output_padding=self.output_padding if output_size is None else 0,
            dilation=self._dilation, groups=self._groups, output_size=output_size, data_format=self._data_format,
        )  # fmt: skip
        return made

    def extra_repr(self) -> str:
        text = f"{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}"
        if self._stride != [1] * self.rank:
            text += f", stride={self._stride}"
        if self._padding != 0:
            text += f", padding={self._padding}"
        if self.output_padding != 0:
            text += f", output_padding={self.output_padding}"
        if self._dilation != [1] * self.rank:
            text += f", dilation={self._dilation}"
        if self._groups != 1:
            text += f", groups={self._groups}"
        return f"{text}, data_format={self._data_format}"


class Conv1DTranspose(_ConvTranspose):
    """Transposed convolution of [N, C, L]."""

    rank, function = 1, "conv1d_transpose"

    # Of its own: only here `groups` stands before `dilation`.
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ):
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, weight_attr, bias_attr, data_format
        )


class Conv2DTranspose(_ConvTranspose):
    """Transposed convolution of [N, C, H, W]."""


@defaults(data_format="NCDHW")
class Conv3DTranspose(_ConvTranspose):
    """Transposed convolution of [N, C, D, H, W]."""

    rank, function = 3, "conv3d_transpose"
