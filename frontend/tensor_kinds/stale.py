"""Operands of steps on the tape that were changed since."""

from __future__ import annotations

from typing import Any

from polyreme import device
from polyreme.ir.types import TensorType
from polyreme.tensor import Tensor

_OWN_VERSION = vars(Tensor)["_version"]


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


class StandIn(Tensor):
    """What steps on the tape keep for a tensor of the user's that was gathered when they were called: it is changed where that is."""

    __slots__ = ()

    def follow(self, tensor: Tensor) -> None:
        """Stand for `tensor` from now on."""
        self.__dict__["followed"] = tensor, tensor._version

    @property
    def _version(self) -> int:  # type: ignore[override]
        tensor, since = self.__dict__["followed"]
        own: int = _OWN_VERSION.__get__(self)
        return own + tensor._version - since


def stand_for(result: Tensor, tensor: Tensor) -> None:
    """Let `result`, which steps on the tape keep, stand for the user's `tensor`, which has its contents: where that is changed, gradients
    that need it are an error.
    """
    result.__class__ = StandIn
    assert isinstance(result, StandIn)
    result.follow(tensor)
