"""Scales from the largest magnitudes seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.nn.layer import Layer
from polyreme.quantization.base import ObserverFactory
from polyreme.quantization.observers.base import Array, ObserverLayer, check_bits


class AbsmaxObserver(ObserverFactory):
    """The largest magnitude seen: nothing is clipped, and one outlier makes all steps coarse."""

    def __init__(self, quant_bits: int = 8):
        super().__init__(quant_bits=check_bits(quant_bits))

    def _get_class(self) -> Any:
        return AbsmaxObserverLayer


class AbsmaxObserverLayer(ObserverLayer):
    """Keeps the largest magnitude."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8):
        super().__init__(quant_bits)
        self._max: Any = None

    def see(self, values: Array) -> None:
        peak = np.abs(values).max(initial=0)
        self._max = peak if self._max is None else np.maximum(self._max, peak)

    def thresholds(self) -> Array | None:
        return None if self._max is None else np.asarray(self._max)


class AVGObserver(ObserverFactory):
    """The mean of the largest magnitude of each batch."""

    def __init__(self, quant_bits: int = 8):
        super().__init__(quant_bits=check_bits(quant_bits))

    def _get_class(self) -> Any:
        return AVGObserverLayer


class AVGObserverLayer(ObserverLayer):
    """Keeps the largest magnitude of each batch."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8):
        super().__init__(quant_bits)
        self._peaks: list[float] = []

    def see(self, values: Array) -> None:
        self._peaks.append(float(np.abs(values).max(initial=0)))

    def thresholds(self) -> Array | None:
        return np.asarray(np.mean(self._peaks)) if self._peaks else None
