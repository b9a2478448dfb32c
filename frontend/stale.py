"""Operands of steps on the tape that were changed since."""

from __future__ import annotations

from typing import Any

from polyreme import device
from polyreme.ir.types import TensorType
from polyreme.tensor import Tensor


class StaleTensor(Tensor):
    """What an op on the tape finds in place of an operand that was changed since: its type is known, its values are gone."""

    __slots__ = ("message",)

    def __init__(self, type: TensorType, message: str):
        self._type, self._place = type, device._current
        self._node, self._index, self.stop_gradient, self._view = None, 0, True, None
        self.message = message

    @property
    def _value(self) -> Any:
        raise RuntimeError(self.message)
