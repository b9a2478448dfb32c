"""Weights of a saved model that nobody has looked at: tensors whose arrays are read from the file when the first of them is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from polyreme.ir.types import TensorType
from polyreme.parameter import Parameter
from polyreme.tensor import Tensor

__all__ = ["SavedWeights", "WeightSpec"]

Array = np.ndarray[Any, Any]


class WeightSpec(NamedTuple):
    """What is known of a weight before it is read."""

    name: str
    type: TensorType
    parameter: bool
    trainable: bool
    persistable: bool


class SavedWeights:
    """The weights of one saved model; `read` gives all their arrays, in order: told so where they lie in the file, for as long as it does
    not change, or in memory of their own.
    """

    def __init__(self, specs: Sequence[WeightSpec], read: Callable[[bool], Sequence[Array]], mapped: Sequence[Array] | None = None):
        """`mapped` are those in the file, where they are known."""
        self._read = read
        self._lock = threading.Lock()
        # Until somebody has read or replaced one of them, nothing has to be compared.
        self._touched = False
        self._arrays: list[Array] | None = None
        self._mapped = mapped
        self.tensors: list[Tensor] = [self._tensor(spec) for spec in specs]

    def _tensor(self, spec: WeightSpec) -> Tensor:
        tensor: Tensor = _UnreadParameter(None, trainable=spec.trainable) if spec.parameter else _UnreadTensor()
        tensor.stop_gradient = not spec.trainable
        tensor.persistable = spec.persistable
        tensor._type = spec.type
        tensor.name = spec.name
        tensor.__dict__[_SOURCE] = self
        return tensor

    def arrays(self) -> list[Array]:
        """The contents that the file has, read if they were not. Tensors get them unless they were given others."""
        with self._lock:
            if self._arrays is None:
                self._arrays = list(self._read(False))
                self._mapped = None
            for tensor, array in zip(self.tensors, self._arrays, strict=True):
                if isinstance(tensor, _Unread):
                    tensor._value = array
            return self._arrays

    def mapped(self) -> Sequence[Array]:
        """The contents that the file has, where they lie in it if nobody has read them: for use at once, after which the file must be found
        unchanged.
        """
        with self._lock:
            if self._arrays is None and self._mapped is None:
                self._mapped = self._read(True)
            return self._arrays or self._mapped or ()

    def copied(self) -> Sequence[Array]:
        """As `mapped`, in memory of their own, which nobody keeps if nobody has read them. The file must have been found unchanged just
        before.
        """
        with self._lock:
            return self._arrays or ([np.array(array) for array in self._mapped] if self._mapped is not None else self._read(False))

    def release(self) -> None:
        """Let go of the file: it is read again when somebody needs it."""
        with self._lock:
            self._mapped = None

    def touch(self) -> None:
        """Somebody has read a weight, or given it other contents."""
        self._touched = True

    def unchanged(self) -> bool:
        """Whether all tensors still have the contents that the file has."""
        if not self._touched:
            return True
        return self._arrays is not None and all(map(is_, self._arrays, [tensor._value for tensor in self.tensors]))


_SOURCE = "_saved_weights"


class _Unread(Tensor):
    """A tensor that is a plain one from the moment on in which its contents are asked for, or replaced."""

    __slots__ = ()

    @property
    def _value(self) -> Any:
        source = self.__dict__.get(_SOURCE)
        if source is not None:
            source.arrays()
        # By now of another class, by this thread or another.
        return self._value

    @_value.setter
    def _value(self, value: Any) -> None:
        if value is None:
            # As tensors begin.
            return
        source = self.__dict__.get(_SOURCE)
        if source is not None:
            source.touch()
        # In this order, so that another thread that reads meanwhile finds either the source or the contents.
        Tensor._value.__set__(self, value)
        self.__class__ = Parameter if isinstance(self, Parameter) else Tensor  # type: ignore[assignment]
        self.__dict__.pop(_SOURCE, None)


class _UnreadTensor(_Unread):
    __slots__ = ()


class _UnreadParameter(_Unread, Parameter):
    __slots__ = ()
