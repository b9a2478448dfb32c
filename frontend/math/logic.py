"""Comparisons and logic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.core import Op
from polyreme.ir.types import i1
from polyreme.math.common import cast_to, equal_sizes, number_dtype, number_of, promote, tensor_arg
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import in_place, isnan, maximum, minimum, scale, subtract, where, with_number
from polyreme.tensor import Tensor

__all__ = [
    "allclose", "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "equal",
    "equal_all", "greater_equal", "greater_than",
    "is_empty", "isclose",
    "less_equal", "less_than", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip
METHODS = list(__all__)


def _compare(name: str, cls: type[Op], doc: str) -> Callable[..., Tensor]:
    def function(x: Tensor, y: Any, name: str | None = None) -> Tensor:
        tensor_arg(x, function.__name__)
        if not isinstance(y, Tensor):
            return with_number(function, x, y)
        return dispatch.call(cls, *promote(x, y))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def equal(x: Tensor, y: Any, name: str | None = None) -> Tensor:
    """x == y, element by element. A number `y` is cast to the dtype of x first, as in Paddle, so that of whole numbers 2 equals 2.5; the
    operator `==` has the number as it is.
    """
    if isinstance(y, (int, float)):
        y = cast_to(dispatch.full((), y, number_dtype(y)), tensor_arg(x, "equal").type.dtype)
    return _equal(x, y)


_equal = _compare("equal", ops.Equal, "x == y, element by element.")
not_equal = _compare("not_equal", ops.NotEqual, "x != y, element by element.")
less_than = _compare("less_than", ops.Less, "x < y, element by element.")
less_equal = _compare("less_equal", ops.LessEqual, "x <= y, element by element.")
greater_than = _compare("greater_than", ops.Greater, "x > y, element by element.")
greater_equal = _compare("greater_equal", ops.GreaterEqual, "x >= y, element by element.")


def _logical(name: str, cls: type[Op], doc: str) -> Callable[..., Tensor]:
    def function(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        tensor_arg(x, function.__name__, "x")
        tensor_arg(y, function.__name__, "y")
        x, y = promote(x, y)
        return dispatch.call(cls, cast_to(x, i1), cast_to(y, i1))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


logical_and = _logical("logical_and", ops.LogicalAnd, "Whether both are true (not zero).")
logical_or = _logical("logical_or", ops.LogicalOr, "Whether either is true (not zero).")
logical_xor = _logical("logical_xor", ops.LogicalXor, "Whether exactly one is true (not zero).")


def logical_not(x: Tensor, name: str | None = None) -> Tensor:
    """Whether x is false (zero)."""
    return dispatch.call(ops.LogicalNot, cast_to(tensor_arg(x, "logical_not"), i1))


def _bitwise(name: str, cls: type[Op], doc: str) -> Callable[..., Tensor]:
    def function(x: Tensor, y: Tensor, out: Tensor | None = None, name: str | None = None) -> Tensor:
        tensor_arg(x, function.__name__, "x")
        tensor_arg(y, function.__name__, "y")
        x, y = promote(x, y)
        if x.type.dtype.kind not in "iub":
            raise TypeError(f"{function.__name__} expected bools or integers but got {x.dtype.name}")
        result = dispatch.call(cls, x, y)
        return result if out is None else dispatch.assign(out, result)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


bitwise_and = _bitwise("bitwise_and", ops.BitwiseAnd, "Bits that both have; logical and for bools.")
bitwise_or = _bitwise("bitwise_or", ops.BitwiseOr, "Bits that either has; logical or for bools.")
bitwise_xor = _bitwise("bitwise_xor", ops.BitwiseXor, "Bits that exactly one has; logical xor for bools.")


def bitwise_not(x: Tensor, out: Tensor | None = None, name: str | None = None) -> Tensor:
    """All bits turned; logical not for bools, -x - 1 for signed integers."""
    if tensor_arg(x, "bitwise_not").type.dtype.kind not in "iub":
        raise TypeError(f"bitwise_not expected bools or integers but got {x.dtype.name}")
    result = dispatch.call(ops.BitwiseNot, x)
    return result if out is None else dispatch.assign(out, result)


def _shifted(x: Tensor, y: Tensor, function: str) -> tuple[Tensor, Tensor, Tensor]:
    """Both of one dtype, the places between 0 and all bits but one, and whether they were."""
    tensor_arg(x, function, "x")
    tensor_arg(y, function, "y")
    x, y = promote(x, y)
    if x.type.dtype.kind not in "iu":
        raise TypeError(f"{function} expected integers but got {x.dtype.name}")
    zero, most = (dispatch.full((), n, x.type.dtype) for n in (0, 8 * x.type.dtype.bytes - 1))
    within = minimum(maximum(y, zero), most)
    return x, within, equal(within, y)


def bitwise_left_shift(x: Tensor, y: Tensor, is_arithmetic: bool = True, out: Tensor | None = None, name: str | None = None) -> Tensor:
    """The bits of `x` moved up by `y` places; 0 where these are negative or as many as there are bits."""
    x, places, fits = _shifted(x, y, "bitwise_left_shift")
    result = where(fits, dispatch.call(ops.ShiftLeft, x, places), dispatch.full((), 0, x.type.dtype))
    return result if out is None else dispatch.assign(out, result)


def bitwise_right_shift(x: Tensor, y: Tensor, is_arithmetic: bool = True, out: Tensor | None = None, name: str | None = None) -> Tensor:
    """The bits of `x` moved down by `y` places, with copies of the sign behind them, or with zeros unless `is_arithmetic`.

    None of them is left where the places are negative or as many as there are bits.
    """
    x, places, fits = _shifted(x, y, "bitwise_right_shift")
    dtype = x.type.dtype
    zero, one = (dispatch.full((), n, dtype) for n in (0, 1))
    if is_arithmetic or dtype.kind == "u":
        sign = where(less_than(x, zero), dispatch.call(ops.BitwiseNot, zero), zero) if dtype.kind == "i" else zero
        result = where(fits, dispatch.call(ops.ShiftRight, x, places), sign)
    else:
        # The sign is taken away by the first place.
        largest = dispatch.full((), (1 << 8 * dtype.bytes - 1) - 1, dtype)
        half = dispatch.call(ops.BitwiseAnd, dispatch.call(ops.ShiftRight, x, one), largest)
        rest = dispatch.call(ops.ShiftRight, half, maximum(subtract(places, one), zero))
        result = where(fits, where(equal(places, zero), x, rest), zero)
    return result if out is None else dispatch.assign(out, result)


IN_PLACE = [n for n in __all__ if n not in ("allclose", "equal_all", "is_empty", "isclose")]
for _name in IN_PLACE:
    globals()[_name + "_"] = in_place(globals()[_name])
__all__ += [n + "_" for n in IN_PLACE]
METHODS += [n + "_" for n in IN_PLACE]


def equal_all(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Whether the tensors have one shape and equal elements: a 0-D bool."""
    if not equal_sizes(x.type.shape, y.type.shape):
        return dispatch.full((), False, i1)
    return dispatch.call(ops.All, equal(x, y), axis=(), keepdims=False)


def isclose(x: Tensor, y: Tensor, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False, name: str | None = None) -> Tensor:
    """|x - y| <= atol + rtol * |y|, element by element; equal infinities are close, nans only with `equal_nan`."""
    bound = scale(abs_(y), float(number_of(rtol)), float(number_of(atol)))
    close = logical_or(less_equal(abs_(subtract(x, y)), bound), equal(x, y))
    return logical_or(close, logical_and(isnan(x), isnan(y))) if equal_nan else close


def allclose(x: Tensor, y: Tensor, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False, name: str | None = None) -> Tensor:
    """Whether all elements are close: a 0-D bool."""
    return dispatch.call(ops.All, isclose(x, y, rtol, atol, equal_nan), axis=(), keepdims=False)


def is_empty(x: Tensor, name: str | None = None) -> Tensor:
    """Whether there are no elements: a 0-D bool."""
    return dispatch.full((), x.size == 0, i1)
