"""Scales that clip what is rare, chosen from how often magnitudes occur."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.nn.layer import Layer
from polyreme.quantization.base import ObserverFactory
from polyreme.quantization.histogram import Histogram
from polyreme.quantization.observers.base import Array, ObserverLayer, check_bits


class HistogramObserverLayer(ObserverLayer):
    """Counts magnitudes."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8, bins_count: int = 2048):
        super().__init__(quant_bits)
        self._histogram = Histogram(bins_count)
        self._seen = False

    def see(self, values: Array) -> None:
        self._histogram.add(values)
        self._seen = True

    def threshold(self) -> float:
        raise NotImplementedError

    def thresholds(self) -> Array | None:
        return np.asarray(self.threshold()) if self._seen else None


class HistObserver(ObserverFactory):
    """The threshold that the share `percent` of all magnitudes stays below, from counts in `bins_count` parts."""

    def __init__(self, quant_bits: int = 8, bins_count: int = 2048, percent: float = 0.99999):
        if not 0 < percent <= 1:
            raise ValueError(f"expected a share in (0, 1] as percent but got {percent}")
        super().__init__(quant_bits=check_bits(quant_bits), bins_count=bins_count, percent=percent)

    def _get_class(self) -> Any:
        return HistObserverLayer


class HistObserverLayer(HistogramObserverLayer):
    """By a share."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8, bins_count: int = 2048, percent: float = 0.99999):
        super().__init__(layer, quant_bits, bins_count)
        self._percent = percent

    def threshold(self) -> float:
        return self._histogram.share(self._percent)


class KLObserver(ObserverFactory):
    """The threshold that loses least information: the least Kullback-Leibler divergence between what is seen and the same in eight bits."""

    def __init__(self, quant_bits: int = 8, bins_count: int = 2048):
        super().__init__(quant_bits=check_bits(quant_bits), bins_count=bins_count)

    def _get_class(self) -> Any:
        return KLObserverLayer


class KLObserverLayer(HistogramObserverLayer):
    """By information."""

    def threshold(self) -> float:
        return self._histogram.least_divergence(self._quant_bits)


class MSEObserver(ObserverFactory):
    """The threshold with the least mean squared error of rounding and clipping together."""

    def __init__(self, quant_bits: int = 8, bins_count: int = 2048):
        super().__init__(quant_bits=check_bits(quant_bits), bins_count=bins_count)

    def _get_class(self) -> Any:
        return MSEObserverLayer


class MSEObserverLayer(HistogramObserverLayer):
    """By squared error."""

    def threshold(self) -> float:
        return self._histogram.least_error(self._quant_bits)
