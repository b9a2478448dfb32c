"""Random networks of convolutions of all kinds, products, norms, poolings and residuals, at odd and free sizes, as modules at `nn` level.
"""

from __future__ import annotations

import random
from typing import Any

import polyreme as paddle
from polyreme import nn
from polyreme.ir.builtin import Module
from polyreme.jit.saving import trace_model
from polyreme.static import InputSpec

CHANNELS = (3, 4, 7, 8, 16, 24, 32, 37, 48, 64, 96)
SIZES = (7, 14, 19, 28, 32, 40, 56, 65)
WIDTHS = (10, 33, 64, 96, 128)
ACTIVATIONS = (nn.ReLU, nn.Silu, nn.GELU, nn.Sigmoid, nn.Hardswish, nn.LeakyReLU, nn.Identity)


class Residual(nn.Layer):
    """Layers, and what goes in beside what comes out."""

    def __init__(self, layers: list[Any]):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


class Branches(nn.Layer):
    """Two layers of the same input, one behind the other's channels."""

    def __init__(self, left: Any, right: Any):
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x: Any) -> Any:
        return paddle.concat([self.left(x), self.right(x)], axis=1)


def _image(draw: random.Random, channels: int) -> tuple[list[Any], int]:
    """Layers on an image, and how many channels they give."""
    kind = draw.choice(
        (
            "conv",
            "conv",
            "conv",
            "depthwise",
            "depthwise",
            "pointwise",
            "grouped",
            "dilated",
            "transposed",
            "pool",
            "residual",
            "branches",
            "norm",
        )
    )
    wide = draw.choice(CHANNELS)
    stride, taps = draw.choice((1, 1, 2)), draw.choice((3, 3, 5, 7))
    act = draw.choice(ACTIVATIONS)()
    if kind == "conv":
        return [nn.Conv2D(channels, wide, taps, stride, taps // 2), act], wide
    if kind == "depthwise":
        times = draw.choice((1, 1, 2))
        return [nn.Conv2D(channels, channels * times, taps, stride, taps // 2, groups=channels), act], channels * times
    if kind == "pointwise":
        return [nn.Conv2D(channels, wide, 1), nn.BatchNorm2D(wide), act], wide
    if kind == "grouped":
        groups = next(g for g in (4, 2, 1) if channels % g == 0)
        wide = -(-wide // groups) * groups
        return [nn.Conv2D(channels, wide, 3, stride, 1, groups=groups), act], wide
    if kind == "dilated":
        return [nn.Conv2D(channels, wide, 3, 1, 2, dilation=2), act], wide
    if kind == "transposed":
        return [nn.Conv2DTranspose(channels, wide, draw.choice((2, 4)), 2, 0), act], wide
    if kind == "pool":
        return [draw.choice((nn.MaxPool2D, nn.AvgPool2D))(draw.choice((2, 3)), 2, 1 if draw.random() < 0.5 else 0)], channels
    if kind == "residual":
        return [Residual([nn.Conv2D(channels, wide, 3, 1, 1), act, nn.Conv2D(wide, channels, 3, 1, 1)])], channels
    if kind == "branches":
        return [Branches(nn.Conv2D(channels, wide, 1), nn.Conv2D(channels, wide, 3, 1, 1))], 2 * wide
    return [draw.choice((nn.BatchNorm2D(channels), nn.GroupNorm(1, channels)))], channels


def _words(draw: random.Random, width: int) -> tuple[list[Any], int]:
    """Layers on rows."""
    kind = draw.choice(("linear", "linear", "norm", "attention", "residual", "softmax"))
    wide = draw.choice(WIDTHS)
    if kind == "linear":
        return [nn.Linear(width, wide), draw.choice(ACTIVATIONS)()], wide
    if kind == "norm":
        return [nn.LayerNorm(width)], width
    if kind == "attention":
        return [nn.TransformerEncoderLayer(width, 1, wide, dropout=0.0)], width
    if kind == "residual":
        return [Residual([nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width)])], width
    return [nn.Softmax(-1)], width


def random_network(seed: int) -> tuple[Module, str]:
    """A module, its weights constants or arguments, and what becomes of these, as `pipeline` has it."""
    draw = random.Random(seed)
    paddle.seed(seed)
    images = draw.random() < 0.75
    width = draw.choice(CHANNELS if images else WIDTHS)
    free = draw.random() < 0.35
    batch = draw.choice((1, 1, 2, None))
    size = lambda choices: None if free else draw.choice(choices)
    shape = [batch, width, size(SIZES), size(SIZES)] if images else [batch, size((1, 5, 17, 64, 128)), width]
    layers: list[Any] = []
    for _ in range(draw.randint(1, 6)):
        more, width = (_image if images else _words)(draw, width)
        layers += more
    network = nn.Sequential(*layers)
    network.eval()
    traced = trace_model(network, [InputSpec(shape, "float32")])
    return (traced.frozen(), "") if draw.random() < 0.5 else (traced.module(), "always")
