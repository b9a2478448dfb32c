"""Equations between symbolic sizes: what the sizes must be for two of them to be equal.

    >>> N, M = symbol("N"), symbol("M")
    >>> solve(N // 8 * 8, N, ("N",)).values
    {'N': 8*N_8}
    >>> solve(M * 3, N * 3, ("N", "M")).values
    {'M': N}
    >>> solve(N, 4, ("N",)).values
    {'N': 4}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from types import MappingProxyType

from polyreme.ir.diagnostics import UNKNOWN, Location
from polyreme.ir.dims import Dim, Expr, known_nonnegative, line_of, product, substitute, symbol, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.sizes.residues import zeros

__all__ = ["Solution", "solve"]


@dataclass(frozen=True, slots=True)
class Solution:
    """What sizes must be for an equation to hold, and for each of them what is needed of it, in words of the names of before."""

    values: dict[str, Dim]
    needs: tuple[tuple[str, Dim], ...]

    def guards(self, op: str, location: Location = UNKNOWN) -> list[Guard]:
        place = str(location) if location else ""
        return [Guard(need, size, op, place) for need, size in self.needs]


def solve(a: Dim, b: Dim, names: Sequence[str], solved: Mapping[str, Dim] = MappingProxyType({})) -> Solution | None:
    """What makes `a` equal to `b`, all values of the sizes that do so and no others; None when this is not known, or is nothing that sizes
    can be replaced by.

    `names` are the sizes in use, oldest first: a new name differs from them, and of two sizes that are equal the younger one goes. `solved`
    are names that are no longer in use, for words only. A size that is a factor of both sides is taken not to be 0.
    """
    difference = _without_common_factors(a - b)
    if isinstance(difference, int):
        return Solution({}, ()) if difference == 0 else None
    return (
        _without_remainder(difference, names)
        or _of_one_name(difference, names)
        or _replaced(difference, names, solved)
        or _in_proportion(difference, names)
    )


def _without_common_factors(difference: Dim) -> Dim:
    if isinstance(difference, int):
        return difference
    factor: Dim = gcd(*(coef for _, coef in difference.terms))
    first, *others = (mono for mono, _ in difference.terms)
    for atom in dict.fromkeys(first):
        if others and not atom.fn:
            factor = factor * product([symbol(str(atom.args[0]))] * min(mono.count(atom) for mono in (first, *others)))
    return difference // factor


def _without_remainder(difference: Expr, names: Sequence[str]) -> Solution | None:
    """c*floordiv(q, d) + r == 0  ->  what q % d must be, if c*q + d*r is a number."""
    for mono, coef in difference.terms:
        if len(mono) != 1 or mono[0].fn != "floordiv":
            continue
        inner, divisor = mono[0].args
        if isinstance(inner, str) or not isinstance(divisor, int):
            continue
        quotient = Expr((((mono[0],), 1),))
        wanted = coef * inner + divisor * (difference - coef * quotient)
        if isinstance(wanted, int) and wanted % coef == 0 and 0 <= wanted // coef < divisor:
            return _congruent(inner, wanted // coef, divisor, names)
    return None


def _congruent(size: Dim, rest: int, divisor: int, names: Sequence[str]) -> Solution | None:
    """size % divisor == rest, where `size` is a line in one name  ->  the name is a multiple of a new one, plus a number."""
    found = line_of(size) or line_of(-size)
    if found is None:
        return None
    name, scale, offset = found
    wanted = ((rest if line_of(size) else -rest) - offset) % divisor
    common = gcd(scale, divisor)
    if wanted % common:
        return None
    step = divisor // common
    least = wanted // common * pow(scale // common, -1, step) % step if step > 1 else 0
    new = step * symbol(_fresh(f"{name}_{step}", names)) + least
    return Solution({name: new}, ((f"{name} % {step} == {least}", new),))


def _of_one_name(difference: Expr, names: Sequence[str]) -> Solution | None:
    """A sum of quotients of one name is 0  ->  the name is a multiple of a new one, plus a number; or it is the only number that does it.
    """
    found = zeros(difference)
    if found is None:
        return None
    if not found.period and len(found.residues) == 1:
        (number,) = found.residues
        return Solution({found.name: number}, ((f"{found.name} == {number}", number),))
    if found.line is None or found.line[0] == 1:
        return None
    step, least = found.line
    new = step * symbol(_fresh(f"{found.name}_{step}", names)) + least
    if substitute(difference, {found.name: new}) != 0:
        return None  # which types could not say
    return Solution({found.name: new}, ((f"{found.name} % {step} == {least}", new),))


def _replaced(difference: Expr, names: Sequence[str], solved: Mapping[str, Dim]) -> Solution | None:
    """s + r == 0 or r - s == 0, where `r` has other sizes only  ->  s is r."""
    order = {name: i for i, name in enumerate(names)}
    alone = [(str(mono[0].args[0]), coef) for mono, coef in difference.terms if len(mono) == 1 and not mono[0].fn and abs(coef) == 1]
    for name, coef in sorted(alone, key=lambda entry: -order.get(entry[0], len(order))):
        rest = (difference - coef * symbol(name)) * -coef
        if isinstance(rest, Expr) and name not in symbols(rest) and not known_nonnegative(-rest - 1):
            known = next((former for former, size in solved.items() if size == rest), rest)
            return Solution({name: rest}, ((f"{name} == {known}", rest),))
    return None


def _in_proportion(difference: Expr, names: Sequence[str]) -> Solution | None:
    """c*s - d*t == 0, where nothing divides both numbers  ->  s is d*k and t is c*k"""
    if len(difference.terms) != 2 or any(len(mono) != 1 or mono[0].fn for mono, _ in difference.terms):
        return None
    ((one,), c), ((other,), d) = difference.terms
    if c * d > 0:
        return None
    name, partner = str(one.args[0]), str(other.args[0])
    new = symbol(_fresh(f"{name}_{abs(d)}", names))
    values = {name: abs(d) * new, partner: abs(c) * new}
    need = f"{abs(c) * symbol(name)} == {abs(d) * symbol(partner)}"
    return Solution(values, tuple((need, size) for size in values.values()))


def _fresh(name: str, names: Sequence[str]) -> str:
    return next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(names) + 2))) if n not in names)
