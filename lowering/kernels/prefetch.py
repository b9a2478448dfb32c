"""Software prefetch of packed weights: a register tile that computes with one panel prefetches a share of the next, some lines in each
round.
"""

from __future__ import annotations

from polyreme.ir.core import Value
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import UNROLL, Overlapped
from polyreme.lowering.machines.memory import ROWS_OF_MEMORY

# One in fixed point, for an even pace and for divisions by a number that is not known.
ONE = 1 << 20


def prefetch_panel(
    code: Code,
    weights: Value,
    panel: Index,
    depth: int,
    vectors: int,
    lanes: int,
    at: Index,
    rows: int,
    in_all: Index,
    fewest: int = ROWS_OF_MEMORY,
) -> Overlapped:
    """What the tile of `rows` rows from `at` on prefetches in each round, of the panel at position `panel`: `depth` steps of `vectors`
    lines.

    All tiles of `in_all` rows together prefetch all of it; of an unknown number `fewest` are enough. The pace is even, since loads wait if
    too many lines are in flight.
    """
    lines, rounds = depth * vectors, max(depth // UNROLL, 1)
    most = fewest if isinstance(in_all, Value) else in_all
    assert isinstance(most, int)
    each = -(-lines * rows // (most * rounds))
    if isinstance(in_all, Value):
        pace = code.div(lines * ONE // rounds, code.apply("max", in_all, code.value(fewest)))
        before = code.mul(at, rounds)
        line = lambda round_number: code.div(code.mul(code.add(before, code.mul(round_number, rows)), pace), ONE)
    else:
        first = code.div(code.mul(at, lines), most)
        line = lambda round_number: code.add(first, code.mul(round_number, each))

    def prefetch(round_number: Value) -> None:
        begin = line(round_number)
        for i in range(each):
            code.prefetch(weights, code.add(panel, code.mul(code.add(begin, i), lanes)))

    return prefetch
