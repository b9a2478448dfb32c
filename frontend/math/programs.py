"""Functions as operators of Paddle's in static Programs, so that saved Programs have them as Paddle writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyreme import dispatch
from polyreme.ir.types import TensorType
from polyreme.tensor import Tensor

__all__ = ["recorded"]


def recorded(
    type: str, inputs: Mapping[str, Tensor | None], outputs: Mapping[str, TensorType], attributes: Mapping[str, Any], flows: bool = True
) -> list[Tensor] | None:
    """What an operator writes in a static Program, one result of each type; None elsewhere. Gradients reach it if they flow."""
    recorder = dispatch.active_trace()
    made = None if recorder is None else recorder.operator(type, inputs, outputs, attributes)
    if made is None:
        return None
    if not flows:
        for result in made.values():
            result.stop_gradient = True
    return list(made.values())
