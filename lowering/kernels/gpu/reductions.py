"""Row reductions on a GPU, several threads to a row.

If the last axis is reduced, a block takes one row. Its threads stride along it, combine by shuffles and shared memory, and go on with the
next stage. Otherwise neighbouring threads take neighbouring rows, so that reads coalesce, and a few of them share each row. Short rows get
one thread each.

A row of which more than one stage, or a stage and a result, is made is read once where the threads' registers hold it: each thread keeps
its elements, and what was computed of them. Longer rows are read by each stage.

Few long rows would leave most of the device idle. They are cut into parts, whose partial results wait in scratch memory.
"""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import ceildiv, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.scalar import identity_of
from polyreme.ir.types import BufferType, ScalarType
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import Rows, needed_ops, rows_of, shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, buffer_leaf, convert, linear, store
from polyreme.lowering.kernels.general.loops import accumulator_of, describe, register_leaf
from polyreme.lowering.kernels.gpu.grid import GridKernel, blocks_for, both, ordered, places_of, reduce_block, truth
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result, scratch
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.machines.gpu import (
    BLOCK_THREADS,
    ELEMENTS_OF_PART,
    ELEMENTS_OF_THREAD,
    HELD_ELEMENTS,
    READ_AT_ONCE,
    RUNNING_BLOCKS,
    WARP,
)


@dataclass(frozen=True)
class Layout:
    """`rows` neighbouring rows to a block, `workers` threads to a row."""

    rows: int
    workers: int

    @property
    def block(self) -> tuple[int, ...]:
        return (self.workers,) if self.rows == 1 else (self.rows, self.workers)


def build_rows(request: Request) -> KernelPlan | None:
    """The plan of a group with row reductions; None for any other."""
    func = collapse_axes(request.func)
    values = func.block.terminator.operands
    ops = needed_ops([op for op in func.block if not isinstance(op, Return)], values)
    rows = rows_of(ops, values)
    if rows is None or not rows.staged:
        return None
    parts = _parts(rows, values)
    if parts > 1:
        return _in_parts(request, func, rows, parts)
    return KernelPlan((_RowKernel(request, func, rows).build(),), builder="rows")


def _layout(rows: Rows) -> Layout:
    length, count = estimate(product(rows.space[a] for a in rows.reduced)), estimate(product(rows.space[a] for a in rows.outer))
    sized = [a for a, n in enumerate(rows.space) if n != 1]
    if length <= ELEMENTS_OF_THREAD and count >= BLOCK_THREADS:
        return Layout(BLOCK_THREADS // 2, 1)
    if sized and sized[-1] not in rows.reduced:
        workers = 1
        while workers < 8 and workers * 8 < length:
            workers *= 2
        return Layout(WARP, workers)
    workers = WARP
    while workers < BLOCK_THREADS and workers < length:
        workers *= 2
    return Layout(1, workers)


def _parts(rows: Rows, values: tuple[Value, ...]) -> int:
    """How many parts each row is cut into: only where every result waits for one stage of reductions alone."""
    if any(level > 1 for level in rows.level.values()) or any(not rows.level.get(v) or rows.is_full(v) for v in values):
        return 1
    blocks = ceildiv(estimate(product(rows.space[a] for a in rows.outer)), _layout(rows).rows)
    length = estimate(product(rows.space[a] for a in rows.reduced))
    assert isinstance(blocks, int)
    return max(1, min(length // ELEMENTS_OF_PART, RUNNING_BLOCKS // max(blocks, 1)))


def _in_parts(request: Request, func: Func, rows: Rows, parts: int) -> KernelPlan:
    """Two kernels: partial results `[part, row]` of every reduction, then the reductions of those and what follows."""
    first = _RowKernel(request, func, rows, parts)
    partial = first.build()
    final = _RowKernel(request, func, rows, parts, first.scratch_types)
    return KernelPlan((partial, final.build()), scratch=tuple(first.scratch_types), builder="rows")


class _RowKernel:
    """One kernel. With `parts` it is the first of two, which leaves partial results; with `partial`, their types, as well, the second."""

    def __init__(self, request: Request, func: Func, rows: Rows, parts: int = 1, partial: list[BufferType] | None = None):
        self.request, self.func, self.rows, self.parts, self.partial = request, func, rows, parts, partial
        self.results: tuple[Value, ...] = func.block.terminator.operands
        self.length = product(rows.space[a] for a in rows.reduced)
        self.count = product(rows.space[a] for a in rows.outer)
        self.layout = _layout(rows)
        self.stages = max(rows.level[s.result] for s in rows.staged)
        self.scratch_types = [BufferType((parts, self.count), accumulator_of(s)) for s in rows.staged] if parts > 1 else []
        self.held = self._held() if parts == 1 else 0
        self._places_held: list[tuple[list[Position], Value | None]] = []

    def _held(self) -> int:
        """How many elements of a row each worker holds in registers, so that the row is read once and nothing is computed of it twice; 0
        where it is read once anyhow, or too long.
        """
        full = [v for v in self.results if self.rows.is_full(v)]
        if self.layout.rows != 1 or not isinstance(self.length, int) or (self.stages == 1 and not full):
            return 0
        each = -(-self.length // self.layout.workers)
        read = sum(shape_of(a) == self.rows.space for a in self.func.args)
        return each if each * max(read, 1) <= HELD_ELEMENTS else 0

    def build(self) -> Step:
        func, layout = self.func, self.layout
        last = self.parts == 1 or self.partial is not None
        scratched = [scratch(i) for i in range(len(self.scratch_types))]
        outputs = [result(i) for i in range(len(self.results))] if last else []
        slots = [*(operand(a.index) for a in func.args), *scratched, *outputs]
        types = [*(a.type for a in func.args), *self.scratch_types, *(v.type for v in self.results if last)]
        blocks = blocks_for(self.count, layout.rows)
        grid = (blocks,) if last else (blocks, self.parts)
        name = self.request.name(describe(func)) + ("" if last else "_parts")
        self.kernel = made = GridKernel(name, slots, types, grid, layout.block, self.request.func.location)
        self.code: Code = made.code
        inputs, rest = made.buffers[: len(func.args)], made.buffers[len(func.args) :]
        leaves = {a: buffer_leaf(self.code, buffer, shape_of(a)) for a, buffer in zip(func.args, inputs, strict=True)}
        self._open()
        if not last:
            self._leave_partial(leaves, rest)
        else:
            if self.partial is not None:
                self._gather_partial(leaves, rest[: len(self.scratch_types)])
            else:
                self.elements = ElementEmitter(self.code, leaves)
                for stage in range(self.stages):
                    self._stage(stage, leaves)
            self._results(leaves, rest[len(self.scratch_types) :])
        return made.finish()

    def _open(self) -> None:
        """Which row and which worker of it the thread is. Rows behind the last one are computed as that and not stored, since all threads
        must meet.
        """
        code, layout = self.code, self.layout
        self.thread = self.kernel.thread()
        self.row: Index = self.kernel.block_id()
        self.valid: bool | Value = True
        self.worker: Index = self.thread if layout.rows == 1 else self.kernel.thread(1) if layout.workers > 1 else 0
        if layout.rows > 1:
            row = code.add(code.mul(self.row, layout.rows), self.thread)
            self.valid = code.condition("lt", row, self.count)
            self.row = code.min(row, code.sub(self.count, 1))
        self.at = dict(zip(self.rows.outer, places_of(code, self.row, [self.rows.space[a] for a in self.rows.outer]), strict=True))

    # --- reductions

    def _stage(self, stage: int, leaves: dict[Value, Leaf]) -> None:
        """The reductions of a stage: each thread its share of the row, then all of them together."""
        reduces = [s for s in self.rows.staged if self.rows.level[s.result] == stage + 1]
        mine = self._held_share(reduces) if self.held else self._share(reduces, leaves, self.worker, self.length)
        for s, total in zip(reduces, self._meet(reduces, mine), strict=True):
            leaves[s.result] = register_leaf(self.code, convert(self.code, total, s.result.type.dtype))
            self.elements.leaves[s.result] = leaves[s.result]

    def _held_places(self) -> list[tuple[list[Position], Value | None]]:
        """The places of the elements that a worker holds, each with what says whether it is one of the row: None where all are. Others
        stand at the last element.
        """
        code, workers = self.code, self.layout.workers
        if not self._places_held:
            for i in range(self.held):
                at = code.value(code.add(self.worker, i * workers))
                inside = None if (i + 1) * workers <= self.length else code.condition("lt", at, self.length)
                place = at if inside is None else code.value(code.min(at, code.sub(self.length, 1)))
                self._places_held.append((self._places(place), None if inside is None else truth(code, inside)))
        return self._places_held

    def _held_share(self, reduces: list[tensor.Reduce]) -> list[Value]:
        """What one thread adds up of the elements that it holds."""
        code, totals = self.code, []
        for s in reduces:
            kind = accumulator_of(s)
            identity = code.constant(identity_of(s.fn, kind), kind)
            xs = []
            for places, inside in self._held_places():
                x = convert(code, self.elements.at(s.x, places), kind)
                xs.append(x if inside is None else code.apply("select", inside, x, identity))
            totals.append(ordered(code, xs, s.fn))
        return totals

    def _share(self, reduces: list[tensor.Reduce], leaves: dict[Value, Leaf], lo: Index, hi: Index) -> list[Value]:
        """What one thread adds up of the row's elements [lo, hi), as many apart as there are workers: some at once, and then what is
        left.
        """
        code, apart = self.code, self.layout.workers
        kinds = [accumulator_of(s) for s in reduces]
        sums = [code.constant(identity_of(s.fn, kind), kind) for s, kind in zip(reduces, kinds, strict=True)]
        step = READ_AT_ONCE * apart
        if estimate(self.length) >= step * self.parts:
            before_last = code.sub(hi, step - apart)
            with code.loop(lo, before_last, sums, step=step, name="r") as loop:
                each = [self._elements(reduces, kinds, leaves, code.value(code.add(loop.iv, i * apart))) for i in range(READ_AT_ONCE)]
                loop.next = [
                    code.apply(s.fn, total, ordered(code, xs, s.fn)) for s, total, *xs in zip(reduces, loop.carried, *each, strict=True)
                ]
            sums = loop.results
            lo = code.add(
                lo,
                code.mul(code.ceildiv(code.apply("max", code.value(code.sub(before_last, lo)), code.value(0)), step), step),
            )
        with code.loop(lo, hi, sums, step=apart, name="r") as loop:
            xs = self._elements(reduces, kinds, leaves, loop.iv)
            loop.next = [code.apply(s.fn, total, x) for s, total, x in zip(reduces, loop.carried, xs, strict=True)]
        return loop.results

    def _elements(self, reduces: list[tensor.Reduce], kinds: list[ScalarType], leaves: dict[Value, Leaf], along: Value) -> list[Value]:
        """What the reductions add of element `along` of the row."""
        places, emitter = self._places(along), ElementEmitter(self.code, leaves)
        return [convert(self.code, emitter.at(s.x, places), kind) for s, kind in zip(reduces, kinds, strict=True)]

    def _meet(self, reduces: list[tensor.Reduce], shares: list[Value]) -> list[Value]:
        """The workers' shares in one, for every worker."""
        code, layout = self.code, self.layout
        if layout.workers == 1:
            return shares
        if layout.rows == 1:
            return [reduce_block(self.kernel, x, s.fn, self.thread, layout.workers) for s, x in zip(reduces, shares, strict=True)]
        boards = []
        for x in shares:
            assert isinstance(x.type, ScalarType)
            board = self.kernel.shared(layout.rows * layout.workers, x.type)
            code.store(x, board, code.add(code.mul(self.worker, layout.rows), self.thread))
            boards.append(board)
        self.kernel.barrier()
        steps = [i * layout.rows for i in range(layout.workers)]
        return [
            ordered(code, [code.load(board, code.add(self.thread, i)) for i in steps], s.fn)
            for board, s in zip(boards, reduces, strict=True)
        ]

    def _leave_partial(self, leaves: dict[Value, Leaf], boards: list[Value]) -> None:
        code = self.code
        part = self.kernel.block_id(1)
        size = ceildiv(self.length, self.parts)
        lo = code.mul(part, size)
        hi = code.min(code.add(lo, size), self.length)
        reduces = list(self.rows.staged)
        totals = self._meet(reduces, self._share(reduces, leaves, code.add(lo, self.worker), hi))
        at = code.add(code.mul(part, self.count), self.row)
        for total, board in zip(totals, boards, strict=True):
            code.store(total, board, at, mask=self._once())

    def _gather_partial(self, leaves: dict[Value, Leaf], boards: list[Value]) -> None:
        code, reduces = self.code, list(self.rows.staged)
        shares = []
        for s, board in zip(reduces, boards, strict=True):
            kind = accumulator_of(s)
            with code.loop(
                self.worker, self.parts, [code.constant(identity_of(s.fn, kind), kind)], step=self.layout.workers, name="part"
            ) as loop:
                loop.next = [code.apply(s.fn, loop.carried[0], code.load(board, code.add(code.mul(loop.iv, self.count), self.row)))]
            shares += loop.results
        for s, total in zip(reduces, self._meet(reduces, shares), strict=True):
            leaves[s.result] = register_leaf(code, convert(code, total, s.result.type.dtype))

    # --- results

    def _once(self) -> Value | None:
        """On for the one thread per row that stores what a row has once; None when all of them do."""
        first = self.code.condition("eq", self.worker, 0)
        found = both(self.code, self.valid, first)
        return None if found is True else truth(self.code, found)

    def _results(self, leaves: dict[Value, Leaf], outputs: list[Value]) -> None:
        code = self.code
        emitter = ElementEmitter(code, leaves)
        once = self._once()
        full = []
        for value, buffer in zip(self.results, outputs, strict=True):
            if self.rows.is_full(value):
                full.append((value, buffer))
            else:
                self._store(emitter, value, buffer, self._places(None), once)
        if not full:
            return
        if self.held:
            for places, inside in self._held_places():
                for value, buffer in full:
                    self._store(self.elements, value, buffer, places, inside)
            return
        mask = None if self.valid is True else truth(code, self.valid)
        with code.loop(self.worker, self.length, step=self.layout.workers, name="r") as loop:
            places = self._places(loop.iv)
            inner = ElementEmitter(code, leaves)
            for value, buffer in full:
                self._store(inner, value, buffer, places, mask)

    def _store(self, emitter: ElementEmitter, value: Value, buffer: Value, places: list[Position], mask: Value | None) -> None:
        shape = shape_of(value)
        mine = [places[a] if n != 1 else Position() for a, n in zip(self.rows.axes[value], shape, strict=True)]
        store(self.code, emitter.at(value, mine), buffer, linear(self.code, mine, shape), mask)

    def _places(self, along: Value | None) -> list[Position]:
        """The place in the space of element `along` of the row."""
        reduced = self.rows.reduced
        inside = places_of(self.code, along, [self.rows.space[a] for a in reduced]) if along is not None else [Position()] * len(reduced)
        at: dict[int, Position] = {**self.at, **dict(zip(reduced, inside, strict=True))}
        return [at[a] for a in range(len(self.rows.space))]
