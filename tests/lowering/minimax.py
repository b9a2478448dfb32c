"""Minimax polynomials by Remez' exchange, for the tables of `double_math` and of float64 in `exponentials`.

    python -m tests.lowering.minimax

prints every table, with the largest relative error of the function that it serves. Everything is computed in decimal numbers of 110 digits
from power series with rational coefficients; only the result is rounded to float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

DIGITS = 110
CONTEXT = Context(prec=DIGITS)
Real = Callable[[Decimal], Decimal]


def number(x: Fraction | float) -> Decimal:
    """A fraction, or a float64, in all digits."""
    x = Fraction(x)
    return Decimal(x.numerator) / Decimal(x.denominator)


def series(coefficient: Callable[[int], Fraction], terms: int = 300) -> Real:
    """The sum of coefficient(k) t^k, until terms no longer count."""
    with localcontext(CONTEXT):
        numbers = [number(coefficient(k)) for k in range(terms)]

    def value(t: Decimal) -> Decimal:
        total, power = Decimal(0), Decimal(1)
        for k, c in enumerate(numbers):
            total += c * power
            power *= t
            if k > 20 and abs(numbers[k] * power) < Decimal(10) ** -DIGITS:
                break
        return total

    return value


def factorial(n: int) -> Fraction:
    return Fraction(math.factorial(n))


@dataclass(frozen=True)
class Table:
    """A polynomial in t with `count` coefficients near `function`, for low <= t <= high; an error there counts `weight` times in what it
    serves.
    """

    name: str
    function: Real
    weight: Real
    low: float
    high: float
    count: int


def solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """The solution of linear equations, each row with its right side at the end."""
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(i + 1, n):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    found = [Decimal(0)] * n
    for i in reversed(range(n)):
        found[i] = (rows[i][n] - sum((rows[i][j] * found[j] for j in range(i + 1, n)), Decimal(0))) / rows[i][i]
    return found


def polynomial(coefficients: list[Decimal], t: Decimal) -> Decimal:
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * t + c
    return total


def fit(table: Table, rounds: int = 12) -> tuple[list[float], float]:
    """The coefficients, lowest power first, and the largest weighted error before they were rounded.

    Remez' exchange on a fixed grid, dense at the ends: solve for an error that alternates on count + 1 points, then move those to the
    error's extremes.
    """
    with localcontext(CONTEXT):
        return _exchange(table, rounds)


def _exchange(table: Table, rounds: int) -> tuple[list[float], float]:
    count = table.count
    size = 30 * (count + 1)
    middle, half = (table.low + table.high) / 2, (table.high - table.low) / 2
    grid = [number(middle - half * math.cos(math.pi * (i + 0.5) / size)) for i in range(size)]
    values, weights = [table.function(t) for t in grid], [table.weight(t) for t in grid]
    chosen = [round((size - 1) * (1 - math.cos(math.pi * i / count)) / 2) for i in range(count + 1)]
    for _ in range(rounds):
        rows = [[*(grid[i] ** k for k in range(count)), Decimal((-1) ** j) / weights[i], values[i]] for j, i in enumerate(chosen)]
        coefficients = solve(rows)[:count]
        errors = [(polynomial(coefficients, t) - v) * w for t, v, w in zip(grid, values, weights, strict=True)]
        # The largest error of each run of one sign; of more runs than needed, the lesser end goes.
        peaks: list[int] = []
        for i, error in enumerate(errors):
            if peaks and (errors[peaks[-1]] > 0) == (error > 0):
                peaks[-1] = max(peaks[-1], i, key=lambda k: abs(errors[k]))
            else:
                peaks.append(i)
        while len(peaks) > count + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < count + 1 or peaks == chosen:
            break
        chosen = peaks
    return [float(c) for c in coefficients], float(max(abs(e) for e in errors))


# erf(x) = x * 2/sqrt(pi) * ERF_SERIES(x*x)
@cache
def erf_series() -> Real:
    return series(lambda k: Fraction((-1) ** k, 2 * k + 1) / factorial(k))


@cache
def two_over_root_pi() -> Decimal:
    """By Machin's formula: pi = 16 atan(1/5) - 4 atan(1/239)."""
    atan = series(lambda k: Fraction((-1) ** k, 2 * k + 1))
    pi = 16 * atan(Decimal(1) / 25) / 5 - 4 * atan(Decimal(1) / 57121) / 239
    return 2 / pi.sqrt()


def erf(x: Decimal) -> Decimal:
    """For |x| <= 7; call it within `localcontext(CONTEXT)`."""
    return x * two_over_root_pi() * erf_series()(x * x)


def tables() -> list[Table]:
    half_ln2 = math.log(2) / 2
    return [
        Table("EXP", series(lambda k: 1 / factorial(k + 2)), lambda r: r * r, -half_ln2, half_ln2, 10),
        Table("EXPM1", series(lambda k: 1 / factorial(k + 2)), lambda r: r * r / (r.exp() - 1) if r else r, -half_ln2, half_ln2, 11),
        Table("EXP_SHORT", series(lambda k: 1 / factorial(k + 2)), lambda r: r * r, -half_ln2 / 16, half_ln2 / 16, 5),
        Table("EXPM1_SHORT", series(lambda k: 1 / factorial(k + 2)), lambda r: r * r / (r.exp() - 1) if r else r, 0.0, half_ln2 / 8, 6),
        Table("LOG", series(lambda k: Fraction(2, 2 * k + 3)), lambda z: z / 2, 0.0, (3 - math.sqrt(8)) ** 2, 7),
        Table("LOG_REST", series(lambda k: Fraction(2, 2 * k + 5)), lambda z: z * z / 2, 0.0, (3 - math.sqrt(8)) ** 2, 7),
        Table(
            "ERF_SMALL",
            lambda z: two_over_root_pi() * erf_series()(z) - 1,
            lambda z: 1 / (two_over_root_pi() * erf_series()(z)),
            0.0,
            0.925**2,
            12,
        ),
        Table("ERF_LARGE", lambda x: -(1 - erf(x)).ln() / x - 1, lambda x: x * (1 - erf(x)) / erf(x), 0.925, 6.0, 18),
        Table("SIN", series(lambda k: (-1) ** (k + 1) / factorial(2 * k + 3)), lambda z: z, 0.0, (math.pi / 4) ** 2, 6),
        Table("COS", series(lambda k: (-1) ** k / factorial(2 * k + 4)), lambda z: z * z, 0.0, (math.pi / 4) ** 2, 6),
        Table("ATAN", series(lambda k: Fraction((-1) ** (k + 1), 2 * k + 3)), lambda z: z, 0.0, math.tan(0.5) ** 2, 13),
        Table("ASIN", series(lambda k: Fraction(math.comb(2 * k + 2, k + 1), 4 ** (k + 1) * (2 * k + 3))), lambda z: z, 0.0, 0.25, 13),
        Table("SINH", series(lambda k: 1 / factorial(2 * k + 3)), lambda z: z, 0.0, 1.0, 7),
    ]


def main() -> None:
    for table in tables():
        coefficients, error = fit(table)
        print(f"# off by 2^{math.log2(error):.1f}")
        print(f"{table.name} = ({', '.join(repr(c) for c in coefficients)})")


if __name__ == "__main__":
    main()
