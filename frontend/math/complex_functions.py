"""Powers, exponentials and trigonometry of complex numbers, by real functions of their parts, so that gradients and machine code are those
of the real ones.

Branch cuts and signs at them are those of C99's annex G but for numbers that are infinite or nan. Inverse functions after W. Kahan, "Branch
cuts for complex elementary functions; or, much ado about nothing's sign bit" (1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.math import elementwise as real_math
from polyreme.math.elementwise import add, atan2, divide, maximum, minimum, multiply, neg, scale, square, subtract, where
from polyreme.math.logic import equal, less_than, logical_and, logical_or
from polyreme.tensor import Tensor

__all__ = ["FUNCTIONS", "length", "power"]

Parts = tuple[Tensor, Tensor]


def _number(value: float, like: Tensor) -> Tensor:
    return dispatch.full((), value, like.type.dtype)


def _plus(x: Tensor, value: float) -> Tensor:
    return add(x, _number(value, x))


def _negative(x: Tensor) -> Tensor:
    """Whether the sign is set, that of zero too."""
    zero = _number(0, x)
    return logical_or(less_than(x, zero), less_than(divide(_number(1, x), x), zero))


def _magnitude(x: Tensor) -> Tensor:
    """|x| with the derivative at a zero that its sign says: what is one-sided there is odd or even in the end."""
    return _signed(x, x)


def _signed(x: Tensor, like: Tensor) -> Tensor:
    """`x` with its sign turned where that of `like` is set."""
    return where(_negative(like), neg(x), x)


def length(a: Tensor, b: Tensor) -> Tensor:
    """sqrt(a^2 + b^2) by the larger of both, so that no square overflows or vanishes; the gradient at 0 is 0."""
    one, zero = _number(1, a), _number(0, a)
    first, second = _magnitude(a), _magnitude(b)
    most, least = maximum(first, second), minimum(first, second)
    unbounded = equal(most, scale(most, 2.0))  # 0 too
    ratio = divide(least, where(unbounded, one, most))
    return where(equal(most, zero), zero, multiply(most, real_math.sqrt(_plus(square(ratio), 1.0))))


def _turned(x: Parts) -> Parts:
    """i x"""
    return neg(x[1]), x[0]


def _turned_back(x: Parts) -> Parts:
    """-i x"""
    return x[1], neg(x[0])


def _exp(a: Tensor, b: Tensor) -> Parts:
    size = real_math.exp(a)
    return multiply(size, real_math.cos(b)), multiply(size, real_math.sin(b))


def _expm1(a: Tensor, b: Tensor) -> Parts:
    half = real_math.sin(scale(b, 0.5))
    return subtract(multiply(real_math.expm1(a), real_math.cos(b)), scale(square(half), 2.0)), multiply(real_math.exp(a), real_math.sin(b))


def _log(a: Tensor, b: Tensor) -> Parts:
    return real_math.log(length(a, b)), atan2(b, a)


def _log_to(base: float) -> Callable[[Tensor, Tensor], Parts]:
    def function(a: Tensor, b: Tensor) -> Parts:
        length, turn = _log(a, b)
        return scale(length, 1 / math.log(base)), scale(turn, 1 / math.log(base))

    return function


def _log1p(a: Tensor, b: Tensor) -> Parts:
    """By |1 + z|^2 - 1 near 0, and by |1 + z| elsewhere: near -1 the one would cancel, and far from 0 overflow."""
    zero, edge = _number(0, a), _number(0.5, a)
    near = less_than(maximum(_magnitude(a), _magnitude(b)), edge)
    c, d = where(near, a, zero), where(near, b, zero)
    close = scale(real_math.log1p(add(multiply(c, _plus(c, 2.0)), square(d))), 0.5)
    away = real_math.log(length(_plus(where(near, zero, a), 1.0), where(near, zero, b)))
    return where(near, close, away), atan2(b, _plus(a, 1.0))


def _sqrt(a: Tensor, b: Tensor) -> Parts:
    one, zero = _number(1, a), _number(0, a)
    root = real_math.sqrt(scale(add(length(a, b), _magnitude(a)), 0.5))
    none = equal(root, zero)
    other = where(none, zero, divide(_magnitude(b), scale(where(none, one, root), 2.0)))
    left = _negative(a)
    return where(left, other, root), _signed(where(left, root, other), b)


def _sin(a: Tensor, b: Tensor) -> Parts:
    return multiply(real_math.sin(a), real_math.cosh(b)), multiply(real_math.cos(a), real_math.sinh(b))


def _cos(a: Tensor, b: Tensor) -> Parts:
    return multiply(real_math.cos(a), real_math.cosh(b)), neg(multiply(real_math.sin(a), real_math.sinh(b)))


def _sinh(a: Tensor, b: Tensor) -> Parts:
    return multiply(real_math.sinh(a), real_math.cos(b)), multiply(real_math.cosh(a), real_math.sin(b))


def _cosh(a: Tensor, b: Tensor) -> Parts:
    return multiply(real_math.cosh(a), real_math.cos(b)), multiply(real_math.sinh(a), real_math.sin(b))


def _tanh(a: Tensor, b: Tensor) -> Parts:
    """Kahan's; from 20 on it is 1, and the sinh would overflow in the end."""
    a = maximum(minimum(a, _number(20, a)), _number(-20, a))
    tangent, sinh = real_math.tan(b), real_math.sinh(a)
    beta = _plus(square(tangent), 1.0)
    divisor = _plus(multiply(beta, square(sinh)), 1.0)
    cosh = real_math.sqrt(_plus(square(sinh), 1.0))
    return divide(multiply(multiply(beta, cosh), sinh), divisor), divide(tangent, divisor)


def _tan(a: Tensor, b: Tensor) -> Parts:
    return _turned_back(_tanh(*_turned((a, b))))


def _sigmoid(a: Tensor, b: Tensor) -> Parts:
    p, q = _tanh(scale(a, 0.5), scale(b, 0.5))
    return scale(_plus(p, 1.0), 0.5), scale(q, 0.5)


def _roots(a: Tensor, b: Tensor) -> tuple[Parts, Parts]:
    """The roots of 1 - z and 1 + z."""
    return _sqrt(_plus(neg(a), 1.0), neg(b)), _sqrt(_plus(a, 1.0), b)


def _acos(a: Tensor, b: Tensor) -> Parts:
    (p, q), (r, s) = _roots(a, b)
    return scale(atan2(p, r), 2.0), real_math.asinh(subtract(multiply(r, q), multiply(s, p)))


def _asin(a: Tensor, b: Tensor) -> Parts:
    (p, q), (r, s) = _roots(a, b)
    return atan2(a, subtract(multiply(p, r), multiply(q, s))), real_math.asinh(subtract(multiply(p, s), multiply(q, r)))


def _acosh(a: Tensor, b: Tensor) -> Parts:
    (p, q), (r, s) = _sqrt(_plus(a, -1.0), b), _sqrt(_plus(a, 1.0), b)
    return real_math.asinh(add(multiply(p, r), multiply(q, s))), scale(atan2(q, r), 2.0)


def _asinh(a: Tensor, b: Tensor) -> Parts:
    return _turned_back(_asin(*_turned((a, b))))


def _atanh(a: Tensor, b: Tensor) -> Parts:
    """Odd in `a`: near -1 the logarithm would be of a difference that cancels."""
    most = _magnitude(a)
    left, right = _plus(neg(most), 1.0), _plus(most, 1.0)
    size = scale(real_math.log1p(divide(scale(most, 4.0), add(square(left), square(b)))), 0.25)
    return _signed(size, a), scale(atan2(scale(b, 2.0), subtract(multiply(left, right), square(b))), 0.5)


def _atan(a: Tensor, b: Tensor) -> Parts:
    return _turned_back(_atanh(*_turned((a, b))))


def _by_parts(function: Callable[[Tensor, Tensor], Parts]) -> Callable[[Tensor], Tensor]:
    def of(x: Tensor) -> Tensor:
        return dispatch.call(ops.Complex, *function(dispatch.call(ops.Real, x), dispatch.call(ops.Imag, x)))

    return of


def _sign(x: Tensor) -> Tensor:
    """x / |x|, and 0 for 0."""
    size = real_math.abs(x)
    none = equal(size, _number(0, size))
    return divide(x, dispatch.call(ops.Complex, where(none, _number(1, size), size), _number(0, size)))


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    name: _by_parts(function)
    for name, function in {
        "acos": _acos, "acosh": _acosh, "asin": _asin, "asinh": _asinh, "atan": _atan, "atanh": _atanh, "cos": _cos, "cosh": _cosh,
        "exp": _exp, "expm1": _expm1,
        "log": _log, "log10": _log_to(10), "log1p": _log1p, "log2": _log_to(2), "sigmoid": _sigmoid, "sin": _sin, "sinh": _sinh,
        "sqrt": _sqrt, "tan": _tan,
        "tanh": _tanh,
    }.items()
} | {"sign": _sign}  # fmt: skip


def power(x: Tensor, y: Tensor) -> Tensor:
    """exp(y log x) for complex numbers of one dtype; 1 where y is 0, x where it is 1.

    By the real part of y, 0 to a positive power is 0 and to a negative one 1 / 0, infinities the other way round; where only the imaginary
    part is not 0 both give nan. The gradient at 0 is 1 for the first power, infinite or nan for lower ones.
    """
    zero, one = dispatch.full((), 0, x.type.dtype), dispatch.full((), 1, x.type.dtype)
    height = dispatch.call(ops.Real, y)
    none, unbounded = equal(x, zero), real_math.isinf(x)
    above, below = less_than(_number(0, height), height), less_than(height, _number(0, height))
    made = FUNCTIONS["exp"](multiply(y, FUNCTIONS["log"](where(logical_or(none, unbounded), one, x))))
    # What is not chosen computes with 1, lest its gradient there be nan.
    poles, low = logical_and(none, below), logical_and(logical_and(none, above), less_than(height, _number(1, height)))
    reciprocal = divide(one, where(poles, x, one))
    within = where(low, x, one)
    root = dispatch.call(ops.Complex, *(real_math.sqrt(dispatch.call(part, within)) for part in (ops.Real, ops.Imag)))
    vanished = where(low, root, zero)
    nan = _number(math.nan, height)
    endless = where(poles, reciprocal, dispatch.call(ops.Complex, _number(math.inf, height), nan))
    is_endless = logical_or(poles, logical_and(unbounded, above))
    limit = where(is_endless, endless, where(logical_or(above, below), vanished, dispatch.call(ops.Complex, nan, nan)))
    return where(equal(y, zero), one, where(equal(y, one), x, where(logical_or(none, unbounded), limit, made)))


real_math.OF_COMPLEX.update(FUNCTIONS, length=length, power=power)
