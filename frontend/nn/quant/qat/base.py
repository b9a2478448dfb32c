"""What quantised layers share."""

from __future__ import annotations

from typing import Any

from polyreme.nn.layer import Layer
from polyreme.nn.quant.format import ConvertibleQuantedLayer
from polyreme.tensor import Tensor


class QuantedProduct(ConvertibleQuantedLayer):
    """A layer with a weight and a bias, taken over from `layer`; what goes in and the weight pass the quanters of `q_config`, where there
    are some.
    """

    def __init__(self, layer: Layer, q_config: Any):
        super().__init__()
        self.weight = layer.weight
        self.bias = layer.bias
        self.weight_quanter = None if q_config.weight is None else q_config.weight._instance(layer)
        self.activation_quanter = None if q_config.activation is None else q_config.activation._instance(layer)

    def quanted(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """The input and the weight, each past its quanter."""
        x = input if self.activation_quanter is None else self.activation_quanter(input)
        return x, self.weight if self.weight_quanter is None else self.weight_quanter(self.weight)

    def weights_to_quanters(self) -> list[tuple[str, str]]:
        return [("weight", "weight_quanter")]

    def activation_quanters(self) -> list[str]:
        return ["activation_quanter"]
