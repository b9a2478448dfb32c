"""tanh in float32 by pieces: a polynomial for each quarter of a power of two, with coefficients looked up in registers.

It takes seven look-ups and five multiply-adds, and neither a division nor an exponential. Machines with `Target.half_width_vectors` use it.
The table has a column for each piece. Its index is the exponent's last three bits and the fraction's first two.
"""

from __future__ import annotations

import struct
from decimal import Decimal, localcontext
from functools import cache

from polyreme.lowering.emit.llvm import avx512
from polyreme.lowering.emit.llvm.text import Lane

DEGREE = 5
# Below `FIRST` there is one piece around 0, in which the column of 7/64 is looked up; from `LAST` on tanh is 1.
FIRST, LAST = 0.125, 9.1
_FRACTION = 21  # bits of a float32 behind those that say its piece
# Chebyshev's points of six and of five, as cosines.
_POINTS = {
    6: ("0.965925826289068286749743", "0.707106781186547524400844", "0.258819045102520762348898"),
    5: ("0.951056516295153572116439", "0.587785252292473129168706"),
}


def _float(x: Decimal) -> float:
    """The float32 next to x."""
    (rounded,) = struct.unpack("f", struct.pack("f", float(x)))
    return float(rounded)


def _tanh(x: Decimal) -> Decimal:
    falling = (-2 * x).exp()
    return (1 - falling) / (1 + falling)


def _points(low: Decimal, high: Decimal, count: int) -> list[Decimal]:
    cosines = [Decimal(c) for c in _POINTS[count]]
    turned = [*cosines, *([Decimal(0)] if count % 2 else []), *(-c for c in reversed(cosines))]
    return [(low + high) / 2 + (high - low) / 2 * c for c in turned]


def _through(xs: list[Decimal], ys: list[Decimal]) -> list[Decimal]:
    """The coefficients of the polynomial through these points, lowest power first, by Newton's divided differences."""
    found = list(ys)
    for k in range(1, len(xs)):
        for i in range(len(xs) - 1, k - 1, -1):
            found[i] = (found[i] - found[i - 1]) / (xs[i] - xs[i - k])
    result = [found[-1]]
    for x, c in zip(reversed(xs[:-1]), reversed(found[:-1]), strict=True):
        shifted = [Decimal(0), *result]
        result = [a - x * b for a, b in zip(shifted, [*result, Decimal(0)], strict=True)]
        result[0] += c
    return result


def _middle(low: float, high: float) -> float:
    """A number near the middle of a piece whose tanh is nearly a float32."""
    step = (high - low) / 512
    middles = [_float(Decimal((low + high) / 2 + k * step)) for k in range(-8, 9)]

    def lost(x: float) -> Decimal:
        exact = _tanh(Decimal(x))
        return abs(exact - Decimal(_float(exact)))

    return min(middles, key=lost)


@cache
def pieces() -> tuple[tuple[float, ...], ...]:
    """By rows: where each piece's polynomial has its zero, and its coefficients."""
    columns = [(0.0,) * (DEGREE + 2)] * 32
    with localcontext() as context:
        context.prec = 40
        around_zero = _points(Decimal(0), Decimal(FIRST), DEGREE)
        rise = _through(around_zero, [_tanh(x) / x for x in around_zero])
        (at,) = struct.unpack("I", struct.pack("f", FIRST))
        at >>= _FRACTION
        columns[(at - 1) % 32] = (0.0, 0.0, *map(_float, rise))
        while True:
            low, high = (struct.unpack("f", struct.pack("I", i << _FRACTION))[0] for i in (at, at + 1))
            if low >= LAST:
                return tuple(zip(*columns, strict=True))
            high = min(high, LAST)
            middle = _middle(low, high)
            start = Decimal(middle)
            xs = _points(Decimal(low) - start, Decimal(high) - start, DEGREE + 1)
            coefficients = _through(xs, [_tanh(start + x) for x in xs])
            columns[at % 32] = (middle, _float(_tanh(start)), *map(_float, coefficients[1:]))
            at += 1


def tanh_by_pieces(x: Lane) -> Lane:
    """tanh of a float32."""
    size = x.abs().at_most(LAST)
    at = size.at_least(FIRST * 7 / 8).bits().shift_right(_FRACTION)
    start, *coefficients = (avx512.look_up(row, at, "float") for row in pieces())
    t = size - start
    result = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = result.fma(t, c)
    return result.copysign(x)
