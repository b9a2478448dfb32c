"""MobileNetV3, the networks of Howard and others (2019), as Paddle has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from polyreme.math.manipulation import flatten
from polyreme.nn import AdaptiveAvgPool2D, BatchNorm2D, Conv2D, Dropout, Hardsigmoid, Hardswish, Layer, Linear, ReLU, Sequential, Sigmoid
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import make_divisible, refuse_pretrained
from polyreme.vision.ops import ConvNormActivation

__all__ = ["MobileNetV3Large", "MobileNetV3Small", "mobilenet_v3_large", "mobilenet_v3_small"]

# Of each block, for a scale of 1: channels in, kernel, channels inside, channels out, whether channels are weighed, activation, stride.
SMALL = (
    (16, 3, 16, 16, True, "relu", 2),
    (16, 3, 72, 24, False, "relu", 2),
    (24, 3, 88, 24, False, "relu", 1),
    (24, 5, 96, 40, True, "hardswish", 2),
    (40, 5, 240, 40, True, "hardswish", 1),
    (40, 5, 240, 40, True, "hardswish", 1),
    (40, 5, 120, 48, True, "hardswish", 1),
    (48, 5, 144, 48, True, "hardswish", 1),
    (48, 5, 288, 96, True, "hardswish", 2),
    (96, 5, 576, 96, True, "hardswish", 1),
    (96, 5, 576, 96, True, "hardswish", 1),
)
LARGE = (
    (16, 3, 16, 16, False, "relu", 1),
    (16, 3, 64, 24, False, "relu", 2),
    (24, 3, 72, 24, False, "relu", 1),
    (24, 5, 72, 40, True, "relu", 2),
    (40, 5, 120, 40, True, "relu", 1),
    (40, 5, 120, 40, True, "relu", 1),
    (40, 3, 240, 80, False, "hardswish", 2),
    (80, 3, 200, 80, False, "hardswish", 1),
    (80, 3, 184, 80, False, "hardswish", 1),
    (80, 3, 184, 80, False, "hardswish", 1),
    (80, 3, 480, 112, True, "hardswish", 1),
    (112, 3, 672, 112, True, "hardswish", 1),
    (112, 5, 672, 160, True, "hardswish", 2),
    (160, 5, 960, 160, True, "hardswish", 1),
    (160, 5, 960, 160, True, "hardswish", 1),
)
ACTIVATIONS: dict[str, Callable[..., Layer]] = {"relu": ReLU, "hardswish": Hardswish}


class SqueezeExcitation(Layer):
    """Each channel times a weight in [0, 1] that two 1 x 1 convolutions make of the channels' means."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., Layer] = ReLU,
        scale_activation: Callable[..., Layer] = Sigmoid,
    ):
        super().__init__()
        self.avgpool = AdaptiveAvgPool2D(1)
        self.fc1 = Conv2D(input_channels, squeeze_channels, 1)
        self.fc2 = Conv2D(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        weights: Tensor = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return weights * input


@dataclass(frozen=True)
class InvertedResidualConfig:
    """One block: `scale` multiplies the three numbers of channels, which are then made multiples of 8; `activation` is "relu" or
    "hardswish".
    """

    in_channels: int
    kernel: int
    expanded_channels: int
    out_channels: int
    use_se: bool
    activation: str
    stride: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise RuntimeError(f"expected the activation to be 'relu' or 'hardswish' but got {self.activation!r}")
        for name in ("in_channels", "expanded_channels", "out_channels"):
            object.__setattr__(self, name, make_divisible(getattr(self, name) * self.scale))

    @property
    def activation_layer(self) -> Callable[..., Layer]:
        return ACTIVATIONS[self.activation]


class InvertedResidual(Layer):
    """1 x 1 convolution to more channels, one of each channel, weighing of channels, 1 x 1 to fewer; the input is added where the shape
    allows.
    """

    def __init__(
        self,
        in_channels: int,
        expanded_channels: int,
        out_channels: int,
        filter_size: int,
        stride: int,
        use_se: bool,
        activation_layer: Callable[..., Layer],
        norm_layer: Callable[..., Layer],
    ):
        super().__init__()
        self.use_res_connect = stride == 1 and in_channels == out_channels
        self.use_se = use_se
        self.expand = in_channels != expanded_channels
        conv = partial(ConvNormActivation, norm_layer=norm_layer, activation_layer=activation_layer)
        if self.expand:
            self.expand_conv = conv(in_channels, expanded_channels, kernel_size=1)
        self.bottleneck_conv = conv(expanded_channels, expanded_channels, filter_size, stride, groups=expanded_channels)
        if use_se:
            self.mid_se = SqueezeExcitation(expanded_channels, make_divisible(expanded_channels // 4), scale_activation=Hardsigmoid)
        self.linear_conv = conv(expanded_channels, out_channels, kernel_size=1, activation_layer=None)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.bottleneck_conv(self.expand_conv(x) if self.expand else x)
        if self.use_se:
            out = self.mid_se(out)
        out = self.linear_conv(out)
        return x + out if self.use_res_connect else out


class MobileNetV3(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W] by blocks as `config` lists them; `last_channel` is the width of the hidden linear
    layer.

    With `num_classes` 0 or less the features, averaged over the image unless `with_pool` is False.
    """

    def __init__(
        self,
        config: Sequence[InvertedResidualConfig],
        last_channel: int,
        scale: float = 1.0,
        num_classes: int = 1000,
        with_pool: bool = True,
    ):
        super().__init__()
        self.config = config
        self.scale = scale
        self.last_channel = last_channel
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.firstconv_in_channels = config[0].in_channels
        self.lastconv_in_channels = config[-1].in_channels
        self.lastconv_out_channels = self.lastconv_in_channels * 6
        norm = partial(BatchNorm2D, epsilon=0.001, momentum=0.99)
        self.conv = ConvNormActivation(3, self.firstconv_in_channels, 3, stride=2, norm_layer=norm, activation_layer=Hardswish)
        self.blocks = Sequential(
            *(
                InvertedResidual(
                    c.in_channels, c.expanded_channels, c.out_channels, c.kernel, c.stride, c.use_se, c.activation_layer, norm
                )  # fmt: skip
                for c in config
            )
        )
        self.lastconv = ConvNormActivation(
            self.lastconv_in_channels, self.lastconv_out_channels, 1, norm_layer=norm, activation_layer=Hardswish
        )  # fmt: skip
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(self.lastconv_out_channels, last_channel),
                Hardswish(),
                Dropout(p=0.2),
                Linear(last_channel, num_classes),
            )

    def forward(self, x: Tensor) -> Tensor:
        x = self.lastconv(self.blocks(self.conv(x)))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(flatten(x, 1))
        return x


class MobileNetV3Small(MobileNetV3):
    """The smaller network: see `MobileNetV3`."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        super().__init__(_scaled(SMALL, scale), make_divisible(1024 * scale), scale, num_classes, with_pool)


class MobileNetV3Large(MobileNetV3):
    """The larger network: see `MobileNetV3`."""

    def __init__(self, scale: float = 1.0, num_classes: int = 1000, with_pool: bool = True):
        super().__init__(_scaled(LARGE, scale), make_divisible(1280 * scale), scale, num_classes, with_pool)


def _scaled(rows: Sequence[tuple[int, int, int, int, bool, str, int]], scale: float) -> list[InvertedResidualConfig]:
    return [InvertedResidualConfig(*row, scale) for row in rows]


def mobilenet_v3_small(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV3Small:
    """The smaller MobileNetV3; keyword arguments go to `MobileNetV3Small`."""
    refuse_pretrained(pretrained, "mobilenet_v3_small")
    return MobileNetV3Small(scale=scale, **kwargs)


def mobilenet_v3_large(pretrained: bool = False, scale: float = 1.0, **kwargs: Any) -> MobileNetV3Large:
    """The larger MobileNetV3; keyword arguments go to `MobileNetV3Large`."""
    refuse_pretrained(pretrained, "mobilenet_v3_large")
    return MobileNetV3Large(scale=scale, **kwargs)
