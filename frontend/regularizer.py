"""`paddle.regularizer`: penalties on weights, added to their gradients before an optimizer's update."""

from __future__ import annotations

from typing import Any

from polyreme.names import listed

__all__ = ["L1Decay", "L2Decay"]


class WeightDecayRegularizer:
    """A penalty; `gradient(p)` is what it adds to the gradient of `p` (arrays or tensors alike)."""

    def __init__(self, coeff: float = 0.0):
        self.coeff = float(coeff)

    def gradient(self, p: Any, xp: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}, coeff={self.coeff:f}"


class L1Decay(WeightDecayRegularizer):
    """`coeff * sum(|p|)`."""

    def gradient(self, p: Any, xp: Any) -> Any:
        return xp.sign(p) * self.coeff


class L2Decay(WeightDecayRegularizer):
    """`coeff / 2 * sum(p * p)`."""

    def gradient(self, p: Any, xp: Any) -> Any:
        return p * self.coeff


__dir__ = listed(__name__)
