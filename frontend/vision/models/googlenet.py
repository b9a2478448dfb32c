"""GoogLeNet, the network of Szegedy and others (2014), as Paddle has it."""

from __future__ import annotations

from typing import Any

from polyreme.math.manipulation import concat, flatten, squeeze
from polyreme.nn import AdaptiveAvgPool2D, AvgPool2D, Conv2D, Dropout, Layer, Linear, MaxPool2D
from polyreme.nn import functional as F
from polyreme.nn.attributes import ParamAttr
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained, uniform

__all__ = ["GoogLeNet", "googlenet"]


def xavier(channels: int, filter_size: int) -> ParamAttr:
    """First values drawn evenly from an interval of variance 1 / (channels * filter_size ** 2)."""
    return uniform((3.0 / (filter_size**2 * channels)) ** 0.5)


class ConvLayer(Layer):
    """A convolution without bias that keeps the size for stride 1."""

    def __init__(self, num_channels: int, num_filters: int, filter_size: int, stride: int = 1, groups: int = 1):
        super().__init__()
        self._conv = Conv2D(num_channels, num_filters, filter_size, stride, (filter_size - 1) // 2, groups=groups, bias_attr=False)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self._conv(inputs)
        return out


class Inception(Layer):
    """Convolutions of sizes 1, 3 and 5 and a pool side by side, of `filter1`, `filter3`, `filter5` and `proj` channels; R stands for
    reduced.
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter1: int,
        filter3R: int,
        filter3: int,
        filter5R: int,
        filter5: int,
        proj: int,
    ):
        super().__init__()
        self._conv1 = ConvLayer(input_channels, filter1, 1)
        self._conv3r = ConvLayer(input_channels, filter3R, 1)
        self._conv3 = ConvLayer(filter3R, filter3, 3)
        self._conv5r = ConvLayer(input_channels, filter5R, 1)
        self._conv5 = ConvLayer(filter5R, filter5, 5)
        self._pool = MaxPool2D(kernel_size=3, stride=1, padding=1)
        self._convprj = ConvLayer(input_channels, proj, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        three = self._conv3(self._conv3r(inputs))
        five = self._conv5(self._conv5r(inputs))
        return F.relu(concat([self._conv1(inputs), three, five, self._convprj(self._pool(inputs))], axis=1))


class GoogLeNet(Layer):
    """Three scores [N, num_classes] for images [N, 3, 224, 224]: of the last features, and of two places on the way to them, which help
    training.

    With `num_classes` 0 or less the features of the three places, pooled unless `with_pool` is False.
    """

    def __init__(self, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.num_classes = num_classes
        self.with_pool = with_pool
        self._conv = ConvLayer(3, 64, 7, 2)
        self._pool = MaxPool2D(kernel_size=3, stride=2)
        self._conv_1 = ConvLayer(64, 64, 1)
        self._conv_2 = ConvLayer(64, 192, 3)
        self._ince3a = Inception(192, 192, 64, 96, 128, 16, 32, 32)
        self._ince3b = Inception(256, 256, 128, 128, 192, 32, 96, 64)
        self._ince4a = Inception(480, 480, 192, 96, 208, 16, 48, 64)
        self._ince4b = Inception(512, 512, 160, 112, 224, 24, 64, 64)
        self._ince4c = Inception(512, 512, 128, 128, 256, 24, 64, 64)
        self._ince4d = Inception(512, 512, 112, 144, 288, 32, 64, 64)
        self._ince4e = Inception(528, 528, 256, 160, 320, 32, 128, 128)
        self._ince5a = Inception(832, 832, 256, 160, 320, 32, 128, 128)
        self._ince5b = Inception(832, 832, 384, 192, 384, 48, 128, 128)
        if with_pool:
            self._pool_5 = AdaptiveAvgPool2D(1)
            self._pool_o1 = AvgPool2D(kernel_size=5, stride=3)
            self._pool_o2 = AvgPool2D(kernel_size=5, stride=3)
        if num_classes > 0:
            self._drop = Dropout(p=0.4, mode="downscale_in_infer")
            self._fc_out = Linear(1024, num_classes, weight_attr=xavier(1024, 1))
            self._conv_o1 = ConvLayer(512, 128, 1)
            self._fc_o1 = Linear(1152, 1024, weight_attr=xavier(2048, 1))
            self._drop_o1 = Dropout(p=0.7, mode="downscale_in_infer")
            self._out1 = Linear(1024, num_classes, weight_attr=xavier(1024, 1))
            self._conv_o2 = ConvLayer(528, 128, 1)
            self._fc_o2 = Linear(1152, 1024, weight_attr=xavier(2048, 1))
            self._drop_o2 = Dropout(p=0.7, mode="downscale_in_infer")
            self._out2 = Linear(1024, num_classes, weight_attr=xavier(1024, 1))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self._pool(self._conv(inputs))
        x = self._pool(self._conv_2(self._conv_1(x)))
        x = self._pool(self._ince3b(self._ince3a(x)))
        out1: Tensor = self._ince4a(x)
        out2: Tensor = self._ince4d(self._ince4c(self._ince4b(out1)))
        x = self._pool(self._ince4e(out2))
        out: Tensor = self._ince5b(self._ince5a(x))
        if self.with_pool:
            out, out1, out2 = self._pool_5(out), self._pool_o1(out1), self._pool_o2(out2)
        if self.num_classes > 0:
            out = self._fc_out(squeeze(self._drop(out), axis=[2, 3]))
            out1 = F.relu(self._fc_o1(flatten(self._conv_o1(out1), 1)))
            out1 = self._out1(self._drop_o1(out1))
            # Paddle has no activation here, as it has one line above.
            out2 = self._fc_o2(flatten(self._conv_o2(out2), 1))
            out2 = self._out2(self._drop_o2(out2))
        return out, out1, out2


def googlenet(pretrained: bool = False, **kwargs: Any) -> GoogLeNet:
    """GoogLeNet; keyword arguments go to `GoogLeNet`."""
    refuse_pretrained(pretrained, "googlenet")
    return GoogLeNet(**kwargs)
