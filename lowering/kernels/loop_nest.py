"""Loops of a kernel: in vectors along one axis, on threads over several axes.

Which loops there are depends on sizes alone, never on the number of threads. So does the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from polyreme.ir import dims
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.positions import Position, position
from polyreme.lowering.kernels.schedule import Schedule
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import CHEAP_CYCLES, ENOUGH_ITERATIONS, ITERATIONS_TOGETHER

# Gives the next carried values; `part` numbers the unrolled copy (-1 in a scalar tail, which keeps values of its own).
Body = Callable[[Position, int, Value | None, int, list[Value]], list[Value]]


@dataclass(frozen=True, slots=True)
class Lanes:
    """How an axis is cut into vectors: `count` lanes each, `unroll` vectors at once; `masked` tails where the machine has masks, else
    scalar ones.
    """

    count: int
    masked: bool
    unroll: int = 1


def run(
    code: Code, lo: Index, hi: Index, step: int, carried: list[Value], body: Callable[[Position, list[Value]], list[Value]], name: str = "i"
) -> list[Value]:
    """A loop, or just its body when it is known to run once, or nothing when it is known not to run."""
    if isinstance(lo, int) and isinstance(hi, int) and hi - lo <= step:
        return body(Position(lo), carried) if hi > lo else carried
    with code.loop(lo, hi, carried, step=step, name=name) as loop:
        loop.next = body(position(loop.iv), loop.carried)
    return loop.results


def vector_loop(
    code: Code, lo: Index, hi: Index, lanes: Lanes, carried: list[Value], body: Body, has_tail: bool = True
) -> list[Value]:
    """`body` for all positions in [lo, hi): unrolled vectors, single vectors, then the tail, unless it is known that there is none."""
    width = lanes.count
    if width == 1:
        return run(code, lo, hi, 1, carried, lambda at, values: body(at, 1, None, 0, values))
    size = hi - lo if isinstance(lo, int) and isinstance(hi, int) else None
    along = Position(step=1)

    def whole(step: int) -> Index:
        """Where the last whole `step` ends."""
        return code.add(lo, code.mul(code.div(code.sub(hi, lo), step), step))

    at = lo
    block = width * lanes.unroll
    if lanes.unroll > 1 and (size is None or size >= block):

        def unrolled(start: Position, values: list[Value]) -> list[Value]:
            for part in range(lanes.unroll):
                values = body(start.plus(code, along).plus(code, Position(part * width)), width, None, part, values)
            return values

        end = whole(block)
        carried = run(code, at, end, block, carried, unrolled)
        at = end
    if size is None or not (isinstance(at, int) and isinstance(hi, int) and hi - at < width):
        end = whole(width)
        carried = run(code, at, end, width, carried, lambda start, values: body(start.plus(code, along), width, None, 0, values))
        at = end
    if not has_tail or (size is not None and at == hi):
        return carried
    return vector_loop_rest(code, at, hi, lanes, carried, body)


def vector_loop_rest(code: Code, lo: Index, hi: Index, lanes: Lanes, carried: list[Value], body: Body) -> list[Value]:
    """`body` for less than a vector: under a mask, or one position after the other."""
    width, along = lanes.count, Position(step=1)
    if not lanes.masked:
        return run(code, lo, hi, 1, carried, lambda start, values: body(start, 1, None, -1, values))
    left = code.sub(hi, lo)
    if not carried and not isinstance(left, int):
        # The mask is the same in all rows, and made once; of rows of whole vectors nothing is computed in vain.
        mask = code.lane_mask(left, width)
        some = code.condition("gt", left, 0)
        assert isinstance(some, Value)
        with code.when(some):
            body(position(lo).plus(code, along), width, mask, 0, [])
        return []

    def tail(_: Position, values: list[Value]) -> list[Value]:
        return body(position(lo).plus(code, along), width, code.lane_mask(left, width), 0, values)

    # A loop over numbers of its own: mask and place are then the same in all rows, and made once.
    return run(code, 0, min(left, 1) if isinstance(left, int) else code.min(left, 1), 1, carried, tail)


@dataclass(frozen=True)
class NestSchedule(Schedule, kind="nest"):
    """How threads share a nest: the iterations over its first `axes`, so many `together` in a loop of their own, `grain` of these at a
    time. The axes further in are looped over inside. Up to `alone` iterations are the calling thread's, in a plain loop for each axis.
    """

    axes: int
    grain: int = 1
    together: int = 1
    alone: int = 0


def choose_nest(target: Target, sizes: Sequence[Dim], cycles: float, has_free_sizes: bool) -> NestSchedule | None:
    """How threads share iterations over `sizes` of about so many cycles each; None where that does not pay. `has_free_sizes` tells whether
    the kernel has operands of free sizes.
    """
    count = 1
    for n in sizes:
        count *= estimate(n)
    free = any(isinstance(n, Expr) for n in sizes)
    if not sizes or (count <= 1 and not free) or (not free and count * cycles < target.serial_cycles):
        return None
    # Axes further in than those that have enough iterations are looped over inside.
    taken, threads = 0, 1
    while taken < len(sizes) and threads < ENOUGH_ITERATIONS:
        n = sizes[taken]
        # A free size may be 1, as batches often are: it promises nothing, but 64 times one does.
        threads *= max(estimate(n, 1), 1)
        taken += 1
    each_cycles = max(cycles * estimate(dims.product(sizes[taken:])), 1)
    together = iterations_together(dims.product(sizes[:taken])) if each_cycles < CHEAP_CYCLES and has_free_sizes else 1
    alone = int(target.serial_cycles / each_cycles) if together > 1 and taken > 1 else 0
    return NestSchedule(taken, max(1, ceil(target.grain_cycles / each_cycles / together)), together, alone)


def has_free_sizes(request: Request) -> bool:
    """Whether the kernel of a root has operands or results of free sizes."""
    return any(isinstance(n, Expr) for type in (*request.operand_types, *request.result_types) for n in type.shape)


def is_like(schedule: Any, own: Any) -> bool:
    """Whether a schedule is another one but for the grain of its nest, which may be any."""
    nest = own.nest if own.nest is None or schedule.nest is None else replace(own.nest, grain=max(schedule.nest.grain, 1))
    return bool(schedule == replace(own, nest=nest))


def part_of_row(code: Code, place: Position, together: int, length: Index) -> tuple[Index, Index]:
    """Where the part of a row begins and ends whose number is at `place`; each has so many elements, the last one what is left."""
    start = code.mul(place.scalar(code), together)
    return start, code.min(code.add(start, together), length)


def each(code: Code, target: Target, sizes: Sequence[Dim], cycles: float, body: Callable[[list[Position]], None]) -> None:
    """`body` for each multi-index of `sizes`, on several threads when that pays. One body costs about `cycles`."""
    write_nest(code, sizes, choose_nest(target, sizes, cycles, _has_free_sizes(code)), body)


def write_nest(code: Code, sizes: Sequence[Dim], schedule: NestSchedule | None, body: Callable[[list[Position]], None]) -> None:
    """`body` for each multi-index of `sizes`, on threads as the schedule says, or on the calling one."""

    def nest(rest: Sequence[Dim], places: list[Position]) -> None:
        if not rest:
            body(places)
            return

        def inner(at: Position, values: list[Value]) -> list[Value]:
            nest(rest[1:], [*places, at])
            return values

        run(code, 0, rest[0], 1, [], inner)

    if schedule is None:
        nest(sizes, [])
        return
    taken, together = schedule.axes, schedule.together
    total = dims.product(sizes[:taken])

    outer = list(sizes[:taken])

    def iteration(at: Position, places: list[Value]) -> list[Value]:
        nest(sizes[taken:], [position(x) for x in (places or code.split(at.scalar(code), outer))])
        return code.following(places, outer) if places else []

    def shared() -> None:
        with code.parallel(dims.ceildiv(total, together), grain=schedule.grain) as iv:
            if together == 1:
                iteration(position(iv), [])
            else:
                first = code.mul(iv, together)
                # Divided once; the others are counted on.
                places = [code.value(x) for x in code.split(first, outer)] if len(outer) > 1 else []
                run(code, first, code.min(code.add(first, together), total), 1, places, iteration)

    few = code.condition("le", total, schedule.alone)
    if not isinstance(few, Value) or not schedule.alone:
        shared()
        return
    with code.when(few):
        nest(sizes, [])
    with code.when(few, then=False):
        shared()


def iterations_together(count: Dim) -> int:
    """How many of `count` iterations a thread does in a loop of its own: several where enough are left for many threads, however long the
    rows turn out to be.
    """
    return ITERATIONS_TOGETHER if estimate(count) >= ENOUGH_ITERATIONS * ITERATIONS_TOGETHER else 1


def _has_free_sizes(code: Code) -> bool:
    """Whether the kernel being written has operands of free sizes."""
    block = code.b.block
    while (parent := block.parent_op) is not None and not isinstance(parent, Func):
        assert parent.parent is not None
        block = parent.parent
    return any(isinstance(n, Expr) for arg in block.args if isinstance(arg.type, BufferType) for n in arg.type.shape)

