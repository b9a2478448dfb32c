"""Python's operators on tensors, with Paddle's treatment of Python numbers and numpy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.dims import Expr
from polyreme.math import elementwise, linalg, logic
from polyreme.math.common import floating, number_of
from polyreme.math.creation import to_tensor
from polyreme.tensor import Tensor


def _operator(symbol: str, function: Callable[..., Tensor], reverse: bool = False, cls: type[Op] | None = None) -> Callable[..., Any]:
    """The operator as a method: `function` of both operands. `cls` is the op that comes of it mostly, to be tried first."""

    def apply(self: Tensor, other: Any) -> Any:
        if cls is not None and (done := dispatch.planned_pair(cls, self, other)) is not None:
            return done
        if isinstance(other, Tensor):
            if (recorder := dispatch.recorder()) is not None:
                self, other = recorder.aligned(self, other)
            return function(other, self) if reverse else function(self, other)
        if isinstance(other, (bool, int, float, complex, Expr)):
            bits = symbol in ("&", "|", "^") and isinstance(other, int) and self.type.dtype.kind == "b"
            return elementwise.with_number(function, self, bool(other) if bits else other, reverse)
        if isinstance(other, np.generic):
            return elementwise.with_number(function, self, python_number(other, self.type.dtype.kind, symbol), reverse)
        if isinstance(other, np.ndarray):
            array = to_tensor(other)
            return function(array, self) if reverse else function(self, array)
        raise TypeError(f"{symbol}: expected int, float, bool or Tensor, but got {type(other).__name__}")

    return apply


def python_number(value: np.generic, kind: str, symbol: str) -> Any:
    """A Python number from one of NumPy's, which is cast to the dtype, of this kind, of the tensor that it meets as Paddle casts it.
    (NumPy's float64 is a Python float, and treated as one.)
    """
    if kind not in "iub" or isinstance(value, np.complexfloating) or kind == "b" and symbol == "/":
        return number_of(value)
    return bool(value) if kind == "b" else int(value)


def _product(x: Any, y: Any) -> Tensor:
    """`x @ y`, one of which may be an array."""
    array, tensor = (x, y) if isinstance(x, np.ndarray) else (y, x)
    if not isinstance(array, np.ndarray):
        return linalg.matmul(x, y)
    given = as_factor(to_tensor(array), tensor)
    return linalg.matmul(given, y) if array is x else linalg.matmul(x, given)


def as_factor(given: Tensor, tensor: Tensor) -> Tensor:
    """A tensor made of an array that is multiplied by `tensor`, of whose dtype it is then, but for complex numbers."""
    return given if "c" in (given.type.dtype.kind, tensor.type.dtype.kind) else given.astype(tensor.dtype)


def _power(self: Tensor, other: Any) -> Any:
    if self.type.dtype.kind == "b" and isinstance(other, (int, float)) and not isinstance(other, bool):
        self = self.astype("int64")
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        base = floating(self) if isinstance(other, float) else self
        return elementwise.pow(base, other)
    return _operator("**", elementwise.pow)(self, other)


def _equality(function: Callable[..., Tensor], otherwise: bool) -> Callable[..., Any]:
    inner = _operator("==", function)

    def apply(self: Tensor, other: Any) -> Any:
        # Anything may be asked for equality; what is no number is simply not equal.
        return inner(self, other) if isinstance(other, (Tensor, bool, int, float, complex, Expr, np.generic, np.ndarray)) else otherwise

    return apply


OPERATORS: dict[str, Callable[..., Any]] = {
    "__add__": _operator("+", elementwise.add, cls=ops.Add),
    "__radd__": _operator("+", elementwise.add, reverse=True),
    "__sub__": _operator("-", elementwise.subtract, cls=ops.Sub),
    "__rsub__": _operator("-", elementwise.subtract, reverse=True),
    "__mul__": _operator("*", elementwise.multiply, cls=ops.Mul),
    "__rmul__": _operator("*", elementwise.multiply, reverse=True),
    "__truediv__": _operator("/", elementwise.divide, cls=ops.Div),
    "__rtruediv__": _operator("/", elementwise.divide, reverse=True),
    "__floordiv__": _operator("//", elementwise.floor_divide),
    "__rfloordiv__": _operator("//", elementwise.floor_divide, reverse=True),
    "__mod__": _operator("%", elementwise.remainder),
    "__rmod__": _operator("%", elementwise.remainder, reverse=True),
    "__pow__": _power,
    "__rpow__": _operator("**", elementwise.pow, reverse=True),
    "__matmul__": _product,
    "__rmatmul__": lambda self, other: _product(other, self),
    "__eq__": _equality(logic.equal, False),
    "__ne__": _equality(logic.not_equal, True),
    "__lt__": _operator("<", logic.less_than, cls=ops.Less),
    "__le__": _operator("<=", logic.less_equal, cls=ops.LessEqual),
    "__gt__": _operator(">", logic.greater_than, cls=ops.Greater),
    "__ge__": _operator(">=", logic.greater_equal, cls=ops.GreaterEqual),
    "__and__": _operator("&", logic.bitwise_and),
    "__rand__": _operator("&", logic.bitwise_and, reverse=True),
    "__or__": _operator("|", logic.bitwise_or),
    "__ror__": _operator("|", logic.bitwise_or, reverse=True),
    "__xor__": _operator("^", logic.bitwise_xor),
    "__rxor__": _operator("^", logic.bitwise_xor, reverse=True),
    "__invert__": logic.bitwise_not,
    "__neg__": elementwise.neg,
    "__pos__": lambda self: self,
    "__abs__": elementwise.abs,
}
