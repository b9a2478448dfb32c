"""The arena: where each intermediate buffer of a kernel-level `main` lies.

A buffer is live from the first op that uses it to the last, among the ops of its block. Uses inside an op's regions, and uses through
views, count as uses by that op. So buffers of a loop's body share memory with later ones of the body, and the two bodies of a branch share
theirs. `memory_plan.py` turns lifetimes into offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import gcd
from typing import ClassVar

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func, Module
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, Expr, floordiv, maximum
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType
from polyreme.lowering.analysis.estimates import estimate_pixels
from polyreme.lowering.schedule.memory_plan import Lifetime, align, plan_arena, plan_offsets, plan_slots


@register_pass
@dataclass(frozen=True)
class PlanMemory(Pass):
    """Give every buffer of the arena its offset.

    Before: `kernel.alloc` in `main` without offsets.  After: buffers that are never live together may share bytes.
    Runs last at kernel level, because fusing and hoisting decide which buffers there are and how long they live.
    """

    name: ClassVar[str] = "plan-memory"
    takes: ClassVar[tuple[str, ...]] = ("kernel",)

    def run(self, module: Module) -> None:
        for func in module.functions:
            if func.sym_name == "main":
                plan_memory(func)


def plan_memory(main: Func) -> None:
    """Set the `offset` of all allocations of the arena in `main`, unless all have one."""
    allocs = [op for op in main.walk() if isinstance(op, kernel.Alloc) and op.attributes["space"] == "arena"]
    if all(op.attributes["offset"] is not None for op in allocs):
        return
    spans = _spans(main)
    begin = _of_threads([op for op in allocs if op.attributes["of_thread"]], spans)
    allocs = [op for op in allocs if op.attributes["offset"] is None]
    lifetimes: list[Lifetime] = []
    units: list[Expr | None] = []
    for alloc in allocs:
        first, last = _span_of(alloc, spans)
        size, unit = _split(_bytes(alloc))
        lifetimes.append(Lifetime(first, last, size, unit))
        units.append(unit)
    offsets, total = _in_regions(lifetimes, units)
    if len(set(units) - {None}) > 1:
        in_slots, end = _in_slots(lifetimes, units)
        if estimate_pixels(end) < estimate_pixels(total):
            offsets = in_slots
    for alloc, offset in zip(allocs, offsets, strict=True):
        alloc.attributes["offset"] = begin + offset


def _spans(main: Func) -> dict[Op, tuple[int, int]]:
    """The numbers that each op in `main` and those in it have, in order of the text: from its own to the last one inside."""
    spans: dict[Op, tuple[int, int]] = {}
    for number, op in enumerate(main.walk()):
        spans[op] = number, number
        around = op.parent_op if op is not main else None
        while around is not None and around is not main:
            spans[around] = spans[around][0], number
            around = around.parent_op
    return spans


def _span_of(alloc: Op, spans: dict[Op, tuple[int, int]]) -> tuple[int, int]:
    """The numbers from the first to the last op that uses an allocation. One that stands in a loop or branch is used in it only, and anew
    in each round; what uses one from outside of a loop may do so until the last round has ended.
    """
    block = alloc.parent
    found = []
    for use in _uses(alloc.result):
        while use.parent is not block:
            around = use.parent_op
            assert around is not None
            use = around
        found.append(spans[use])
    found = found or [spans[alloc]]
    return min(first for first, _ in found), max(last for _, last in found)


def _of_threads(allocs: Sequence[Op], spans: dict[Op, tuple[int, int]]) -> int:
    """Set the offsets of buffers of which each thread has a part, in bytes at the beginning of the arena that nothing else uses, and give
    how many these are.

    A store to a line of memory that another processor has read since it was written last waits for that one's copy to go, longest where
    they share no cache. So what only one thread reads is kept apart from
    what all of them do, and from the other threads' parts: the first thread's part of each buffer ends at the same place, which is where
    the second one's begins. Buffers that are live together with others of the kind lie as all others.
    """
    lives = {op: _span_of(op, spans) for op in allocs}
    alone = [
        op
        for op in allocs
        if isinstance(_bytes(op), int)
        and not any(o is not op and lives[o][0] <= lives[op][1] and lives[op][0] <= lives[o][1] for o in allocs)
    ]
    first = {op: align(op.attributes["of_thread"] * op.attributes["dtype"].bytes) for op in alone}
    where = max(first.values(), default=0)
    end = where
    for op in alone:
        size = _bytes(op)
        assert isinstance(size, int)
        # Threads' parts are whole lines.
        op.attributes["offset"] = where - first[op]
        end = max(end, where - first[op] + size)
    return align(end)


def _in_regions(lifetimes: Sequence[Lifetime], units: Sequence[Expr | None]) -> tuple[list[Dim], Dim]:
    """Offsets of buffers, each in the region of its unit, and how many bytes they take: tight for every value of a unit, but nothing is
    shared by two.
    """
    plan = plan_arena(lifetimes)
    bases: dict[Expr | None, Dim] = {}
    end: Dim = 0
    for unit in dict.fromkeys([None, *units]):
        bases[unit] = end
        end = end + _times(plan.regions[unit], unit)
    return [bases[unit] + _times(offset, unit) for unit, offset in zip(units, plan.offsets, strict=True)], end


def _in_slots(lifetimes: Sequence[Lifetime], units: Sequence[Expr | None]) -> tuple[list[Dim], Dim]:
    """The same with buffers of all units together, in slots that hold one buffer at a time and are as large as the largest of them.

    An image shrinks from layer to layer, by a unit each time. Layers that write where others have read find that memory in the caches.
    """
    known = [i for i, unit in enumerate(units) if unit is None]
    free = [i for i, unit in enumerate(units) if unit is not None]
    placed, static = plan_offsets([lifetimes[i] for i in known])
    offsets: list[Dim] = [0] * len(units)
    for i, offset in zip(known, placed, strict=True):
        offsets[i] = offset
    sizes = [_times(align(lifetimes[i].bytes), units[i]) for i in free]
    usual = [Lifetime(lifetimes[i].first, lifetimes[i].last, estimate_pixels(size)) for i, size in zip(free, sizes, strict=True)]
    slots = plan_slots(usual)
    end: Dim = static
    for slot in range(max(slots) + 1):
        here = [k for k, its in enumerate(slots) if its == slot]
        for k in here:
            offsets[free[k]] = end
        end = end + reduce(maximum, dict.fromkeys(sizes[k] for k in here))
    return offsets, end


def plan_within(loop: Op, allocs: Sequence[Op]) -> tuple[list[Dim], Dim]:
    """Where buffers of one element type that are used in the body of `loop` lie, in elements, and how many there are of all: for one round
    at a time.
    """
    steps = {op: i for i, op in enumerate(loop.block)}
    lifetimes: list[Lifetime] = []
    units: list[Expr | None] = []
    for alloc in allocs:
        size, unit = _split(_bytes(alloc))
        lifetimes.append(Lifetime(*lifetime_of(alloc, loop, steps), size, unit))
        units.append(unit)
    offsets, end = _in_regions(lifetimes, units)
    each = allocs[0].attributes["dtype"].bytes
    return [floordiv(offset, each) for offset in offsets], floordiv(end, each)


def whole_lines(type: BufferType) -> Dim:
    """How many elements the lines of memory have that a buffer is in, where its size is known; else how many it has itself."""
    size = type.elements
    return align(size * type.dtype.bytes) // type.dtype.bytes if isinstance(size, int) else size


def lifetime_of(alloc: Op, around: Op, steps: dict[Op, int]) -> tuple[int, int]:
    """The first and the last step of `around`, a function or a loop, that an allocation is used at; `steps` numbers the ops of its block.
    """
    used = [steps[_step(use, around)] for use in _uses(alloc.result)] or [steps[_step(alloc, around)]]
    return min(used), max(used)


def _times(count: int, unit: Expr | None) -> Dim:
    return count if unit is None else unit * count


def _bytes(alloc: Op) -> Dim:
    type = alloc.result.type
    assert isinstance(type, BufferType)
    return type.elements * type.dtype.bytes


def _split(size: Dim) -> tuple[int, Expr | None]:
    """A size as bytes times a unit: `12*N*M + 8*N` is 4 times `3*N*M + 2*N`; a known size has no unit."""
    if isinstance(size, int):
        return size, None
    factor = gcd(*(coefficient for _, coefficient in size.terms))
    unit = floordiv(size, factor)
    assert isinstance(unit, Expr)
    return factor, unit


def _uses(value: Value) -> Iterator[Op]:
    """The ops that use the value or a view of it; to make a view is no use."""
    for op in value.users:
        if not isinstance(op, kernel.View):
            yield op
        for result in op.results:
            if isinstance(result.type, BufferType):
                yield from _uses(result)


def _step(op: Op, around: Op) -> Op:
    """The op of the block of `around` in which `op` stands."""
    while op.parent_op is not around:
        parent = op.parent_op
        assert parent is not None
        op = parent
    return op
