"""The work of a kernel, counted from its ops: what each loop does in a round, how often, and from which cache its data comes.

A loop's working set is what one run of it touches, by the spans of `footprints.py`. Data that a loop goes over again comes from the first
cache that holds the working set of the loop around both times; what the caller's next call finds there is the whole kernel's. Sizes that
are not known are one number throughout. Conditions and bounds that depend on the rounds of loops around are looked at in some of those. Of
a branch with an unknown condition, half of each side counts.

Reuse by working sets of loops is what polyhedral compilers estimate traffic by, as in Wolf and Lam, "A data locality optimizing algorithm"
(PLDI 1991); the busiest unit of a loop body bounds its time as in Williams, Waterman and Patterson's roofline (CACM 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

import numpy as np

from polyreme.dialects import kernel
from polyreme.dialects.kernel.bf16x3 import LANES, PAIRS, PRODUCTS, TERMS
from polyreme.dialects.kernel.common import lanes_of, scalar_of
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.define import ConstantLike
from polyreme.ir.dims import product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, Type, VectorType, f32, i32, index
from polyreme.lowering.analysis.estimates import ASSUMED, estimate
from polyreme.lowering.analysis.footprints import Place, Spans, Unknown, bytes_of, lines_together, moved, spans_of, union
from polyreme.lowering.machines.cost import Traffic, Work, busy_cycles, rates_of, with_traffic, work_of_function
from polyreme.lowering.machines.functions import CUT_OPERATIONS, LATENCY, LATENCY_OF_SIMPLE, OPERATIONS
from polyreme.lowering.machines.instructions import WIDEST_BYTES
from polyreme.lowering.machines.memory import L1_WAY_BYTES
from polyreme.lowering.machines.targets import Target

__all__ = ["KernelWork", "kernel_cycles", "work_of"]

# Rounds of all loops around, drawn evenly, for which conditions and bounds are looked at.
SAMPLES = 64
# Words of a row of a tile register.
TILE_WORDS = WIDEST_BYTES // i32.bytes


@dataclass(frozen=True, slots=True)
class Reference:
    """Memory that a round of a loop reads or writes: `bytes` of a buffer of `size` bytes, from a place on, in bytes."""

    buffer: Value
    bytes: float
    size: float
    place: Place


@dataclass(slots=True, eq=False)
class CountedLoop:
    """A loop, or the kernel as a loop of one round: its own work of a round, what it touches, and the loops inside. What it hands from
    round to round goes on through so many runs of it (`runs`), each of which waits for the one before.
    """

    rounds: float
    runs: float = 1.0
    work: Work = field(default_factory=Work)
    references: list[Reference] = field(default_factory=list)
    inside: list[CountedLoop] = field(default_factory=list)

    def cycles(self, target: Target, repeated: bool = False) -> float:
        """Cycles of all rounds with all data in L1. If it is `repeated` by a loop around, what the next time does does not wait for what
        this one hands on, and begins as soon as the core has room for it in flight.
        """
        work = self.work
        if work.waits and repeated:
            total = self.total()
            begun = (total.multiply_adds + total.arithmetic + total.shuffles + total.loads + total.stores + total.places) * self.runs
            work = replace(work, waits=work.waits * begun / (begun + rates_of(target).in_flight))
        inside = sum(loop.cycles(target, (repeated or self.rounds > 1) if loop.runs == 1 else repeated) for loop in self.inside)
        return self.rounds * max(busy_cycles(work, target) + inside, 1.0 if self.rounds > 1 else 0.0)

    def total(self) -> Work:
        """The work of all rounds."""
        total = self.work
        for loop in self.inside:
            total = total + loop.total()
        return total * self.rounds

    def touches(self, rooms: Sequence[float], line: int) -> _Touched:
        """What a run of it touches, by buffer and what moves the place. Data comes by lines."""
        found: _Touched = {}
        for r in self.references:
            # Rounds whose places are not known are taken to be neighbours, and to have lines in common.
            spans = spans_of(r.place.start, r.bytes, 1 if r.place.moved_by else line)
            count = bytes_of(spans)
            _add(found, (r.buffer, r.place.steps, r.place.rest), _Part(count, r.size, (count,) * len(rooms), spans))
        for part in found.values():
            part.missed = (part.count,) * len(rooms)
        for loop in self.inside:
            for key, part in loop.touches(rooms, line).items():
                _add(found, key, part)
        of_round = working_set(found)
        run: _Touched = {}
        ways = rooms[0] / L1_WAY_BYTES
        for (buffer, steps, rest), part in found.items():
            step = next((step for loop, step in steps if loop is self), 0)
            key = buffer, frozenset(pair for pair in steps if pair[0] is not self), rest
            unknown = any(self in number.moved_by for number, _ in rest)
            made = self._all_rounds(part, step, unknown, [of_round <= room for room in rooms])
            made.crowded = part.crowded or (made.spans is not None and step != 0 and lines_together(made.spans, line, L1_WAY_BYTES) > ways)
            _add(run, key, made)
        of_run = working_set(run)
        for part in run.values():
            part.missed = tuple(min(m, part.count) if of_run <= room else m for m, room in zip(part.missed, rooms, strict=True))
        return run

    def _all_rounds(self, part: _Part, step: int, unknown: bool, fits: Sequence[bool]) -> _Part:
        """What all rounds touch of what one does, each `step` bytes from the one before, or at places that are `unknown`. A cache for which
        it fits keeps what the round before has touched.
        """
        spans, count, again = part.spans, part.count, 1.0
        if unknown or (step and spans is None):
            spans, count, again = None, count * self.rounds, self.rounds
        elif step:
            spans, touched = moved(part.spans, step, self.rounds)
            again = touched / bytes_of(part.spans)
            count *= again
        elif self.rounds < 1:
            again = self.rounds
        missed = tuple(m * (again if fit else self.rounds) for m, fit in zip(part.missed, fits, strict=True))
        return _Part(min(count, part.size), part.size, missed, spans)


@dataclass(slots=True)
class _Part:
    """Bytes that are touched, those of the buffer, and those that come to a cache of each size; where they are, if that is known. Those
    that are `crowded` drive each other out of L1: more of them share their places than it has ways.
    """

    count: float
    size: float
    missed: tuple[float, ...]
    spans: Spans | None
    crowded: bool = False


_Key = tuple[Value, frozenset[tuple[Any, int]], frozenset[tuple[Unknown, int]]]
_Touched = dict[_Key, _Part]


def _add(touched: _Touched, key: _Key, part: _Part) -> None:
    """Add a part to those of the same key."""
    old = touched.get(key)
    if old is None:
        touched[key] = part
        return
    missed = tuple(a + b for a, b in zip(old.missed, part.missed, strict=True))
    if old.spans is None or part.spans is None:
        spans, count = None, old.count + part.count
    else:
        spans = union(np.concatenate([old.spans, part.spans]))
        # Of what is touched in some rounds alone, a part of the spans counts.
        count = bytes_of(spans) * (old.count + part.count) / (bytes_of(old.spans) + bytes_of(part.spans))
    touched[key] = _Part(min(count, part.size), part.size, missed, spans, old.crowded or part.crowded)


def working_set(touched: _Touched) -> float:
    """Bytes that are touched, each once."""
    by_buffer: dict[Value, tuple[float, float]] = {}
    for (buffer, *_), part in touched.items():
        by_buffer[buffer] = by_buffer.get(buffer, (0.0, 0.0))[0] + part.count, part.size
    return sum(min(count, size) for count, size in by_buffer.values())


@dataclass(frozen=True, slots=True)
class KernelWork:
    """All `work` of a kernel, the `traffic` between its caches, and the `cycles` of one thread."""

    work: Work
    traffic: Traffic
    cycles: float

    def __str__(self) -> str:
        return f"{self.work}, {self.traffic}: {self.cycles:.0f} cycles"


def work_of(func: Func, target: Target) -> KernelWork:
    """The work of a kernel on a machine."""
    root = _Counter(target).root(func)
    touched = root.touches(target.caches, target.line_bytes)
    # The next call finds in a cache what this one has touched, if all of that has room there.
    missed = [
        0.0 if working_set(touched) <= room else sum(part.missed[i] for part in touched.values()) for i, room in enumerate(target.caches)
    ]
    first, second, third = (max(missed[i:]) for i in range(len(missed)))
    work = root.total()
    # Where there is more to do with what is loaded than to add it up, the next loads begin meanwhile.
    waits = missed[0] and not work.multiply_adds
    crowded = sum(part.missed[0] for part in touched.values() if part.crowded) if waits else 0.0
    traffic = Traffic(first - second, second - third, third, crowded)
    return KernelWork(work, traffic, rates_of(target).call_cycles + with_traffic(root.cycles(target), traffic, target))


def kernel_cycles(func: Func, target: Target) -> float:
    """Cycles that a kernel takes one thread."""
    return work_of(func, target).cycles


FIRST = Place()


@dataclass(frozen=True, slots=True)
class _Where:
    """Where the counter is: in which `loop`, and for which of the samples that is so."""

    loop: CountedLoop
    active: Any

    def mean(self, numbers: Any) -> float:
        """The mean of a number over the samples that are here."""
        return float(np.mean(np.broadcast_to(numbers, self.active.shape)[self.active]))

    def share(self, condition: Any) -> tuple[float, Any]:
        """For how many of the samples here a condition is true, and for which."""
        true = self.active & np.broadcast_to(np.asarray(condition, bool), self.active.shape)
        return float(true.sum() / self.active.sum()), true


class _Counter:
    """Counts a kernel's ops. `known` has the numbers that are known, in `SAMPLES` of the rounds of all loops around; `places` has how the
    loops around change a value.
    """

    def __init__(self, target: Target):
        self.target = target
        self.rng = np.random.default_rng(0)
        self.known: dict[Value, Any] = {}
        self.places: dict[Value, Place] = {}
        # The round of the loop around, and values that a loop takes over from the round before, with how many rounds it has.
        self.round: Any = 0
        self.taken_over: dict[Value, float] = {}

    def root(self, func: Func) -> CountedLoop:
        """All of a kernel, as a loop of one round."""
        root = CountedLoop(1.0)
        self._block(func.block, _Where(root, np.ones(SAMPLES, bool)))
        return root

    def _block(self, block: Block, place: _Where) -> None:
        for op in block:
            self._op(op, place)

    def _op(self, op: Op, place: _Where) -> None:
        if isinstance(op, kernel.For):
            self._for(op, place)
        elif isinstance(op, kernel.Parallel):
            self._loop(op.body.block, self.known.get(op.count, ASSUMED.rounds), 0, 1, place)
        elif isinstance(op, kernel.If):
            self._if(op, place)
        elif isinstance(op, kernel.While):
            inner = _Where(CountedLoop(ASSUMED.rounds), place.active)
            place.loop.inside.append(inner.loop)
            self._block(op.condition.block, inner)
            self._block(op.body.block, inner)
        else:
            self._number(op)
            self._place(op)
            self._count(op, place.loop)

    def _for(self, op: kernel.For, place: _Where) -> None:
        lo, hi = self.known.get(op.lo), self.known.get(op.hi)
        rounds = ASSUMED.rounds if lo is None or hi is None else np.maximum(0, -(-(hi - lo) // op.step))
        block = op.body.block
        inner = self._loop(block, rounds, lo, op.step, place, op.lo)
        if inner is None:
            self._same(op.results, op.inits)
            return
        inner.work = inner.work + Work(waits=_waits(block))
        if any(x in self.taken_over for x in op.inits):
            inner.runs = place.loop.runs * place.loop.rounds

    def _loop(self, block: Block, rounds: Any, lo: Any, step: int, place: _Where, start: Value | None = None) -> CountedLoop | None:
        """The loop of a block, unless it has no round. It begins at the numbers `lo`, those of the value `start` if there is one."""
        mean, (share, active) = place.mean(rounds), place.share(np.asarray(rounds) > 0)
        if not share:
            return None
        # Rounds, where there are any, in so many of the cases.
        inner = CountedLoop(mean)
        place.loop.inside.append(inner)
        outer = self.round
        self.round = np.floor(self._evenly() * rounds).astype(np.int64)
        if lo is not None:
            self.known[block.args[0]] = lo + self.round * step
        begin = FIRST if start is None else self._place_of(start)
        self.places[block.args[0]] = begin.plus(Place(steps=frozenset([(inner, step)])))
        self.places.update((x, _unknown(x, frozenset([inner]))) for x in block.args[1:] if x.type == index)
        self.taken_over.update(dict.fromkeys(block.args[1:], mean))
        self._block(block, _Where(inner, active))
        self.round = outer
        return inner

    def _evenly(self) -> Any:
        """Numbers from 0 to 1, spread evenly over the samples, in an order of their own."""
        return (self.rng.permutation(SAMPLES) + 0.5) / SAMPLES

    def _if(self, op: kernel.If, place: _Where) -> None:
        condition = self.known.get(op.condition)
        sides = op.then_body.block, op.else_body.block
        shares = [(0.5, place.active)] * 2 if condition is None else [place.share(condition), place.share(np.logical_not(condition))]
        for side, (share, active) in zip(sides, shares, strict=True):
            if share == 1:
                self._block(side, place)
                self._same(op.results, side.terminator.operands)
            elif share:
                inner = CountedLoop(share)
                place.loop.inside.append(inner)
                self._block(side, _Where(inner, active))

    def _same(self, results: Sequence[Value], values: Sequence[Value]) -> None:
        """Note that these are the same numbers."""
        self.known.update((r, self.known[x]) for r, x in zip(results, values, strict=True) if x in self.known)

    def _number(self, op: Op) -> None:
        """Note what the op gives, where that is a number that is known."""
        known = self.known
        if isinstance(op, kernel.Constant):
            if not isinstance(op.result.type, VectorType):
                known[op.result] = op.value
        elif isinstance(op, kernel.Size):
            known[op.result] = estimate(op.value)
        elif isinstance(op, kernel.Threads):
            known[op.result] = 1
        elif isinstance(op, kernel.FetchAdd):
            # One thread alone takes a number after the other.
            known[op.result] = self.round * known.get(op.value, 1)
        elif isinstance(op, kernel.Apply) and op.fn == "ne" and op.operands[0] in known and op.operands[1] in self.taken_over:
            # It is another number than in the round before as often as there are different ones.
            different = len(np.unique(known[op.operands[0]]))
            known[op.result] = self._evenly() * self.taken_over[op.operands[1]] < different
        elif isinstance(op, kernel.Apply) and op.fn == "select" and all(x in known for x in op.operands[1:]):
            # Where it is not known which of two numbers it is, it is each of them in half of the samples.
            condition = known.get(op.operands[0], np.arange(SAMPLES) % 2 == 0)
            known[op.result] = np.where(condition, *(known[x] for x in op.operands[1:]))
        elif isinstance(op, kernel.Apply) and all(x in known for x in op.operands):
            known[op.result] = op.reference([known[x] for x in op.operands], fn=op.fn, dtype=op.dtype)

    def _place_of(self, value: Value) -> Place:
        """How the loops around change a value."""
        found = self.places.get(value)
        return _unknown(value) if found is None else found

    def _place(self, op: Op) -> None:
        """Note how the loops around change what the op gives: sums and multiples of positions are known."""
        if isinstance(op, (kernel.Constant, kernel.Size)) and op.result.type == index:
            self.places[op.result] = Place(int(self.known[op.result]))
            return
        places = [self._place_of(x) for x in op.operands]
        if isinstance(op, kernel.Apply) and op.result.type == index and op.fn in ("add", "sub", "mul"):
            a, b = places
            if op.fn != "mul":
                self.places[op.result] = a.plus(b, 1 if op.fn == "add" else -1)
                return
            for one, other in ((a, b), (b, a)):
                if not one.loops and not one.rest:
                    self.places[op.result] = FIRST.plus(other, one.start)
                    return
        if isinstance(op, kernel.Apply) and op.result.type == index and (usual := self._usual(op)) is not None:
            self.places[op.result] = self._place_of(usual)
            return
        loops = frozenset[Any]().union(*(place.loops for place in places))
        self.places.update((r, _unknown(r, loops)) for r in op.results)

    def _usual(self, op: kernel.Apply) -> Value | None:
        """What one of several numbers mostly is, as of bounds that only matter at an edge."""
        if op.fn not in ("max", "min", "select") or op.result not in self.known:
            return None
        result = np.broadcast_to(self.known[op.result], SAMPLES)
        among = [x for x in op.operands if x.type == index and x in self.known]
        return max(among, key=lambda x: int((np.broadcast_to(self.known[x], SAMPLES) == result).sum()), default=None)

    def _count(self, op: Op, loop: CountedLoop) -> None:
        """Add the work of an op, and the memory that it touches."""
        if isinstance(op, (kernel.Load, kernel.Store)):
            value = op.result if isinstance(op, kernel.Load) else op.value
            count = self._vectors(value.type)
            loop.work = loop.work + (Work(loads=count) if isinstance(op, kernel.Load) else Work(stores=count))
            self._touch(loop, op.buffer, lanes_of(value.type) * scalar_of(value.type).bytes, op.index)
        elif isinstance(op, (kernel.Gather, kernel.Scatter)):
            value = op.result if isinstance(op, kernel.Gather) else op.value
            lanes = lanes_of(value.type)
            loop.work = loop.work + Work(places=lanes)
            self._touch(loop, op.buffer, lanes * scalar_of(value.type).bytes, op.indices)
        elif isinstance(op, kernel.Fma):
            loop.work = loop.work + Work(multiply_adds=self._vectors(op.result.type))
        elif isinstance(op, (kernel.Dot2, kernel.Dot4)):
            loop.work = loop.work + Work(multiply_adds=self._vectors(op.result.type))
        elif isinstance(op, kernel.Apply):
            self._apply(op, loop)
        elif isinstance(op, kernel.DotTerms):
            self._dot_terms(op, loop)
        elif isinstance(op, kernel.DotBlock):
            self._dot_block(op, loop)
        elif isinstance(op, (kernel.Shuffle, kernel.Permute)):
            loop.work = loop.work + Work(shuffles=self._vectors(op.result.type))
        elif isinstance(op, kernel.Reduce):
            lanes = lanes_of(op.operands[0].type)
            loop.work = loop.work + Work(shuffles=max(lanes, 2).bit_length(), arithmetic=max(lanes, 2).bit_length())

    def _dot_terms(self, op: kernel.DotTerms, loop: CountedLoop) -> None:
        tiles = rates_of(self.target).tile_row_cycles * len(PRODUCTS) * 2 * op.rows * op.steps
        numbers = self._lines(2 * op.cuts * op.steps * LANES * f32.bytes)
        loop.work = loop.work + Work(tiles=tiles, arithmetic=numbers * CUT_OPERATIONS, loads=numbers, stores=numbers * TERMS / 2)
        step = TERMS * PAIRS * i32.bytes * op.steps
        self._touch(loop, op.a, step * op.rows, op.at_a)
        self._touch(loop, op.b, step * LANES, op.at_b)
        self._touch(loop, op.sums, op.rows * LANES * f32.bytes, op.at_sums)
        if op.source is not None:
            self._touch(loop, op.source, 2 * op.cuts * op.steps * LANES * f32.bytes, op.at_source)

    def _dot_block(self, op: kernel.DotBlock, loop: CountedLoop) -> None:
        steps = prod(op.counts)
        loop.work = loop.work + Work(
            tiles=rates_of(self.target).tile_row_cycles * op.rows * len(op.starts) * op.columns / TILE_WORDS * steps
        )
        self._touch(loop, op.a, op.rows * len(op.starts) * TILE_WORDS * i32.bytes * steps, op.at_a)
        self._touch(loop, op.b, TILE_WORDS * op.columns * i32.bytes * steps, op.at_b)

    def _lines(self, count: float) -> float:
        """Vectors of so many bytes."""
        return count / self.target.vector_bytes

    def _apply(self, op: kernel.Apply, loop: CountedLoop) -> None:
        if scalar_of(op.result.type) == index or all(scalar_of(x.type) == index for x in op.operands):
            return  # addresses go beside
        count = max(map(self._vectors, [op.result.type, *(x.type for x in op.operands)]))
        # What is at least a number that is known, as after a relu, is one instruction.
        is_bound = op.fn in ("max", "min") and any(map(_is_known, op.operands))
        loop.work = loop.work + (Work(arithmetic=1.0) if is_bound else work_of_function(op.fn)) * count

    def _touch(self, loop: CountedLoop, buffer: Value, count: float, at: Value) -> None:
        place = FIRST.plus(self._place_of(at), buffer.type.dtype.bytes)
        while isinstance(made := buffer.producer(), kernel.View):
            buffer = made.buffer
            if made.offset is not None:
                place = place.plus(self._place_of(made.offset), buffer.type.dtype.bytes)
        type = buffer.type
        assert isinstance(type, BufferType)
        size = float(estimate(product(type.shape)) * type.dtype.bytes)
        loop.references.append(Reference(buffer, count, size, place))

    def _vectors(self, type: Type) -> float:
        """Registers that a value takes; one for a single element, or half of one where the machine computes them in halves."""
        if isinstance(type, BufferType):
            return 0.0
        least = 0.5 if self.target.half_width_vectors else 1.0
        return max(least, lanes_of(type) * scalar_of(type).bytes / self.target.vector_bytes)


def _unknown(value: Value, loops: frozenset[Any] = frozenset()) -> Place:
    """The place of a number that is not known."""
    return Place(rest=frozenset([(Unknown(value, loops), 1)]))


def _is_known(value: Value) -> bool:
    """Whether it is a constant, or one in all lanes."""
    made = value.producer()
    return isinstance(made, kernel.Constant) or (isinstance(made, kernel.Broadcast) and _is_known(made.operands[0]))


def _waits(block: Block) -> float:
    """Cycles from what a round takes over to what it hands on to the next one."""
    at: dict[Value, float] = dict.fromkeys(block.args[1:], 0.0)
    if not at:
        return 0.0
    for op in block:
        before = [at[x] for x in op.operands if x in at]
        if before and not op.has(ConstantLike):
            latency = LATENCY_OF_SIMPLE * OPERATIONS.get(op.fn, 1) if isinstance(op, kernel.Apply) else LATENCY
            for result in op.results:
                at[result] = max(before) + (0.0 if op.regions else latency)
    return max((at.get(x, 0.0) for x in block.terminator.operands), default=0.0)
