"""Facts about symbolic sizes: what an op asks of them beyond what their names say, and the guards that a run checks.

A fact that is an equation is *solved*: the sizes get other values, so that every type says the fact and nobody has to look it up. If a reshape needs
`N % 8 == 0`, then `N` becomes `8*N_8`; if an add needs `M == N`, then `M` becomes `N`. A fact that is a bound, `N >= 3`, stays as it is.

Each fact is a guard of its function, an entry of the attribute `guards`, which says what is needed, what it is about in the sizes that the function
has now, which op asks for it, and where:

    func @main(%x: tensor<(8*N_8)x4xf32>) attributes {guards = ["N % 8 == 0 [8*N_8] nn.reshape net.py:12:9"]} { ... }

    >>> N, M = symbol("N"), symbol("M")
    >>> solve(N // 8 * 8, N, ("N",)).values
    {'N': 8*N_8}
    >>> solve(M * 3, N * 3, ("N", "M")).values
    {'M': N}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import gcd
from types import MappingProxyType
from typing import Any

from polyreme.ir.diagnostics import UNKNOWN, Location
from polyreme.ir.dims import Dim, Expr, evaluate, known_nonnegative, line_of, parse_dim, product, substitute, symbol, symbols

# --- guards


_TEXT = re.compile(r"(?P<need>[^\[\]]+) \[(?P<size>[^\[\]]+)\] (?P<op>\S+)(?: (?P<place>.+))?\Z")
_REMAINDER = re.compile(r"(?P<size>.+) % (?P<divisor>\d+) == (?P<rest>\d+)\Z")
_RELATION = re.compile(r"(?P<size>.+) (?P<sign>==|>=|<=) (?P<other>.+)\Z")


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the sizes of a function's arguments that the op `op` at `place` asks for.

    `need` says it in the names that the user knows: `N % 8 == 0`, `M == N`, `N >= 3` or `N <= 3`. For the first two, which are solved, `size` is what
    stands in the types in place of the left side; for bounds `size` is what must not be negative.
    """

    need: str
    size: Dim
    op: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.need} [{self.size}] {self.op} {self.place}".rstrip()

    @property
    def kind(self) -> str:
        """ "divisor" or "equal", which types say, or "bound", which a run has to compare."""
        return "divisor" if _REMAINDER.match(self.need) else "equal" if "==" in self.need else "bound"

    @property
    def is_bound(self) -> bool:
        return self.kind == "bound"

    @property
    def words(self) -> str:
        """What is expected, for messages: `N to be divisible by 8`."""
        if match := _REMAINDER.match(self.need):
            rest = "be divisible by" if match["rest"] == "0" else f"leave {match['rest']} when divided by"
            return f"{match['size']} to {rest} {match['divisor']}"
        match = _relation(self.need)
        return f"{match['size']} to be {{}} {match['other']}".format({"==": "equal to", ">=": "at least", "<=": "at most"}[match["sign"]])

    @property
    def origin(self) -> str:
        """Which op asks for it, and where."""
        return f"{self.op} at {self.place}" if self.place else self.op

    @property
    def measured(self) -> tuple[Dim, int | None, int | None]:
        """What a run compares, and with which least and greatest value; of a solved fact the size that stands in the types, with neither."""
        match = _relation(self.need)
        if match["sign"] == "==":
            return self.size, None, None
        limit = int(match["other"])
        return (self.size + limit, limit, None) if match["sign"] == ">=" else (limit - self.size, None, limit)

    def substituted(self, values: Mapping[str, Dim]) -> Guard:
        return replace(self, size=substitute(self.size, values))

    @staticmethod
    def parse(text: str) -> Guard:
        """Reads what `str` of a guard prints; `ValueError` for anything else."""
        match = _TEXT.match(text)
        if match is None:
            raise ValueError(f"expected a guard, such as 'N % 8 == 0 [8*N_8] nn.reshape net.py:12', but got {text!r}")
        guard = Guard(match["need"], parse_dim(match["size"]), match["op"], match["place"] or "")
        relation = _relation(guard.need)
        if relation["sign"] != "==" and not re.fullmatch(r"-?\d+", relation["other"]):
            raise ValueError(f"expected a number as the bound of the guard {text!r}")
        return guard


def _relation(need: str) -> re.Match[str]:
    match = _RELATION.match(need)
    if match is None:
        raise ValueError(f"expected what a guard needs, such as 'N >= 3', but got {need!r}")
    return match


def at_least_zero(size: Expr, op: str, location: Location = UNKNOWN) -> Guard:
    """The guard that `size` is not negative: `N-3` gives `N >= 3`, `5-N` gives `N <= 5`, and `N-floordiv(N, 2)-1` gives `N >= 1`."""
    size = _plainly(size)
    constant = next((coef for mono, coef in size.terms if not mono), 0)
    rest = size - constant
    if isinstance(rest, Expr) and rest.terms[0][1] < 0:
        return Guard(f"{-rest} <= {constant}", size, op, _place(location))
    return Guard(f"{rest} >= {-constant}", size, op, _place(location))


def _plainly(size: Expr) -> Expr:
    """`N-k`, if a sum of quotients of one name N is at least 0 exactly where N is at least `k`; any other size as it is."""
    names = symbols(size)
    if len(names) != 1 or line_of(size) is not None or not all(_repeats(mono) for mono, _ in size.terms):
        return size
    (name,) = names
    values = [evaluate(size, {name: n}) for n in range(2 * _PERIOD + 1)]
    least = next((n for n in range(_PERIOD) if values[n] >= 0), None)
    # Over each period the sum grows by as much.
    if least is None or values[_PERIOD] < values[0] or min(values[least:]) < 0:
        return size
    shifted = symbol(name) - least
    assert isinstance(shifted, Expr)
    return shifted


# What sums of quotients by its divisors repeat after.
_PERIOD = 240


def _repeats(mono: tuple[Any, ...]) -> bool:
    """Whether a factor of a term is 1, a name, or the quotient of a line by a divisor of the period."""
    if len(mono) > 1:
        return False
    quotients = [atom for atom in mono if atom.fn]
    return all(q.fn == "floordiv" and isinstance(q.args[1], int) and _PERIOD % q.args[1] == 0 and line_of(q.args[0]) is not None for q in quotients)


def without_implied(guards: Iterable[Guard]) -> list[Guard]:
    """The guards without bounds that follow from the others: of `N >= 3` and `N >= 5` the latter is enough. Each is there once."""
    kept: list[Guard] = []
    for guard in guards:
        if guard.is_bound and any(g.is_bound and known_nonnegative(guard.size - g.size) for g in kept):
            continue
        if guard.is_bound:
            kept = [g for g in kept if not (g.is_bound and known_nonnegative(g.size - guard.size))]
        if guard not in kept:
            kept.append(guard)
    return kept


def _place(location: Location) -> str:
    return str(location) if location else ""


def reasons(guards: Iterable[Guard], size: Dim, kind: str) -> str:
    """In words, why an axis has to be of this `size`: the guards of the kind, or all if there are none of it; empty without guards."""
    about = [g for g in guards if not g.is_bound and g.size == size]
    return " and ".join(f"{g.words} ({g.origin})" for g in [g for g in about if g.kind == kind] or about)


# --- finding facts


_equations: ContextVar[list[tuple[Dim, Dim]] | None] = ContextVar("equations", default=None)


@contextmanager
def assuming() -> Iterator[list[tuple[Dim, Dim]]]:
    """Inside the `with`, sizes that an inference wants to be equal are taken to be, and listed; numbers that differ are still a fault."""
    found: list[tuple[Dim, Dim]] = []
    token = _equations.set(found)
    try:
        yield found
    finally:
        _equations.reset(token)


def agree(a: Dim, b: Dim) -> bool:
    """Whether two sizes are equal, or may be and are taken to be, inside `assuming`; for use in an op's `infer`."""
    if a == b:
        return True
    equations = _equations.get()
    if equations is None or isinstance(a - b, int):
        return False
    equations.append((a, b))
    return True


def agree_all(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """`agree` for shapes."""
    return a == b or (len(a) == len(b) and all(agree(x, y) for x, y in zip(a, b, strict=True)))


# --- solving them


@dataclass(frozen=True, slots=True)
class Solution:
    """What sizes must be for an equation to hold, and for each of them what is needed of it, in words of the names of before."""

    values: dict[str, Dim]
    needs: tuple[tuple[str, Dim], ...]

    def guards(self, op: str, location: Location = UNKNOWN) -> list[Guard]:
        return [Guard(need, size, op, _place(location)) for need, size in self.needs]


def solve(a: Dim, b: Dim, names: Sequence[str], solved: Mapping[str, Dim] = MappingProxyType({})) -> Solution | None:
    """What makes `a` equal to `b`, all values of the sizes that do so and no others; None when this is not known, or fixes a size to one number.

    `names` are the sizes in use, oldest first: a new name differs from them, and of two sizes that are equal the younger one goes. `solved` are names that
    are no longer in use, for words only. A size that is a factor of both sides is taken not to be 0.
    """
    difference = _without_common_factors(a - b)
    if isinstance(difference, int):
        return Solution({}, ()) if difference == 0 else None
    return _without_remainder(difference, names) or _replaced(difference, names, solved) or _in_proportion(difference, names)


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
