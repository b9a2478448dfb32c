"""DenseNet, the networks of Huang and others (2016), as Paddle has them."""

from __future__ import annotations

import math
from typing import Any

from polyreme.math.manipulation import concat, flatten
from polyreme.nn import AdaptiveAvgPool2D, AvgPool2D, BatchNorm, Conv2D, Dropout, Layer, Linear, MaxPool2D
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained, uniform

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201", "densenet264"]

# By depth: channels before the first block, channels that each layer adds, and how many layers each of the four blocks has.
SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
    264: (64, 32, (6, 12, 64, 48)),
}


class BNACConvLayer(Layer):
    """Batch norm, activation, convolution."""

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: int, stride: int = 1, pad: int = 0, groups: int = 1, act: str = "relu"
    ):
        super().__init__()
        self._batch_norm = BatchNorm(num_channels, act=act)
        self._conv = Conv2D(num_channels, num_filters, filter_size, stride, pad, groups=groups, bias_attr=False)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self._conv(self._batch_norm(input))
        return out


class ConvBNLayer(Layer):
    """Convolution, batch norm, activation."""

    def __init__(
        self, num_channels: int, num_filters: int, filter_size: int, stride: int = 1, pad: int = 0, groups: int = 1, act: str = "relu"
    ):
        super().__init__()
        self._conv = Conv2D(num_channels, num_filters, filter_size, stride, pad, groups=groups, bias_attr=False)
        self._batch_norm = BatchNorm(num_filters, act=act)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self._batch_norm(self._conv(input))
        return out


class DenseLayer(Layer):
    """`growth_rate` further channels beside those of the input, through a bottleneck of `bn_size` times as many."""

    def __init__(self, num_channels: int, growth_rate: int, bn_size: int, dropout: float):
        super().__init__()
        self.dropout = dropout
        self.bn_ac_func1 = BNACConvLayer(num_channels, bn_size * growth_rate, filter_size=1)
        self.bn_ac_func2 = BNACConvLayer(bn_size * growth_rate, growth_rate, filter_size=3, pad=1)
        if dropout:
            self.dropout_func = Dropout(p=dropout, mode="downscale_in_infer")

    def forward(self, input: Tensor) -> Tensor:
        added = self.bn_ac_func2(self.bn_ac_func1(input))
        if self.dropout:
            added = self.dropout_func(added)
        return concat([input, added], axis=1)


class DenseBlock(Layer):
    """Dense layers one after the other, called `name`_1, `name`_2, …"""

    def __init__(self, num_channels: int, num_layers: int, bn_size: int, growth_rate: int, dropout: float, name: str | None = None):
        super().__init__()
        self.dropout = dropout
        self.dense_layer_func: list[Layer] = []
        for i in range(num_layers):
            layer = DenseLayer(num_channels + i * growth_rate, growth_rate, bn_size, dropout)
            self.add_sublayer(f"{name}_{i + 1}", layer)
            self.dense_layer_func.append(layer)

    def forward(self, input: Tensor) -> Tensor:
        for layer in self.dense_layer_func:
            input = layer(input)
        return input


class TransitionLayer(Layer):
    """Between blocks: fewer channels, and images of half the size."""

    def __init__(self, num_channels: int, num_output_features: int):
        super().__init__()
        self.conv_ac_func = BNACConvLayer(num_channels, num_output_features, filter_size=1)
        self.pool2d_avg = AvgPool2D(kernel_size=2, stride=2, padding=0)

    def forward(self, input: Tensor) -> Tensor:
        out: Tensor = self.pool2d_avg(self.conv_ac_func(input))
        return out


class DenseNet(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W]; with `num_classes` 0 or less the features, averaged over the image unless
    `with_pool` is False.

    `layers` is 121, 161, 169, 201 or 264.
    """

    def __init__(
        self, layers: int = 121, bn_size: int = 4, dropout: float = 0.0, num_classes: int = 1000, with_pool: bool = True
    ):  # fmt: skip
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        if layers not in SPECS:
            raise AssertionError(f"DenseNet expected layers to be {', '.join(map(str, SPECS))} but got {layers}")
        channels, growth_rate, self.block_config = SPECS[layers]
        self.conv1_func = ConvBNLayer(3, channels, filter_size=7, stride=2, pad=3)
        self.pool2d_max = MaxPool2D(kernel_size=3, stride=2, padding=1)
        self._stages: list[Layer] = []
        last = len(self.block_config) + 1
        for i, depth in enumerate(self.block_config, 2):
            self._add(f"db_conv_{i}", DenseBlock(channels, depth, bn_size, growth_rate, dropout, f"conv{i}"))
            channels += depth * growth_rate
            if i != last:
                self._add(f"tr_conv{i}_blk", TransitionLayer(channels, channels // 2))
                channels //= 2
        self.batch_norm = BatchNorm(channels, act="relu")
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.out = Linear(channels, num_classes, weight_attr=uniform(1.0 / math.sqrt(channels)))

    def _add(self, name: str, stage: Layer) -> None:
        self.add_sublayer(name, stage)
        self._stages.append(stage)

    def forward(self, input: Tensor) -> Tensor:
        x: Tensor = self.pool2d_max(self.conv1_func(input))
        for stage in self._stages:
            x = stage(x)
        x = self.batch_norm(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.out(flatten(x, 1))
        return x


def _densenet(layers: int, pretrained: bool, options: dict[str, Any]) -> DenseNet:
    refuse_pretrained(pretrained, f"densenet{layers}")
    return DenseNet(layers, **options)


def densenet121(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 121 layers; keyword arguments go to `DenseNet`."""
    return _densenet(121, pretrained, kwargs)


def densenet161(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 161 layers; keyword arguments go to `DenseNet`."""
    return _densenet(161, pretrained, kwargs)


def densenet169(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 169 layers; keyword arguments go to `DenseNet`."""
    return _densenet(169, pretrained, kwargs)


def densenet201(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 201 layers; keyword arguments go to `DenseNet`."""
    return _densenet(201, pretrained, kwargs)


def densenet264(pretrained: bool = False, **kwargs: Any) -> DenseNet:
    """DenseNet of 264 layers; keyword arguments go to `DenseNet`."""
    return _densenet(264, pretrained, kwargs)
