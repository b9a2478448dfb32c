"""Equations between symbolic sizes: what the sizes must be for two of them to be equal.

    >>> N, M = symbol("N"), symbol("M")
    >>> solve(N // 8 * 8, N, ("N",)).values
    {'N': 8*N_8}
    >>> solve(M * 3, N * 3, ("N", "M")).values
    {'M': N}
    >>> solve(N, 4, ("N",)).values
    {'N': 4}
    >>> solve((N // 2) * (M // 3) * 6, N * M, ("N", "M")).values
    {'M': 3*M_3, 'N': 2*N_2}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, prod
from types import MappingProxyType
from typing import NamedTuple

from polyreme.ir.diagnostics import UNKNOWN, Location
from polyreme.ir.dims import Dim, Expr, Monomial, known_nonnegative, line_of, product, substitute, symbol, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.sizes.residues import extremes, zeros

__all__ = ["Solution", "gaps", "solve"]


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
    are names that are no longer in use, for words only. A product that both sides are is taken not to be 0, nor a size that is a factor of
    both.
    """
    difference = _without_common_factors(a - b)
    if isinstance(difference, int):
        return Solution({}, ()) if difference == 0 else None
    return (
        _without_remainder(difference, names)
        or _of_one_name(difference, names)
        or _replaced(difference, names, solved)
        or _in_proportion(difference, names)
        or _factor_by_factor(difference, names)
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


def _factor_by_factor(difference: Expr, names: Sequence[str]) -> Solution | None:
    """Two products are equal  ->  what makes the gap between each two of their factors 0."""
    found = Solution({}, ())
    apart = _gaps_of_factors(difference)
    for gap in apart or ():
        solution = solve(gap, 0, [*names, *(name for size in found.values.values() for name in symbols(size))])
        if solution is None or found.values.keys() & solution.values.keys():
            return None
        found = Solution(found.values | solution.values, found.needs + solution.needs)
    return found if apart else None


def gaps(a: Dim, b: Dim) -> list[Dim] | None:
    """What is 0 wherever two products are equal, and not 0, which grow alike with all sizes; None if they do not, or are never equal.

        >>> [str(gap) for gap in gaps(symbol("H") * symbol("W"), (symbol("H") // 2) * (symbol("W") // 2) * 4)]
        ['H-2*floordiv(H, 2)', 'W-2*floordiv(W, 2)']
    """
    difference = _without_common_factors(a - b)
    if isinstance(difference, int):
        return [] if difference == 0 else None
    bounds = extremes(difference)
    return [difference] if bounds and bounds[0] <= 0 <= bounds[1] else _gaps_of_factors(difference)


def _gaps_of_factors(difference: Expr) -> list[Dim] | None:
    """c*p*q - d*r*s == 0, where each factor on the left is at least so many times one on the right  ->  the gaps between these, all of
    which are 0 then, as nothing can make up for another one.

    So an image of `H*W` pixels fills windows, `16 * floordiv(H, 4) * floordiv(W, 4)` pixels, where 4 divides both sizes: `H` is never less
    than `4*floordiv(H, 4)`, nor `W` than `4*floordiv(W, 4)`.
    """
    if len(difference.terms) != 2:
        return None
    (one, c), (other, d) = difference.terms
    left, right = _factors(one), _factors(other)
    ratios = [p.growth / r.growth for p, r in zip(left, right, strict=False)]
    if len(ratios) < 2 or [p.name for p in left] != [r.name for r in right] or c * prod(ratios) != -d:
        return None
    pairs = zip(left, right, ratios, strict=True)
    found = dict.fromkeys(p.size * ratio.denominator - r.size * ratio.numerator for p, r, ratio in pairs)
    bounds = [(gap, gap) if isinstance(gap, int) else extremes(gap) or (-1, 1) for gap in found]
    if min(least for least, _ in bounds) < 0 < max(most for _, most in bounds):
        return None
    return [gap for gap in found if not isinstance(gap, int) or gap]


class _Factor(NamedTuple):
    """An atom in one name: `name`, or `floordiv(k*name + n, d)`, which grows with it by `growth`, `k/d`."""

    name: str
    growth: Fraction
    size: Expr


def _factors(mono: Monomial) -> list[_Factor]:
    """The factors of a product, by name and growth; none if one of them is no atom in one name, or may be below 0."""
    found = []
    for atom in mono:
        size = Expr((((atom,), 1),))
        inner, divisor = atom.args if atom.fn == "floordiv" else (size, 1)
        line = None if isinstance(inner, str) else line_of(inner)
        if line is None or not isinstance(divisor, int) or not known_nonnegative(size):
            return []
        found.append(_Factor(line[0], Fraction(line[1], divisor), size))
    return sorted(found, key=lambda factor: factor[:2])


def _fresh(name: str, names: Sequence[str]) -> str:
    return next(n for n in (name, *(f"{name}_{i}" for i in range(1, len(names) + 2))) if n not in names)
