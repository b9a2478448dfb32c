"""Large matrix products by Strassen's algorithm and its relatives: fewer products of parts, with larger rounding errors.

A scheme of `strassen_schemes.py` cuts rows, steps and lanes into two or three parts each. Two schemes may stand one inside the other:

    halves                       7 products of parts in place of 8
    thirds, thirds of rows      15 in place of 18
    quarters                    49 in place of 64 (two levels of halves)

The parts of the lanes are neighbouring panels, so that a task makes its part of all products, and needs no memory but its own:

1. A kernel writes the combinations of A, once for all tasks.
2. A task multiplies its rows of them by the combinations of a few panels of B, which are packed ahead. Sums wait in L2. Long sums are cut
   into blocks of steps.
3. It adds the products up, a row of each part at a time, applies the epilogue and stores (`strassen_task.py`).

Two levels make combinations and add up while they multiply (`strassen_pipelined.py`).

If the number of rows is unknown, a test at run time finds out whether they are enough. Few rows are not cut into parts: the products of a
scheme that suffice for one part of rows (`Scheme.few`) take the work of the direct product, and read as many of the same packed weights.
If two levels are best for a usual number of rows, whole chunks of as many rows go by two levels, with weights packed for that, and the rest
by one level. Rows whose combinations leave the caches are made in chunks too.

Sizes that do not fit are padded with zeros. A result is within `STRASSEN_PRODUCT` of the exact one. The bound's magnitude is what the
scheme gives for magnitudes, with plus for every minus, which is more than the product of the magnitudes. A row that is small beside its
partner in another part loses digits, as do columns and steps. An infinity or nan spoils its partners too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, ceildiv, floordiv, mod
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, ScalarType, TensorType, f32, i64
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.gemm.strassen_pipelined import PipelinedWork, State, WorkOwner
from polyreme.lowering.kernels.gemm.strassen_plan import (
    Cut,
    Matrices,
    StrassenSchedule,
    choose_strassen,
    cut_by,
    find_matrices,
    fit_strassen,
    why_not_cut,
)
from polyreme.lowering.kernels.gemm.strassen_schemes import combine
from polyreme.lowering.kernels.gemm.strassen_task import StrassenMemory, StrassenTask, TaskRows
from polyreme.lowering.kernels.microkernel import step_cycles
from polyreme.lowering.kernels.packing import PlanParts, copied_views
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Slot, Step, operand, pack, result
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.kernels.work_stealing import Tickets, Variables
from polyreme.lowering.machines.tasks import GRAIN_CYCLES


def write_strassen(found: Matrices, schedule: StrassenSchedule) -> KernelPlan:
    """The plan of a product that is cut like that."""
    return StrassenBuilder(cut_by(found, schedule)).build()


build_strassen = Way(
    "strassen", StrassenSchedule, find_matrices, choose_strassen, write_strassen, fit_strassen, refusal=why_not_cut
)


@dataclass(frozen=True)
class _RunsOf:
    """The groups of panels that are a thread's own: those of `lo` up to `hi`, as they are counted through all pieces of the rows."""

    code: Code
    cut: Cut
    threads: Value
    thread: Value

    @property
    def lo(self) -> Index:
        return self.code.div(self.code.mul(self.thread, self.cut.groups * self.cut.pieces), self.threads)

    @property
    def hi(self) -> Index:
        return self.code.div(self.code.mul(self.code.add(self.thread, 1), self.cut.groups * self.cut.pieces), self.threads)

    @property
    def first_piece(self) -> Index:
        return self.code.div(self.lo, self.cut.groups)

    @property
    def last_piece(self) -> Index:
        return self.code.div(self.code.sub(self.hi, 1), self.cut.groups)

    def groups_of(self, piece: Index) -> tuple[Index, Index]:
        """The first one in a piece of the rows, and the one after them."""
        code = self.code
        begun = code.mul(piece, self.cut.groups)
        return code.apply("max", code.value(code.sub(self.lo, begun)), code.value(0)), code.min(code.sub(self.hi, begun), self.cut.groups)

    @property
    def last_run(self) -> Index:
        """The first group of the last run."""
        code, most = self.code, self.cut.groups_of_thread
        first, end = self.groups_of(self.last_piece)
        return code.add(first, code.mul(code.div(code.sub(code.sub(end, 1), first), most), most))

    @property
    def are_one(self) -> Value:
        """Whether they are a single run."""
        code = self.code
        is_one_piece = code.apply("eq", code.value(self.first_piece), code.value(self.last_piece))
        first, end = self.groups_of(self.last_piece)
        return code.apply("and", is_one_piece, code.apply("le", code.value(code.sub(end, first)), code.value(self.cut.groups_of_thread)))


class StrassenBuilder:
    """Makes the plan of one product."""

    def __init__(self, cut: Cut, parts: PlanParts | None = None):
        self.cut, self.matrices, self.p = cut, cut.matrices, cut.matrices.product.problem
        self.parts = parts or PlanParts(self.p.request)
        self.align = cut.lanes * f32.bytes

    @property
    def stride(self) -> Dim:
        """From one row of A to the next."""
        letters = self.matrices.product.rows
        return self.p.left.stride(letters[-1]) if letters else 0

    def build(self) -> KernelPlan:
        source = self.parts.memory_of(self.p.left.source)
        if self.cut.chunk is not None:
            StrassenBuilder(self.cut.chunk, self.parts).add_steps("strassen_chunks", source)
        self.add_steps("strassen", source)
        return self.parts.plan("strassen")

    def add_steps(self, name: str, source: Slot) -> None:
        """The steps for the rows that the cut is meant for, of A in `source`: whole chunks of them, those that are left, or all."""
        cut, p, epilogue = self.cut, self.p, self.p.epilogue
        if cut.is_pipelined:
            notes = self.parts.new_scratch(cut.most_makers * Tickets.elements(cut.items_of_run), i64)
            before = [source, notes, self.parts.new_scratch(cut.most_makers * cut.memory_of_thread, f32, cut.memory_of_thread)]
        else:
            before = [source, self.parts.new_scratch(cut.combined, f32)]
        slots = [*before, self._weights(), *(operand(a.index) for a in epilogue.args), *map(result, range(len(epilogue.values)))]
        func = Func.empty(p.request.name(name), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location, final_addresses=True)
        code = Code(Builder.at_end(func.block, func.location))
        left, right, *more = func.args[len(before) - 1 :]
        count = len(epilogue.args)
        memory = StrassenMemory(left, right, dict(zip(epilogue.args, more[:count], strict=True)), more[count:])
        with self._chunk(code) as rows:
            if cut.is_pipelined:
                self._pipelined_tasks(code, rows, memory, *func.args[:2])
            else:
                self._combine_rows(code, rows, func.args[0], left)
                self._tasks(code, rows, memory)
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))

    @contextmanager
    def _chunk(self, code: Code) -> Iterator[TaskRows]:
        """What is written inside is done for each chunk of the rows: one with all of them, or as many rows as the cut is for in each, or
        for an unknown number about as many in each.
        """
        cut, m, all_rows = self.cut, self.matrices.m, self.matrices.product.m
        if m == all_rows and isinstance(m, int):
            yield TaskRows.of(code, cut, m)
        elif isinstance(m, int):
            count = floordiv(all_rows, m) if cut.is_pipelined else ceildiv(all_rows, m)
            with code.loop(0, count, name="chunk") as chunk:
                before = code.mul(chunk.iv, m)
                is_even = cut.is_pipelined or mod(all_rows, m) == 0
                yield TaskRows.of(code, cut, m if is_even else code.min(code.sub(all_rows, before), m), before)
        else:
            # About as many rows in each, in whole tiles; there may be none at all.
            tile, chunks = cut.down * cut.rows, code.apply("max", code.value(ceildiv(m, cut.most)), code.value(1))
            tiles = code.div(code.add(code.value(ceildiv(m, tile)), chunks, -1), chunks)
            each = code.apply("max", code.value(code.mul(tiles, tile)), code.value(1))
            with code.loop(0, code.div(code.add(m, each, -1), each), name="chunk") as chunk:
                before = code.mul(each, chunk.iv)
                yield TaskRows.of(code, cut, code.min(code.sub(m, before), each), code.add(before, code.sub(all_rows, m)))

    def _tasks(self, code: Code, rows: TaskRows, memory: StrassenMemory) -> None:
        """A group of panels for a piece of the rows each."""
        cut = self.cut
        cycles_of_task = cut.blocks * cut.products * cut.depth * cut.piece / cut.rows * step_cycles(cut.rows, cut.vectors)
        with code.parallel(code.mul(rows.pieces, cut.groups), grain=max(1, int(GRAIN_CYCLES / cycles_of_task)), name="task") as task:
            group, piece = code.split(task, [cut.groups, rows.pieces])
            StrassenTask(code, rows, memory, group, piece).run()

    def _pipelined_tasks(self, code: Code, rows: TaskRows, memory: StrassenMemory, source: Value, notes: Value) -> None:
        """Neighbouring groups for each thread, piece by piece of the rows, as many at a time as there is memory for: a run. Threads that
        are done help with the last runs of the others.
        """
        cut = self.cut
        threads = code.apply("min", code.b(kernel.Threads), code.value(cut.most_makers))
        tickets = Tickets(code, notes, cut.items_of_run)
        with code.loop(0, threads, name="thread") as each:
            tickets.begin(each.iv, _RunsOf(code, cut, threads, each.iv).are_one)
        with code.parallel(threads, name="thread") as thread:
            variables = Variables.of(code, State.COUNT)
            for which in range(State.COUNT):
                variables.set(which, int(which == State.CONTINUES))
            with code.loop(0, threads, name="away") as away:
                owner = code.value(code.mod(code.add(thread, away.iv), threads))
                is_own = code.apply("eq", away.iv, code.value(0))
                runs = _RunsOf(code, cut, threads, owner)
                with code.loop(
                    code.apply("select", is_own, code.value(runs.first_piece), code.value(runs.last_piece)),
                    code.value(code.add(runs.last_piece, 1)),
                    name="piece",
                ) as piece:
                    first, end = runs.groups_of(piece.iv)
                    begin = code.apply("select", is_own, code.value(first), code.value(runs.last_run))
                    step, goes_on = cut.groups_of_thread, State.CONTINUES
                    with code.loop(begin, end, step=step, name="group") as group, code.when(variables.is_on(goes_on)):
                        groups = code.min(code.sub(end, group.iv), cut.groups_of_thread)
                        is_last = code.apply(
                            "and",
                            code.apply("eq", piece.iv, code.value(runs.last_piece)),
                            code.apply("eq", group.iv, code.value(runs.last_run)),
                        )
                        share = WorkOwner(tickets, owner, is_own, is_last)
                        PipelinedWork(
                            StrassenTask(code, rows, memory, group.iv, piece.iv),
                            source,
                            self.stride,
                            thread,
                            share,
                            variables,
                            group.iv,
                            groups,
                        ).run()

    def _combine_rows(self, code: Code, rows: TaskRows, read: Value, write: Value) -> None:
        """A's combinations, [product][row of a part][step of a part]."""
        cut, p, lanes, k = self.cut, self.p, self.cut.lanes, self.matrices.k
        with (
            code.parallel(code.value(rows.height), grain=cut.grain, name="row") as row,
            code.loop(0, cut.steps, step=lanes, name="step") as step,
        ):
            to = code.add(code.mul(row, cut.line), step.iv)

            def load(down: int, across: int) -> Value:
                here = code.add(row, code.mul(rows.height, down))
                at = code.add(p.left.base, code.mul(code.add(rows.before, here), self.stride), step.iv, across * cut.steps)
                exist: Index = lanes
                if (across + 1) * cut.steps + lanes > k:
                    exist = code.sub(k - across * cut.steps, step.iv)
                if (down + 1) * cut.height > rows.m if isinstance(rows.m, int) else down or rows.enough is None:
                    # None of a row that does not exist.
                    exist = code.min(exist, code.mul(code.sub(rows.m, here), lanes))
                return code.load(read, at, lanes, code.lane_mask(exist, lanes))

            def combinations(cut: Cut) -> None:
                for i, value in enumerate(combine(code, [load(*part) for part in cut.left_parts], [s.left for s in cut.schemes])):
                    code.store(value, write, code.add(to, code.mul(rows.matrix, i)), None, self.align)

            rows.either(combinations)

    def _weights(self) -> Slot:
        """The combinations of B, [group of panels][block of steps][product][step][lane], as a pack; of the outer level alone, those of all
        parts of the inner one.
        """
        cut, p, a = self.cut, self.p, self.matrices
        source, lane = p.right.source, a.product.lane
        assert isinstance(source, BlockArgument)
        func, b, w = copied_views(p.contract.b if p.right_is_b else p.contract.a)
        letters = p.right_letters
        w = b(
            tensor.Transpose,
            w,
            perm=tuple([i for i, c in enumerate(letters) if c not in (a.step, lane)] + [letters.index(a.step), letters.index(lane)]),
        )
        w = b(tensor.Reshape, w, shape=(a.k, a.n))
        w = b(tensor.Pad, w, low=(0, 0), high=(cut.along * cut.steps - a.k, cut.groups * cut.across * cut.width - a.n), interior=(0, 0))
        w = b(tensor.Reshape, w, shape=(cut.along, cut.blocks, cut.depth, cut.groups, cut.across, cut.width))
        w = b(tensor.Transpose, w, perm=(3, 1, 0, 4, 2, 5))

        def part(down: int, across: int) -> Value:
            shape = (cut.groups, cut.blocks, 1, 1, cut.depth, cut.width)
            piece = b(
                tensor.Slice, w, starts=(0, 0, down, across, 0, 0), stops=(*shape[:2], down + 1, across + 1, *shape[4:]), strides=(1,) * 6
            )
            value: Value = b(tensor.Reshape, piece, shape=(cut.groups, cut.blocks, 1, cut.panel))
            return value

        combined = combine(_Maps(b), [part(*x) for x in cut.right_parts], cut.packed_by)
        w = b(tensor.Reshape, b(tensor.Concat, combined, axis=2), shape=(cut.weight_elements,))
        b.insert(Return([w]))
        made = self._weights_kernel() if source.index in p.request.kept else None
        self.parts.packs.append(Pack(source.index, func.finish(), made))
        return pack(len(self.parts.packs) - 1)

    def _weights_kernel(self) -> Func:
        """What the pack does as a kernel, for weights that may change."""
        cut, p, a, lanes = self.cut, self.p, self.matrices, self.cut.lanes
        access = p.right
        source = access.source.type
        assert isinstance(source, TensorType)
        along, across = access.stride(a.step), access.stride(a.product.lane)
        func = Func.empty(p.request.name("weights"), [BufferType(source.shape, f32), BufferType((cut.weight_elements,), f32)])
        code = Code(Builder.at_end(func.block, p.contract.location))
        read, write = func.args
        with code.parallel(cut.groups * cut.blocks, name="block") as flat:
            group, block = code.split(flat, [cut.groups, cut.blocks])
            with code.loop(0, cut.depth, name="step") as step, code.loop(0, cut.width, step=lanes, name="lane") as lane:

                def load(down: int, right: int) -> Value:
                    here = code.add(code.mul(block, cut.depth), step.iv, down * cut.steps)
                    first = code.add(code.mul(group, cut.across * cut.width), lane.iv, right * cut.width)
                    at = code.add(access.base, code.mul(here, along), code.mul(first, across))
                    exist = code.sub(a.n, first)
                    if (down + 1) * cut.steps > a.k:
                        exist = code.min(exist, code.mul(code.sub(a.k, here), lanes))
                    mask = code.lane_mask(exist, lanes)
                    if across == 1:
                        return code.load(read, at, lanes, mask)
                    away = code.apply("mul", code.b(kernel.Iota, lanes=lanes), code.broadcast(code.value(across), lanes))
                    value: Value = code.b(kernel.Gather, read, code.apply("add", away, code.broadcast(code.value(at), lanes)), mask)
                    return value

                to = code.add(code.mul(flat, cut.panels_of_group * cut.panel), code.mul(step.iv, cut.width), lane.iv)
                for i, value in enumerate(combine(code, [load(*part) for part in cut.right_parts], cut.packed_by)):
                    code.store(value, write, code.add(to, i * cut.panel), None, self.align)
        code.b.insert(Return([]))
        return func.finish()


class _Maps(Code):
    """Sums as ops on tensors."""

    def apply(self, fn: str, *xs: Value, dtype: ScalarType | None = None) -> Value:
        value: Value = self.b(tensor.Map, *xs, fn=fn)
        return value
