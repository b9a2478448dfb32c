"""Scatter: updates are written or added to the places that an index names, each update read once.

The index is walked in order, so that of several updates of a place the last one stays, and sums have one order. Threads share the axes that
the index does not name: those before and after, the last one in vectors. Without such axes a scatter is one loop on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import ElementEmitter, linear, load, place_named, store
from polyreme.lowering.kernels.loop_nest import (
    Lanes,
    NestSchedule,
    choose_nest,
    has_free_sizes,
    is_like,
    part_of_row,
    run,
    vector_loop,
    write_nest,
)
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.targets import Target


@dataclass(frozen=True)
class ScatterSchedule(Schedule, kind="scatter"):
    """Updates in vectors of so many `lanes`, with `masked` ends or scalar ones. So many `columns` of each row are done together, and `nest`
    says how threads share the axes that the index does not name, and runs of columns.
    """

    lanes: int
    columns: int
    masked: bool = False
    nest: NestSchedule | None = None


@dataclass(frozen=True)
class Scattered:
    """A group whose only result is a scatter, in `func`, which has as few axes as can be."""

    request: Request
    func: Func
    op: tensor.Scatter

    @property
    def along(self) -> Dim:
        """Elements of the last axis, if the index does not name that."""
        after = shape_of(self.op.result)[self.op.axis + 1 :]
        return after[-1] if after else 1

    def runs(self, columns: int) -> Dim:
        """Runs of so many columns."""
        along = self.along
        return -(-along // columns) if isinstance(along, Expr) or along > columns else 1

    def sizes(self, columns: int) -> list[Dim]:
        """What is iterated over: axes that the index does not name, and runs of columns."""
        shape, axis = shape_of(self.op.result), self.op.axis
        return [*shape[:axis], *shape[axis + 1 : -1], self.runs(columns)]


def choose_scatter(found: Scattered) -> ScatterSchedule:
    """Each run of columns is a piece of work of its own; runs are long enough to be read from memory in a row."""
    target = found.request.target
    cycles = max(estimate(product(shape_of(found.op.index))), 1)
    lanes = _width(target, found.op, found.along)
    return _schedule(found, lanes * max(1, ceil(target.grain_cycles / (2 * cycles))))


def _schedule(found: Scattered, columns: int) -> ScatterSchedule:
    target = found.request.target
    lanes = _width(target, found.op, found.along)
    cycles = max(estimate(product(shape_of(found.op.index))), 1) * min(estimate(found.along), columns) / lanes
    return ScatterSchedule(lanes, columns, target.masked, choose_nest(target, found.sizes(columns), cycles, has_free_sizes(found.request)))


def other_scatters(found: Scattered) -> Iterator[ScatterSchedule]:
    """Fewer columns together."""
    own = choose_scatter(found)
    most = own.columns if isinstance(found.along, Expr) else min(own.columns, found.along)
    columns = -(-most // (2 * own.lanes)) * own.lanes
    if columns < most:
        yield _schedule(found, columns)


def fit_scatter(found: Scattered, schedule: ScatterSchedule) -> None:
    """`ScheduleError` unless it is the schedule of this scatter, with any columns together and any grain."""
    like = _schedule(found, schedule.columns) if schedule.columns > 0 else choose_scatter(found)
    if not is_like(schedule, like):
        raise ScheduleError(f"expected a schedule like {choose_scatter(found)} for this scatter and machine but got {schedule}")


def write_updates(code: Code, schedule: ScatterSchedule, emitter: ElementEmitter, found: Scattered, buffer: Value) -> None:
    """Loops over the updates, into `buffer`, which has the elements of the scatter's `x` already."""
    op = found.op
    shape, named = shape_of(op.result), shape_of(op.index)
    axis, along, columns, runs = op.axis, found.along, schedule.columns, found.runs(schedule.columns)
    before, after = shape[:axis], shape[axis + 1 :]
    count: Index = product(named)
    if isinstance(size := shape[axis], Expr):
        # Of nothing there is no nearest end.
        count = code.apply("select", code.apply("eq", code.value(size), code.value(0)), code.value(0), code.value(count))
    lanes = Lanes(schedule.lanes, schedule.masked)

    def piece(places: list[Position]) -> None:
        front, back = tuple(places[: len(before)]), tuple(places[len(before) : len(places) - 1])
        lo: Index = 0
        hi: Index = along
        if runs != 1:
            lo, hi = part_of_row(code, places[-1], columns, along)

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

    write_nest(code, found.sizes(columns), schedule.nest, piece)


def _width(target: Target, op: tensor.Scatter, along: Dim) -> int:
    """Lanes of a vector along the last axis."""
    dtype = op.result.type.dtype
    count = max(1, target.vector_bytes // max(dtype.bytes, 2))
    if isinstance(along, int) and along < count:
        return 1 << ((along - 1).bit_length() if target.masked else along.bit_length() - 1) if along > 0 else 1
    return count
