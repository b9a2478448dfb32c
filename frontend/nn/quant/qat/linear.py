"""A Linear with fake-quantised operands."""

from __future__ import annotations

from typing import Any

from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.nn.quant.qat.base import QuantedProduct
from polyreme.tensor import Tensor


class QuantedLinear(QuantedProduct):
    """As the Linear it is made of, with operands past quanters."""

    def __init__(self, layer: Layer, q_config: Any):
        super().__init__(layer, q_config)
        self.name = layer.name

    def forward(self, input: Tensor) -> Tensor:
        x, weight = self.quanted(input)
        return F.linear(x, weight, self.bias, self.name)
