"""ShuffleNetV2, the networks of Ma and others (2018), as Paddle has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from polyreme.math.manipulation import concat, flatten, reshape, split, transpose
from polyreme.nn import AdaptiveAvgPool2D, Layer, Linear, MaxPool2D, ReLU, Swish
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained
from polyreme.vision.ops import ConvNormActivation

__all__ = [
    "ShuffleNetV2", "shufflenet_v2_swish", "shufflenet_v2_x0_25", "shufflenet_v2_x0_33", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0",
]  # fmt: skip

# By scale: channels after the first convolution, after each of the three stages, and after the last convolution.
CHANNELS = {
    0.25: (24, 24, 48, 96, 512),
    0.33: (24, 32, 64, 128, 512),
    0.5: (24, 48, 96, 192, 1024),
    1.0: (24, 116, 232, 464, 1024),
    1.5: (24, 176, 352, 704, 1024),
    2.0: (24, 224, 488, 976, 2048),
}
REPEATS = (4, 8, 4)
ACTIVATIONS: dict[str | None, Callable[..., Layer] | None] = {"relu": ReLU, "swish": Swish, None: None}


def _interleave(left: Tensor, right: Tensor) -> Tensor:
    """Channels of both by turns: [N, C, H, W] twice to [N, 2 C, H, W]."""
    n, c, h, w = left.shape
    pairs = transpose(reshape(concat([left, right], axis=1), [n, 2, c, h, w]), [0, 2, 1, 3, 4])
    return reshape(pairs, [n, 2 * c, h, w])


class InvertedResidual(Layer):
    """One half of the channels goes through three convolutions, the other past them."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, activation_layer: Callable[..., Layer] | None = ReLU):
        super().__init__()
        half = out_channels // 2
        conv = partial(ConvNormActivation, activation_layer=activation_layer)
        self._conv_pw = conv(in_channels // 2, half, kernel_size=1)
        self._conv_dw = conv(half, half, stride=stride, groups=half, activation_layer=None)
        self._conv_linear = conv(half, half, kernel_size=1)

    def forward(self, inputs: Tensor) -> Tensor:
        kept, changed = split(inputs, 2, axis=1)
        return _interleave(kept, self._conv_linear(self._conv_dw(self._conv_pw(changed))))


class InvertedResidualDS(Layer):
    """The first block of a stage: both halves of the output come of all channels, at half the size."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, activation_layer: Callable[..., Layer] | None = ReLU):
        super().__init__()
        half = out_channels // 2
        conv = partial(ConvNormActivation, activation_layer=activation_layer)
        self._conv_dw_1 = conv(in_channels, in_channels, stride=stride, groups=in_channels, activation_layer=None)
        self._conv_linear_1 = conv(in_channels, half, kernel_size=1)
        self._conv_pw_2 = conv(in_channels, half, kernel_size=1)
        self._conv_dw_2 = conv(half, half, stride=stride, groups=half, activation_layer=None)
        self._conv_linear_2 = conv(half, half, kernel_size=1)

    def forward(self, inputs: Tensor) -> Tensor:
        left = self._conv_linear_1(self._conv_dw_1(inputs))
        right = self._conv_linear_2(self._conv_dw_2(self._conv_pw_2(inputs)))
        return _interleave(left, right)


class ShuffleNetV2(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W]; with `num_classes` 0 or less the features, averaged over the image unless
    `with_pool` is False.

    `scale` is 0.25, 0.33, 0.5, 1.0, 1.5 or 2.0; `act` is "relu", "swish" or None.
    """

    def __init__(self, scale: float = 1.0, act: str | None = "relu", num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.scale = scale
        self.num_classes = num_classes
        self.with_pool = with_pool
        if act not in ACTIVATIONS:
            raise RuntimeError(f"ShuffleNetV2 expected act to be 'relu', 'swish' or None but got {act!r}")
        if scale not in CHANNELS:
            raise NotImplementedError(f"ShuffleNetV2 expected a scale of {', '.join(map(str, CHANNELS))} but got {scale}")
        activation = ACTIVATIONS[act]
        first, *stages, last = CHANNELS[scale]
        self._conv1 = ConvNormActivation(3, first, stride=2, activation_layer=activation)
        self._max_pool = MaxPool2D(kernel_size=3, stride=2, padding=1)
        self._block_list: list[Layer] = []
        channels = first
        for number, (repeats, outputs) in enumerate(zip(REPEATS, stages), 2):
            for i in range(repeats):
                block: Layer
                if i == 0:
                    block = InvertedResidualDS(channels, outputs, 2, activation)
                else:
                    block = InvertedResidual(outputs, outputs, 1, activation)
                self.add_sublayer(f"{number}_{i + 1}", block)
                self._block_list.append(block)
            channels = outputs
        self._last_conv = ConvNormActivation(channels, last, kernel_size=1, activation_layer=activation)
        if with_pool:
            self._pool2d_avg = AdaptiveAvgPool2D(1)
        if num_classes > 0:
            self._fc = Linear(last, num_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        x: Tensor = self._max_pool(self._conv1(inputs))
        for block in self._block_list:
            x = block(x)
        x = self._last_conv(x)
        if self.with_pool:
            x = self._pool2d_avg(x)
        if self.num_classes > 0:
            x = self._fc(flatten(x, 1))
        return x


def shufflenet_v2_x0_25(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 0.25; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_x0_25")
    return ShuffleNetV2(scale=0.25, **kwargs)


def shufflenet_v2_x0_33(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 0.33; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_x0_33")
    return ShuffleNetV2(scale=0.33, **kwargs)


def shufflenet_v2_x0_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 0.5; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_x0_5")
    return ShuffleNetV2(scale=0.5, **kwargs)


def shufflenet_v2_x1_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 1; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_x1_0")
    return ShuffleNetV2(scale=1.0, **kwargs)


def shufflenet_v2_x1_5(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 1.5; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_x1_5")
    return ShuffleNetV2(scale=1.5, **kwargs)


def shufflenet_v2_x2_0(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 2; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_x2_0")
    return ShuffleNetV2(scale=2.0, **kwargs)


def shufflenet_v2_swish(pretrained: bool = False, **kwargs: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of scale 1 with Swish in the place of ReLU; keyword arguments go to `ShuffleNetV2`."""
    refuse_pretrained(pretrained, "shufflenet_v2_swish")
    return ShuffleNetV2(scale=1.0, act="swish", **kwargs)
