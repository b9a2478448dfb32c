"""A convolution with what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.nn import BatchNorm2D, Conv2D, Layer, ReLU, Sequential

__all__ = ["ConvNormActivation"]


class ConvNormActivation(Sequential):
    """A convolution of [N, C, H, W], then a norm layer and an activation, each of them left out for None.

    `norm_layer` is called with the number of channels, `activation_layer` with nothing. With `padding` None the size is kept for stride 1
    and odd kernels; `bias` None gives the convolution a bias only where no norm layer follows.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Callable[..., Layer] | None = BatchNorm2D,
        activation_layer: Callable[..., Layer] | None = ReLU,
        dilation: int = 1,
        bias: bool | None = None,
    ):
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        if bias is None:
            bias = norm_layer is None
        # An attribute of None asks for the default bias.
        bias_attr = None if bias else False
        layers: list[Layer] = [Conv2D(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias_attr=bias_attr)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer())
        super().__init__(*layers)
