"""Inception v3, the network of Szegedy and others (2015), as Paddle has it."""

from __future__ import annotations

import math
from typing import Any

from polyreme.math.manipulation import concat, reshape
from polyreme.nn import AdaptiveAvgPool2D, AvgPool2D, Dropout, Layer, LayerList, Linear, MaxPool2D
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained, uniform
from polyreme.vision.ops import ConvNormActivation

__all__ = ["InceptionV3", "inception_v3"]


def _conv(in_channels: int, out_channels: int, kernel_size: Any, stride: int = 1, padding: Any = 0) -> ConvNormActivation:
    return ConvNormActivation(in_channels, out_channels, kernel_size, stride, padding)


class InceptionStem(Layer):
    """[N, 3, 299, 299] to [N, 192, 35, 35]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1a_3x3 = _conv(3, 32, 3, stride=2)
        self.conv_2a_3x3 = _conv(32, 32, 3)
        self.conv_2b_3x3 = _conv(32, 64, 3, padding=1)
        self.max_pool = MaxPool2D(kernel_size=3, stride=2, padding=0)
        self.conv_3b_1x1 = _conv(64, 80, 1)
        self.conv_4a_3x3 = _conv(80, 192, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.max_pool(self.conv_2b_3x3(self.conv_2a_3x3(self.conv_1a_3x3(x))))
        out: Tensor = self.max_pool(self.conv_4a_3x3(self.conv_3b_1x1(x)))
        return out


class InceptionA(Layer):
    """Kernels of 1, 5 and twice 3, and a pool, side by side: [N, num_channels, h, w] to [N, 224 + pool_features, h, w]."""

    def __init__(self, num_channels: int, pool_features: int):
        super().__init__()
        self.branch1x1 = _conv(num_channels, 64, 1)
        self.branch5x5_1 = _conv(num_channels, 48, 1)
        self.branch5x5_2 = _conv(48, 64, 5, padding=2)
        self.branch3x3dbl_1 = _conv(num_channels, 64, 1)
        self.branch3x3dbl_2 = _conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = _conv(96, 96, 3, padding=1)
        self.branch_pool = AvgPool2D(kernel_size=3, stride=1, padding=1, exclusive=False)
        self.branch_pool_conv = _conv(num_channels, pool_features, 1)

    def forward(self, x: Tensor) -> Tensor:
        five = self.branch5x5_2(self.branch5x5_1(x))
        three = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pooled = self.branch_pool_conv(self.branch_pool(x))
        return concat([self.branch1x1(x), five, three, pooled], axis=1)


class InceptionB(Layer):
    """Halves the size: [N, num_channels, h, w] to [N, 480 + num_channels, h / 2, w / 2]."""

    def __init__(self, num_channels: int):
        super().__init__()
        self.branch3x3 = _conv(num_channels, 384, 3, stride=2)
        self.branch3x3dbl_1 = _conv(num_channels, 64, 1)
        self.branch3x3dbl_2 = _conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = _conv(96, 96, 3, stride=2)
        self.branch_pool = MaxPool2D(kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return concat([self.branch3x3(x), double, self.branch_pool(x)], axis=1)


class InceptionC(Layer):
    """Kernels of 7 as pairs of 1 x 7 and 7 x 1, once and twice: [N, num_channels, h, w] to [N, 768, h, w]."""

    def __init__(self, num_channels: int, channels_7x7: int):
        super().__init__()
        row: dict[str, Any] = {"kernel_size": (1, 7), "padding": (0, 3)}
        column: dict[str, Any] = {"kernel_size": (7, 1), "padding": (3, 0)}
        self.branch1x1 = _conv(num_channels, 192, 1)
        self.branch7x7_1 = _conv(num_channels, channels_7x7, 1)
        self.branch7x7_2 = _conv(channels_7x7, channels_7x7, **row)
        self.branch7x7_3 = _conv(channels_7x7, 192, **column)
        self.branch7x7dbl_1 = _conv(num_channels, channels_7x7, 1)
        self.branch7x7dbl_2 = _conv(channels_7x7, channels_7x7, **column)
        self.branch7x7dbl_3 = _conv(channels_7x7, channels_7x7, **row)
        self.branch7x7dbl_4 = _conv(channels_7x7, channels_7x7, **column)
        self.branch7x7dbl_5 = _conv(channels_7x7, 192, **row)
        self.branch_pool = AvgPool2D(kernel_size=3, stride=1, padding=1, exclusive=False)
        self.branch_pool_conv = _conv(num_channels, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        once = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        twice = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        twice = self.branch7x7dbl_5(self.branch7x7dbl_4(twice))
        pooled = self.branch_pool_conv(self.branch_pool(x))
        return concat([self.branch1x1(x), once, twice, pooled], axis=1)


class InceptionD(Layer):
    """Halves the size: [N, num_channels, h, w] to [N, 512 + num_channels, h / 2, w / 2]."""

    def __init__(self, num_channels: int):
        super().__init__()
        self.branch3x3_1 = _conv(num_channels, 192, 1)
        self.branch3x3_2 = _conv(192, 320, 3, stride=2)
        self.branch7x7x3_1 = _conv(num_channels, 192, 1)
        self.branch7x7x3_2 = _conv(192, 192, (1, 7), padding=(0, 3))
        self.branch7x7x3_3 = _conv(192, 192, (7, 1), padding=(3, 0))
        self.branch7x7x3_4 = _conv(192, 192, 3, stride=2)
        self.branch_pool = MaxPool2D(kernel_size=3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        three = self.branch3x3_2(self.branch3x3_1(x))
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return concat([three, seven, self.branch_pool(x)], axis=1)


class InceptionE(Layer):
    """Kernels of 3 that end in 1 x 3 beside 3 x 1: [N, num_channels, h, w] to [N, 2048, h, w]."""

    def __init__(self, num_channels: int):
        super().__init__()
        self.branch1x1 = _conv(num_channels, 320, 1)
        self.branch3x3_1 = _conv(num_channels, 384, 1)
        self.branch3x3_2a = _conv(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3_2b = _conv(384, 384, (3, 1), padding=(1, 0))
        self.branch3x3dbl_1 = _conv(num_channels, 448, 1)
        self.branch3x3dbl_2 = _conv(448, 384, 3, padding=1)
        self.branch3x3dbl_3a = _conv(384, 384, (1, 3), padding=(0, 1))
        self.branch3x3dbl_3b = _conv(384, 384, (3, 1), padding=(1, 0))
        self.branch_pool = AvgPool2D(kernel_size=3, stride=1, padding=1, exclusive=False)
        self.branch_pool_conv = _conv(num_channels, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        once = self.branch3x3_1(x)
        twice = self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pooled = self.branch_pool_conv(self.branch_pool(x))
        parts = [self.branch3x3_2a(once), self.branch3x3_2b(once), self.branch3x3dbl_3a(twice), self.branch3x3dbl_3b(twice)]
        return concat([self.branch1x1(x), *parts, pooled], axis=1)


class InceptionV3(Layer):
    """Scores [N, num_classes] for images [N, 3, 299, 299]; with `num_classes` 0 or less the features, averaged over the image unless
    `with_pool` is False.
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.inception_stem = InceptionStem()
        self.inception_block_list = LayerList(
            [
                InceptionA(192, 32),
                InceptionA(256, 64),
                InceptionA(288, 64),
                InceptionB(288),
                InceptionC(768, 128),
                InceptionC(768, 160),
                InceptionC(768, 160),
                InceptionC(768, 192),
                InceptionD(768),
                InceptionE(1280),
                InceptionE(2048),
            ]
        )
        if with_pool:
            self.avg_pool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.dropout = Dropout(p=0.2, mode="downscale_in_infer")
            self.fc = Linear(2048, num_classes, weight_attr=uniform(1.0 / math.sqrt(2048)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.inception_stem(x)
        for block in self.inception_block_list:
            x = block(x)
        if self.with_pool:
            x = self.avg_pool(x)
        if self.num_classes > 0:
            x = self.fc(self.dropout(reshape(x, [-1, 2048])))
        return x


def inception_v3(pretrained: bool = False, **kwargs: Any) -> InceptionV3:
    """Inception v3; keyword arguments go to `InceptionV3`."""
    refuse_pretrained(pretrained, "inception_v3")
    return InceptionV3(**kwargs)
