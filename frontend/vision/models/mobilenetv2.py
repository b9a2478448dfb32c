"""MobileNetV2, the network of Sandler and others (2018), as Paddle has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.math.manipulation import flatten
from polyreme.nn import AdaptiveAvgPool2D, BatchNorm2D, Conv2D, Dropout, Layer, Linear, ReLU6, Sequential
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import make_divisible, refuse_pretrained
from polyreme.vision.ops import ConvNormActivation

__all__ = ["MobileNetV2", "mobilenet_v2"]

# Of each stage: how much wider its blocks are inside, channels for a scale of 1, number of blocks, and stride of the first of them.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class InvertedResidual(Layer):
    """1 x 1 convolution to `expand_ratio` times the channels, 3 x 3 of each channel, 1 x 1 to `oup` channels; the input is added where the
    shape allows.
    """

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: float, norm_layer: Callable[..., Layer] = BatchNorm2D):
        super().__init__()
        self.stride = stride
        if stride not in (1, 2):
            raise AssertionError(f"InvertedResidual expected a stride of 1 or 2 but got {stride}")
        hidden = int(round(inp * expand_ratio))
        self.use_res_connect = stride == 1 and inp == oup
        layers: list[Layer] = []
        if expand_ratio != 1:
            layers.append(ConvNormActivation(inp, hidden, kernel_size=1, norm_layer=norm_layer, activation_layer=ReLU6))
        layers += [
            ConvNormActivation(hidden, hidden, stride=stride, groups=hidden, norm_layer=norm_layer, activation_layer=ReLU6),
            Conv2D(hidden, oup, 1, 1, 0, bias_attr=False),
            norm_layer(oup),
        ]
        self.conv = Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x + out if self.use_res_connect else out


class MobileNetV2(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W]; with `num_classes` 0 or less the features, averaged over the image unless
    `with_pool` is False.

    `scale` multiplies the numbers of channels, which are then made multiples of 8.
    """

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        channels = make_divisible(32 * scale)
        self.last_channel = make_divisible(1280 * max(1.0, scale))
        layers: list[Layer] = [ConvNormActivation(3, channels, stride=2, activation_layer=ReLU6)]
        for expand, width, repeats, stride in STAGES:
            outputs = make_divisible(width * scale)
            for i in range(repeats):
                layers.append(InvertedResidual(channels, outputs, stride if i == 0 else 1, expand_ratio=expand))
                channels = outputs
        layers.append(ConvNormActivation(channels, self.last_channel, kernel_size=1, activation_layer=ReLU6))
        self.features = Sequential(*layers)
        if with_pool:
            self.pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(Dropout(0.2), Linear(self.last_channel, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.with_pool:
            x = self.pool2d_avg(x)
        if self.num_classes > 0:
            x = self.classifier(flatten(x, 1))
        return x


def mobilenet_v2(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV2:
    """MobileNetV2; keyword arguments go to `MobileNetV2`."""
    refuse_pretrained(pretrained, "mobilenet_v2")
    return MobileNetV2(scale=scale, **kwargs)
