"""Facts about symbolic sizes: what an op asks of them beyond what their names say, and the guards that a run checks.

A fact that is an equation is *solved*: the sizes get other values, so that every type says the fact and nobody has to look it up. If a
reshape needs `N % 8 == 0`, then `N` becomes `8*N_8`; if an add needs `M == N`, then `M` becomes `N`. A fact that is a bound, `N >= 3`,
stays as it is, and so does an equation that nothing solves, `2*floordiv(N, 4) equals floordiv(N, 2)`: a run compares both.

Each fact is a guard of its function, an entry of the attribute `guards`, which says what is needed, what it is about in the sizes that the
function has now, which op asks for it, and where:

    func @main(%x: tensor<(8*N_8)x4xf32>) attributes {guards = ["N % 8 == 0 [8*N_8] nn.reshape net.py:12:9"]} { ... }

How equations are solved is the subject of `ir/sizes/equations.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from polyreme.ir.diagnostics import UNKNOWN, Location
from polyreme.ir.dims import Dim, Expr, evaluate, known_nonnegative, line_of, parse_dim, substitute, symbol, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.sizes.residues import zeros

# --- guards


_TEXT = re.compile(r"(?P<need>[^\[\]]+) \[(?P<size>[^\[\]]+)\] (?P<op>\S+)(?: (?P<place>.+))?\Z")
_REMAINDER = re.compile(r"(?P<size>.+) % (?P<divisor>\d+) == (?P<rest>\d+)\Z")
_RELATION = re.compile(r"(?P<size>.+) (?P<sign>==|>=|<=|equals) (?P<other>.+)\Z")
_AXIS = re.compile(r"axis (?P<axis>\d+) of (?P<input>\S+) == (?P<size>\d+)\Z")
_CHECKED_REMAINDER = re.compile(r"(?P<size>.+) % (?P<divisor>\d+) equals 0\Z")


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the sizes of a function's arguments that the op `op` at `place` asks for.

    `need` says it in the names that the user knows: `N % 8 == 0`, `M == N`, `axis 1 of x == 4`, `N >= 3` or `N <= 3`, `N equals
    2*floordiv(T, 2)`. For the first three, which are solved, `size` is what stands in the types in place of the left side; for bounds
    `size` is what must not be negative, and for what is checked the difference, which must be 0.
    """

    need: str
    size: Dim
    op: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.need} [{self.size}] {self.op} {self.place}".rstrip()

    @property
    def kind(self) -> str:
        """ "divisor", "equal" or "fixed" (to a number), which types say, or "bound" or "checked", which a run has to compare."""
        if _AXIS.match(self.need):
            return "fixed"
        return (
            "divisor"
            if _REMAINDER.match(self.need)
            else "equal"
            if " == " in self.need
            else "checked"
            if " equals " in self.need
            else "bound"
        )

    @property
    def is_bound(self) -> bool:
        return self.kind == "bound"

    @property
    def words(self) -> str:
        """What is expected, for messages: `N to be divisible by 8`."""
        if match := _AXIS.match(self.need):
            return f"{axis_words(match['input'], match['axis'])}{match['size']}"
        if match := _CHECKED_REMAINDER.match(self.need):
            return f"{match['size']} to be divisible by {match['divisor']}"
        if match := _REMAINDER.match(self.need):
            rest = "be divisible by" if match["rest"] == "0" else f"leave {match['rest']} when divided by"
            return f"{match['size']} to {rest} {match['divisor']}"
        match = _relation(self.need)
        if match["sign"] == "equals":
            fitting = zeros(self.size)
            return f"no difference between {match['size']} and {match['other']}" + (
                f" (there is none where {fitting})" if fitting is not None else ""
            )
        return f"{match['size']} to be {{}} {match['other']}".format({"==": "equal to", ">=": "at least", "<=": "at most"}[match["sign"]])

    @property
    def origin(self) -> str:
        """Which op asks for it, and where."""
        return f"{self.op} at {self.place}" if self.place else self.op

    @property
    def measured(self) -> tuple[Dim, int | None, int | None]:
        """What a run compares, and with which least and greatest value; of a solved fact the size that stands in the types, with neither.
        """
        match = _relation(self.need)
        if match["sign"] == "==":
            return self.size, None, None
        if match["sign"] == "equals":
            return self.size, 0, 0
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
        if relation["sign"] in (">=", "<=") and not re.fullmatch(r"-?\d+", relation["other"]):
            raise ValueError(f"expected a number as the bound of the guard {text!r}")
        return guard


def _relation(need: str) -> re.Match[str]:
    match = _RELATION.match(need)
    if match is None:
        raise ValueError(f"expected what a guard needs, such as 'N >= 3', but got {need!r}")
    return match


def axis_words(argument: str, axis: int | str) -> str:
    """How the words of a fact about an axis that is fixed begin."""
    return f"axis {axis} of '{argument}' to be "


def fixed_axis(argument: str, axis: int, guard: Guard, size: int) -> Guard:
    """The guard that an axis of an argument is `size`, for the reason of `guard`."""
    return replace(guard, need=f"axis {axis} of {argument} == {size}", size=size)


def checked(a: Dim, b: Dim, op: str, location: Location = UNKNOWN) -> Guard:
    """The guard that two sizes are equal, which a run compares; of a size and its whole quotients, that it is divisible."""
    difference = a - b
    for mono, coef in difference.terms if isinstance(difference, Expr) else ():
        if len(mono) == 1 and mono[0].fn == "floordiv" and abs(coef) == mono[0].args[1]:
            size, divisor = mono[0].args
            if isinstance(size, str) or not isinstance(divisor, int):
                continue
            if (difference if coef < 0 else -difference) == size - size // divisor * divisor:
                return Guard(f"{size} % {divisor} equals 0", difference, op, _place(location))
    return Guard(f"{a} equals {b}", difference, op, _place(location))


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
    return all(
        q.fn == "floordiv" and isinstance(q.args[1], int) and _PERIOD % q.args[1] == 0 and line_of(q.args[0]) is not None for q in quotients
    )


def without_implied(guards: Iterable[Guard]) -> list[Guard]:
    """The guards without bounds that follow from the others: of `N >= 3` and `N >= 5` the latter is enough. Each is there once."""
    kept: list[Guard] = []
    guards = list(guards)
    checked_sizes: set[Dim] = set()
    zero = [s for g in guards if g.kind == "checked" for s in (g.size, -g.size)]
    for guard in guards:
        if guard.is_bound and any(known_nonnegative(guard.size - size) for size in zero):
            continue
        if guard.kind == "checked":
            if guard.size in checked_sizes:
                continue
            checked_sizes |= {guard.size, -guard.size}
        if guard.is_bound and any(g.is_bound and known_nonnegative(guard.size - g.size) for g in kept):
            continue
        if guard.is_bound:
            kept = [g for g in kept if not (g.is_bound and known_nonnegative(g.size - guard.size))]
        if guard not in kept:
            kept.append(guard)
    return kept


def _place(location: Location) -> str:
    return str(location) if location else ""


def reasons(guards: Iterable[Guard], size: Dim, kind: str, argument: str, axis: int) -> str:
    """In words, why an axis of an argument has to be of this `size`: the guards of the kind, or all if there are none of it; empty without
    guards.
    """
    begin = axis_words(argument, axis)
    about = [g for g in guards if g.size == size and (g.words.startswith(begin) if g.kind == "fixed" else g.kind in ("divisor", "equal"))]
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
