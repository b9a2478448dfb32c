"""Matrix products by Winograd's inner product (1968): a pair of steps takes one multiplication and two additions.

    a0·b0 + a1·b1 = (a0 + b1)·(a1 + b0) - a0·a1 - b0·b1

What is subtracted are sums over a row of A alone, made once for all lanes, and over a column of B alone, made when B is packed. The method
pays on cores that start one multiply-add and one addition in a cycle (Zen 4). A pair alone would wait for its two additions. So six steps
are two pairs (the first and second step, the third and fourth) and two plain steps: four multiplications and four additions.

A task copies its rows of A. B is packed in panels of one vector. A tile is many rows by one vector, because a scalar that is read once can
be a memory operand of the addition. Of an unknown number of rows, what a task has is done by tiles of the largest height, and the rest by
two lower ones.

Where B is packed:

- at compile time, or once for several runs, if it is constant or a weight;
- else by each task, a few panels just before their tiles, so that they stay in L2, and once for all rows of the task;
- else, of many more rows, by a kernel in front.

Threads share the panels rather than the rows while it takes little to copy the rows for each of them. Several products are tasks side by
side.

Rounding errors depend on the magnitudes of the sums a + b. So rows of A and columns of B are scaled to norms of about one, by powers of
two, which round nothing. The products of all pairs together are then at most about twice the product of the norms, (|a|^2 + |b|^2) / 2 +
|a| |b|. (Rows whose squares would leave the range of floats are scaled to maxima of about one.) Every third step of a group is negated on
both sides, so that the products of A's elements alone, and of B's, cancel between the two pairs. A result is within `INNER_PRODUCT` of the
exact one. An infinity or nan spoils its row or column. Results do not depend on how rows are cut, nor on the number of threads.

`winograd_inner_product_plan.py` chooses; here it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from polyreme.dialects import kernel, tensor
from polyreme.ir import dims
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.types import f32, f64, i32
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import VectorLeaf
from polyreme.lowering.kernels.epilogue import position_at
from polyreme.lowering.kernels.gemm.winograd_inner_product_packing import CHAINS, SQUARED, Packing
from polyreme.lowering.kernels.gemm.winograd_inner_product_plan import (
    GROUP,
    MOST_ROWS,
    PERIOD,
    WinogradInnerProduct,
    WinogradInnerProductSchedule,
    by_schedule,
    choose_winograd_inner_product,
    find_inner_product,
    fit_winograd_inner_product,
)
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.microkernel import PART, tile_rows
from polyreme.lowering.kernels.packing import PlanParts, copied_views
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Slot, Step, operand, pack, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.inner_product_costs import INNER_PRODUCT_COSTS as COSTS
from polyreme.lowering.machines.tasks import TASKS_OF_THREAD

# Of each step of a period: its sign, and whether it begins a pair.
FACTS = [[1.0, 1.0, -1.0, 1.0, 1.0, 1.0] * (PERIOD // GROUP), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0] * (PERIOD // GROUP)]
# Rows of tiles for an unknown number of rows: few rows are one tile, any rest below the largest is two at most.
HEIGHTS = (MOST_ROWS, 10, 8, 7, 6, 5, 4, 3, 2, 1)
_FLOAT = np.finfo(np.float32)
# Bounds of the scales: they and their reciprocals are finite, and not denormal.
LEAST_SCALE, MOST_SCALE = float(_FLOAT.smallest_normal), float(np.reciprocal(_FLOAT.smallest_normal))


def write_winograd_inner_product(found: WinogradInnerProduct, schedule: WinogradInnerProductSchedule) -> KernelPlan:
    """The plan of a product that is computed like that."""
    return _WinogradInnerProductBuilder(by_schedule(found, schedule)).build()


build_winograd_inner_product = Way(
    "winograd_inner_product",
    WinogradInnerProductSchedule,
    find_inner_product,
    choose_winograd_inner_product,
    write_winograd_inner_product,
    fit_winograd_inner_product,
    refusal=lambda found: f"estimated {found.cycles:.0f} cycles, beside the direct product's {found.direct_cycles:.0f}",
)


class _WinogradInnerProductBuilder:
    """Makes the plan."""

    def __init__(self, cut: WinogradInnerProduct):
        self.c, self.p = cut, cut.rows.problem
        self.parts = PlanParts(self.p.request)
        self.align = cut.lanes * f32.bytes

    def build(self) -> KernelPlan:
        c, p, epilogue = self.c, self.p, self.p.epilogue
        slots = [
            self.parts.memory_of(c.rows.left.source),
            self._weights(),
            *(operand(a.index) for a in epilogue.args),
            *map(result, range(len(epilogue.values))),
        ]
        if c.rows_in_l3:
            slots.append(self.parts.new_scratch(c.copies * c.usual * c.line, f32, c.usual * c.line))
        func = Func.empty(
            self.p.request.name("winograd_inner_product"),
            [self.parts.buffer_type(s) for s in slots],
            loc=self.p.contract.location,
            final_addresses=True,
        )
        code = self.code = Code(Builder.at_end(func.block, func.location), merged=True)
        self.left, self.source, *more = func.args
        # The panels: of one, where tasks pack them.
        self.right = self.source
        count = len(epilogue.args)
        self.others: dict[Value, Value] = dict(zip(epilogue.args, more[:count], strict=True))
        self.outs = more[count : count + len(epilogue.values)]
        threads: Value = code.b(kernel.Threads)
        # Of an unknown number of rows, numbers that are known when the kernel runs.
        self.tiles: Index = c.tiles if isinstance(c.tiles, int) else code.value(c.tiles)
        m: Index = c.m if isinstance(c.m, int) else code.value(c.m)
        # Rows of the first tiles, others having one less, and how many have so many.
        self.high = code.div(code.add(m, self.tiles, -1), self.tiles)
        self.high_tiles = code.sub(m, code.mul(self.tiles, code.sub(self.high, 1)))
        if c.rows.outer:
            # Of several products each is shared by as many as make no thread wait long for the others at the end.
            threads = code.value(code.ceildiv(code.mul(threads, TASKS_OF_THREAD), c.rows.around))
        # Of large products there are many more tasks than threads, since one that is delayed would let the others wait.
        shared = code.min(threads, c.copies if c.rows_in_l3 else c.most_groups)
        alike = code.div(code.add(threads, shared, -1), shared)
        pieces = code.min(
            code.mul(alike, code.div(code.add(self.tiles, code.mul(alike, c.most_tiles), -1), code.mul(alike, c.most_tiles))), self.tiles
        )
        groups = code.min(
            code.apply("max", code.value(shared), code.value(code.div(code.add(threads, pieces, -1), pieces))),
            c.copies if c.rows_in_l3 else c.panels,
        )
        sizes = [p.size(x) for x in c.rows.outer]
        with code.parallel(code.value(code.mul(c.rows.around, code.mul(pieces, groups))), name="task") as task:
            *around, piece, group = code.split(task, [*sizes, pieces, groups])
            self.around = dict(zip(c.rows.outer, around, strict=True))
            self.left_at, self.right_at = (
                code.add(base, *(code.mul(i, access.stride(x)) for x, i in self.around.items()))
                for base, access in ((0, p.left), (p.right.base, p.right))
            )
            begin, end = (code.div(code.mul(x, self.tiles), pieces) for x in (piece, code.add(piece, 1)))
            self.first_panel, self.end_panel = (code.div(code.mul(x, c.panels), groups) for x in (group, code.add(group, 1)))
            self.row0: Index = 0
            if c.rows_in_l3:
                self.rows, self.row0 = func.args[-1], code.add(code.mul(group, m), self._row_of(begin))
            else:
                self.rows = code.scratch(c.copied_tiles * c.most_high * c.line, f32)
            # Of each row, minus the sum of its pairs' products, and the scale.
            self.sums = code.scratch(2 * c.copied_tiles * c.most_high, f32)
            if c.packs_per_task:
                facts = self.held * (c.panel + 2 * c.lanes)
                self.right = code.scratch(facts + 2 * PERIOD, f32)
                self.packing.write_facts(code, self.right, facts)
            self._task(begin, end)
        code.b.insert(Return([]))
        clean_up_kernel(func)
        self.parts.steps.append(Step(func, tuple(slots)))
        return self.parts.plan("winograd_inner_product", c.result_order)

    def _row_of(self, tile: Index) -> Index:
        """The first row of a tile."""
        code = self.code
        return code.add(code.mul(tile, code.sub(self.high, 1)), code.min(tile, self.high_tiles))

    def _task(self, begin: Index, end: Index) -> None:
        """The tiles of rows and the panels of a task."""
        code, c = self.code, self.c
        self.is_single = code.apply("eq", code.value(code.sub(end, begin)), code.value(1))
        if c.holds_all:
            with code.loop(self.first_panel, self.end_panel, step=self.packing.together, name="panels") as panels:
                self.packing.fill(code, self.source, self.right_at, panels.iv, self.packing.together, self.right, panels.iv, self.held)
            with code.loop(begin, end, name="tile") as tile:
                after = code.add(tile.iv, 1)
                first = self._copy_rows(tile.iv, after)
                with code.loop(self.first_panel, self.end_panel, name="panel") as panel:
                    self._panel(tile.iv, after, first, panel.iv, panel.iv)
            return
        first = self._copy_rows(begin, end)
        if not c.packs_per_task:
            with code.loop(self.first_panel, self.end_panel, name="panel") as panel:
                self._panel(begin, end, first, panel.iv, panel.iv)
            return
        with code.loop(self.first_panel, self.end_panel, step=self.held, name="panels") as panels:
            self.packing.fill(code, self.source, self.right_at, panels.iv, self.held, self.right, 0, self.held)
            with code.loop(0, code.min(self.held, code.sub(self.end_panel, panels.iv)), name="panel") as panel:
                self._panel(begin, end, first, code.add(panels.iv, panel.iv), panel.iv)

    def _copy_rows(self, begin: Index, end: Index) -> Index:
        """Copies of the rows of the tiles from `begin` up to `end`; the first of these rows."""
        code, first = self.code, self._row_of(begin)
        with code.loop(0, code.sub(self._row_of(end), first), name="row") as row:
            self._copy(code.add(first, row.iv), row.iv)
        return first

    def _panel(self, begin: Index, end: Index, first: Index, panel: Index, held: Index) -> None:
        """The tiles from `begin` up to `end`, whose rows begin with the `first` one, by a panel; it is this one of those that are held."""
        code, high, high_tiles = self.code, self.high, self.high_tiles
        if not isinstance(high, int) or not isinstance(high_tiles, int):
            count = code.sub(self._row_of(end), first)

            def tile_at(at: Index, rows: int) -> None:
                self._tile(code.add(first, at), at, code.div(at, MOST_ROWS), rows, panel, held)

            tile_rows(code, count, HEIGHTS, tile_at)
            return
        several = [(begin, code.min(end, high_tiles), high)]
        if high > 1 and high_tiles != self.tiles:
            several.append((code.apply("max", code.value(begin), code.value(high_tiles)), end, high - 1))
        for lo, hi, rows in several:
            with code.loop(lo, hi, name="tile") as tile:
                here = self._row_of(tile.iv)
                self._tile(here, code.sub(here, first), code.sub(tile.iv, begin), rows, panel, held)

    def _copy(self, row: Index, number: Index) -> None:
        """A row of A, scaled, as the one of this number of the copy, and its sums."""
        code, c, lanes = self.code, self.c, self.c.lanes
        if c.rows.are_gathered:
            source, start = c.rows.gather(code, self.left, row, lanes), code.value(0)
        else:
            source, start = self.left, code.value(code.add(c.rows.start(code, row), self.left_at))

        bits = [code.constant(int(np.float32(x).view(np.int32)), i32) for x in (LEAST_SCALE, MOST_SCALE, *SQUARED)]
        no_sign = code.broadcast(code.constant(0x7FFFFFFF, i32), lanes)

        def measure(at: Index, mask: Value | None, so_far: Sequence[Value]) -> list[Value]:
            """The greatest magnitude and the sum of squares with a vector more. Magnitudes are ordered as their bits are, which are
            compared in a cycle.
            """
            x = code.load(source, code.add(start, at), lanes, mask)
            return [code.apply("max", so_far[0], code.apply("and", code.reinterpret(x, i32), no_sign)), code.fma(x, x, so_far[1])]

        whole = c.k // (CHAINS * lanes) * CHAINS * lanes
        with code.loop(0, whole, [code.broadcast(bits[0], lanes), code.zero(f32, lanes)] * CHAINS, step=CHAINS * lanes, name="k") as loop:
            loop.next = [x for i in range(CHAINS) for x in measure(code.add(loop.iv, i * lanes), None, loop.carried[2 * i : 2 * i + 2])]
        made = list(loop.results)
        for i, at in enumerate(range(whole, c.k, lanes)):
            made[2 * i : 2 * i + 2] = measure(at, code.lane_mask(c.k - at, lanes), made[2 * i : 2 * i + 2])
        while len(made) > 2:
            most, squares, *made = made
            made = [*made[:-2], code.apply("max", made[-2], most), code.apply("add", made[-1], squares)]
        most, squares = code.reduce(made[0], "max"), code.reduce(made[1])
        # The norm, if its squares are well within the range of floats. The bits of an infinity or nan are made smaller first, since they
        # would carry too far.
        for fn, bound in (("ge", bits[2]), ("le", bits[3])):
            squares = code.apply("select", code.apply(fn, most, bound), squares, code.constant(0.0, f32))
        norm = code.reinterpret(code.apply("sqrt", squares), i32)
        size = code.apply("max", code.apply("min", most, bits[1]), norm)
        # Half of the mantissa, added to a float's bits, carries to the exponent if that rounds to the nearest power of two.
        half, exponent = code.constant(1 << _FLOAT.nmant - 1, i32), code.constant(int(np.float32(np.inf).view(np.int32)), i32)
        scale = code.reinterpret(code.apply("and", code.apply("add", size, half), exponent), f32)
        factor = code.broadcast(code.apply("div", code.constant(1.0, f32), scale), lanes)
        facts = self.held * (c.panel + 2 * lanes)
        signs, pairs = (
            [code.load(self.right, facts + (which * PERIOD // lanes + i) * lanes, lanes, None, self.align) for i in range(PERIOD // lanes)]
            for which in range(2)
        )
        signs, pairs = ([code.apply("mul", x, factor) for x in of] for of in (signs, pairs))

        def period(at: Index, count: int, totals: list[Value]) -> list[Value]:
            totals = list(totals)
            # Steps that a last group lacks are zero.
            for i in range(min(-(-(count + GROUP - 1) // lanes), PERIOD // lanes)):
                x, following = (
                    code.load(source, code.add(start, at, i * lanes + j), lanes, code.lane_mask(max(0, count - i * lanes - j), lanes))
                    for j in range(2)
                )
                x = code.apply("mul", x, signs[i])
                code.store(x, self.rows, code.add(code.mul(code.add(self.row0, number), c.line), at, i * lanes), None, self.align)
                totals[i] = code.fma(x, code.apply("mul", following, pairs[i]), totals[i])
            return totals

        # The last vector of a period reads one element more.
        whole = (c.k - 1) // PERIOD * PERIOD
        with code.loop(0, whole, [code.zero(f32, lanes)] * (PERIOD // lanes), step=PERIOD, name="k") as loop:
            loop.next = period(loop.iv, PERIOD + 1, loop.carried)
        total, *others = period(whole, c.k - whole, loop.results)
        for x in others:
            total = code.apply("add", total, x)
        code.store(code.apply("neg", code.reduce(total)), self.sums, code.mul(number, 2))
        code.store(scale, self.sums, code.add(code.mul(number, 2), 1))

    def _tile(self, row: Index, at: Index, number: Index, rows: int, panel: Index, held: Index) -> None:
        """`rows` rows from `row` on, whose copies begin with the one `at`, by a panel, which is the one `held`; the tile is the one of this
        number.
        """
        code, c, lanes = self.code, self.c, self.c.lanes
        lane0, to = code.mul(self._panel_of(panel), lanes), code.mul(panel, lanes)
        at_scales = code.add(self.held * c.panel, code.mul(held, lanes))
        scales = code.load(self.right, at_scales, lanes, None, self.align)
        known = code.load(self.right, code.add(at_scales, self.held * lanes), lanes, None, self.align)

        if c.prefetches_results:
            for r in range(rows):
                self.p.epilogue.prefetch(
                    code, self.others, self._places(code.add(row, r), lane0), self.outs, self._places(code.add(row, r), to)
                )

        def of_row(r: int, which: int) -> Value:
            return code.broadcast(code.load(self.sums, code.add(code.mul(at, 2), 2 * r + which)), lanes)

        acc = [code.apply("sub", of_row(r, 0), known) for r in range(rows)]
        left, right = code.mul(code.add(self.row0, at), c.line), code.mul(held, c.panel)
        # The tiles of this panel prefetch the next one: each some lines in each round, or all of them if there is a single tile.
        each = -(-GROUP // (c.most_tiles if isinstance(c.m, int) else 2)) if rows >= COSTS.prefetching_rows and not c.holds_all else 0
        part = number if isinstance(c.m, int) else code.mod(number, 2)
        following = code.mul(part, c.groups * each)

        def prefetch_line(number: Index) -> None:
            """For a line of the next panel."""
            at = (
                self.packing.line_of(code, self.right_at, code.add(panel, self.held), number)
                if c.packs_per_task
                else code.add(right, c.panel, code.mul(number, lanes))
            )
            if at is not None:
                code.prefetch(self.source, at, locality=2)

        def groups(first: Index, count: Index, acc: Sequence[Value]) -> list[Value]:
            """The accumulators after `count` groups from number `first` on."""
            with code.loop(0, count, acc, name="k") as loop:
                group = code.add(first, loop.iv)
                number = code.add(following, code.mul(group, each))
                for i in range(each):
                    prefetch_line(code.add(number, i))
                if each and not isinstance(c.m, int):
                    with code.when(self.is_single):
                        for i in range(each, GROUP):
                            prefetch_line(code.add(number, c.groups * each + i - each))
                here = code.add(right, code.mul(group, GROUP * lanes))
                b = [code.load(self.right, code.add(here, s * lanes), lanes, None, self.align) for s in range(GROUP)]
                scalars = code.add(left, code.mul(group, GROUP))

                def a(r: int, s: int) -> Value:
                    return code.broadcast(code.load(self.rows, code.add(scalars, r * c.line + s)), lanes)

                made = []
                for r, x in enumerate(loop.carried):
                    # This order keeps both units busy: no multiply-add waits long for its operands.
                    x = code.fma(code.apply("add", a(r, 0), b[1]), code.apply("add", a(r, 1), b[0]), x)
                    x = code.fma(a(r, 4), b[4], x)
                    x = code.fma(code.apply("add", a(r, 2), b[3]), code.apply("add", a(r, 3), b[2]), x)
                    made.append(code.fma(a(r, 5), b[5], x))
                loop.next = made
            return loop.results

        size = PART // GROUP
        if c.groups <= size:
            acc = groups(0, c.groups, acc)
        else:
            # As in `microkernel.py`: a long sum is one of parts, which are added up one after another.
            with code.loop(0, -(-c.groups // size), acc, name="part") as parts:
                first = code.mul(parts.iv, size)
                count: Index = code.min(size, code.sub(c.groups, first)) if c.groups % size else size
                more = groups(first, count, [code.zero(f32, lanes)] * rows)
                parts.next = [code.apply("add", x, y) for x, y in zip(parts.carried, more, strict=True)]
            acc = parts.results
        mask = code.lane_mask(code.sub(c.n, lane0), lanes) if c.n % lanes else None
        for r, x in enumerate(acc):
            # The smaller scale first, since the sum times the larger one may be too large for a float; both are positive, so that their
            # bits may be compared.
            both = [code.reinterpret(s, i32) for s in (scales, of_row(r, 1))]
            for which in ("min", "max"):
                x = code.apply("mul", x, code.reinterpret(code.apply(which, *both), f32))
            self._write(x, code.add(row, r), lane0, to, mask)

    def _panel_of(self, panel: Index) -> Index:
        """Which lanes those of a panel are, in vectors of them."""
        code, result_order = self.code, self.c.result_order
        if result_order is None:
            return panel
        each = result_order.width // self.c.lanes
        turn, block = code.div(panel, result_order.blocks * each), code.mod(code.div(panel, each), result_order.blocks)
        return code.add(code.mul(block, self.c.panels // result_order.blocks), code.mul(turn, each), code.mod(panel, each))

    def _write(self, value: Value, row: Index, lane: Index, to: Index, mask: Value | None) -> None:
        """What the group gives for a vector of the product from this lane on, stored where the one `to` would be."""
        epilogue = self.p.epilogue
        emitter = epilogue.emitter(self.code, self.others, VectorLeaf(lambda _: value))
        epilogue.write(emitter, self.outs, self._places(row, lane), self.c.lanes, mask, self._places(row, to))

    def _places(self, row: Index, lane: Index) -> list[Position]:
        """Where the results of a row are, from this lane on."""
        rows = self.c.rows
        at = dict(zip(rows.letters, map(position_at, self.code.split(row, [self.p.size(c) for c in rows.letters])), strict=True))
        at.update({c: position_at(i) for c, i in self.around.items()})
        at[rows.lane] = position_at(lane, 0, 1)
        return [at.get(c, Position()) for c in self.p.out]

    def _weights(self) -> Slot:
        """B as `_pack` says, made ahead or now; B itself, where each task makes the panels that it needs."""
        c, p = self.c, self.p
        if c.is_constant:
            return self._pack()
        memory = self.parts.memory_of(p.right.source)
        if c.packs_per_task:
            return memory
        kernel = self.packing.kernel(p.request.name("weights"), p.contract.location)
        made = self.parts.new_scratch(dims.product(kernel.args[1].type.shape), f32)
        self.parts.steps.append(Step(kernel, (memory, made)))
        return made

    @cached_property
    def held(self) -> int:
        """How many panels there are where tiles read them."""
        if self.c.holds_all:
            # The last group of panels may be partial.
            return self.c.panels + self.packing.together - 1
        return self.packing.together if self.c.packs_per_task else self.c.panels

    @cached_property
    def packing(self) -> Packing:
        """How B is packed that is not known when it is compiled."""
        c = self.c
        (step,) = c.rows.steps
        return Packing(self.p.right, step, c.rows.lane, c.k, c.n, c.lanes, GROUP, FACTS, (LEAST_SCALE, MOST_SCALE))

    def _pack(self) -> Slot:
        """B as a pack: panels, then for each lane its scale, by which it is divided, and the sum of its pairs' products; at last for a
        period of A's steps their signs, and one for each that begins a pair.
        """
        c, p = self.c, self.p
        source, lane, along = p.right.source, c.rows.lane, c.rows.steps
        assert isinstance(source, BlockArgument)
        func, b, w = copied_views(p.contract.b if p.right_is_b else p.contract.a)
        letters = p.right_letters
        width = c.panels * c.lanes
        w = b(
            tensor.Transpose,
            w,
            perm=tuple([i for i, x in enumerate(letters) if x not in (*along, lane)] + [letters.index(x) for x in (*along, lane)]),
        )
        w = b(tensor.Reshape, w, shape=(c.k, c.n))
        if c.result_order is not None:
            w = b(
                tensor.Reshape,
                w,
                shape=(c.k, c.result_order.blocks, c.n // (c.result_order.blocks * c.result_order.width), c.result_order.width),
            )
            w = b(tensor.Reshape, b(tensor.Transpose, w, perm=(0, 2, 1, 3)), shape=(c.k, c.n))
        w = b(tensor.Pad, w, low=(0, 0), high=(GROUP * c.groups - c.k, width - c.n), interior=(0, 0))
        wide = b(tensor.Map, w, fn="cast", dtype=f64)
        norm = b(tensor.Map, b(tensor.Reduce, b(tensor.Map, wide, wide, fn="mul"), fn="add", axes=(0,), keepdims=True), fn="sqrt")
        for fn, bound in (("max", LEAST_SCALE), ("min", MOST_SCALE)):
            norm = b(tensor.Map, norm, b(tensor.Full, value=bound, shape=(1, 1), dtype=f64), fn=fn)
        scale = _power_of_two(b, norm)
        w = b(tensor.Reshape, b(tensor.Map, w, scale, fn="div"), shape=(c.groups, GROUP, width))
        steps = [b(tensor.Slice, w, starts=(0, s, 0), stops=(c.groups, s + 1, width), strides=(1, 1, 1)) for s in range(GROUP)]
        steps[2] = b(tensor.Map, steps[2], fn="neg")
        pairs = b(tensor.Map, b(tensor.Map, steps[0], steps[1], fn="mul"), b(tensor.Map, steps[2], steps[3], fn="mul"), fn="add")
        known = b(tensor.Reduce, pairs, fn="add", axes=(0,))
        w = b(tensor.Reshape, b(tensor.Concat, steps, axis=1), shape=(c.groups * GROUP, c.panels, c.lanes))
        w = b(tensor.Reshape, b(tensor.Transpose, w, perm=(1, 0, 2)), shape=(c.panels * c.panel,))
        facts = [b(tensor.Constant, value=np.array(x, np.float32)) for x in FACTS]
        w = b(tensor.Concat, [w, *(b(tensor.Reshape, x, shape=(width,)) for x in (scale, known)), *facts], axis=0)
        b.insert(Return([w]))
        made = self.packing.kernel(p.request.name("weights"), p.contract.location) if source.index in p.request.kept else None
        self.parts.packs.append(Pack(source.index, func.finish(), made))
        return pack(len(self.parts.packs) - 1)


def _power_of_two(b: Builder, x: Value) -> Value:
    """The power of two, as float32, that is the nearest to each float64: what is left of it when all bits but the first one are rounded
    off.
    """
    large = b(tensor.Map, x, b(tensor.Full, value=2.0**52 + 1, shape=(1, 1), dtype=f64), fn="mul")
    rounded = b(tensor.Map, large, b(tensor.Map, large, x, fn="sub"), fn="sub")
    return b(tensor.Map, rounded, fn="cast", dtype=f32)
