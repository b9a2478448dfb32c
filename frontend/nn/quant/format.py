"""What quanters and observers become when a model is converted: the ops `quantize_linear` and `dequantize_linear`, with scales that no
longer change.

Their state has Paddle's names and Paddle's meaning: `_scales` are the magnitudes that the greatest integer stands for, `_zero_point` is
there and 0.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dialects.nn.quantize import whole_range
from polyreme.nn.layer import Layer
from polyreme.tensor import Tensor

__all__ = ["ConvertibleQuantedLayer", "LinearDequanter", "LinearQuanter", "LinearQuanterDequanter"]


class _Scaled(Layer):
    """A layer with scales: one, one per place along `quant_axis`, or [in / group_size, out] for groups of the rows of a matrix."""

    def __init__(self, scales: Any, zero_point: Any = None, quant_axis: int | None = None, bit_length: int = 8, group_size: int = 128):
        super().__init__()
        if not isinstance(bit_length, int) or not 2 <= bit_length <= 8:
            raise ValueError(f"expected 2 to 8 bits as bit_length but got {bit_length!r}")
        found = np.asarray(scales.numpy() if isinstance(scales, Tensor) else scales, np.float32)
        zeros = (
            np.zeros_like(found)
            if zero_point is None
            else np.asarray(zero_point.numpy() if isinstance(zero_point, Tensor) else zero_point, np.float32)
        )
        if zeros.any():
            raise ValueError("expected zero points of 0: scales are those of symmetric ranges")
        self.register_buffer("_scales", Tensor._wrap(found))
        self.register_buffer("_zero_point", Tensor._wrap(zeros))
        self._quant_axis = -1 if quant_axis is None else quant_axis
        self._bit_length, self._group_size = bit_length, group_size

    @classmethod
    def from_quanter(cls, quanter: Any) -> Any:
        """With the scales that a quanter or observer has now."""
        return cls(quanter.scales(), quanter.zero_points(), quanter.quant_axis(), quanter.bit_length())

    def step(self, like: Tensor) -> Tensor:
        """What one integer more stands for, as one number or per place; of groups, per element."""
        step = self._scales / whole_range(self._bit_length)[1]
        if step.ndim > 1:
            from polyreme.math import repeat_interleave

            return repeat_interleave(step, self._group_size, 0)
        return step.reshape([]) if step.size == 1 else step


class LinearQuanter(_Scaled):
    """Floats to integers, as int8."""

    def forward(self, input: Tensor) -> Tensor:
        step = self.step(input)
        if step.ndim > 1:  # every element has a step of its own, so that in steps of 1 they are counted
            return dispatch.call(ops.QuantizeLinear, input / step, Tensor(1.0), None, bit_length=self._bit_length)
        return dispatch.call(ops.QuantizeLinear, input, step, None, axis=self._quant_axis if step.ndim else 0, bit_length=self._bit_length)


class LinearDequanter(_Scaled):
    """Integers to floats."""

    def forward(self, input: Tensor) -> Tensor:
        counts = input if input.type.dtype.name == "i8" else input.astype("int8")
        step = self.step(counts)
        if step.ndim > 1:
            return counts.astype("float32") * step
        return dispatch.call(ops.DequantizeLinear, counts, step, None, axis=self._quant_axis if step.ndim else 0)


class LinearQuanterDequanter(Layer):
    """Both, one after the other; either may be None."""

    def __init__(self, quanter: LinearQuanter | None, dequanter: LinearDequanter | None):
        super().__init__()
        self._quanter = quanter
        self._dequanter = dequanter

    def forward(self, input: Tensor) -> Tensor:
        out = input if self._quanter is None else self._quanter(input)
        return out if self._dequanter is None else self._dequanter(out)

    @staticmethod
    def from_quanter(quanter: Any) -> LinearQuanterDequanter:
        return LinearQuanterDequanter(LinearQuanter.from_quanter(quanter), LinearDequanter.from_quanter(quanter))


class ConvertibleQuantedLayer(Layer, metaclass=abc.ABCMeta):
    """A layer whose weights and activations pass quanters, and that can be converted for inference: its weights are then int8.

        class Quanted(ConvertibleQuantedLayer):
            def weights_to_quanters(self): return [("weight", "weight_quanter")]
            def activation_quanters(self): return ["activation_quanter"]
    """

    def __init__(self) -> None:
        super().__init__()
        self.converted = False

    @abc.abstractmethod
    def weights_to_quanters(self) -> Sequence[tuple[str, str]]:
        """The name of each weight to be quantised, with the name of its quanter."""

    @abc.abstractmethod
    def activation_quanters(self) -> Sequence[str]:
        """The names of the quanters of activations."""

    def _without_scales(self) -> list[str]:
        """The names of quanters that have seen nothing, so that they have no scales."""
        names = [*(q for _, q in self.weights_to_quanters()), *self.activation_quanters()]
        found = [(n, getattr(self, n, None)) for n in names]
        return [n for n, q in found if q is not None and q.scales() is None]

    def _convert(self, remain_weight: bool = False) -> None:
        """Make `quantize_linear` and `dequantize_linear` of the quanters, and integers of the weights unless they are to stay."""
        if self.converted:
            raise AssertionError("The model should be converted only once.")
        for weight_name, quanter_name in self.weights_to_quanters():
            pair = self._convert_quanter(quanter_name)
            if pair is not None and not remain_weight:
                assert pair._quanter is not None
                counts = pair._quanter(getattr(self, weight_name))
                delattr(self, weight_name)
                self.register_buffer(weight_name, counts.detach())
                pair._quanter = None
        for quanter_name in self.activation_quanters():
            self._convert_quanter(quanter_name)
        self.converted = True

    def _convert_quanter(self, name: str) -> LinearQuanterDequanter | None:
        quanter = getattr(self, name, None)
        if quanter is None:
            return None
        pair = LinearQuanterDequanter.from_quanter(quanter)
        setattr(self, name, pair)
        return pair
