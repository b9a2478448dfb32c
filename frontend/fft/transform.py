"""The discrete Fourier transform along axes, of ops on real numbers: products with matrices of its numbers.

A length n = a b is a transform of length a of every b-th number, turned by the numbers between, and one of length b of those (Cooley and
Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965). A prime length beyond `DIRECT` is a convolution, of a
length that has factors (Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970). So the work is
that of n times the sum of factors up to `DIRECT`. A length that is known only when the program runs is one product, and at
most `MOST_FREE`.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import ScalarType, i64
from polyreme.math import add, cast, concat, cos, divide, matmul, moveaxis, multiply, reshape, sin, subtract, transpose
from polyreme.math.manipulation import flip, span
from polyreme.tensor import Tensor

__all__ = ["of_complex", "of_halves", "of_real"]

# Real and imaginary parts; None for an imaginary part of zeros.
Parts = tuple[Tensor, "Tensor | None"]
Array = np.ndarray[Any, Any]

# The greatest length that is one product.
DIRECT = 64
# The greatest length that may be free, since its product grows with the square.
MOST_FREE = 2048


def of_complex(x: Tensor, axes: Sequence[int], norm: str, forward: bool) -> Tensor:
    """The transform of complex numbers along `axes`."""
    parts: Parts = dispatch.call(ops.Real, x), dispatch.call(ops.Imag, x)
    return _whole(_along_all(parts, axes, norm, forward))


def of_real(x: Tensor, axes: Sequence[int], norm: str, forward: bool, onesided: bool) -> Tensor:
    """The transform of real numbers along `axes`; `onesided` leaves out the conjugates in the second half of the last of them."""
    last = axes[-1]
    size = x.type.shape[last]
    found = _along_all((x, None), [last], norm, forward)
    if onesided:
        found = _first(found, last, size // 2 + 1)
    return _whole(_along_all(found, axes[:-1], norm, forward))


def of_halves(x: Tensor, axes: Sequence[int], norm: str, forward: bool, size: Dim) -> Tensor:
    """The real numbers whose transform along `axes` has `x` as the first half along the last of them, where there are `size` then.

    The imaginary parts of the first number, and of the middle one of an even size, count as 0.
    """
    last = axes[-1]
    re, im = _along_all((dispatch.call(ops.Real, x), dispatch.call(ops.Imag, x)), axes[:-1], norm, forward)
    assert im is not None
    re, im = (span(part, last % x.ndim, 0, size // 2 + 1) for part in (re, im))
    mirrored = [flip(span(part, last % x.ndim, 1, (size + 1) // 2), [last]) for part in (re, im)]
    whole = concat([re, mirrored[0]], last), concat([im, _negative(mirrored[1])], last)
    return _along_all(whole, [last], norm, forward)[0]


def _along_all(parts: Parts, axes: Sequence[int], norm: str, forward: bool) -> Parts:
    for axis in axes:
        size = parts[0].type.shape[axis]
        if size == 0:
            raise ValueError(f"expected at least one number to transform along the axis {axis} but got the shape {parts[0].shape}")
        parts = _moved(parts, axis, -1)
        parts = _scaled(_turned(parts, size, -1 if forward else 1), size, norm, forward)
        parts = _moved(parts, -1, axis)
    return parts


def _scaled(parts: Parts, size: Dim, norm: str, forward: bool) -> Parts:
    if norm not in ("backward", "forward", "ortho"):
        raise ValueError(f"expected the norm 'forward', 'backward' or 'ortho' but got {norm!r}")
    if norm == ("backward" if forward else "forward"):
        return parts
    dtype = parts[0].type.dtype
    if isinstance(size, Expr):
        count = dispatch.full((), size, dtype)
        by = divide(dispatch.full((), 1, dtype), dispatch.call(ops.Sqrt, count) if norm == "ortho" else count)
    else:
        by = dispatch.full((), 1 / numbers.sqrt(size) if norm == "ortho" else 1 / size, dtype)
    return _each(parts, lambda part: multiply(part, by))


# --- along the last axis, without a scale


def _turned(parts: Parts, n: Dim, sign: int) -> Parts:
    """X[k] = sum of x[j] exp(sign 2 pi i j k / n)"""
    if isinstance(n, Expr):
        return _by_free_matrix(parts, n, sign)
    first = _factor(n)
    if first is not None:
        return _by_factors(parts, first, n // first, sign)
    if n > 2 * DIRECT:
        return _by_convolution(parts, n, sign)
    return _by_matrix(parts, n, sign)


def _factor(n: int) -> int | None:
    """What to divide a length by: at most `DIRECT`, and so that what is left is not much longer than it must be. None for none."""
    if n <= DIRECT:
        return None
    divisors = [a for a in range(2, DIRECT + 1) if n % a == 0]
    if not divisors:
        return None
    small = [a for a in divisors if n // a <= DIRECT]
    return min(small, key=lambda a: a + n // a) if small else divisors[-1]


def _by_factors(parts: Parts, a: int, b: int, sign: int) -> Parts:
    """X[k1 + a k2] = sum over j2 of w_b^(j2 k2) w_n^(j2 k1) sum over j1 of w_a^(j1 k1) x[b j1 + j2]"""
    lead = parts[0].type.shape[:-1]
    parts = _each(parts, lambda part: _swapped(reshape(part, [*lead, a, b])))  # [..., j2, j1]
    parts = _by_matrix(parts, a, sign)  # [..., j2, k1]
    parts = _product(parts, _turns(a, b, sign), parts[0].type.dtype)
    parts = _turned(_each(parts, _swapped), b, sign)  # [..., k1, k2]
    return _each(parts, lambda part: reshape(_swapped(part), [*lead, a * b]))


def _by_matrix(parts: Parts, n: int, sign: int) -> Parts:
    """One product with [[cos, sin], [-sin, cos]], of the rows that there are."""
    matrix = _matrix(n, sign, parts[1] is not None)
    return _halves(matmul(_joined(parts), _constant(matrix, parts[0].type.dtype)), n)


def _by_free_matrix(parts: Parts, n: Expr, sign: int) -> Parts:
    dtype = parts[0].type.dtype
    count = dispatch.full((), n, i64)
    # A part of so many places, which says that a length fits.
    places = span(dispatch.call(ops.Iota, shape=(MOST_FREE,), axis=0, dtype=i64), 0, 0, n)
    here = [reshape(places, [n, 1]), reshape(places, [1, n])]
    turn = divide(cast(dispatch.call(ops.Mod, multiply(*here), count), "float64"), cast(count, "float64"))
    angle = multiply(turn, dispatch.full((), sign * 2 * numbers.pi, turn.type.dtype))
    c, s = (dispatch.call(ops.Cast, part, dtype=dtype) for part in (cos(angle), sin(angle)))
    re, im = parts
    if im is None:
        return matmul(re, c), matmul(re, s)
    return subtract(matmul(re, c), matmul(im, s)), add(matmul(re, s), matmul(im, c))


def _by_convolution(parts: Parts, n: int, sign: int) -> Parts:
    """X[k] = w[k] sum of (x[j] w[j]) conj(w[k - j]) with w[j] = exp(sign pi i j^2 / n), since 2 j k = j^2 + k^2 - (k - j)^2"""
    dtype = parts[0].type.dtype
    length = _smooth(2 * n - 1)
    chirp, kernel = _chirp(n, length, sign)
    parts = _product(parts, chirp, dtype)
    rest = [*parts[0].type.shape[:-1], length - n]
    parts = _each(parts, lambda part: concat([part, dispatch.full(tuple(rest), 0, dtype)], -1))
    parts = _turned(_product(_turned(parts, length, -1), kernel, dtype), length, 1)
    return _product(_first(parts, -1, n), chirp, dtype)


def _smooth(least: int) -> int:
    """The next power of two, or three quarters of it where that is enough."""
    power = 1 << (least - 1).bit_length()
    return power * 3 // 4 if power * 3 // 4 >= least else power


# --- numbers of a transform


@lru_cache(maxsize=256)
def _matrix(n: int, sign: int, with_imaginary: bool) -> Array:
    """[n, 2 n], or [2 n, 2 n] for numbers that have imaginary parts, behind their real ones."""
    angle = sign * 2 * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n
    c, s = np.cos(angle), np.sin(angle)
    return np.block([[c, s], [-s, c]]) if with_imaginary else np.block([c, s])


@lru_cache(maxsize=256)
def _turns(a: int, b: int, sign: int) -> Array:
    """exp(sign 2 pi i j k / (a b)) of j < b and k < a"""
    return np.exp(sign * 2j * np.pi * np.outer(np.arange(b), np.arange(a)) / (a * b))


@lru_cache(maxsize=64)
def _chirp(n: int, length: int, sign: int) -> tuple[Array, Array]:
    """exp(sign pi i j^2 / n), and the transform of its conjugates over so many places, divided by their number."""
    places = np.arange(n, dtype=np.int64)
    chirp = np.exp(sign * 1j * np.pi * (places * places % (2 * n)) / n)
    kernel = np.zeros(length, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[length - n + 1 :] = chirp.conj()[:0:-1]
    return chirp, np.fft.fft(kernel) / length


# --- parts


def _constant(array: Array, dtype: ScalarType) -> Tensor:
    return dispatch.constant(np.ascontiguousarray(array, dtype.np))


def _product(parts: Parts, by: Array, dtype: ScalarType) -> Parts:
    re, im = parts
    c, s = _constant(by.real, dtype), _constant(by.imag, dtype)
    if im is None:
        return multiply(re, c), multiply(re, s)
    return subtract(multiply(re, c), multiply(im, s)), add(multiply(re, s), multiply(im, c))


def _each(parts: Parts, function: Any) -> Parts:
    re, im = parts
    return function(re), None if im is None else function(im)


def _moved(parts: Parts, source: int, destination: int) -> Parts:
    rank = parts[0].ndim
    return parts if source % rank == destination % rank else _each(parts, lambda part: moveaxis(part, source, destination))


def _first(parts: Parts, axis: int, count: Dim) -> Parts:
    return _each(parts, lambda part: span(part, axis % part.ndim, 0, count))


def _joined(parts: Parts) -> Tensor:
    re, im = parts
    return re if im is None else concat([re, im], -1)


def _halves(joined: Tensor, n: int) -> Parts:
    last = joined.ndim - 1
    return span(joined, last, 0, n), span(joined, last, n, 2 * n)


def _swapped(x: Tensor) -> Tensor:
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _negative(x: Tensor) -> Tensor:
    return dispatch.call(ops.Neg, x)


def _whole(parts: Parts) -> Tensor:
    re, im = parts
    assert im is not None
    return dispatch.call(ops.Complex, re, im)
