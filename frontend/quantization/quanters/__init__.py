"""Quanters for training: tensors leave them as they will be after quantisation, and gradients pass straight through."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dialects.nn.quantize import whole_range
from polyreme.math import abs as magnitude
from polyreme.math import max as greatest
from polyreme.math import maximum
from polyreme.names import listed
from polyreme.nn.attributes import ParamAttr
from polyreme.nn.initializer import Constant
from polyreme.nn.layer import Layer
from polyreme.quantization.base import BaseQuanter, QuanterFactory
from polyreme.quantization.observers.weights import channel_axis
from polyreme.tape import no_grad
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["FakeQuanterChannelWiseAbsMaxObserver", "FakeQuanterWithAbsMaxObserver"]


class FakeQuanterWithAbsMaxObserver(QuanterFactory):
    """Rounds to steps of a moving average of the largest magnitudes.

    In training, state = rate * state + 1, accum = rate * accum + max|x|, scale = accum / state, beginning at 1; then, and in evaluation
    with the scale found, x becomes round(x / scale * n) * scale / n with n = 2**(bit_length - 1) - 1, halves rounded away from 0.
    """

    def __init__(self, moving_rate: float = 0.9, bit_length: int = 8, dtype: str = "float32", name: str | None = None):
        super().__init__(name=name, moving_rate=moving_rate, bit_length=bit_length, dtype=dtype)

    def _get_class(self) -> Any:
        return FakeQuanterWithAbsMaxObserverLayer


class FakeQuanterWithAbsMaxObserverLayer(BaseQuanter):
    """Keeps the average in parameters that are not trained, as Paddle does, so that they are saved."""

    def __init__(self, layer: Layer, name: str | None = None, moving_rate: float = 0.9, bit_length: int = 8, dtype: str = "float32"):
        super().__init__()
        self._moving_rate, self._bit_length = moving_rate, bit_length
        self._scale = self._kept(f"{name or 'quant_dequant'}.scale", 0.001, dtype)
        self._state = self._kept(f"{name or 'quant_dequant'}.state", 1.0, dtype)
        self._accum = self._kept(f"{name or 'quant_dequant'}.accum", 1.0, dtype)

    def _kept(self, name: str, value: float, dtype: str) -> Any:
        return self.create_parameter(
            [1], ParamAttr(name=unique_name.generate(name), initializer=Constant(value), trainable=False), dtype=dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            with no_grad():
                state = self._state * self._moving_rate + 1
                accum = self._accum * self._moving_rate + greatest(magnitude(input)).astype(self._accum.dtype)
                for kept, value in ((self._state, state), (self._accum, accum), (self._scale, accum / state)):
                    dispatch.assign(kept, value)
        step = (self._scale / whole_range(self._bit_length)[1]).reshape([])
        return dispatch.call(ops.FakeQuantize, input, step.detach(), bit_length=self._bit_length, ties="away")

    def scales(self) -> Tensor:
        return self._scale

    def zero_points(self) -> None:
        return None

    def quant_axis(self) -> int:
        return -1

    def bit_length(self) -> int:
        return self._bit_length


class FakeQuanterChannelWiseAbsMaxObserver(QuanterFactory):
    """Rounds a weight to steps of the largest magnitude of each output channel, as it is at the moment. `quant_axis` says where channels
    are; without it the layer does.
    """

    def __init__(self, bit_length: int = 8, quant_axis: int | None = None):
        super().__init__(bit_length=bit_length, quant_axis=quant_axis)

    def _get_class(self) -> Any:
        return FakeQuanterChannelWiseAbsMaxObserverLayer


class FakeQuanterChannelWiseAbsMaxObserverLayer(BaseQuanter):
    """Keeps the scales of the last run."""

    def __init__(self, layer: Layer, bit_length: int = 8, quant_axis: int | None = None):
        super().__init__()
        self._bit_length = bit_length
        weight = layer.weight
        self._axis = channel_axis(layer, weight.ndim) if quant_axis is None else quant_axis
        self.register_buffer("_scale", self._peaks(weight))

    def _peaks(self, weight: Tensor) -> Tensor:
        others = [i for i in range(weight.ndim) if i != self._axis]
        return maximum(greatest(magnitude(weight.detach()), axis=others), Tensor(1e-30).astype(weight.dtype))

    def forward(self, input: Tensor) -> Tensor:
        if self.training:
            with no_grad():
                dispatch.assign(self._scale, self._peaks(input))
        step = self._scale / whole_range(self._bit_length)[1]
        return dispatch.call(ops.FakeQuantize, input, step.detach(), axis=self._axis, bit_length=self._bit_length, ties="away")

    def scales(self) -> Tensor:
        return self._scale

    def zero_points(self) -> None:
        return None

    def quant_axis(self) -> int:
        return self._axis

    def bit_length(self) -> int:
        return self._bit_length


__dir__ = listed(__name__)
