"""A layer with an observer before or behind it."""

from __future__ import annotations

from typing import Any

from polyreme.nn.layer import Layer
from polyreme.quantization.base import BaseQuanter

__all__ = ["ObserveWrapper"]


class ObserveWrapper(Layer):
    """`observed` with `observer` before it, or with `observe_input=False` behind it."""

    def __init__(self, observer: BaseQuanter, observed: Layer, observe_input: bool = True):
        super().__init__()
        self._observer = observer
        self._observed = observed
        self._observe_input = observe_input

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._observe_input:
            return self._observed(self._observer(inputs[0]), *inputs[1:], **kwargs)
        return self._observer(self._observed(*inputs, **kwargs))
