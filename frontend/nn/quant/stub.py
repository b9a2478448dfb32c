"""Places for observers where there is no layer: before a function that a `forward` calls."""

from __future__ import annotations

from typing import Any

from polyreme.nn.layer import Layer
from polyreme.tensor import Tensor

__all__ = ["QuanterStub", "Stub"]


class Stub(Layer):
    """The identity, until a model is quantised: then it observes or quantises what passes, by `observer` or, without one, as the
    configuration has it for this layer.
    """

    def __init__(self, observer: Any = None):
        super().__init__()
        self._observer = observer

    def forward(self, input: Tensor) -> Tensor:
        return input


class QuanterStub(Layer):
    """What becomes of a Stub."""

    def __init__(self, layer: Stub, q_config: Any):
        super().__init__()
        factory = layer._observer if layer._observer is not None else q_config.activation
        self._observer = None if factory is None else factory._instance(layer)

    def forward(self, input: Tensor) -> Tensor:
        return input if self._observer is None else self._observer(input)
