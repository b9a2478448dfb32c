"""Gradients of elementwise ops. Where an operand was repeated, its gradient is summed back (`unbroadcast`).

At kinks the gradient is Paddle's: 0 for `relu` and `abs` at 0, 1 for `leaky_relu` at 0, halves for equal operands of `maximum` and
`minimum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from polyreme.dialects.nn import (
    Abs,
    Acos,
    Add,
    Asin,
    Atan,
    Atan2,
    Cast,
    Ceil,
    Cos,
    Cosh,
    Div,
    Dropout,
    Equal,
    Erf,
    Exp,
    Expm1,
    Floor,
    Gelu,
    Greater,
    LeakyRelu,
    Less,
    Log,
    Log1p,
    Log2,
    Log10,
    Maximum,
    Minimum,
    Mod,
    Mul,
    Neg,
    Pow,
    Real,
    Reciprocal,
    Relu,
    Round,
    Rsqrt,
    Sigmoid,
    Sign,
    Silu,
    Sin,
    Sinh,
    Softplus,
    Sqrt,
    Square,
    Sub,
    Tan,
    Tanh,
    Trunc,
    Where,
)
from polyreme.lowering.gradients.table import Emitter, Value, conjugate, gradient, number, unbroadcast, zeros_like

# d(op)/dx as a product with dy, for ops whose slope is one formula of the operand x and the result y.
_SLOPES: dict[Any, Callable[[Emitter, Value, Value], Value]] = {
    Abs: lambda b, x, y: b(Sign, x),
    Exp: lambda b, x, y: y,
    Expm1: lambda b, x, y: b(Add, y, number(b, 1, y)),
    Sin: lambda b, x, y: b(Cos, x),
    Cos: lambda b, x, y: b(Neg, b(Sin, x)),
    Tan: lambda b, x, y: b(Add, b(Square, y), number(b, 1, y)),
    Sinh: lambda b, x, y: b(Cosh, x),
    Cosh: lambda b, x, y: b(Sinh, x),
    Tanh: lambda b, x, y: b(Sub, number(b, 1, y), b(Square, y)),
    Sigmoid: lambda b, x, y: b(Mul, y, b(Sub, number(b, 1, y), y)),
    Erf: lambda b, x, y: b(Mul, number(b, 2 / math.sqrt(math.pi), x), b(Exp, b(Neg, b(Square, x)))),
    Square: lambda b, x, y: b(Add, x, x),
    Reciprocal: lambda b, x, y: b(Neg, b(Square, y)),
    Rsqrt: lambda b, x, y: b(Mul, number(b, -0.5, y), b(Mul, y, b(Square, y))),
}

# The same as a quotient: dx = dy / (…).
_DIVISORS: dict[Any, Callable[[Emitter, Value, Value], Value]] = {
    Log: lambda b, x, y: x,
    Log1p: lambda b, x, y: b(Add, x, number(b, 1, x)),
    Log2: lambda b, x, y: b(Mul, x, number(b, math.log(2), x)),
    Log10: lambda b, x, y: b(Mul, x, number(b, math.log(10), x)),
    Sqrt: lambda b, x, y: b(Add, y, y),
    Asin: lambda b, x, y: b(Sqrt, b(Sub, number(b, 1, x), b(Square, x))),
    Acos: lambda b, x, y: b(Neg, b(Sqrt, b(Sub, number(b, 1, x), b(Square, x)))),
    Atan: lambda b, x, y: b(Add, b(Square, x), number(b, 1, x)),
}


@gradient(*_SLOPES)
def by_slope(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy · slope"""
    return (b(Mul, dy, conjugate(b, _SLOPES[_class_of(op)](b, op.x, op.result))),)


@gradient(*_DIVISORS)
def by_divisor(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy / (1 / slope)"""
    return (b(Div, dy, conjugate(b, _DIVISORS[_class_of(op)](b, op.x, op.result))),)


def _class_of(op: Any) -> Any:
    """The op's class: the tape's records name it in `cls`."""
    return getattr(op, "cls", type(op))


@gradient(Neg)
def neg(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = -dy"""
    return (b(Neg, dy),)


@gradient(Floor, Ceil, Round, Trunc, Sign)
def steps(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = 0"""
    return (zeros_like(b, dy),)


@gradient(Cast)
def cast(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy, in the type of x; of complex numbers the real part where x is real"""
    dtype, arrived = op.x.type.dtype, dy.type.dtype
    if dtype.is_float and arrived.kind == "c":
        return (b(Cast, b(Real, dy), dtype=dtype),)
    return (b(Cast, dy, dtype=dtype) if dtype.kind in "fc" and arrived.kind in "fc" else None,)


# --- activations


@gradient(Relu)
def relu(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy where y > 0"""
    return (b(Where, b(Greater, op.result, number(b, 0, dy)), dy, number(b, 0, dy)),)


@gradient(LeakyRelu)
def leaky_relu(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = alpha dy where x < 0, else dy"""
    return (b(Where, b(Less, op.x, number(b, 0, dy)), b(Mul, dy, number(b, op.alpha, dy)), dy),)


@gradient(Gelu)
def gelu(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy (Φ(x) + x φ(x)), or the derivative of the tanh form"""
    x = op.x
    one, half = number(b, 1, x), number(b, 0.5, x)
    if not op.approximate:
        cumulative = b(Mul, half, b(Add, one, b(Erf, b(Mul, x, number(b, math.sqrt(0.5), x)))))
        density = b(Mul, number(b, 1 / math.sqrt(2 * math.pi), x), b(Exp, b(Mul, number(b, -0.5, x), b(Square, x))))
        return (b(Mul, dy, b(Add, cumulative, b(Mul, x, density))),)
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    square = b(Square, x)
    inner = b(Mul, b(Mul, number(b, scale, x), x), b(Add, one, b(Mul, number(b, cubic, x), square)))
    t = b(Tanh, inner)
    slope = b(Mul, number(b, scale, x), b(Add, one, b(Mul, number(b, 3 * cubic, x), square)))
    curve = b(Mul, b(Mul, x, slope), b(Sub, one, b(Square, t)))
    return (b(Mul, dy, b(Mul, half, b(Add, b(Add, one, t), curve))),)


@gradient(Silu)
def silu(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy s (1 + x (1 - s)) with s = sigmoid(x)"""
    one, s = number(b, 1, dy), b(Sigmoid, op.x)
    return (b(Mul, dy, b(Mul, s, b(Add, one, b(Mul, op.x, b(Sub, one, s))))),)


@gradient(Softplus)
def softplus(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy sigmoid(beta x), and dy above the threshold"""
    scaled = b(Mul, op.x, number(b, op.beta, dy))
    return (b(Where, b(Greater, scaled, number(b, op.threshold, dy)), dy, b(Mul, dy, b(Sigmoid, scaled))),)


@gradient(Dropout)
def dropout(op: Any, b: Emitter, dy: Value) -> Any:
    """The same elements dropped and the same ones scaled"""
    return b(Dropout, dy, op.draws, p=op.p, mode=op.mode), None


# --- two operands


@gradient(Add)
def add(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dy = dz"""
    return unbroadcast(b, dz, op.x.type), unbroadcast(b, dz, op.y.type)


@gradient(Sub)
def sub(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz, dy = -dz"""
    return unbroadcast(b, dz, op.x.type), b(Neg, unbroadcast(b, dz, op.y.type))


@gradient(Mul)
def mul(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz y, dy = dz x"""
    return unbroadcast(b, b(Mul, dz, conjugate(b, op.y)), op.x.type), unbroadcast(b, b(Mul, dz, conjugate(b, op.x)), op.y.type)


@gradient(Div)
def div(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz / y, dy = -(dz / y) z"""
    quotient = b(Div, dz, conjugate(b, op.y))
    return unbroadcast(b, quotient, op.x.type), unbroadcast(b, b(Neg, b(Mul, quotient, conjugate(b, op.result))), op.y.type)


@gradient(Mod)
def mod(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz, dy = -dz floor(x / y), of the rounded quotient as in Paddle"""
    return unbroadcast(b, dz, op.x.type), unbroadcast(b, b(Neg, b(Mul, dz, b(Floor, b(Div, op.x, op.y)))), op.y.type)


@gradient(Pow)
def power(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz y x^(y-1), 0 where y is 0; dy = dz z log(x), 0 where x is 0"""
    x, y = op.x, op.y
    zero, one = number(b, 0, dz), number(b, 1, dz)
    slope = b(Mul, y, b(Pow, x, b(Sub, y, one)))
    dx = b(Mul, dz, b(Where, b(Equal, y, zero), zero, slope))
    at_zero = b(Equal, x, zero)
    log = b(Where, at_zero, zero, b(Log, b(Where, at_zero, one, x)))
    return unbroadcast(b, dx, x.type), unbroadcast(b, b(Mul, b(Mul, dz, op.result), log), y.type)


@gradient(Atan2)
def atan2(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz y / (x² + y²), dy = -dz x / (x² + y²), both 0 at the origin"""
    x, y = op.x, op.y
    zero, squared = number(b, 0, dz), b(Add, b(Square, x), b(Square, y))
    origin = b(Equal, squared, zero)
    share = b(Where, origin, zero, b(Div, dz, b(Where, origin, number(b, 1, dz), squared)))
    return unbroadcast(b, b(Mul, share, y), x.type), unbroadcast(b, b(Neg, b(Mul, share, x)), y.type)


@gradient(Maximum, Minimum)
def extreme(op: Any, b: Emitter, dz: Value) -> Any:
    """dz to the operand that was chosen, half to each of two equal ones"""
    zero, half = number(b, 0, dz), b(Mul, dz, number(b, 0.5, dz))
    chosen = Greater if _class_of(op) is Maximum else Less
    equal = b(Equal, op.x, op.y)
    dx = b(Where, b(chosen, op.x, op.y), dz, b(Where, equal, half, zero))
    dy = b(Where, b(chosen, op.y, op.x), dz, b(Where, equal, half, zero))
    return unbroadcast(b, dx, op.x.type), unbroadcast(b, dy, op.y.type)


@gradient(Where)
def where(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz where the condition holds, dy = dz where not"""
    zero = number(b, 0, dz)
    dx, dy = b(Where, op.condition, dz, zero), b(Where, op.condition, zero, dz)
    return None, unbroadcast(b, dx, op.x.type), unbroadcast(b, dy, op.y.type)
