"""VGG, the networks of Simonyan and Zisserman (2014), as Paddle has them."""

from __future__ import annotations

from typing import Any

from polyreme.math.manipulation import flatten
from polyreme.nn import AdaptiveAvgPool2D, BatchNorm2D, Conv2D, Dropout, Layer, Linear, MaxPool2D, ReLU, Sequential
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained

__all__ = ["VGG", "vgg11", "vgg13", "vgg16", "vgg19"]

# By depth: how many 3 x 3 convolutions each of the five stages has. After each stage the images are halved.
STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
CHANNELS = (64, 128, 256, 512, 512)


class VGG(Layer):
    """Scores [N, num_classes] of what `features` makes of images: [N, 512, h, w], brought to 7 x 7 unless `with_pool` is False.

    With `num_classes` 0 or less the features themselves.
    """

    def __init__(self, features: Layer, num_classes: int = 1000, with_pool: bool = True):
        super().__init__()
        self.features = features
        self.num_classes = num_classes
        self.with_pool = with_pool
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((7, 7))
        if num_classes > 0:
            self.classifier = Sequential(
                Linear(512 * 7 * 7, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, 4096),
                ReLU(),
                Dropout(),
                Linear(4096, num_classes),
            )

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.classifier(flatten(x, 1))
        return x


def _features(depth: int, batch_norm: bool) -> Sequential:
    layers: list[Layer] = []
    channels = 3
    for repeats, width in zip(STAGES[depth], CHANNELS):
        for _ in range(repeats):
            layers.append(Conv2D(channels, width, kernel_size=3, padding=1))
            if batch_norm:
                layers.append(BatchNorm2D(width))
            layers.append(ReLU())
            channels = width
        layers.append(MaxPool2D(kernel_size=2, stride=2))
    return Sequential(*layers)


def _vgg(depth: int, pretrained: bool, batch_norm: bool, options: dict[str, Any]) -> VGG:
    refuse_pretrained(pretrained, f"vgg{depth}")
    return VGG(_features(depth, batch_norm), **options)


def vgg11(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 11 layers with weights; keyword arguments go to `VGG`."""
    return _vgg(11, pretrained, batch_norm, kwargs)


def vgg13(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 13 layers with weights; keyword arguments go to `VGG`."""
    return _vgg(13, pretrained, batch_norm, kwargs)


def vgg16(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 16 layers with weights; keyword arguments go to `VGG`."""
    return _vgg(16, pretrained, batch_norm, kwargs)


def vgg19(pretrained: bool = False, batch_norm: bool = False, **kwargs: Any) -> VGG:
    """VGG of 19 layers with weights; keyword arguments go to `VGG`."""
    return _vgg(19, pretrained, batch_norm, kwargs)
