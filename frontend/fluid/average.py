"""`fluid.average`: means of what batches give."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["WeightedAverage"]


class WeightedAverage(Shown):
    """The mean of values, each counted as often as its weight says."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: Any) -> None:
        """Count `value`, a number or an array, `weight` times."""
        if not isinstance(value, (int, float, np.ndarray, np.generic)):
            raise ValueError("The 'value' must be a number(int, float) or a numpy ndarray.")
        if not isinstance(weight, (int, float, np.ndarray, np.generic)):
            raise ValueError("The 'weight' must be a number(int, float).")
        value, weight = np.asarray(value), np.asarray(weight)
        self.numerator = value * weight if self.numerator is None else self.numerator + value * weight
        self.denominator = weight if self.denominator is None else self.denominator + weight

    def eval(self) -> Any:
        """The mean so far."""
        if self.numerator is None or self.denominator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        made = self.numerator / self.denominator
        return made if made.ndim else made.item()


__dir__ = listed(__name__)
