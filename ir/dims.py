"""Symbolic sizes: a dimension is a Python int, or an `Expr` over named symbols.

An `Expr` is a polynomial with integer coefficients whose atoms are symbols or the opaque forms `floordiv`, `mod`, `max` and `min`. It is
kept canonical, so that two equal polynomials compare and hash equal, and so do two ways to write one rounding; an expression without
symbols is always a plain `int`. Symbols stand for sizes, so they are never negative.

    >>> N, T = symbol("N"), symbol("T")
    >>> str((2 * T + 1) * N - N)
    '2*N*T'
    >>> (N * 6) // 3
    2*N
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from math import gcd
from operator import attrgetter
from typing import Any, Protocol, Union

Dim = Union[int, "Expr"]
Monomial = tuple["Atom", ...]

SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Atom:
    """A symbol (`fn == ""`, the name in `args[0]`), or an operation that polynomials cannot express. It is immutable."""

    # Terms are sorted by their text, and looked up, whenever sizes are computed with: both are made once.
    __slots__ = ("_hash", "_text", "args", "fn")

    def __init__(self, fn: str, args: tuple[str | int | Expr, ...]):
        self.fn, self.args = fn, args
        self._hash = hash((fn, args))
        self._text = f"{fn}({', '.join(map(str, args))})" if fn else str(args[0])

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and self._hash == other._hash and self.fn == other.fn and self.args == other.args

    def __reduce__(self) -> tuple[Any, ...]:
        return Atom, (self.fn, self.args)  # not with the hash: another process has others

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class UnknownSize(TypeError):
    """Python asked for the number behind a symbolic size, which is not known while the program is built. `sizes` are those it asked about.
    """

    def __init__(self, message: str, *sizes: Dim):
        super().__init__(message)
        self.sizes = sizes


class Decider(Protocol):
    """What answers Python's comparisons of sizes whose order is not known: a trace does, which then holds for sizes that answer alike."""

    def is_less(self, a: Dim, b: Dim) -> bool | None:
        """Whether `a` is less than `b`, from here on; None where nothing tells."""

    def is_equal(self, a: Dim, b: Dim) -> bool | None:
        """Whether they are equal, from here on; None where nothing tells."""

    def compared(self, a: Dim, b: Dim) -> bool:
        """What `a == b` is, of sizes that are written otherwise."""


_decider: ContextVar[Decider | None] = ContextVar("decider", default=None)


@contextmanager
def deciding(decider: Decider | None) -> Iterator[None]:
    """Inside the `with`, `decider` answers comparisons."""
    token = _decider.set(decider)
    try:
        yield
    finally:
        _decider.reset(token)


class Expr:
    """An immutable polynomial; build it with `symbol` and Python arithmetic, never directly."""

    __slots__ = ("_hash", "_text", "terms")

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]):
        self.terms = terms
        self._hash = hash(terms)
        self._text = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self.terms,)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Expr):
            if self.terms == other.terms:
                return True
        elif not isinstance(other, int):
            return False
        # Most comparisons are our own, of sizes as they are written; a trace tells those of the user's code apart.
        decider = _decider.get()
        return decider is not None and decider.compared(self, other)

    def __add__(self, other: Dim | float) -> Dim:
        if not isinstance(other, (int, Expr)):
            return self._beyond(other)
        if other.__class__ is int and not other:
            return self
        terms = dict(self.terms)
        for mono, coef in _terms(other):
            terms[mono] = terms.get(mono, 0) + coef
        return _canonical(terms)

    def __mul__(self, other: Dim | float) -> Dim:
        if not isinstance(other, (int, Expr)):
            return self._beyond(other)
        if other.__class__ is int:
            # The order of the terms is that of their monomials.
            return self if other == 1 else Expr(tuple([(mono, coef * other) for mono, coef in self.terms])) if other else 0
        terms: dict[Monomial, int] = {}
        for mono_a, coef_a in self.terms:
            for mono_b, coef_b in _terms(other):
                mono = tuple(sorted(mono_a + mono_b, key=_text_of)) if mono_a and mono_b else mono_a or mono_b
                terms[mono] = terms.get(mono, 0) + coef_a * coef_b
        return _canonical(terms)

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim | float) -> Dim:
        if not isinstance(other, (int, Expr)):
            return self._beyond(other)
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other) if isinstance(other, (int, Expr)) else NotImplemented

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    def _beyond(self, other: object) -> Any:
        """What Python is told about arithmetic whose result is no size: a tensor, say, knows what to do with one."""
        if isinstance(other, (int, float, Expr)):
            raise UnknownSize(
                f"expected a known size but got the symbolic size '{self}', of which sums, differences, products, whole quotients and "
                f"remainders are known alone",
                self,
            )
        return NotImplemented

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _beyond

    def __bool__(self) -> bool:
        decider = _decider.get()
        truth = None if decider is None else decider.is_less(0, self)
        if truth is None:
            raise UnknownSize(f"the size '{self}' is symbolic: its truth is not known while the program is built", self)
        return truth or (not known_nonnegative(self) and bool(decider.is_less(self, 0)))  # type: ignore[union-attr]

    def __lt__(self, other: Dim) -> bool:
        return _less(self, other, self, other)

    def __gt__(self, other: Dim) -> bool:
        return _less(other, self, self, other)

    def __le__(self, other: Dim) -> bool:
        greater = _less(other, self, self, other)
        return greater if greater is NotImplemented else not greater

    def __ge__(self, other: Dim) -> bool:
        less = _less(self, other, self, other)
        return less if less is NotImplemented else not less

    def __index__(self) -> int:
        raise UnknownSize(f"expected a known size but got the symbolic size '{self}'", self)

    def __str__(self) -> str:
        if not self._text:
            text = ""
            for mono, coef in self.terms:
                product = "*".join(([] if abs(coef) == 1 and mono else [str(abs(coef))]) + [a._text for a in mono])
                sign = "-" if coef < 0 else "+" if text else ""
                text += sign + product
            self._text = text
        return self._text

    __repr__ = __str__


def _less(a: Any, b: Any, left: Any, right: Any) -> bool:
    """Whether `a` is less than `b`; where that is not known, an error about `left` and `right` as they were compared."""
    if isinstance(a, (int, Expr)) and isinstance(b, (int, Expr)):
        if known_nonnegative(a - b):
            return False
        if known_nonnegative(b - a - 1):
            return True
        decider = _decider.get()
        answer = None if decider is None else decider.is_less(a, b)
        if answer is not None:
            return answer
    elif not isinstance(a, (int, float, Expr)) or not isinstance(b, (int, float, Expr)):
        return NotImplemented
    raise UnknownSize(
        f"expected known sizes but got '{left}' and '{right}', whose order is not known while the program is built", left, right
    )


def asked_equal(a: Dim, b: Dim) -> bool | None:
    """Whether two sizes are equal as far as whoever builds a program can say, from here on; None where nothing tells."""
    difference = a - b
    if isinstance(difference, int):
        return difference == 0
    decider = _decider.get()
    return None if decider is None else decider.is_equal(a, b)


def asked_less(a: Dim, b: Dim) -> bool | None:
    """Whether `a` is less than `b` as far as whoever builds a program can say, from here on; None where nothing tells."""
    if known_nonnegative(a - b):
        return False
    if known_nonnegative(b - a - 1):
        return True
    decider = _decider.get()
    return None if decider is None else decider.is_less(a, b)


def symbol(name: str) -> Expr:
    """The size called `name`, which must be an identifier."""
    if not SYMBOL.match(name):
        raise ValueError(f"expected an identifier as the name of a size but got {name!r}")
    return Expr((((Atom("", (name,)),), 1),))


_text_of = attrgetter("_text")


def _terms(dim: Dim) -> Iterable[tuple[Monomial, int]]:
    return dim.terms if isinstance(dim, Expr) else [((), int(dim))]


def _canonical(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(mono, coef) for mono, coef in terms.items() if coef]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    # Highest degree first and the constant last, as one would write it by hand.
    if len(kept) > 1:
        kept.sort(key=lambda item: (-len(item[0]), [a._text for a in item[0]]))
    return Expr(tuple(kept))


def _opaque(fn: str, *args: Dim) -> Expr:
    return Expr((((Atom(fn, args),), 1),))


def floordiv(a: Dim, b: Dim) -> Dim:
    """`a // b`. What `b` divides leaves the opaque part, so `(2*N+3)//2` is `N+1`; the rest has one form, whichever way it was written:

    - a common factor goes: `floordiv(2*N+1, 4)` is `floordiv(N, 2)`;
    - a quotient inside is taken out: `floordiv(floordiv(N, 2)+T, 3)` is `floordiv(N+2*T, 6)`;
    - of the two ways to round, up or down, `floordiv(b-1-p, b) = -ceildiv(p+1-b, b)`, the one with the smaller first coefficient stays, so
      `ceildiv(N, 8)` and `(N+7)//8` are equal.

    A symbolic divisor is taken not to be 0: `N*K // K` is `N`, and `floordiv(N*K, 2*K)` is `floordiv(N, 2)`.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    if isinstance(b, int) and b > 0:
        return _floordiv_by_number(a, b)
    quotient = _exact_quotient(a, b)
    if quotient is not None:
        return quotient
    factor = _common_factor(a, b)
    if factor != 1:
        return floordiv(_exact_quotient(a, factor), _exact_quotient(b, factor))  # type: ignore[arg-type]
    return _opaque("floordiv", a, b)


def _common_factor(a: Dim, b: Dim) -> Dim:
    """What is a factor of all terms of both: a number times names, which are sizes, and so not negative."""
    terms = [*_terms(a), *_terms(b)]
    monos = [mono for mono, _ in terms]
    names = dict.fromkeys(atom for atom in monos[0] if not atom.fn)
    powers = {atom: min(mono.count(atom) for mono in monos) for atom in names}
    mono = tuple(atom for atom, power in powers.items() for _ in range(power))
    return _canonical({tuple(sorted(mono, key=_text_of)): gcd(*(coef for _, coef in terms))})


def _floordiv_by_number(a: Dim, b: int) -> Dim:
    for mono, coef in _terms(a):
        if len(mono) != 1 or mono[0].fn != "floordiv" or coef not in (1, -1):
            continue
        inner, divisor = mono[0].args
        if not isinstance(inner, str) and isinstance(divisor, int) and divisor > 0:
            if coef < 0:
                return -floordiv(b - 1 - a, b)
            others = _canonical({m: c for m, c in _terms(a) if m != mono})
            return floordiv(inner + others * divisor, b * divisor)
    parts = {mono: divmod(coef, b) for mono, coef in _terms(a)}
    whole = _canonical({mono: quotient for mono, (quotient, _) in parts.items()})
    left = _canonical({mono: rest for mono, (_, rest) in parts.items()})
    if whole != 0 or isinstance(left, int):
        return whole + floordiv(left, b)
    common = gcd(b, *(coef for mono, coef in left.terms if mono))
    if common > 1:
        # What the constant has beyond a multiple of the factor never makes the next whole number.
        return floordiv(_canonical({mono: coef // common for mono, coef in left.terms}), b // common)
    for mono, coef in (*left.terms, ((), parts.get((), (0, 0))[1])):
        mirrored = -coef % b if mono else b - 1 - coef
        if coef < mirrored:
            break
        if coef > mirrored:
            return -floordiv(b - 1 - left, b)
    return _opaque("floordiv", left, b)


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """`a / b` where `b` is one monomial that divides every term of `a`."""
    divisor = list(_terms(b))
    if len(divisor) != 1:
        return 1 if a == b else None
    (mono_b, coef_b) = divisor[0]
    result: dict[Monomial, int] = {}
    for mono, coef in _terms(a):
        left = list(mono)
        for atom in mono_b:
            if atom not in left:
                return None
            left.remove(atom)
        if coef % coef_b:
            return None
        result[tuple(left)] = coef // coef_b
    return _canonical(result)


def mod(a: Dim, b: Dim) -> Dim:
    """`a % b`. By a number it is written `a - a // b * b`, so that `a // b * b + a % b` is `a`."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    rest = a - floordiv(a, b) * b
    return rest if rest == 0 or (isinstance(b, int) and b > 0) else _opaque("mod", a, b)


def ceildiv(a: Dim, b: Dim) -> Dim:
    return -floordiv(-a, b)


def maximum(a: Dim, b: Dim) -> Dim:
    return _choose("max", a, b)


def minimum(a: Dim, b: Dim) -> Dim:
    return _choose("min", a, b)


def _choose(fn: str, a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if fn == "max" else min(a, b)
    difference = a - b
    if known_nonnegative(difference):
        return a if fn == "max" else b
    if known_nonnegative(-difference):
        return b if fn == "max" else a
    # What both have goes in front: `max(N+1, T+1)` is `max(N, T)+1`.
    terms = dict(_terms(b))
    shared = _canonical({mono: coef for mono, coef in _terms(a) if terms.get(mono) == coef})
    return shared + _opaque(fn, *sorted((a - shared, b - shared), key=str))


# How many bounds a proof may put in place of atoms, one inside the other.
_PROOF_DEPTH = 4


def known_nonnegative(dim: Dim) -> bool:
    """True when every symbol being >= 0 makes `dim` >= 0; False when that is not known.

    Sums of things that are not negative are known; beyond that, a quotient, `max` or `min` in the way is replaced by what bounds it:
    `floordiv(p, b)` is between `(p-b+1)/b` and `p/b`, `max(a, b)` is at least either, `min(a, b)` at most either. So `N - min(N, 4)` is
    known.
    """
    return dim >= 0 if isinstance(dim, int) else _proven(dim, _PROOF_DEPTH)


def _proven(dim: Dim, depth: int) -> bool:
    if isinstance(dim, int):
        return dim >= 0
    if all(coef >= 0 and all(_nonnegative_atom(a) for a in mono) for mono, coef in dim.terms):
        return True
    if depth == 0 or (
        isinstance(dim.terms[-1][1], int) and all(coef <= 0 for _, coef in dim.terms) and not any(a.fn for m, _ in dim.terms for a in m)
    ):
        return False
    for mono, coef in dim.terms:
        if len(mono) == 1 and mono[0].fn:
            return any(_proven(bound, depth - 1) for bound in _bounds(dim, mono[0], coef)) or _proven_without(dim, mono, depth)
    return False


def _proven_without(dim: Expr, mono: Monomial, depth: int) -> bool:
    """Whether the other terms do, where the one of `mono` is known to be no less than 0."""
    coef = dict(dim.terms)[mono]
    return coef > 0 and _nonnegative_atom(mono[0]) and _proven(_canonical({m: c for m, c in dim.terms if m != mono}), depth - 1)


def _bounds(dim: Expr, atom: Atom, coef: int) -> Iterator[Dim]:
    """Things that are not negative only if `dim`, where `atom` stands alone in a term, is not: each with a bound in place of it."""
    others = _canonical({mono: c for mono, c in dim.terms if mono != (atom,)})
    a, b = atom.args
    assert not isinstance(a, str) and not isinstance(b, str)
    if atom.fn == "floordiv" and isinstance(b, int) and b > 0:
        yield others * b + (a if coef < 0 else a - (b - 1)) * coef
    elif (atom.fn == "max") == (coef > 0) and atom.fn in ("max", "min"):
        yield others + a * coef
        yield others + b * coef


def _nonnegative_atom(atom: Atom) -> bool:
    if atom.fn in ("", "mod"):
        return True
    nonnegative = [known_nonnegative(a) for a in atom.args if not isinstance(a, str)]
    return any(nonnegative) if atom.fn == "max" else all(nonnegative)


def line_of(dim: Dim) -> tuple[str, int, int] | None:
    """`(name, scale, offset)` of a size `scale*name + offset` with a positive scale, from whose value that of the name can be told; else
    None.
    """
    if isinstance(dim, int) or len(dim.terms) > 2:
        return None
    (mono, scale), *constant = dim.terms
    if len(mono) != 1 or mono[0].fn or scale < 1 or (constant and constant[0][0]):
        return None
    return str(mono[0].args[0]), scale, constant[0][1] if constant else 0


def told(dim: Dim, size: Dim) -> tuple[str, Dim] | None:
    """A name and its value, if `dim` is `size`: `8*N+3` tells `N`, as `floordiv(size-3, 8)`. None if `dim` is no line in one name.

    That `dim` is `size` with this value is still to be seen.
    """
    found = line_of(dim)
    return None if found is None else (found[0], floordiv(size - found[2], found[1]))


def symbols(dim: Dim) -> frozenset[str]:
    """Names of all symbols in `dim`."""
    found: set[str] = set()
    for mono, _ in _terms(dim):
        for atom in mono:
            if atom.fn:
                found.update(*(symbols(a) for a in atom.args if not isinstance(a, str)))
            else:
                found.add(str(atom.args[0]))
    return frozenset(found)


_FUNCTIONS = {"floordiv": floordiv, "mod": mod, "max": maximum, "min": minimum}


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with each symbol in `values` replaced; an `int` once no symbol is left."""
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for mono, coef in dim.terms:
        product: Dim = coef
        for atom in mono:
            if atom.fn:
                args = [substitute(a, values) for a in atom.args if not isinstance(a, str)]
                product = product * _FUNCTIONS[atom.fn](*args)
            else:
                name = str(atom.args[0])
                product = product * values.get(name, symbol(name))
        total = total + product
    return total


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The number that `dim` stands for; a symbol without a value is a `KeyError`."""
    result = substitute(dim, values)
    if isinstance(result, Expr):
        raise KeyError(f"no value for the size '{min(symbols(result))}'")
    return result


def product(dims: Iterable[Dim]) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_][A-Za-z0-9_]*|[-+*(),])")


def parse_dim(text: str) -> Dim:
    """Reads what `str` of a dimension prints; `ValueError` with the position otherwise."""
    return _DimParser(text).parse()


class _DimParser:
    """Recursive descent over `sum := product (('+'|'-') product)*`; nesting and the number of terms are capped."""

    MAX_DEPTH = 32
    MAX_TERMS = 256

    def __init__(self, text: str):
        self.text, self.at, self.depth = text, 0, 0

    @cached_property
    def end(self) -> int:
        return len(self.text.rstrip())

    def parse(self) -> Dim:
        value = self.sum()
        if self.at < self.end:
            self.fail("the end")
        return value

    def fail(self, expected: str) -> None:
        raise ValueError(f"expected {expected} at column {self.at + 1} of the size {self.text!r}")

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match.group(1) if match else ""

    def take(self, token: str = "") -> str:
        match = _TOKEN.match(self.text, self.at)
        if match is None or (token and match.group(1) != token):
            self.fail(repr(token) if token else "a number or a name")
            raise AssertionError
        self.at = match.end()
        return match.group(1)

    def sum(self) -> Dim:
        self.depth += 1
        if self.depth > self.MAX_DEPTH:
            self.fail(f"at most {self.MAX_DEPTH} levels of nesting")
        negative = self.peek() == "-" and bool(self.take())
        total = -self.product() if negative else self.product()
        while self.peek() in ("+", "-"):
            total = total + self.product() if self.take() == "+" else total - self.product()
        self.depth -= 1
        return total

    def product(self) -> Dim:
        total = self.factor()
        while self.peek() == "*":
            self.take()
            factor = self.factor()
            if len(list(_terms(total))) * len(list(_terms(factor))) > self.MAX_TERMS:
                self.fail(f"at most {self.MAX_TERMS} terms")
            total = total * factor
        return total

    def factor(self) -> Dim:
        token = self.take()
        if token.isdigit():
            return int(token)
        if token == "(":
            value = self.sum()
            self.take(")")
            return value
        if not SYMBOL.match(token):
            self.at -= len(token)
            self.fail("a number or a name")
        if self.peek() != "(":
            return symbol(token)
        if token not in _FUNCTIONS:
            self.fail(f"one of {', '.join(_FUNCTIONS)}")
        self.take("(")
        a = self.sum()
        self.take(",")
        b = self.sum()
        self.take(")")
        if token in ("floordiv", "mod") and b == 0:
            self.fail("a divisor other than 0")
        return _FUNCTIONS[token](a, b)
