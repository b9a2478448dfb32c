"""Scatter: updates are written or added to the places that an index names, each update read once.

The index is walked in order, so that of several updates of a place the last one stays, and sums have one order. Threads share the axes that
the index does not name: those before and after, the last one in vectors. Without such axes a scatter is one loop on one thread.
"""

from __future__ import annotations

from math import ceil

from polyreme.dialects import tensor
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, Expr, product
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, linear, load, place_named, store
from polyreme.lowering.kernels.loop_nest import Lanes, each, run, vector_loop
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.machines.targets import Target


def write_updates(code: Code, target: Target, emitter: ElementEmitter, op: tensor.Scatter, buffer: Value) -> None:
    """Loops over the updates of `op`, into `buffer`, which has the elements of `op.x` already."""
    shape, named = shape_of(op.result), shape_of(op.index)
    axis = op.axis
    before, after = shape[:axis], shape[axis + 1 :]
    along: Dim = after[-1] if after else 1
    count: Index = product(named)
    if isinstance(size := shape[axis], Expr):
        # Of nothing there is no nearest end.
        count = code.apply("select", code.apply("eq", code.value(size), code.value(0)), code.value(0), code.value(count))
    lanes = Lanes(_width(target, op, along), target.masked)
    cycles = max(estimate(product(named)), 1)
    # Each run of columns is a piece of work of its own; runs are long enough to be read from memory in a row.
    columns = lanes.count * max(1, ceil(target.grain_cycles / (2 * cycles)))
    runs: Dim = -(-along // columns) if isinstance(along, Expr) or along > columns else 1

    def piece(places: list[Position]) -> None:
        front, back = tuple(places[: len(before)]), tuple(places[len(before) : len(places) - 1])
        lo: Index = 0
        hi: Index = along
        if runs != 1:
            lo = code.mul(places[-1].scalar(code), columns)
            hi = code.min(code.add(lo, columns), along)

        def update(at: Position, carried: list[Value]) -> list[Value]:
            which = tuple(position(i) for i in code.split(at.scalar(code), list(named)))
            place = position(place_named(code, emitter.at(op.index, which), shape[axis]))

            def write(column: Position, width: int, mask: Value | None, part: int, values: list[Value]) -> list[Value]:
                last = (column,) if after else ()
                element = emitter.at(op.updates, (*front, *which, *back, *last), width, mask)
                target_at = linear(code, (*front, place, *back, *last), shape)
                if op.fn == "add":
                    element = code.apply("add", load(code, buffer, target_at, width, mask), element)
                store(code, element, buffer, target_at, mask)
                return values

            return vector_loop(code, lo, hi, lanes, carried, write)

        run(code, 0, count, 1, [], update)

    around = [*before, *after[:-1], runs]
    each(code, target, around, cycles * min(estimate(along), columns) / lanes.count, piece)


def _width(target: Target, op: tensor.Scatter, along: Dim) -> int:
    """Lanes of a vector along the last axis."""
    dtype = op.result.type.dtype
    count = max(1, target.vector_bytes // max(dtype.bytes, 2))
    if isinstance(along, int) and along < count:
        return 1 << ((along - 1).bit_length() if target.masked else along.bit_length() - 1) if along > 0 else 1
    return count
