"""Numbers of Python's that are others at each call: a counter of steps, a rate, a factor that goes down.

Such a `ChangingNumber` is read anew at each call. What Python computes of it is computed by Python before the program runs, exactly as
ever, and becomes an argument where it meets a tensor. What it decides is a guard; so is its value wherever something looks at it that is
not known here.
"""

from __future__ import annotations

import operator as python
from typing import Any, Protocol

import numpy as np

from polyreme.ir.types import ScalarType
from polyreme.jit.capture.sources import FunctionOf
from polyreme.jit.capture.watched import ChangingNumber, Watched
from polyreme.math.common import cast_to, floating, scalar_dtype
from polyreme.math.elementwise import divided_by_zero
from polyreme.tensor import Tensor

__all__ = ["as_tensor", "operator"]

# Operators in which a tensor takes a number as a tensor of one dtype or other.
_MEETING = frozenset({"add", "sub", "mul", "truediv", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"})
_IN_PLACE = {f"i{name}": name for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")}


class _Operates(Protocol):
    state: Watched

    def operator(self, name: str, *operands: Any) -> Any: ...


def operator(watch: _Operates, name: str, operands: tuple[Any, ...]) -> Any:
    """An operator of Python's on operands of which one at least is a `ChangingNumber`."""
    state = watch.state
    if all(type(value) in (ChangingNumber, int, float, bool) for value in operands):
        return state.computed(getattr(python, name), *operands)
    plain = _IN_PLACE.get(name, name)
    if plain in _MEETING:
        first, second = operands
        number, tensor = (first, second) if type(first) is ChangingNumber else (second, first)
        if isinstance(tensor, Tensor):
            met = floating(tensor) if plain == "truediv" else tensor
            dtype = scalar_dtype(met.type.dtype, number.value)
            if dtype.kind != "u":  # in which numbers below zero wrap around
                if plain == "floordiv" and number is second and dtype.kind == "i":
                    number = second = state.computed(_divisor, number)  # which is looked at in front of all that the call does
                pair = as_tensor(state, number, dtype), cast_to(met, dtype)
                return getattr(python, plain)(*(pair if number is first else pair[::-1]))
    return watch.operator(name, *map(state.pinned, operands))


def as_tensor(state: Watched, number: ChangingNumber, dtype: ScalarType) -> Tensor:
    """An argument of the program that has the number."""
    key = id(number), dtype
    if key not in state.number_tensors:
        made = _tensor_of(number.value, dtype)
        state.number_tensors[key] = state.note(made, FunctionOf(_tensor_of, (number.source, dtype)))
    return state.number_tensors[key]


def _divisor(number: int | float) -> int | float:
    if not number:
        raise divided_by_zero()
    return number


def _tensor_of(value: int | float, dtype: ScalarType) -> Tensor:
    return Tensor._wrap(np.full((), value, dtype.np))
