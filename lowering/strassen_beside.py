"""Combinations of A that a thread makes for itself, beside the multiplications, in products of two levels.

A kernel of its own that writes them all first waits for the memory of every line, and on several threads each then reads what the others wrote. Here a thread makes those of the next product
of the outer level beside the register tiles of this one, whose multiply-adds leave room for loads, additions and stores, while it goes through its first group of panels:
those of the first product in front of everything, and for further groups they are there.

The code is the same for every product: which two parts are added up, and with which sign, are numbers that it picks from the scheme when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.ir.types import f32, i32
from polyreme.lowering.access import Access
from polyreme.lowering.code import Code, Index
from polyreme.lowering.microkernel import UNROLL, Beside
from polyreme.lowering.schemes import combine
from polyreme.lowering.strassen_plan import Cut

Make = Callable[[Value], None]


@dataclass
class Making:
    """Combinations being made of `count` rows of each part from row `first` on: from A, `read`, into `write` from position `start` on."""

    code: Code
    cut: Cut
    access: Access
    stride: Dim
    read: Value
    write: Value
    start: Index
    first: Index
    count: Index

    @property
    def positions(self) -> Index:
        """Vectors of a part: a row of them after the other."""
        return self.code.mul(self.count, self.cut.vectors_of_steps)

    def make_first(self) -> None:
        """Those of the first product of the outer level."""
        make = self._combinations(self.code.value(0))
        with self.code.loop(0, self.positions, name="position") as position:
            make(position.iv)

    def beside(self, turn: Value, is_first: Value, at: Index) -> Beside:
        """What the tile of rows from `at` on does beside its rounds, in the product of number `turn`: a share of those of the next product of the outer level, in the first group of panels."""
        code, cut = self.code, self.cut
        inner = cut.schemes[1].products
        block = code.div(turn, inner)
        following = code.value(code.add(block, 1))
        make = self._combinations(following)
        needed = code.apply("and", is_first, code.apply("lt", following, code.value(cut.schemes[0].products)))
        limit = code.apply("select", needed, code.value(self.positions), code.value(0))
        tile = code.add(code.mul(code.sub(turn, code.mul(block, inner)), cut.tiles), code.div(at, cut.rows))
        share = code.mul(tile, cut.positions_of_tile)
        every = cut.depth // UNROLL // cut.positions_of_tile

        def write(turn: Value) -> None:
            slot = code.value(code.div(turn, every))
            position = code.value(code.add(share, slot))
            due = code.apply("eq", turn, code.value(code.mul(slot, every)))
            for more in (code.apply("lt", slot, code.value(cut.positions_of_tile)), code.apply("lt", position, limit)):
                due = code.apply("and", due, more)
            with code.when(due):
                make(position)

        return write

    def _combinations(self, number: Value) -> Make:
        """Writes a vector of the combinations for the product of this number of the outer level."""
        code, cut, lanes = self.code, self.cut, self.cut.lanes
        outer, inner = cut.schemes
        height = cut.height
        assert isinstance(height, int)

        def choose(values: Sequence[Index]) -> Value:
            chosen = code.value(values[-1])
            for i, value in enumerate(values[:-1]):
                chosen = code.apply("select", code.apply("eq", number, code.value(i)), code.value(value), chosen)
            return chosen

        def offset(down: int, across: int) -> Index:
            """From one part of the innermost level to another."""
            return code.add(code.mul(down * height, self.stride), across * cut.steps)

        def part(i: int) -> Index:
            down, across = divmod(i, outer.steps)
            return offset(down * inner.rows, across * inner.steps)

        # A product of one part has none as its second one, of which no lane is on.
        ones, others = (choose([part(terms[i][0]) for terms in outer.left]) for i in (0, -1))
        are_two = choose([int(len(terms) > 1) for terms in outer.left])
        is_minus = choose([int(terms[-1][1] < 0) for terms in outer.left])
        sign = code.broadcast(code.apply("shl", code.apply("cast", is_minus, dtype=i32), code.constant(31, i32)), lanes)
        to0 = code.add(self.start, code.mul(code.mul(number, inner.products), cut.matrix_of_task))

        def make(position: Value) -> None:
            row, vector = code.split(position, [self.count, cut.vectors_of_steps])
            step = code.mul(vector, lanes)
            exist: Index = lanes if cut.steps % lanes == 0 else code.sub(cut.steps, step)
            mask, mask_of_others = code.lane_mask(exist, lanes), code.lane_mask(code.mul(are_two, exist), lanes)
            at = code.add(self.access.base, code.mul(code.add(self.first, row), self.stride), step)
            values = []
            for inside in [offset(i, j) for i in range(inner.rows) for j in range(inner.steps)]:
                one = code.load(self.read, code.add(at, inside, ones), lanes, mask)
                other = code.load(self.read, code.add(at, inside, others), lanes, mask_of_others)
                other = code.reinterpret(code.apply("xor", code.reinterpret(other, i32), sign), f32)
                values.append(code.apply("add", one, other))
            to = code.add(to0, code.mul(row, cut.line), step)
            for i, value in enumerate(combine(code, values, [inner.left])):
                code.store(value, self.write, code.add(to, i * cut.matrix_of_task), None, lanes * f32.bytes)

        return make
