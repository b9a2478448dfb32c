"""What observers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.quantization.base import BaseObserver
from polyreme.tensor import Tensor

Array = np.ndarray[Any, Any]


def check_bits(bits: int) -> int:
    if not isinstance(bits, int) or not 2 <= bits <= 8:
        raise ValueError(f"expected 2 to 8 quant_bits but got {bits!r}")
    return bits


class ObserverLayer(BaseObserver):
    """An observer that keeps what it learns in numpy arrays: `see` is given every array, `thresholds` makes the scales of what was seen."""

    def __init__(self, quant_bits: int = 8):
        super().__init__()
        self._quant_bits = check_bits(quant_bits)
        self._scale: Tensor | None = None
        self._zero_point: Tensor | None = None

    def see(self, values: Array) -> None:
        raise NotImplementedError

    def thresholds(self) -> Array | None:
        """None before anything was seen."""
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        values = input._value
        if isinstance(values, np.ndarray):  # while a function is traced nothing is seen
            self.see(values.astype(np.float32) if values.dtype.name in ("float16", "bfloat16") else values)
            self._scale = None
        return input

    def cal_thresholds(self) -> None:
        found = self.thresholds()
        if found is not None:
            self._scale = Tensor._wrap(np.asarray(found, np.float32))
            self._zero_point = Tensor._wrap(np.zeros(np.shape(found), np.float32))

    def scales(self) -> Tensor | None:
        if self._scale is None:
            self.cal_thresholds()
        return self._scale

    def zero_points(self) -> Tensor | None:
        if self._zero_point is None:
            self.cal_thresholds()
        return self._zero_point

    def quant_axis(self) -> int:
        return -1

    def bit_length(self) -> int:
        return self._quant_bits
