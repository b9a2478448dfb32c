"""A gather of single elements along the last axis, fused with what computes the indices.

The indices of a run are computed in vectors, into memory that stays in L1. Then each element takes one load and one store, which is faster
than the gather instructions of today's machines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyreme.dialects import tensor
from polyreme.ir.core import Value
from polyreme.ir.dims import Expr
from polyreme.ir.types import i64, index
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, linear, place_named, store
from polyreme.lowering.kernels.loop_nest import Lanes, each, run, vector_loop
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.machines.targets import Target

# Elements whose places are computed before they are read.
RUN = 1024
# Shorter rows are left to gathers.
LEAST = 64
UNROLL = 8
# Cycles of an element, about.
CYCLES = 1.5


def taken_elements(results: Sequence[Value]) -> tensor.Gather | None:
    """The gather of single elements, in rows of some length, that is the only result."""
    op = results[0].producer(tensor.Gather) if len(results) == 1 else None
    if op is None or op.axis != len(shape_of(op.x)) - 1 or not shape_of(op.index) or op.may_be_empty:
        return None
    length = shape_of(op.index)[-1]
    return op if isinstance(length, Expr) or length >= LEAST else None


def take_elements(code: Code, target: Target, leaves: Mapping[Value, Leaf], op: tensor.Gather, buffer: Value) -> None:
    """Loops over the elements of `op`, into `buffer`."""
    shape, size, axis = shape_of(op.result), shape_of(op.x)[-1], op.axis
    length = shape[-1]
    runs = -(-length // RUN)
    lanes = Lanes(target.lanes(i64), target.masked, 2)

    def piece(places: list[Position]) -> None:
        outer, start = places[:-1], code.mul(places[-1].scalar(code), RUN)
        stop: Index = code.min(code.add(start, RUN), length)
        named = code.scratch(RUN, i64)
        computed = ElementEmitter(code, leaves)
        read = ElementEmitter(code, leaves)

        def name(at: Position, count: int, mask: Value | None, part: int, values: list[Value]) -> list[Value]:
            place = computed.at(op.index, [*outer[axis:], at], count, mask)
            if not op.inside:
                place = place_named(code, place, size, count)
            store(code, code.apply("cast", place, dtype=i64), named, at.plus(code, position(start).times(code, -1)), mask)
            return values

        def take(at: Position) -> None:
            place = code.apply("cast", code.load(named, code.sub(at.scalar(code), start)), dtype=index)
            store(code, read.at(op.x, [*outer[:axis], position(place)]), buffer, linear(code, [*outer, at], shape))

        def some(at: Position, values: list[Value]) -> list[Value]:
            for i in range(UNROLL):
                take(at.plus(code, Position(i)))
            return values

        def last(at: Position, values: list[Value]) -> list[Value]:
            take(at)
            return values

        vector_loop(code, start, stop, lanes, [], name)
        whole = code.add(start, code.mul(code.div(code.sub(stop, start), UNROLL), UNROLL))
        run(code, start, whole, UNROLL, [], some)
        run(code, whole, stop, 1, [], last)

    each(code, target, [*shape[:-1], runs], CYCLES * RUN, piece)
