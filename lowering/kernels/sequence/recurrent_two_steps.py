"""Recurrent layers of one row that read most weights once for two steps.

With one row, reading the weights from L2 takes longer than multiplying by them. Let panels of the result be columns, and cut the rows of
the weights (one for each unit of the state) in the same way. Then tile (a, b) is what the units of panel a give to those of panel b. Panel
b is complete when all tiles of column b have been multiplied by the state before. The gates follow, and give panel b of the next state.

An even step goes through the panels upward. At panel b the panels a < b are complete. So tiles above the diagonal, as they are read for
this step, are also multiplied by the new state, which begins the sums of the next step. An odd step goes downward: each panel already has
what the tiles above the diagonal give, and the tiles below it serve this step and the next. So each step reads half of the tiles and the
diagonal.

A thread has panels of its own, and sees what others made only at the end of a step. Tiles between two panels of one thread serve two steps,
others one. Whatever the number of threads, sums have one order. For panel b in an odd step:

    b - 1, …, 0        the first of them, those of its thread, in the step before
    b                  which needs nothing of the panel made just before, whose gates are still in flight
    b + 1, …           for the next step too, up to the thread's last panel, and then for this step alone

An even step is the mirror image.

A first state of zeros, with which most layers begin, is not multiplied. Only those weights are read that begin the next step's sums. (So
weights that are infinite or nan show one step later.)
"""

from __future__ import annotations

from collections.abc import Callable

from polyreme.dialects.kernel import lanes_of
from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import Accumulators, Registers, zeros
from polyreme.lowering.kernels.sequence.recurrent_plan import Recurrence, RecurrentTile

Multiply = Callable[[Accumulators, Index], Accumulators]
"""Adds to the accumulators of one step, or of two, what the tile of a panel of the state gives."""


def reads_for_two(r: Recurrence) -> bool:
    """Whether a layer reads its weights once for two steps: one row, weights beyond L1, and a state that the gates make."""
    weights = r.depth * r.units * r.blocks * r.dtype.bytes
    return r.batch == 1 and r.state in r.carried and weights > r.request.target.caches[0]


def has_square_tiles(r: Recurrence, tile: RecurrentTile) -> bool:
    """Whether there are several panels, and each is one of the state as well."""
    return (
        1 < tile.panels
        and tile.panels * tile.width == r.units == r.depth
        and 2 * r.blocks * tile.vectors <= Registers.of(r.request.target, r.dtype).accumulators
    )


@dataclass(frozen=True)
class Column:
    """A panel of the result in one step: number `panel` of `panels`, of which the thread has those from `first` up to `end`. `blank` says
    whether the first state is zero, if somebody looked.
    """

    code: Code
    t: Value
    parity: Index
    panel: Index
    panels: int
    first: Index
    end: Index
    blank: Value | None = None

    def sums(self, begun: list[Value], multiply: Multiply) -> tuple[Accumulators, list[Value]]:
        """The sums of this step, of which the step before has `begun` some, and what is begun of the next step's."""
        code, b, odd = self.code, self.panel, self.parity
        onward = code.sub(code.mul(odd, 2), 1)
        # In front of the first step nothing has begun; it goes upward.
        is_first = code.apply("eq", self.t, code.value(0))
        skips = None if self.blank is None else code.apply("and", is_first, self.blank)

        def unless_blank(count: Index) -> Index:
            return count if skips is None else code.apply("select", skips, code.value(0), code.value(count))

        above = code.apply("select", is_first, code.value(code.add(b, 1)), code.value(self.end))
        before = unless_blank(self._of(code.sub(self.panels, above), self.first))
        (acc,) = self._along([begun], self._of(above, code.sub(self.first, 1)), code.sub(0, onward), before, multiply)
        (acc,) = self._along([acc], b, 0, unless_blank(1), multiply)
        own = self._of(code.sub(b, self.first), code.sub(self.end, code.add(b, 1)))
        nothing = zeros(code, 1, len(begun), element_type(begun[0].type), lanes_of(begun[0].type))
        now, then = self._along([acc, *nothing], code.add(b, onward), onward, own, multiply)
        others = unless_blank(self._of(self.first, code.sub(self.panels, self.end)))
        (acc,) = self._along([now], self._of(code.sub(self.first, 1), self.end), onward, others, multiply)
        return [acc], then

    def _of(self, even: Index, odd: Index) -> Index:
        """One of two numbers, by the step."""
        return self.code.add(even, self.code.mul(self.parity, self.code.sub(odd, even)))

    def _along(self, acc: Accumulators, start: Index, to: Index, count: Index, multiply: Multiply) -> Accumulators:
        """With `count` tiles, from that of panel `start` on, `to` it the next one."""
        code, vectors = self.code, len(acc[0])
        with code.loop(0, count, [x for row in acc for x in row], name="tile") as loop:
            carried = [loop.carried[i : i + vectors] for i in range(0, len(loop.carried), vectors)]
            loop.next = [x for row in multiply(carried, code.add(start, code.mul(loop.iv, to))) for x in row]
        return [loop.results[i : i + vectors] for i in range(0, len(loop.results), vectors)]
