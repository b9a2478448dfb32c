"""A gather of single elements along the last axis, fused with what computes the indices.

The indices of a run are computed in vectors, into memory that stays in L1. Then each element takes one load and one store, which is faster
than the gather instructions of today's machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import i64, index
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.kernels.code import Code
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, linear, place_named, store
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
from polyreme.lowering.machines.cost import Work, busy_cycles
from polyreme.lowering.machines.functions import ENOUGH_SUMS
from polyreme.lowering.machines.memory import STACK_BYTES
from polyreme.lowering.machines.rooms import ROOMS

# Shorter rows are left to gathers.
LEAST = 64


def taken_elements(results: Sequence[Value]) -> tensor.Gather | None:
    """The gather of single elements, in rows of some length, that is the only result."""
    op = results[0].producer(tensor.Gather) if len(results) == 1 else None
    if op is None or op.axis != len(shape_of(op.x)) - 1 or not shape_of(op.index) or op.may_be_empty:
        return None
    length = shape_of(op.index)[-1]
    return op if isinstance(length, Expr) or length >= LEAST else None


@dataclass(frozen=True)
class TakeSchedule(Schedule, kind="take"):
    """The places of a `run` of so many elements are computed in vectors of so many `lanes`, with `masked` ends or scalar ones, before they
    are read. `nest` says how threads share rows and runs.
    """

    lanes: int
    run: int
    masked: bool = False
    nest: NestSchedule | None = None


@dataclass(frozen=True)
class Taken:
    """A group whose only result is a gather of single elements, in `func`, which has as few axes as can be."""

    request: Request
    func: Func
    op: tensor.Gather

    def sizes(self, run: int) -> list[Dim]:
        """What is iterated over: rows, and runs of these."""
        *outer, length = shape_of(self.op.result)
        return [*outer, -(-length // run)]


def choose_take(found: Taken) -> TakeSchedule:
    """Runs whose places stay in L1."""
    return _schedule(found, _usual_run(found))


def _usual_run(found: Taken) -> int:
    """Elements whose places are computed before they are read."""
    return int(found.request.target.caches[0] * ROOMS.places) // i64.bytes


def _schedule(found: Taken, length: int) -> TakeSchedule:
    target = found.request.target
    # Of each element its place is read, and then the element; it is stored alone.
    cycles = busy_cycles(Work(loads=1.0, places=1.0, stores=1.0), target)
    nest = choose_nest(target, found.sizes(length), cycles * length, has_free_sizes(found.request))
    return TakeSchedule(target.lanes(i64), length, target.masked, nest)


def other_takes(found: Taken) -> Iterator[TakeSchedule]:
    """Shorter runs and longer ones."""
    usual = _usual_run(found)
    yield from (_schedule(found, length) for length in (usual // 4, usual * 4))


def fit_take(found: Taken, schedule: TakeSchedule) -> None:
    """`ScheduleError` unless it is the schedule of this gather, with runs that the stack has room for, and any grain."""
    like = _schedule(found, schedule.run) if 0 < schedule.run * i64.bytes <= STACK_BYTES else choose_take(found)
    if not is_like(schedule, like):
        raise ScheduleError(f"expected a schedule like {choose_take(found)} for this gather and machine but got {schedule}")


def take_elements(code: Code, schedule: TakeSchedule, leaves: Mapping[Value, Leaf], found: Taken, buffer: Value) -> None:
    """Loops over the elements of the gather, into `buffer`."""
    op = found.op
    shape, size, axis = shape_of(op.result), shape_of(op.x)[-1], op.axis
    length, together = shape[-1], schedule.run
    lanes = Lanes(schedule.lanes, schedule.masked, 2)

    def piece(places: list[Position]) -> None:
        outer, (start, stop) = places[:-1], part_of_row(code, places[-1], together, length)
        named = code.scratch(together, i64)
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
            for i in range(ENOUGH_SUMS):
                take(at.plus(code, Position(i)))
            return values

        def last(at: Position, values: list[Value]) -> list[Value]:
            take(at)
            return values

        vector_loop(code, start, stop, lanes, [], name)
        whole = code.add(start, code.mul(code.div(code.sub(stop, start), ENOUGH_SUMS), ENOUGH_SUMS))
        run(code, start, whole, ENOUGH_SUMS, [], some)
        run(code, whole, stop, 1, [], last)

    write_nest(code, found.sizes(together), schedule.nest, piece)
