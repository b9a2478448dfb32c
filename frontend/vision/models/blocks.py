"""What the families of models share."""

from __future__ import annotations

from polyreme.nn.attributes import ParamAttr
from polyreme.nn.initializer import Uniform

__all__ = ["make_divisible", "refuse_pretrained", "uniform"]


def refuse_pretrained(pretrained: bool, model: str) -> None:
    """ValueError where trained weights are asked for: none come with the package, and nothing is downloaded."""
    if pretrained:
        raise ValueError(
            f"expected pretrained=False for {model} but got {pretrained!r}: "
            "no trained weights come with the package and nothing is downloaded; fetch Paddle's file of them and load it: "
            f"net = {model}(); net.set_state_dict(paddle.load('{model}.pdparams'))"
        )


def make_divisible(channels: float, divisor: int = 8, least: int | None = None) -> int:
    """The multiple of `divisor` nearest to `channels`, not below `least` (by default `divisor`) nor more than a tenth below `channels`."""
    rounded = max(divisor if least is None else least, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def uniform(bound: float) -> ParamAttr:
    """First values drawn evenly from [-bound, bound)."""
    return ParamAttr(initializer=Uniform(-bound, bound))
