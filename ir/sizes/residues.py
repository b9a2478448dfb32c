"""Where a sum of quotients of one size is 0: found by looking at all values of a period.

Over a period, the least common multiple of the divisors, such a sum grows by as much wherever one starts. So its values of one period say
all of them.

    >>> N = symbol("N")
    >>> zeros(N - N // 4 * 4)
    Zeros(name='N', period=4, residues=(0,))
    >>> zeros(N // 4 - 2)
    Zeros(name='N', period=0, residues=(8, 9, 10, 11))
"""

from __future__ import annotations

from math import lcm
from typing import Any

import numpy as np

from polyreme.ir.dims import Dim, Expr, line_of, symbols
from polyreme.ir.python.records import dataclass

__all__ = ["Zeros", "extremes", "zeros"]

# Longer periods are not looked at.
MOST_VALUES = 1 << 14
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Zeros:
    """The values of `name`, none below 0, that make a sum 0: all that leave one of `residues` when divided by `period`, or with no period
    just these.
    """

    name: str
    period: int
    residues: tuple[int, ...]

    @property
    def line(self) -> tuple[int, int] | None:
        """`(step, least)` if the values are `least`, `least + step` and so on; None otherwise."""
        if not self.period or not self.residues or self.period % len(self.residues):
            return None
        step, least = self.period // len(self.residues), self.residues[0]
        return (step, least) if self.residues == tuple(range(least, self.period, step)) else None

    def __str__(self) -> str:
        """Which values these are, in words."""
        most = [str(n) for n in self.residues[:8]]
        listed = (
            ", ".join(most) + ", ..."
            if len(self.residues) > len(most)
            else " or ".join([", ".join(most[:-1]), most[-1]] if most[1:] else most)
        )
        return f"{self.name} % {self.period} is {listed}" if self.period else f"{self.name} is {listed}"


def zeros(size: Dim) -> Zeros | None:
    """Where `size` is 0; None if that is not known: it is no sum of lines in one name and quotients of such, or its period is too long."""
    found = _of_a_period(size)
    if found is None:
        return None
    values, growth = found
    period = len(values)
    (name,) = symbols(size)
    if growth == 0:
        return Zeros(name, period, tuple(np.flatnonzero(values == 0).tolist()))
    # A value n + k * period makes it values[n] + k * growth.
    times, rest = np.divmod(-values, growth)
    reached = np.flatnonzero((rest == 0) & (times >= 0))
    return Zeros(name, 0, tuple(sorted((reached + times[reached] * period).tolist())))


def extremes(size: Dim) -> tuple[int, int] | None:
    """The least and the largest value of a size that does not grow with its name; None if it grows, or `zeros` does not know it.

        >>> extremes(symbol("N") // 4 - symbol("N") // 28 * 7)
        (0, 6)
    """
    found = _of_a_period(size)
    return None if found is None or found[1] else (int(found[0].min()), int(found[0].max()))


def _of_a_period(size: Dim) -> tuple[Array, int] | None:
    """The values of a size for those of its only name in a period from 0 on, and how much it grows from one period to the next."""
    if len(symbols(size)) != 1 or not isinstance(size, Expr):
        return None
    period = _period(size)
    if period is None:
        return None
    values = _values(size, np.arange(2 * period, dtype=np.int64))
    return values[:period], int(values[period] - values[0])


def _period(size: Expr) -> int | None:
    found = 1
    for mono, coef in size.terms:
        if len(mono) > 1 or abs(coef) >= 1 << 31:
            return None
        for atom in mono:
            if atom.fn:
                inner, divisor = atom.args
                if atom.fn != "floordiv" or not isinstance(divisor, int) or divisor < 1 or isinstance(inner, str):
                    return None
                line = line_of(inner) or line_of(-inner)
                if line is None or max(map(abs, line[1:])) >= 1 << 31:
                    return None
                found = lcm(found, divisor)
                if found > MOST_VALUES:
                    return None
    return found


def _values(size: Dim, values: Array) -> Array:
    if isinstance(size, int):
        return np.full(values.shape, size)
    total = np.zeros_like(values)
    for mono, coef in size.terms:
        term = np.full(values.shape, coef)
        for atom in mono:
            if atom.fn:
                inner, divisor = atom.args
                assert not isinstance(inner, str)
                term = term * (_values(inner, values) // divisor)
            else:
                term = term * values
        total = total + term
    return total
