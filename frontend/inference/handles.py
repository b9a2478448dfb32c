"""Handles: how serving code writes a predictor's inputs and reads its outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.from_data import to_tensor
from polyreme.inference.kinds import DataType, InferenceError, data_type_of
from polyreme.ir.diagnostics import caller_location
from polyreme.names import listed
from polyreme.tensor import Tensor as Eager
from polyreme.utils.shown import Shown

Array = np.ndarray[Any, Any]

__all__ = ["Handle"]
__dir__ = listed(__name__)


class Handle(Shown):
    """An input or output of a predictor, by its name. It has its own copy of what is given to it; what it gives is a copy, too."""

    def __init__(self, name: str, dtype: Any, is_input: bool):
        self._name, self._dtype, self._is_input = name, np.dtype(dtype), is_input
        self._array: Array | None = None
        self._shared: Eager | None = None
        self._shape: list[int] = [0]
        self._lod: list[list[int]] = []

    @property
    def name(self) -> str:
        return self._name

    def reshape(self, shape: Sequence[int] | int) -> None:
        """Say the sizes of an input. `copy_from_cpu` says them too; until it is called the elements are zeros."""
        self._only_inputs("reshape")
        given: list[int] = [shape] if isinstance(shape, int) else [int(size) for size in shape]
        if min(given, default=0) < 0:
            raise InferenceError(f"expected sizes from 0 on for the input '{self._name}' but got {given}", caller_location())
        held = self._contents()
        if held is not None and held.size == math.prod(given):
            self._hold(held.reshape(given))
        else:
            self._hold(np.zeros(given, self._dtype if held is None else held.dtype))

    def copy_from_cpu(self, data: Array | list[str]) -> None:
        """Take a copy of an array, with its sizes and type."""
        self._only_inputs("copy_from_cpu")
        if not isinstance(data, np.ndarray):
            if isinstance(data, list) and data and all(isinstance(text, str) for text in data):
                raise InferenceError(f"expected an array for '{self._name}' but got texts: no operator here takes them", caller_location())
            raise TypeError("In copy_from_cpu, we only support numpy ndarray and list[str] data type.")
        data_type_of(data.dtype)
        self._hold(np.array(data, order="C", copy=True))

    def share_external_data(self, data: Any) -> None:
        """Take a tensor without a copy: what is written to it before `run` is seen."""
        self._only_inputs("share_external_data")
        if not isinstance(data, Eager):
            raise TypeError(f"share_external_data expected a Tensor but got {type(data).__name__}")
        data_type_of(data.type.dtype.np)
        self._array, self._shared, self._shape = None, data, list(data.shape)

    def share_external_data_by_ptr_name(self, name: str, shape: Sequence[int], dtype: Any, place: Any) -> None:
        """Refused: an address in a text is not looked at."""
        message = f"expected a Tensor for '{self._name}', by share_external_data(), but got the name of memory"
        raise InferenceError(message, caller_location())

    def copy_to_cpu(self) -> Array:
        """A copy of what it holds."""
        held = self._contents()
        if held is None:
            first = "copy_from_cpu() or reshape()" if self._is_input else "run() of its predictor"
            raise InferenceError(f"expected {first} before '{self._name}' is read but it holds nothing yet", caller_location())
        return held.copy() if held is self._array else held

    def shape(self) -> list[int]:
        """Its sizes; [0] while it holds nothing."""
        return list(self._shape)

    def type(self) -> DataType:
        """The type of its elements; of one that holds nothing the model's."""
        if self._shared is not None:
            return data_type_of(self._shared.type.dtype.np)
        return data_type_of(self._dtype if self._array is None else self._array.dtype)

    def lod(self) -> list[list[int]]:
        """Its levels of detail, as offsets."""
        return [list(level) for level in self._lod]

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Give levels of detail. `run` refuses them: what Paddle's sequence operators do with them is done by `paddle.fluid` here."""
        self._lod = [[int(offset) for offset in level] for level in lod]

    def _hold(self, array: Array) -> None:
        self._array, self._shared, self._shape = array, None, list(array.shape)

    def _contents(self) -> Array | None:
        """What it holds now, of a shared tensor a copy."""
        return self._array if self._shared is None else self._shared.numpy()

    def _only_inputs(self, method: str) -> None:
        if not self._is_input:
            raise InferenceError(f"expected an input for {method}() but '{self._name}' is an output", caller_location())

    def _given(self) -> Eager:
        """What `run` takes."""
        held = self._contents()
        if held is None:
            raise InferenceError(f"expected data for the input '{self._name}': call copy_from_cpu() on its handle", caller_location())
        if self._lod:
            raise InferenceError(
                f"expected no levels of detail on '{self._name}' but it has {self._lod}: run the model as a Program of paddle.fluid",
                caller_location(),
            )
        return to_tensor(fitted(held, self._dtype, self._name))


def fitted(array: Array, dtype: np.dtype[Any], name: str) -> Array:
    """The array as the model takes it: whole numbers may have fewer bits than its own."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind in "iu" and dtype.kind in "iu" and np.can_cast(array.dtype, dtype):
        return array.astype(dtype)
    message = f"expected {dtype.name} for the input '{name}' but got {array.dtype.name}: cast the array first"
    raise InferenceError(message, caller_location())
