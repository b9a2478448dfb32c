"""Positions along an axis: how they move with each loop, and from lane to lane.

A `Position` is `const + sum(coefficient * value) + step * lane + vector`. The first parts are the same in all lanes. `step` decides how
memory is read: 0 loads once and broadcasts, 1 loads a vector, anything else gathers. `vector` holds the rest, such as positions read from
an index tensor.
"""

from __future__ import annotations

from collections.abc import Iterable

from polyreme.dialects import kernel
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import VectorType, index
from polyreme.lowering.kernels.code import Code, Index


@dataclass(frozen=True, slots=True)
class Position:
    """See the module. `terms` keep the order in which they came, outer loops first, so that outer parts can be hoisted."""

    const: Dim = 0
    terms: tuple[tuple[Value, Dim], ...] = ()
    step: Dim = 0
    vector: Value | None = None

    @property
    def uniform(self) -> bool:
        """Whether all lanes stand at one place."""
        return self.vector is None and self.step == 0

    @property
    def known(self) -> Dim | None:
        """The position itself when it depends on no loop."""
        return self.const if self.uniform and not self.terms else None

    def plus(self, code: Code, other: Position) -> Position:
        terms = dict(self.terms)
        for value, factor in other.terms:
            terms[value] = terms.get(value, 0) + factor
        kept = tuple((v, f) for v, f in terms.items() if f != 0)
        vector = self.vector if other.vector is None else other.vector
        if self.vector is not None and other.vector is not None:
            vector = code.apply("add", self.vector, other.vector)
        return Position(self.const + other.const, kept, self.step + other.step, vector)

    def times(self, code: Code, factor: Dim) -> Position:
        if factor == 0:
            return Position()
        terms = tuple((v, f * factor) for v, f in self.terms)
        vector = self.vector
        if vector is not None and factor != 1:
            assert isinstance(vector.type, VectorType)
            vector = code.apply("mul", vector, code.broadcast(code.value(factor), vector.type.lanes))
        return Position(self.const * factor, terms, self.step * factor, vector)

    def scalar(self, code: Code) -> Index:
        """What is alike in all lanes: the whole position if it is uniform."""
        return code.add(*(code.mul(v, f) for v, f in self.terms), self.const)

    def lanes(self, code: Code, lanes: int) -> Value:
        """The position of each lane as a vector of index (a scalar for one lane)."""
        if lanes == 1 or self.uniform:
            return code.broadcast(code.value(self.scalar(code)), lanes)
        total: Value | None = self.vector
        if self.step != 0:
            moved: Value = code.b(kernel.Iota, lanes=lanes)
            if self.step != 1:
                moved = code.apply("mul", moved, code.broadcast(code.value(self.step), lanes))
            total = moved if total is None else code.apply("add", total, moved)
        base = self.scalar(code)
        if not isinstance(base, int) or base != 0:
            assert total is not None
            total = code.apply("add", total, code.broadcast(code.value(base), lanes))
        assert total is not None
        return total


def position(x: Index | Position) -> Position:
    """A number, a size, a value of the kernel, or a position, as a position."""
    if isinstance(x, Position):
        return x
    if isinstance(x, Value):
        if isinstance(x.type, VectorType):
            return Position(vector=x)
        assert x.type == index
        return Position(terms=((x, 1),))
    return Position(x)


def total(code: Code, parts: Iterable[Position]) -> Position:
    """The sum of positions."""
    result = Position()
    for part in parts:
        result = result.plus(code, part)
    return result
