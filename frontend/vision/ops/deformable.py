"""Deformable convolutions, as a function and a layer."""

from __future__ import annotations

from typing import Any

from polyreme.dtypes import default_dtype
from polyreme.math import add, cast, reshape
from polyreme.math.common import tensor_arg
from polyreme.math.programs import recorded
from polyreme.nn import Layer
from polyreme.nn import initializer as init
from polyreme.nn.functional.conv import sizes_of
from polyreme.regions.deformable import deformable_conv, result_type
from polyreme.tensor import Tensor

__all__ = ["DeformConv2D", "deform_conv2d"]


def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """The convolution [N, O, h, w] of images [N, C, H, W] with filters [O, C / groups, kh, kw] whose elements read between pixels.

    `offset` [N, 2 * deformable_groups * kh * kw, h, w] moves each of them down and to the right, `mask`
    [N, deformable_groups * kh * kw, h, w], if there is one, weights it (version 2). What is outside of the image is 0. Gradients reach
    everything.
    """
    for what, given in (("x", x), ("offset", offset), ("weight", weight)):
        tensor_arg(given, "deform_conv2d", what)
    dtype = x.dtype
    offset, weight = _wide(offset, dtype), _wide(weight, dtype)
    mask, bias = (None if given is None else _wide(given, dtype) for given in (mask, bias))
    steps, edges, apart = (sizes_of(v, 2, what) for v, what in ((stride, "stride"), (padding, "padding"), (dilation, "dilation")))
    kind = result_type(x, offset, weight, mask, steps, edges, apart, deformable_groups, groups)
    written = recorded(
        "deformable_conv_v1" if mask is None else "deformable_conv", {"Input": x, "Offset": offset, "Filter": weight, "Mask": mask},
        {"Output": kind}, {
            "strides": list(steps), "paddings": list(edges), "dilations": list(apart), "groups": groups,
            "deformable_groups": deformable_groups, "im2col_step": 1,
        },
    )  # fmt: skip
    if written is None:
        made = deformable_conv(x, offset, weight, mask, steps, edges, apart, deformable_groups, groups)
    else:
        (made,) = written
    return made if bias is None else add(made, reshape(bias, [1, -1, 1, 1]))


def _wide(x: Tensor, dtype: Any) -> Tensor:
    return cast(x, dtype) if x.dtype.name == "float16" else x


class DeformConv2D(Layer):
    """`deform_conv2d` with filters [out, in / groups, *kernel], normal with deviation sqrt(2 / (in * kernel elements)), and a bias
    [out], zeros.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ):
        super().__init__()
        assert weight_attr is not False, "weight_attr should not be False in Conv."
        self._dtype = default_dtype().name
        self._deformable_groups, self._groups = deformable_groups, groups
        self._in_channels, self._out_channels = in_channels, out_channels
        self._stride, self._padding, self._dilation, self._kernel_size = (
            list(sizes_of(v, 2, what))
            for v, what in ((stride, "stride"), (padding, "padding"), (dilation, "dilation"), (kernel_size, "kernel_size"))
        )
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups.")
        height, width = self._kernel_size
        deviation = (2.0 / (height * width * in_channels)) ** 0.5
        shape = [out_channels, in_channels // groups, height, width]
        self.weight = self.create_parameter(shape, weight_attr, default_initializer=init.Normal(0.0, deviation))
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(
            x, offset, self.weight, self.bias, self._stride, self._padding, self._dilation, self._deformable_groups, self._groups, mask
        )
