"""SqueezeNet, the networks of Iandola and others (2016), as Paddle has them."""

from __future__ import annotations

from typing import Any

from polyreme.math.manipulation import concat, squeeze
from polyreme.nn import AdaptiveAvgPool2D, Conv2D, Dropout, Layer, MaxPool2D
from polyreme.nn import functional as F
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# By version: the first convolution (channels, kernel, padding), and after which of the eight fire modules the images are halved.
VERSIONS = {"1.0": ((96, 7, 0), (3, 7)), "1.1": ((64, 3, 1), (2, 4))}
# Channels of the fire modules: squeezed, and of each of the two halves of the output.
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))


class MakeFireConv(Layer):
    """A convolution and ReLU."""

    def __init__(self, input_channels: int, output_channels: int, filter_size: int, padding: int = 0):
        super().__init__()
        self._conv = Conv2D(input_channels, output_channels, filter_size, padding=padding)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self._conv(x))


class MakeFire(Layer):
    """Fewer channels by a 1 x 1 convolution, then a 1 x 1 and a 3 x 3 convolution of these side by side."""

    def __init__(self, input_channels: int, squeeze_channels: int, expand1x1_channels: int, expand3x3_channels: int):
        super().__init__()
        self._conv = MakeFireConv(input_channels, squeeze_channels, 1)
        self._conv_path1 = MakeFireConv(squeeze_channels, expand1x1_channels, 1)
        self._conv_path2 = MakeFireConv(squeeze_channels, expand3x3_channels, 3, padding=1)

    def forward(self, inputs: Tensor) -> Tensor:
        x = self._conv(inputs)
        return concat([self._conv_path1(x), self._conv_path2(x)], axis=1)


class SqueezeNet(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W] by version "1.0" or "1.1"; one score for each place of the image where `with_pool` is
    False.

    With `num_classes` 0 or less the features take the scores' place.
    """

    def __init__(self, version: str, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.version = version
        self.num_classes = num_classes
        self.with_pool = with_pool
        if version not in VERSIONS:
            raise AssertionError(f"SqueezeNet expected version '1.0' or '1.1' but got {version!r}")
        (channels, kernel, padding), self._pooled_after = VERSIONS[version]
        self._conv = Conv2D(3, channels, kernel, stride=2, padding=padding)
        self._pool = MaxPool2D(kernel_size=3, stride=2, padding=0)
        self._fires: list[Layer] = []
        for i, (squeezed, half) in enumerate(FIRES, 1):
            fire = MakeFire(channels, squeezed, half, half)
            self.add_sublayer(f"_conv{i}", fire)
            self._fires.append(fire)
            channels = 2 * half
        self._drop = Dropout(p=0.5, mode="downscale_in_infer")
        if num_classes > 0:
            self._conv9 = Conv2D(512, num_classes, 1)
        self._avg_pool = AdaptiveAvgPool2D(1)

    def forward(self, inputs: Tensor) -> Tensor:
        x: Tensor = self._pool(F.relu(self._conv(inputs)))
        for i, fire in enumerate(self._fires, 1):
            x = fire(x)
            if i in self._pooled_after:
                x = self._pool(x)
        if self.num_classes > 0:
            x = self._conv9(self._drop(x))
        if self.with_pool:
            x = squeeze(self._avg_pool(F.relu(x)), axis=[2, 3])
        return x


def squeezenet1_0(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet of version 1.0; keyword arguments go to `SqueezeNet`."""
    refuse_pretrained(pretrained, "squeezenet1_0")
    return SqueezeNet("1.0", **kwargs)


def squeezenet1_1(pretrained: bool = False, **kwargs: Any) -> SqueezeNet:
    """SqueezeNet of version 1.1, with less to compute; keyword arguments go to `SqueezeNet`."""
    refuse_pretrained(pretrained, "squeezenet1_1")
    return SqueezeNet("1.1", **kwargs)
