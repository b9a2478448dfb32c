"""MobileNet, the network of Howard and others (2017), as Paddle has it."""

from __future__ import annotations

from typing import Any

from polyreme.math.manipulation import flatten
from polyreme.nn import AdaptiveAvgPool2D, Layer, Linear
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained
from polyreme.vision.ops import ConvNormActivation

__all__ = ["MobileNetV1", "mobilenet_v1"]

# Name, channels in, channels out, and stride of each block, for a scale of 1.
BLOCKS = (
    ("conv2_1", 32, 64, 1),
    ("conv2_2", 64, 128, 2),
    ("conv3_1", 128, 128, 1),
    ("conv3_2", 128, 256, 2),
    ("conv4_1", 256, 256, 1),
    ("conv4_2", 256, 512, 2),
    ("conv5_1", 512, 512, 1),
    ("conv5_2", 512, 512, 1),
    ("conv5_3", 512, 512, 1),
    ("conv5_4", 512, 512, 1),
    ("conv5_5", 512, 512, 1),
    ("conv5_6", 512, 1024, 2),
    ("conv6", 1024, 1024, 1),
)


class DepthwiseSeparable(Layer):
    """A 3 x 3 convolution of each channel by itself, then a 1 x 1 convolution over the channels."""

    def __init__(self, in_channels: int, out_channels1: int, out_channels2: int, num_groups: int, stride: int, scale: float):
        super().__init__()
        middle = int(out_channels1 * scale)
        self._depthwise_conv = ConvNormActivation(in_channels, middle, 3, stride, padding=1, groups=int(num_groups * scale))
        self._pointwise_conv = ConvNormActivation(middle, int(out_channels2 * scale), 1, padding=0)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self._pointwise_conv(self._depthwise_conv(x))
        return out


class MobileNetV1(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W]; with `num_classes` 0 or less the features, averaged over the image unless
    `with_pool` is False.

    `scale` multiplies the numbers of channels.
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.conv1 = ConvNormActivation(3, int(32 * scale), 3, stride=2, padding=1)
        self.dwsl: list[Layer] = []
        for name, inputs, outputs, stride in BLOCKS:
            block = DepthwiseSeparable(int(inputs * scale), inputs, outputs, inputs, stride, scale)
            self.add_sublayer(name, block)
            self.dwsl.append(block)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.fc = Linear(int(1024 * scale), num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        for block in self.dwsl:
            x = block(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.fc(flatten(x, 1))
        return x


def mobilenet_v1(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV1:
    """MobileNet; keyword arguments go to `MobileNetV1`."""
    refuse_pretrained(pretrained, "mobilenet_v1")
    return MobileNetV1(scale=scale, **kwargs)
