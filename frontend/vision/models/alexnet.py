"""AlexNet, the network of Krizhevsky, Sutskever and Hinton (2012), as Paddle has it."""

from __future__ import annotations

import math
from typing import Any

from polyreme.math.manipulation import flatten
from polyreme.nn import Conv2D, Dropout, Layer, Linear, MaxPool2D, ReLU
from polyreme.nn import functional as F
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained, uniform

__all__ = ["AlexNet", "alexnet"]


class ConvPoolLayer(Layer):
    """A convolution, ReLU where `act` says so, and the largest of each 3 x 3 window two apart."""

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_size: int,
        stride: int,
        padding: int,
        stdv: float,
        groups: int = 1,
        act: str | None = None,
    ):
        super().__init__()
        self.relu = ReLU() if act == "relu" else None
        self._conv = Conv2D(
            input_channels, output_channels, filter_size, stride, padding, groups=groups, weight_attr=uniform(stdv), bias_attr=uniform(stdv)
        )  # fmt: skip
        self._pool = MaxPool2D(kernel_size=3, stride=2, padding=0)

    def forward(self, inputs: Tensor) -> Tensor:
        x: Tensor = self._conv(inputs)
        if self.relu is not None:
            x = self.relu(x)
        pooled: Tensor = self._pool(x)
        return pooled


class AlexNet(Layer):
    """Scores [N, num_classes] for images [N, 3, 224, 224]; with `num_classes` 0 or less the features [N, 256, 6, 6]."""

    def __init__(self, num_classes: int = 1000):
        super().__init__()
        self.num_classes = num_classes
        self._conv1 = ConvPoolLayer(3, 64, 11, 4, 2, _bound(3 * 11 * 11), act="relu")
        self._conv2 = ConvPoolLayer(64, 192, 5, 1, 2, _bound(64 * 5 * 5), act="relu")
        self._conv3 = _convolution(192, 384)
        self._conv4 = _convolution(384, 256)
        self._conv5 = ConvPoolLayer(256, 256, 3, 1, 1, _bound(256 * 3 * 3), act="relu")
        if num_classes > 0:
            bound = _bound(256 * 6 * 6)
            self._drop1 = Dropout(p=0.5, mode="downscale_in_infer")
            self._fc6 = Linear(256 * 6 * 6, 4096, uniform(bound), uniform(bound))
            self._drop2 = Dropout(p=0.5, mode="downscale_in_infer")
            self._fc7 = Linear(4096, 4096, uniform(bound), uniform(bound))
            self._fc8 = Linear(4096, num_classes, uniform(bound), uniform(bound))

    def forward(self, inputs: Tensor) -> Tensor:
        x: Tensor = self._conv2(self._conv1(inputs))
        x = F.relu(self._conv3(x))
        x = F.relu(self._conv4(x))
        x = self._conv5(x)
        if self.num_classes > 0:
            x = F.relu(self._fc6(self._drop1(flatten(x, 1))))
            x = F.relu(self._fc7(self._drop2(x)))
            x = self._fc8(x)
        return x


def _bound(inputs: int) -> float:
    return 1.0 / math.sqrt(inputs)


def _convolution(input_channels: int, output_channels: int) -> Conv2D:
    bound = _bound(input_channels * 3 * 3)
    return Conv2D(input_channels, output_channels, 3, stride=1, padding=1, weight_attr=uniform(bound), bias_attr=uniform(bound))


def alexnet(pretrained: bool = False, **kwargs: Any) -> AlexNet:
    """AlexNet; keyword arguments go to `AlexNet`."""
    refuse_pretrained(pretrained, "alexnet")
    return AlexNet(**kwargs)
