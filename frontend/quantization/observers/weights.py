"""Scales of weights: one per output channel, or one per group of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.nn.layer import Layer
from polyreme.quantization.base import ObserverFactory
from polyreme.quantization.observers.base import Array, ObserverLayer, check_bits


def channel_axis(layer: Any, rank: int) -> int:
    """Where a layer's weight has its output channels: behind for a Linear's matrix, in front for a filter, second for a transposed one."""
    name = type(layer).__name__
    if "Transpose" in name:
        return 1
    return 0 if "Conv" in name or rank > 2 else rank - 1


class ChannelObserverLayer(ObserverLayer):
    """Keeps the weight it saw last: weights do not pass one after the other, as activations do."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8, quant_axis: int | None = None):
        super().__init__(quant_bits)
        # Not as a sublayer: the layer holds this observer.
        self.__dict__["_observed"] = layer
        self._axis = quant_axis
        self._weight: Any = None

    def see(self, values: Array) -> None:
        self._weight = values
        if self._axis is None:
            self._axis = channel_axis(self.__dict__["_observed"], values.ndim)

    def quant_axis(self) -> int:
        return -1 if self._axis is None else self._axis

    def peaks(self) -> Array:
        """The largest magnitude of each channel."""
        others = tuple(i for i in range(self._weight.ndim) if i != self._axis)
        peaks: Array = np.abs(self._weight).max(others, initial=0)
        return peaks

    def thresholds(self) -> Array | None:
        return None if self._weight is None else self.peaks()


class AbsMaxChannelWiseWeightObserver(ObserverFactory):
    """The largest magnitude of each output channel of a weight. `quant_axis` says where these are; without it the kind of layer does."""

    def __init__(self, quant_bits: int = 8, quant_axis: int | None = None):
        super().__init__(quant_bits=check_bits(quant_bits), quant_axis=quant_axis)

    def _get_class(self) -> Any:
        return ChannelObserverLayer


class MSEChannelWiseWeightObserver(ObserverFactory):
    """For each output channel of a weight the threshold, of `candidates` shares of its largest magnitude, with the least squared error."""

    def __init__(self, quant_bits: int = 8, quant_axis: int | None = None, candidates: int = 32):
        super().__init__(quant_bits=check_bits(quant_bits), quant_axis=quant_axis, candidates=candidates)

    def _get_class(self) -> Any:
        return MSEChannelObserverLayer


class MSEChannelObserverLayer(ChannelObserverLayer):
    """Tries shares of the largest magnitudes, from half of it up."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8, quant_axis: int | None = None, candidates: int = 32):
        super().__init__(layer, quant_bits, quant_axis)
        self._candidates = candidates

    def thresholds(self) -> Array | None:
        if self._weight is None:
            return None
        high = (1 << (self._quant_bits - 1)) - 1
        peaks = np.maximum(self.peaks(), np.float32(1e-30))
        rows = np.moveaxis(self._weight, self.quant_axis(), 0).reshape(len(peaks), -1)
        best, least = peaks, np.full(len(peaks), np.inf)
        for share in np.linspace(1.0, 0.5, self._candidates):
            step = (peaks * share / high)[:, None]
            error = ((rows - np.clip(np.rint(rows / step), -high, high) * step) ** 2).sum(1)
            best, least = np.where(error < least, peaks * share, best), np.minimum(error, least)
        return best


class GroupWiseWeightObserver(ObserverFactory):
    """The largest magnitude of each group of 64 or 128 inputs of each column of a matrix [in, out]: scales of shape [in / group_size, out].
    """

    def __init__(self, quant_bits: int = 8, group_size: int = 128):
        if group_size not in (64, 128):
            raise ValueError(f"expected a group_size of 64 or 128 but got {group_size}")
        super().__init__(quant_bits=check_bits(quant_bits), group_size=group_size)

    def _get_class(self) -> Any:
        return GroupWiseWeightObserverLayer


class GroupWiseWeightObserverLayer(ObserverLayer):
    """Keeps the scales of the weight it saw last."""

    def __init__(self, layer: Layer | None, quant_bits: int = 8, group_size: int = 128):
        super().__init__(quant_bits)
        self.group_size = group_size
        self._peaks: Any = None

    def see(self, values: Array) -> None:
        if values.ndim != 2 or values.shape[0] % self.group_size:
            raise ValueError(f"expected a weight [in, out] whose inputs {self.group_size} divides but got {list(values.shape)}")
        peaks = np.abs(values).reshape(-1, self.group_size, values.shape[1]).max(1)
        self._peaks = np.where(peaks == 0, np.float32(1e-8), peaks)

    def thresholds(self) -> Array | None:
        found: Array | None = self._peaks
        return found
