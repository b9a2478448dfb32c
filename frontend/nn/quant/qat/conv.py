"""Convolutions with fake-quantised operands."""

from __future__ import annotations

from typing import Any

from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.nn.quant.qat.base import QuantedProduct
from polyreme.tensor import Tensor


class QuantedConv2D(QuantedProduct):
    """As the Conv2D it is made of, with operands past quanters."""

    rank, function = 2, "conv2d"

    def __init__(self, layer: Layer, q_config: Any):
        super().__init__(layer, q_config)
        self._groups, self._stride, self._dilation = layer._groups, layer._stride, layer._dilation
        self._padding, self._padding_mode, self._data_format = layer._padding, layer._padding_mode, layer._data_format

    def forward(self, input: Tensor) -> Tensor:
        x, weight = self.quanted(input)
        padding = self._padding
        if self._padding_mode != "zeros":
            x = F.pad(x, [padding] * (2 * self.rank), self._padding_mode, data_format=self._data_format)
            padding = 0
        return getattr(F, self.function)(x, weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)


class QuantedConv1D(QuantedConv2D):
    """As the Conv1D it is made of."""

    rank, function = 1, "conv1d"


class QuantedConv3D(QuantedConv2D):
    """As the Conv3D it is made of."""

    rank, function = 3, "conv3d"
