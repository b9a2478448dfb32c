"""`setitem`: a tensor with a part replaced."""

from __future__ import annotations

from typing import Any

from polyreme import math as functions
from polyreme.tensor import Tensor

__all__ = ["setitem"]


def setitem(x: Tensor, item: Any, value: Any) -> Tensor:
    """`x` with what `item` selects replaced by `value`, which broadcasts to it; `x` itself stays. Gradients flow to both."""
    made = functions.assign(x)
    made[item] = value
    return made
