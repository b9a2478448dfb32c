"""Functions of the gamma and Bessel families, the inverse of `erf`, steps, and norms that are limited.

They are computed in float64, whatever the operand, and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebinterpolate

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.types import f64
from polyreme.math.common import axis_of, cast_to, promote, tensor_arg
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import exp, in_place, isinf, log, maximum, minimum, sign, sin, sqrt, tan, where
from polyreme.math.elementwise import pow as pow_
from polyreme.math.elementwise import round as round_
from polyreme.math.reduction import sum as sum_
from polyreme.tensor import Tensor

__all__ = ["digamma", "erfinv", "gammaln", "heaviside", "i0", "i0e", "i1", "i1e", "lgamma", "polygamma", "renorm"]
METHODS = list(__all__)

Wide = Any  # a tensor of float64


def _of_wide(x: Tensor, function: str, compute: Callable[[Wide], Wide]) -> Tensor:
    if not tensor_arg(x, function).type.dtype.is_float:
        raise TypeError(f"{function} expected floats but got {x.dtype.name}")
    return cast_to(compute(cast_to(x, f64)), x.type.dtype)


def _number(value: float) -> Wide:
    return dispatch.full((), value, f64)


def heaviside(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """0 of negative elements of `x`, 1 of positive ones, `y` of 0; 0 of nan."""
    tensor_arg(x, "heaviside")
    tensor_arg(y, "heaviside", "y")
    x, y = promote(x, y)
    step = cast_to(dispatch.call(ops.Greater, x, dispatch.full((), 0, x.type.dtype)), y.type.dtype)
    return where(dispatch.call(ops.Equal, x, dispatch.full((), 0, x.type.dtype)), y, step)


# --- the gamma family

# Lanczos' approximation (1964) with g = 7, in nine terms.
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
# Bernoulli's numbers B2, B4, …
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
# So far up series are begun at which these numbers take over.
_SHIFT = 10


def lgamma(x: Tensor, name: str | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function; infinite of 0 and of negative whole numbers."""

    def compute(x: Wide) -> Wide:
        reflected = x < 0.5
        z = where(reflected, 1.0 - x, x) - 1.0
        series, shifted = _number(_LANCZOS[0]), z + 7.5
        for place, term in enumerate(_LANCZOS[1:], 1):
            series = series + term / (z + float(place))
        upper = (z + 0.5) * log(shifted) - shifted + log(series) + 0.5 * math.log(2 * math.pi)
        # Γ(x) Γ(1 - x) = π / sin(πx), whose sine is 0 of whole numbers alone.
        sine = where(reflected, abs_(sin(math.pi * (x - round_(x)))), _number(1.0))
        made = where(reflected, math.log(math.pi) - log(sine) - upper, upper)
        return where(isinf(x), _number(math.inf), made)

    return _of_wide(x, "lgamma", compute)


def gammaln(x: Tensor, name: str | None = None) -> Tensor:
    """As `lgamma`."""
    return lgamma(x)


def digamma(x: Tensor, name: str | None = None) -> Tensor:
    """The derivative of the logarithm of the gamma function; -inf of 0, nan of negative whole numbers."""

    def compute(x: Wide) -> Wide:
        reflected = x < 0.5
        z = where(reflected, 1.0 - x, x)
        total = _number(0.0)
        for place in range(_SHIFT):
            total = total + 1.0 / (z + float(place))
        far = z + float(_SHIFT)
        square = 1.0 / (far * far)
        tail = _number(0.0)
        for place in reversed(range(len(_BERNOULLI))):
            tail = (tail + _BERNOULLI[place] / (2 * place + 2)) * square
        upper = log(far) - 0.5 / far - tail - total
        fraction = x - round_(x)
        tangent = where(reflected, tan(math.pi * fraction), _number(1.0))
        made = where(reflected, upper - math.pi / tangent, upper)
        pole = where(x == 0.0, _number(-math.inf), _number(math.nan))
        return where((x <= 0.0) & (fraction == 0.0), pole, where(x == math.inf, x, made))

    return _of_wide(x, "digamma", compute)


def polygamma(x: Tensor, n: int, name: str | None = None) -> Tensor:
    """The `n`-th derivative of `digamma`; infinite of 0 and of negative whole numbers, nan of others below -20."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ValueError(f"The input of order n must be a non-negative integer, but received {n}.")
    if n == 0:
        return digamma(x)

    def compute(x: Wide) -> Wide:
        """n! times Hurwitz' zeta function of n + 1, by the formula of Euler and Maclaurin"""
        power = n + 1.0
        total = _number(0.0)
        shift = 3 * _SHIFT
        for place in range(shift):
            total = total + pow_(x + float(place), -power)
        far = x + float(shift)
        total = total + pow_(far, 1.0 - power) / (power - 1.0) + 0.5 * pow_(far, -power)
        factor = power
        for place, bernoulli in enumerate(_BERNOULLI, 1):
            total = total + bernoulli / math.factorial(2 * place) * factor * pow_(far, 1.0 - power - 2 * place)
            factor *= (power + 2 * place - 1) * (power + 2 * place)
        made = total * ((-1.0) ** (n + 1) * math.factorial(n))
        pole = (x == round_(x)) & (x <= 0.0)
        return where(pole, _number(math.inf), where(x > -20.0, made, _number(math.nan)))

    return _of_wide(x, "polygamma", compute)


# --- the inverse of erf

# Wichura's algorithm AS 241 (1988), PPND16: numerators and denominators in the middle, and for tails up to 5 and beyond.
_MIDDLE = (
    (3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4, 4.5921953931549871457e4,
     6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4, 3.9307895800092710610e4,
     2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_NEAR = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504, 1.27045825245236838258,
     2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
     5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1, 2.65321895265761230930e-2,
     1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


def _quotient(of: tuple[Sequence[float], Sequence[float]], x: Wide) -> Wide:
    above, below = (_polynomial(terms, x) for terms in of)
    return above / below


def _polynomial(terms: Sequence[float], x: Wide) -> Wide:
    total = _number(terms[-1])
    for term in reversed(terms[:-1]):
        total = total * x + term
    return total


def erfinv(x: Tensor, name: str | None = None) -> Tensor:
    """Where the error function is `x`; infinite of 1 and -1, nan beyond."""

    def compute(x: Wide) -> Wide:
        half, size = x * 0.5, abs_(x)
        middle = half * _quotient(_MIDDLE, 0.180625 - minimum(half * half, _number(0.180625)))
        root = sqrt(-log(where(size < 1.0, (1.0 - size) * 0.5, _number(0.5))))
        tail = where(root <= 5.0, _quotient(_NEAR, root - 1.6), _quotient(_FAR, root - 5.0))
        made = where(size <= 0.85, middle, sign(x) * tail) * math.sqrt(0.5)
        edge = dispatch.call(ops.Equal, size, _number(1.0))
        return where(size < 1.0, made, where(edge, sign(x) * math.inf, _number(math.nan)))

    return _of_wide(x, "erfinv", compute)


erfinv_ = in_place(erfinv)
__all__ += ["erfinv_"]
METHODS += ["erfinv_"]


# --- Bessel functions of imaginary arguments

# Up to here they are a polynomial of Chebyshev's in x, and beyond, times the root of x, one in 1 / x.
_TURN = 8.0
_DEGREE = 32


def _scaled(order: int, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """exp(-x) times the function, by the rule of trapezoids of its integral, which is exact for periodic integrands."""
    angles = 2 * np.pi * np.arange(8000) / 8000
    made: np.ndarray[Any, Any] = np.mean(np.exp(x[:, None] * (np.cos(angles) - 1)) * np.cos(order * angles), 1)
    return made


@cache
def _series(order: int) -> tuple[list[float], list[float]]:
    def near(t: Any) -> Any:
        x = (t + 1) * _TURN / 2
        return _scaled(order, x) / x**order

    def far(t: Any) -> Any:
        x = 2 * _TURN / (t + 1)
        return _scaled(order, x) * np.sqrt(x)

    return chebinterpolate(near, _DEGREE).tolist(), chebinterpolate(far, _DEGREE).tolist()


def _clenshaw(terms: Sequence[float], t: Wide) -> Wide:
    """The sum of Chebyshev's polynomials."""
    last, before = _number(0.0), _number(0.0)
    for term in reversed(terms[1:]):
        last, before = term + 2.0 * t * last - before, last
    return terms[0] + t * last - before


def _bessel(order: int, x: Wide) -> Wide:
    near, far = _series(order)
    size = abs_(x)
    beyond = maximum(size, _number(_TURN))
    low = _clenshaw(near, minimum(size, _number(_TURN)) * (2 / _TURN) - 1.0)
    high = _clenshaw(far, 2 * _TURN / beyond - 1.0) / sqrt(beyond)
    return where(size <= _TURN, low * x, high * sign(x)) if order else where(size <= _TURN, low, high)


def i0e(x: Tensor, name: str | None = None) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind of order 0."""
    return _of_wide(x, "i0e", lambda x: _bessel(0, x))


def i0(x: Tensor, name: str | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return _of_wide(x, "i0", lambda x: where(isinf(x), abs_(x), exp(abs_(x)) * _bessel(0, x)))


def i1e(x: Tensor, name: str | None = None) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind of order 1."""
    return _of_wide(x, "i1e", lambda x: _bessel(1, x))


def i1(x: Tensor, name: str | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return _of_wide(x, "i1", lambda x: where(isinf(x), x, exp(abs_(x)) * _bessel(1, x)))


# --- norms


def renorm(x: Tensor, p: float, axis: int, max_norm: float) -> Tensor:
    """Slices along `axis` whose p-norm is more than `max_norm` are scaled down to it."""
    place = axis_of(axis, tensor_arg(x, "renorm").ndim, "renorm")
    others = [a for a in range(x.ndim) if a != place]
    total = sum_(pow_(abs_(x), float(p)), others, keepdim=True) if others else pow_(abs_(x), float(p))
    length: Any = pow_(total, 1.0 / float(p))
    number = dispatch.full((), 1, x.type.dtype)
    factor = where(length > float(max_norm), float(max_norm) / (length + 1e-7), number)
    return dispatch.call(ops.Mul, x, factor)
