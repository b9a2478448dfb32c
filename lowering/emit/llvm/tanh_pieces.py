"""tanh in float32 by pieces: a polynomial for each quarter of a power of two, with coefficients looked up in registers.

It takes seven look-ups and five multiply-adds, and neither a division nor an exponential. Machines with `Target.half_width_vectors` use it.
The table has a column for each piece. Its index is the exponent's last three bits and the fraction's first two.
"""

from __future__ import annotations

import struct
from decimal import Decimal, localcontext
from functools import cache

from polyreme.ir.python.records import dataclass
from polyreme.lowering.emit.llvm import avx512
from polyreme.lowering.emit.llvm.text import Lane


@dataclass(frozen=True)
class Pieces:
    """Polynomials of this degree, from `first` on, below which there is one piece around 0, in which the column of 7/64 is looked up, to
    `last`, from where on tanh is 1. `fraction` bits of a float32 stand behind those that say its piece.
    """

    degree: int
    first: float
    last: float
    fraction: int


PIECES = Pieces(degree=5, first=0.125, last=9.1, fraction=21)
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
    columns = [(0.0,) * (PIECES.degree + 2)] * 32
    with localcontext() as context:
        context.prec = 40
        around_zero = _points(Decimal(0), Decimal(PIECES.first), PIECES.degree)
        rise = _through(around_zero, [_tanh(x) / x for x in around_zero])
        (at,) = struct.unpack("I", struct.pack("f", PIECES.first))
        at >>= PIECES.fraction
        columns[(at - 1) % 32] = (0.0, 0.0, *map(_float, rise))
        while True:
            low, high = (struct.unpack("f", struct.pack("I", i << PIECES.fraction))[0] for i in (at, at + 1))
            if low >= PIECES.last:
                return tuple(zip(*columns, strict=True))
            high = min(high, PIECES.last)
            middle = _middle(low, high)
            start = Decimal(middle)
            xs = _points(Decimal(low) - start, Decimal(high) - start, PIECES.degree + 1)
            coefficients = _through(xs, [_tanh(start + x) for x in xs])
            columns[at % 32] = (middle, _float(_tanh(start)), *map(_float, coefficients[1:]))
            at += 1


def tanh_by_pieces(x: Lane) -> Lane:
    """tanh of a float32."""
    size = x.abs().at_most(PIECES.last)
    at = size.at_least(PIECES.first * 7 / 8).bits().shift_right(PIECES.fraction)
    start, *coefficients = (avx512.look_up(row, at, "float") for row in pieces())
    t = size - start
    result = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = result.fma(t, c)
    return result.copysign(x)
