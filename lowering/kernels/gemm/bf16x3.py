"""Matrix products of float32 on AMX (bf16x3): each number is split into three bf16 terms, and six products of terms make one product.

The arithmetic is from Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
computations" (2019).

1. A task is a chunk of A's rows and a group of B's panels, 32 lanes each. The task splits its chunk into terms first:
   [block][tile of rows][step][term][row][16 words], a step being 32 elements of the contracted axis (`kernel.dot_terms`). They stay in L2.
   Tasks of one chunk follow each other, and find them there.
2. B is float32, packed at compile time or read in place. A panel is taken in blocks of a few steps, whose terms stay in L1. While the tiles
   of rows multiply one block they split the next one (a double buffer) and prefetch the one after it.
3. Sums of a panel wait in memory of the task. If the terms of A exceed L2, the steps are taken in runs of blocks, and sums wait in the
   arena. The epilogue of a tile follows its last block.

Few threads split A each for itself, since lines that another core wrote are slow to read. Many threads share one split, made by a kernel
in front. An unknown number of rows takes the direct path where a test at run time finds few of them.

Sizes that do not fit are padded with zeros. The order of additions depends on the steps alone.

Results are as close to the exact ones as those of multiply-adds: the products that are left out are below half a bit. There are three
exceptions. An infinity makes its row or column nan. So do magnitudes from 3.396e38 on, which bf16 lacks. Terms below 2^-126 are zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import kernel, tensor
from polyreme.dialects.kernel.bf16x3 import HALF, LANES, PAIRS, STEPS, TERMS, VECTOR
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, maximum
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32, i1, i32, i64
from polyreme.lowering.kernels.amx_blocks import rows_at_once
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.conv.direct import build_direct_conv
from polyreme.lowering.kernels.conv.direct_plan import DirectSchedule, find_direct
from polyreme.lowering.kernels.gemm.bf16x3_plan import (
    Bf16x3Plan,
    Bf16x3Schedule,
    ScheduledBf16x3,
    choose_bf16x3,
    find_plan,
    fit_bf16x3,
    why_not_split,
)
from polyreme.lowering.kernels.gemm.contract import build_contract, find_with_halves
from polyreme.lowering.kernels.gemm.product_tile import ProductKernel, Tile
from polyreme.lowering.kernels.microkernel import tile_rows, transpose_lanes
from polyreme.lowering.kernels.packing import PlanParts, copied_views
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Slot, Step, operand, pack, result
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.kernels.work_stealing import Tickets
from polyreme.lowering.machines.bf16x3_costs import BF16X3_COSTS as COSTS
from polyreme.lowering.machines.memory import PREFETCH_ROWS
from polyreme.lowering.machines.tasks import GRAIN_CYCLES, TASKS_OF_THREAD


def write_bf16x3(plan: Bf16x3Plan, schedule: Bf16x3Schedule) -> KernelPlan:
    """The plan of a product that is computed like that."""
    return Bf16x3Builder(ScheduledBf16x3(plan.matrices, plan.target, schedule)).build()


build_bf16x3 = Way("bf16x3", Bf16x3Schedule, find_plan, choose_bf16x3, write_bf16x3, fit_bf16x3, refusal=why_not_split)


class Bf16x3Builder:
    """Makes the plan of one product."""

    def __init__(self, plan: Bf16x3Plan):
        assert not isinstance(plan.tiles, int) or plan.tiles >= COSTS.least_tiles, "expected tiles enough to make the terms of a block"
        self.plan, self.p = plan, plan.matrices.product.problem
        self.parts = PlanParts(self.p.request)

    def build(self) -> KernelPlan:
        plan, p, epilogue = self.plan, self.p, self.p.epilogue
        right = self.parts.memory_of(p.right.source) if plan.in_place else self._weights()
        places = maximum(plan.chunks, plan.makers) if plan.products == 1 else plan.makers
        before = [
            self.parts.memory_of(p.left.source),
            right,
            self.parts.new_scratch(places * plan.chunk_words, i32),
            self.parts.new_scratch(Tickets.elements(0), i64),
        ]
        if plan.runs > 1:
            before.append(self.parts.new_scratch(plan.chunks * plan.chunk * plan.panels * plan.sums, f32))
        slots = [*before, *(operand(a.index) for a in epilogue.args), *map(result, range(len(epilogue.values)))]
        func = Func.empty(
            p.request.name("bf16x3"), [self.parts.buffer_type(s) for s in slots], loc=p.contract.location, final_addresses=True
        )
        code = Code(Builder.at_end(func.block, func.location))
        left, right, terms, notes, *arena = func.args[: len(before)]
        others, outputs = func.args[len(before) : len(before) + len(epilogue.args)], func.args[len(before) + len(epilogue.args) :]
        made = ProductKernel(func, code, left, right, dict(zip(epilogue.args, others, strict=True)), outputs)
        _Tasks(plan, made, terms, Tickets(code, notes, 0), arena[0] if arena else None).write()
        code.b.insert(Return([]))
        self.parts.steps.append(Step(func, tuple(slots)))
        if not isinstance(plan.m, int):
            some = lambda code, tasks: code.apply("select", _takes_direct_path(code, plan), tasks, code.value(0))
            self.parts.include(self._few_rows(), some)
        return self.parts.plan("bf16x3", updates=epilogue.updates)

    def _few_rows(self) -> KernelPlan:
        """The plan of the direct path, by the same panels."""
        few, request = self.plan.few, self.p.request
        if isinstance(few, DirectSchedule):
            return build_direct_conv.plan(find_direct(request, vectors=LANES // VECTOR), few)
        return build_contract.plan(find_with_halves(request), few)

    def _weights(self) -> Slot:
        """B as [panel][step of the axis][lane], as a pack."""
        plan, p, a = self.plan, self.p, self.plan.matrices
        source, letters = p.right.source, p.right_letters
        if plan.steps * STEPS == a.k:
            # Panels of the direct product, with tiles of the same width.
            return self.parts.packed(p.contract.b if p.right_is_b else p.contract.a, letters, p.right, plan.packed)
        assert isinstance(source, BlockArgument)
        func, b, w = copied_views(p.contract.b if p.right_is_b else p.contract.a)
        order = [letters.index(a.step), letters.index(a.product.lane)]
        w = b(tensor.Transpose, w, perm=(*(i for i in range(len(letters)) if i not in order), *order))
        w = b(tensor.Reshape, w, shape=(a.k, a.n))
        w = b(tensor.Pad, w, low=(0, 0), high=(plan.steps * STEPS - a.k, plan.panels * LANES - a.n), interior=(0, 0))
        w = b(tensor.Transpose, b(tensor.Reshape, w, shape=(plan.steps * STEPS, plan.panels, LANES)), perm=(1, 0, 2))
        b.insert(Return([b(tensor.Reshape, w, shape=(plan.steps * STEPS * plan.panels * LANES,))]))
        self.parts.packs.append(Pack(source.index, func.finish()))
        return pack(len(self.parts.packs) - 1)


def _takes_direct_path(code: Code, plan: Bf16x3Plan) -> Value:
    """Whether an unknown number of rows is so small that the direct product is faster."""
    row, tile, all_rows = plan.balance
    loses = code.apply("le", code.value(plan.m * row), code.value(plan.tiles * tile + all_rows))
    return code.apply("or", code.apply("lt", code.value(plan.m), code.value(COSTS.least_rows)), loses)


def cut_pair(code: Code, first: Value, second: Value) -> list[Value]:
    """The words of the terms of two vectors of numbers, whose terms are the lower and the upper halves."""
    lanes, words, pair = VECTOR, [], [first, second]
    number = lambda x: code.broadcast(code.constant(x, i32), lanes)
    for term in range(TERMS):
        is_last = term == TERMS - 1
        bits = [code.reinterpret(x, i32) for x in pair]
        low, high = uppers = [code.apply("and", x if is_last else code.apply("add", x, number(HALF)), number(-(1 << 16))) for x in bits]
        words.append(code.apply("or", high, code.apply("and", code.apply("shr", low, number(16)), number((1 << 16) - 1))))
        if not is_last:
            pair = [code.apply("sub", x, code.reinterpret(upper, f32)) for x, upper in zip(pair, uppers, strict=True)]
    return words


@dataclass(frozen=True)
class _Tasks:
    """Writes what threads do: each takes a group of panels for a chunk of rows after the other. Those of A are made in `terms`; sums wait
    in `arena` where steps are taken in several runs.
    """

    plan: Bf16x3Plan
    made: ProductKernel
    terms: Value
    tickets: Tickets
    arena: Value | None

    @property
    def code(self) -> Code:
        return self.made.code

    def write(self) -> None:
        plan, code = self.plan, self.code
        threads = code.b(kernel.Threads)
        # Terms of A are made by each thread for the chunks that it has, or by all of them for all where they are many. Of several products
        # threads have enough with their own.
        alone = code.apply("le", threads, code.value(1))
        few = code.constant(1, i1) if plan.products > 1 else code.apply("le", threads, code.value(plan.makers))
        pieces = plan.products * plan.chunks
        # Rows that exceed the memory are read again for each group of panels.
        groups = code.div(code.add(code.mul(threads, TASKS_OF_THREAD if plan.runs == 1 else 1), pieces - 1), pieces)
        groups = code.apply("select", alone, code.value(1), code.value(code.min(groups, plan.panels)))
        size = code.value(code.div(code.add(groups, plan.panels - 1), groups))
        groups = code.value(code.div(code.add(size, plan.panels - 1), size))
        turns = code.value(code.mul(groups, pieces))
        self.tickets.begin(0, code.constant(1, i1))
        makers = threads if isinstance(plan.m, int) else code.apply("select", _takes_direct_path(code, plan), code.value(0), threads)
        if plan.products > 1:
            makers = code.apply("min", makers, code.value(plan.makers))
        else:
            parts = plan.chunks * plan.chunk * plan.steps
            with code.parallel(
                code.apply("select", few, code.value(0), code.value(parts)),
                grain=max(1, GRAIN_CYCLES // (plan.height * STEPS)),
                name="part",
            ) as part:
                chunk, within = code.split(part, [plan.chunks, plan.chunk * plan.steps])
                self._cut_rows({}, chunk, within, chunk)
        with code.parallel(makers, name="maker") as maker:
            forward = code.apply("eq", code.value(code.mod(maker, 2)), code.value(0))
            with code.loop(0, turns, [code.value(-1)], name="turn") as loop:
                turn = self.tickets.take(0, turns, forward)
                is_left = code.apply("lt", turn, turns)
                piece, group = code.split(turn, [pieces, groups])
                *outer, chunk = code.split(piece, [*plan.around.values(), plan.chunks])
                around = dict(zip(plan.around, outer, strict=True))
                place = code.apply("select", few, maker, code.value(chunk))
                is_other = code.apply("and", code.apply("ne", code.value(piece), loop.carried[0]), code.apply("and", is_left, few))
                with code.when(is_other), code.loop(0, plan.chunk * plan.steps, name="part") as part:
                    self._cut_rows(around, chunk, part.iv, place)
                with code.when(is_left):
                    first = code.mul(group, size)
                    tile = code.mul(chunk, plan.chunk)
                    # With too few tiles to split the next block, tiles behind the last one are computed for nothing.
                    count = (
                        plan.chunk
                        if plan.chunks == 1
                        else code.apply("max", code.value(code.min(plan.chunk, code.sub(plan.tiles, tile))), code.value(COSTS.least_tiles))
                    )
                    at = code.mul(place, plan.chunk_words)
                    _Bf16x3Task(
                        plan,
                        self.made,
                        around,
                        at,
                        self.terms,
                        self.arena,
                        first,
                        code.min(code.add(first, size), plan.panels),
                        tile,
                        count,
                    ).write()
                loop.next = [code.value(piece)]

    def _cut_rows(self, around: dict[str, Index], chunk: Index, part: Index, place: Index) -> None:
        """Make the terms of part `part` of a chunk's rows, a tile of them by a step, in the memory for the chunk of number `place`. Parts
        of a tile follow each other, so that its rows are read from end to end, and each asks for the next tile's lines where they are far.
        """
        plan, code, product, k = self.plan, self.code, self.plan.matrices.product, self.plan.matrices.k
        p = product.problem
        tile, block, step = code.split(part, [plan.chunk, plan.blocks, plan.block])
        number, row0 = code.add(code.mul(block, plan.block), step), code.mul(code.add(code.mul(chunk, plan.chunk), tile), plan.height)
        rows = plan.height if plan.is_even else code.min(plan.height, code.sub(plan.m, row0))
        within = code.add(code.mul(code.add(code.mul(block, plan.chunk), tile), plan.block), step)
        to = code.add(code.mul(place, plan.chunk_words), code.mul(within, plan.tile_words))
        along = p.left.stride(plan.matrices.step)
        base = code.add(p.left.base, *(code.mul(i, p.left.stride(c)) for c, i in around.items()), code.mul(number, STEPS * along))

        # Letters of rows that are no neighbours move by themselves.
        letters = product.rows if product.strided_rows else product.rows[-1:]
        sizes = [p.size(c) for c in letters]

        def at(places: Sequence[Index]) -> Index:
            """Where a row's numbers of this step are."""
            return code.add(base, *(code.mul(i, p.left.stride(c)) for c, i in zip(letters, places, strict=True)))

        if along != 1:
            self._cut_columns(rows, to, at(code.split(row0, sizes)), along)
            return

        def all_rows(exist: Index) -> None:
            first = [code.value(i) for i in code.split(row0, sizes)]
            with code.loop(0, rows, first, name="row") as row:
                here, row.next = at(row.carried), code.following(row.carried, sizes)
                if plan.rows_exceed_l2:
                    there = at(code.split(code.add(row0, row.iv, plan.height), sizes))
                    for half in (0, VECTOR):
                        code.prefetch(self.made.left, code.add(there, half), locality=2)
                halves = [
                    code.load(self.made.left, code.add(here, half), VECTOR, code.lane_mask(code.sub(exist, half), VECTOR))
                    for half in (0, VECTOR)
                ]
                pair = [code.shuffle(halves[0], halves[1], range(i, STEPS, 2)) for i in (0, 1)]
                for term, words in enumerate(cut_pair(code, *pair)):
                    code.store(
                        words, self.terms, code.add(to, code.mul(row.iv, PAIRS), term * plan.height * PAIRS), None, PAIRS * i32.bytes
                    )

        whole = k // STEPS
        if whole == plan.steps:
            all_rows(STEPS)
            return
        is_whole = code.apply("lt", code.value(number), code.value(whole))
        with code.when(is_whole):
            all_rows(STEPS)
        with code.when(is_whole, then=False):
            all_rows(code.sub(k, code.mul(number, STEPS)))

    def _cut_columns(self, rows: Index, to: Index, from_: Index, along: Dim) -> None:
        """The same where rows are neighbours and steps are `along` apart: a vector of rows for each step, turned."""
        plan, code = self.plan, self.code
        mask = code.lane_mask(rows, VECTOR)
        words = []
        for pair in range(PAIRS):
            first, second = (code.load(self.made.left, code.add(from_, (2 * pair + i) * along), VECTOR, mask) for i in (0, 1))
            words.append(cut_pair(code, first, second))
        for term, lines in enumerate(zip(*words, strict=True)):
            for row, line in enumerate(transpose_lanes(code, lines)[: plan.height]):
                code.store(line, self.terms, code.add(to, (term * plan.height + row) * PAIRS), None, PAIRS * i32.bytes)


class _Bf16x3Task:
    """Writes a task: `count` tiles of rows from number `tile` on, whose terms are in `rows` from `at` on, by the panels from `first` up to
    `end`.
    """

    def __init__(
        self,
        plan: Bf16x3Plan,
        made: ProductKernel,
        around: dict[str, Index],
        at: Index,
        rows: Value,
        arena: Value | None,
        first: Index,
        end: Index,
        tile: Index,
        count: Index,
    ):
        self.plan, self.made, self.code, self.around, self.at, self.rows = plan, made, made.code, around, at, rows
        self.first, self.end, self.tile, self.count = first, made.code.value(end), tile, count
        self.in_arena = arena is not None
        most = plan.chunk if isinstance(plan.chunk, int) else COSTS.most_tiles
        # Where the first block is one of a loop, it begins with a tile of zeros behind the task's own sums.
        self.zeros, self.has_zeros = most * plan.sums, arena is None and plan.blocks > 2
        self.sums = self.code.scratch(self.zeros + plan.sums * self.has_zeros, f32) if arena is None else arena
        self.terms = self.code.scratch(2 * plan.block_words, i32)

    def write(self) -> None:
        plan, code = self.plan, self.code
        self._cut_first(self._place(self.first, 0))
        if self.has_zeros:
            self._clear(self.zeros, plan.sums)
        if not self.in_arena:
            with code.loop(self.first, self.end, name="panel") as panel:
                self._blocks(panel.iv, 0, is_last=True)
            return
        with code.loop(self.first, self.end, name="panel") as panel:
            self._clear(self._sums_at(panel.iv, 0), code.mul(self.count, plan.sums))
        with code.loop(0, plan.runs - 1, name="run") as run, code.loop(self.first, self.end, name="panel") as panel:
            self._blocks(panel.iv, code.mul(run.iv, plan.run), is_last=False)
        with code.loop(self.first, self.end, name="panel") as panel:
            self._blocks(panel.iv, (plan.runs - 1) * plan.run, is_last=True)

    def _clear(self, at: Index, count: Index) -> None:
        code, zero = self.code, self.code.zero(f32, VECTOR)
        with code.loop(0, count, step=VECTOR, name="clear") as clear:
            code.store(zero, self.sums, code.add(at, clear.iv), None, VECTOR * f32.bytes)

    def _sums_at(self, panel: Index, tile: Index) -> Index:
        """Where the sums of a tile of the chunk are."""
        code, plan = self.code, self.plan
        if self.in_arena:
            tile = code.add(code.mul(panel, plan.chunks * plan.chunk), self.tile, tile)
        return code.mul(tile, plan.sums)

    def _place(self, panel: Index, block: Index) -> Index:
        """Where a block is in B."""
        code, plan = self.code, self.plan
        if plan.in_place:
            right = plan.matrices.product.problem.right
            base = code.add(right.base, *(code.mul(i, right.stride(c)) for c, i in self.around.items()))
            return code.add(base, code.mul(panel, LANES), code.mul(block, plan.block * STEPS * plan.apart))
        moves = plan.packed.strides if self.around else {}
        base = code.add(0, *(code.mul(i, moves.get(c, 0)) for c, i in self.around.items()))
        return code.add(base, code.mul(code.add(code.mul(panel, plan.blocks), block), plan.block * STEPS * LANES))

    def _blocks(self, panel: Index, start: Index, is_last: bool) -> None:
        """A panel by the blocks of a run, which begins with block `start`; the last run ends with what is made of the sums."""
        code, plan = self.code, self.plan
        end = plan.blocks if is_last else code.add(start, plan.run)
        if plan.blocks == 2 and not self.in_arena:
            self._block(panel, start, end, 0, False)
        elif plan.blocks > 1:
            with code.loop(start, code.sub(end, int(is_last)), name="block") as block:
                self._block(panel, start, end, block.iv, False)
        if is_last:
            self._block(panel, start, end, plan.blocks - 1, True)

    def _block(self, panel: Index, start: Index, end: Index, block: Index, closes: bool) -> None:
        """A block, while whose tiles multiply the terms of the next one are made."""
        code, plan = self.code, self.plan
        # Whether the sums begin here.
        begins = False if self.in_arena else code.condition("eq", block, 0)
        # The two halves of the memory alternate, as blocks are counted through all runs.
        panels = code.sub(self.end, self.first)
        turn = code.add(code.mul(start, panels), code.mul(code.sub(panel, self.first), code.sub(end, start)), code.sub(block, start))
        odd = code.apply("and", code.value(turn), code.value(1))
        here, there = code.mul(odd, plan.block_words), code.mul(code.sub(1, odd), plan.block_words)
        following = self._following(panel, start, end, block)
        behind = self._place(*following)
        at_b = code.value(here)

        def tile(place: Index, cuts: int) -> None:
            number = code.add(self.tile, place)
            if closes:
                self._prefetch(panel, number)
            source: tuple[Value | None, ...] = (None,) * 4
            if cuts:
                # The last ones that cut end with the block, and cut some of it once more.
                share = cuts * plan.block
                pair = code.min(code.mul(place, share), plan.block * PAIRS - share)
                at = code.add(behind, code.mul(pair, 2 * plan.apart))
                source = (
                    self.made.right,
                    code.value(at),
                    code.value(code.add(there, code.mul(pair, LANES))),
                    code.value(self._prefetched_pairs(start, end, following[1], pair, at)),
                )
            at_a = code.add(self.at, code.mul(code.add(code.mul(block, plan.chunk), place), plan.block * plan.tile_words))
            at_sums = code.value(self._sums_at(panel, place))
            at_begun = (
                code.apply("select", begins, code.value(self.zeros), at_sums) if isinstance(begins, Value) else None if begins else at_sums
            )
            code.b(
                kernel.DotTerms,
                self.rows,
                code.value(at_a),
                self.terms,
                at_b,
                self.sums,
                at_sums,
                at_begun,
                *source,
                rows=plan.height,
                steps=plan.block,
                cuts=cuts,
                apart=plan.apart,
            )
            if closes:
                self._close(panel, number, at_sums)

        def tiles(first: Index, end: Index, cuts: int) -> None:
            if code.condition("lt", first, end) is not False:
                with code.loop(first, end, name="tile") as loop:
                    tile(loop.iv, cuts)

        # Tiles that make terms, then those that are left.
        few, many = plan.cuts
        fewer, cutting = -(-PAIRS // few), -(-PAIRS // many)
        if few == many:
            tiles(0, cutting, many)
            tiles(cutting, self.count, 0)
            return
        are_many = code.apply("ge", code.value(self.count), code.value(cutting))
        with code.when(are_many):
            tiles(0, cutting, many)
        with code.when(are_many, then=False):
            tiles(0, fewer, few)
        tiles(code.apply("select", are_many, code.value(cutting), code.value(fewer)), self.count, 0)

    def _following(self, panel: Index, start: Index, end: Index, block: Index) -> tuple[Index, Index]:
        """The panel and the block that come behind this one: the next block, or the first one of the run of the next panel, or that of the
        next run of the first panel. Behind the last one of all, which has none, it is another one of B.
        """
        code, plan = self.code, self.plan
        goes_on = code.condition("lt", code.add(block, 1), end)
        if goes_on is True:
            return panel, code.add(block, 1)
        has_next = code.apply("lt", code.value(code.add(panel, 1)), self.end)
        next_panel = code.apply("select", has_next, code.value(code.add(panel, 1)), code.value(self.first))
        next_block = code.apply("select", has_next, code.value(start), code.value(code.min(end, plan.blocks - 1)))
        if goes_on is False:
            return next_panel, next_block
        return code.apply("select", goes_on, code.value(panel), next_panel), code.apply(
            "select", goes_on, code.value(code.add(block, 1)), next_block
        )

    def _prefetched_pairs(self, start: Index, end: Index, block: Index, pair: Index, at: Index) -> Index:
        """What is asked for while pair `pair` of a block, at this place, is cut: what comes some rows further on, the first ones of the
        next panel behind the last ones of a run of blocks from `start` up to `end`.
        """
        code, plan = self.code, self.plan
        at = code.add(at, PREFETCH_ROWS * 2 * plan.apart)
        if not plan.in_place and plan.runs == 1:
            # Panels lie behind each other.
            return at
        numbers = plan.block * STEPS * plan.apart
        next_panel: Index = LANES if plan.in_place else plan.blocks * numbers
        jump = code.sub(next_panel, code.mul(code.sub(end, start), numbers))
        left = code.sub(code.mul(code.sub(end, block), plan.block * PAIRS), PREFETCH_ROWS)
        is_behind = code.apply("ge", code.value(pair), code.value(left))
        return code.add(at, code.apply("select", is_behind, code.value(jump), code.value(0)))

    def _cut_first(self, at: Index) -> None:
        """Make the terms of the first block of all, which no other one comes before."""
        code, plan = self.code, self.plan
        plane = plan.block * PAIRS * LANES
        with code.loop(0, plan.block * PAIRS, name="pair") as pair:
            for lane in range(0, LANES, VECTOR):
                place = code.add(at, code.mul(pair.iv, 2 * plan.apart), lane)
                for line in (0, plan.apart):
                    code.prefetch(self.made.right, code.add(place, PREFETCH_ROWS * 2 * plan.apart + line))
                rows = [code.load(self.made.right, code.add(place, line), VECTOR) for line in (0, plan.apart)]
                for term, words in enumerate(cut_pair(code, *rows)):
                    code.store(words, self.terms, code.add(code.mul(pair.iv, LANES), term * plane + lane), None, VECTOR * i32.bytes)

    def _results(self, panel: Index) -> Tile:
        return Tile(self.plan.matrices.product, self.made, self.around, panel, None, LANES // VECTOR)

    def _prefetch(self, panel: Index, tile: Index) -> None:
        """Ask for what is read at the places of a tile's results, and for these places where they are far."""
        code, plan, epilogue = self.code, self.plan, self.plan.matrices.product.problem.epilogue
        prefetched = [(self.made.buffers[arg], False) for arg in epilogue.residuals]
        if plan.results_exceed_l2:
            prefetched += [(buffer, True) for buffer in self.made.outputs]
        if not prefetched:
            return
        results = self._results(panel)
        last = code.sub(plan.m, 1)
        with code.loop(0, plan.height, name="row") as loop:
            row = code.min(code.add(code.mul(tile, plan.height), loop.iv), last)
            at = code.add(results.out0, code.mul(row, results.row_out), results.lane0)
            for buffer, write in prefetched:
                for lane in range(0, LANES, VECTOR):
                    code.prefetch(buffer, code.add(at, lane), write)

    def _close(self, panel: Index, tile: Index, at: Index) -> None:
        """The results of a tile of rows."""
        code, plan, n = self.code, self.plan, self.plan.matrices.n
        results = self._results(panel)
        valid = None if n % LANES == 0 else code.sub(n, code.mul(panel, LANES))
        row0 = code.mul(tile, plan.height)

        def rows(first: Index, some: int) -> None:
            acc = [
                [
                    code.load(self.sums, code.add(at, code.mul(code.add(first, r), LANES), lane), VECTOR, None, VECTOR * f32.bytes)
                    for lane in range(0, LANES, VECTOR)
                ]
                for r in range(some)
            ]
            results.close(code.add(row0, first), acc, valid)

        some = rows_at_once(plan.height)
        if plan.is_even:
            tile_rows(code, plan.height, [some], rows)
            return
        # None of a tile that is made for nothing.
        left = code.apply("max", code.value(code.min(code.sub(plan.m, row0), plan.height)), code.value(0))
        tile_rows(code, left, [some, 1], rows)
