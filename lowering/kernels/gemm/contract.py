"""Matrix products: `tensor.contract` of any spec by register tiles. `product_tile.py` writes the kernel, `problem.py` names the letters.

Where the right operand B comes from:

- *packed*: panels `[N/NR][K][NR]`, which a tile reads from front to back. A constant B is packed at compile time. Otherwise each task packs
  its own panels, or a kernel packs all of them first. `double_buffered.py` packs while it multiplies.
- *direct*: B is read in place. For few rows, when B's lanes are contiguous.
- *dot*: lanes run along the contracted axis and are summed at the end. For few rows, when both operands are contiguous along it.

`contract_schedule.py` chooses among them, and all else; here it is written. A task is a panel and a piece of the rows. The order of
additions follows from shapes alone, so results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from polyreme.dialects import kernel as kernel_ops
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, floordiv, maximum, product
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.gemm.contract_schedule import fit_product, rank_schedules, schedule_product
from polyreme.lowering.kernels.gemm.double_buffered import DoubleBufferKernel, DoubleBufferPlan
from polyreme.lowering.kernels.gemm.product_amx import BlockTile
from polyreme.lowering.kernels.gemm.product_schedule import (
    BufferedTasks,
    ContractSchedule,
    DotTasks,
    TileTasks,
    other_rows,
    panels_for,
    rows_that_meet_b,
)
from polyreme.lowering.kernels.gemm.product_tile import Blocks, ProductKernel, Tile
from polyreme.lowering.kernels.join_pixels import join_pixels
from polyreme.lowering.kernels.microkernel import Axis, join_axes, rank_tiles, tile_heights, tile_rows
from polyreme.lowering.kernels.packing import PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Request, Slot, Step, operand, result
from polyreme.lowering.kernels.problem import Product, find_product, typical
from polyreme.lowering.kernels.way import Way


def find_with_halves(request: Request) -> Product | None:
    """The product of a group around one; None for any other group."""
    return find_product(join_pixels(request), halves=True)


def write_product(product: Product, schedule: ContractSchedule) -> KernelPlan:
    """The plan of a product as its schedule says."""
    return ProductBuilder(product, schedule).build()


class ProductBuilder:
    """Makes the plan of one product as its schedule says: where B comes from, then the kernel over tiles."""

    def __init__(self, product: Product, schedule: ContractSchedule):
        self.schedule, self.product, self.p = schedule, product, product.problem
        self.parts = PlanParts(self.p.request)
        self.lanes, self.outer = self.product.lanes, self.product.outer
        self.m, self.n, self.k = self.product.m, self.product.n, self.product.k
        self.panels = panels_for(product, schedule)
        self.tile = schedule.tile or (1, 1)

    def build(self) -> KernelPlan:
        source, packed, in_place = self.p.right.source, self.schedule.packed, self.schedule.in_place
        left = self.parts.memory_of(self.p.left.source)
        if packed is None:
            kernel = self._open("dot" if isinstance(in_place, DotTasks) else "contract", [left, self.parts.memory_of(source)])
            self._read_in_place(kernel)
        elif isinstance(packed, BufferedTasks):
            self._double_buffered([left, self.parts.memory_of(source)], packed)
        elif packed.local:
            self._tiles(self._open("contract", [left, self.parts.memory_of(source)]), packed)
        else:
            self._read_panels(left, packed)
        return self.parts.plan("contract", updates=self.p.epilogue.updates)

    def _read_panels(self, left: Slot, tasks: TileTasks) -> None:
        """From panels that are packed before; in place where it shows at run time only that there are too few rows for that."""
        p, least = self.p, self.schedule.packed_from_rows
        value = p.contract.b if p.right_is_b else p.contract.a
        threshold = None if least is None else (rows_that_meet_b(self.product), least)
        packed = self.parts.packed(value, p.right_letters, p.right, self.panels, threshold, p.word_letter)
        if threshold is None:
            self._tiles_by_size(self._open("contract", [left, packed]), tasks)
            return
        kernel = self._open("contract", [left, packed, self.parts.memory_of(p.right.source)])
        many = kernel.code.condition("ge", *threshold)
        assert isinstance(many, Value)
        with kernel.code.when(many):
            self._tiles_by_size(kernel, tasks)
        with kernel.code.when(many, then=False):
            self._read_in_place(replace(kernel, right=kernel.func.args[2]))

    def _read_in_place(self, kernel: ProductKernel) -> None:
        tasks = self.schedule.in_place
        if isinstance(tasks, DotTasks):
            self._dots(kernel, tasks)
        else:
            assert tasks is not None
            self._tiles(kernel, tasks)

    def _double_buffered(self, memory: list[Slot], tasks: BufferedTasks) -> None:
        """Tasks that pack the next block of a panel while they multiply by this one."""
        assert isinstance(self.m, int) and isinstance(self.n, int) and isinstance(self.k, int)
        whole = self.n // self.panels.width
        if tasks.steps < self.k:
            sums = product(self.p.size(c) for c in self.outer) * whole * self.m * self.panels.width
            memory.append(self.parts.new_scratch(sums, self.p.dtype))
        kernel = self._open("contract", memory)

        def rest(places: dict[str, Index], part: Index, memory: Value) -> None:
            assert tasks.rest is not None
            self._piece(kernel, places, whole, part, tasks.rows, tasks.rest, memory=memory)

        plan = DoubleBufferPlan(self.tile, tasks.steps)
        DoubleBufferKernel(
            self.product, kernel, plan, self.panels, tasks.rows, tasks.panels, tasks.grain, self.schedule.form, rest, tasks.prefetch_rows
        ).write()

    # --- the kernel

    def _open(self, what: str, operands: list[Slot]) -> ProductKernel:
        """A kernel on the operands (A, then B), what the epilogue reads, and the results: without ops, but for its `return`."""
        p = self.p
        slots = [*operands, *(operand(a.index) for a in p.epilogue.args), *(result(i) for i in range(len(p.epilogue.values)))]
        # Loops over panels and rows are unrolled, and their addresses a register and a number already.
        types, final = [self.parts.buffer_type(s) for s in slots], what == "contract" or None
        func = Func.empty(p.request.name(what), types, loc=p.contract.location, final_addresses=final)
        self.parts.steps.append(Step(func, tuple(slots)))
        end = func.block.append(Return([]))
        code = Code(Builder(func.block, end, func.location), p.pairs)
        first, last = len(operands), len(operands) + len(p.epilogue.args)
        left, right = func.args[:2] if p.word_letter is None else map(code.words, func.args[:2])
        return ProductKernel(func, code, left, right, dict(zip(p.epilogue.args, func.args[first:last], strict=True)), func.args[last:])

    def _tiles_by_size(self, kernel: ProductKernel, tasks: TileTasks) -> None:
        """Tiles of all rows and lanes; of two letters the one along which there are more is that of the rows, if the schedule says so."""
        other = other_rows(self.product) if self.schedule.rows_by_size else None
        if other is None:
            self._tiles(kernel, tasks)
            return
        more = kernel.code.condition("ge", self.m, other.m)
        assert isinstance(more, Value)
        with kernel.code.when(more):
            self._tiles(kernel, tasks)
        with kernel.code.when(more, then=False):
            ProductBuilder(other, self.schedule)._tiles(kernel, tasks)

    def _tiles(self, kernel: ProductKernel, tasks: TileTasks) -> None:
        """Tiles of all rows and lanes."""
        code, piece = kernel.code, tasks.rows
        pieces: Dim = 1 if piece is None else ceildiv(self.m, piece)
        blocks = ceildiv(self.n, self.tile[1] * self.lanes)
        sizes = [self.p.size(c) for c in self.outer]
        if tasks.order == "rows":
            each = blocks if tasks.across is None else tasks.across
            groups: Dim = 1 if tasks.across is None else ceildiv(blocks, each)
            with code.parallel(code.value(product(sizes) * groups * pieces), name="task") as task:
                *around, group, part = code.split(task, [*sizes, groups, pieces])
                begin = code.mul(group, each)
                end = blocks if tasks.across is None else code.min(blocks, code.add(begin, each))
                with code.loop(begin, end, name="panel") as panel:
                    # Rows of A come from L3 for the first panel, and are in L2 for the others.
                    far = code.apply("eq", panel.iv, code.value(begin)) if tasks.prefetch_rows else False
                    self._piece(kernel, dict(zip(self.outer, around, strict=True)), panel.iv, part, piece, tasks, rows_need_prefetch=far)
            return
        count = product(sizes) * blocks * pieces
        threads = code.b(kernel_ops.Threads)
        shared = code.apply("gt", threads, code.value(1))
        reversed_order = None
        if tasks.alternates:
            assert isinstance(blocks, int)
            # Threads have their own panels each, the same ones in each call.
            reversed_order = code.apply("and", code.apply("le", threads, code.value(1)), code.b(kernel_ops.Alternate))
        with code.parallel(code.value(count), grain=tasks.grain, name="task") as task:
            if tasks.order == "pieces":
                *around, part, block = code.split(task, [*sizes, pieces, blocks])
            else:
                *around, block, part = code.split(task, [*sizes, blocks, pieces])
            # One of two threads takes its tasks from the end on.
            backward = code.apply("and", shared, code.apply("ge", code.value(code.mul(task, 2)), code.value(count)))
            if reversed_order is not None:
                block = code.apply("select", reversed_order, code.value(code.sub(blocks - 1, block)), code.value(block))
                backward = code.apply("or", backward, reversed_order)
            self._piece(kernel, dict(zip(self.outer, around, strict=True)), block, part, piece, tasks, backward, threads)

    def _piece(
        self,
        kernel: ProductKernel,
        around: dict[str, Index],
        block: Index,
        part: Index,
        piece: int | None,
        tasks: TileTasks,
        backward: Value | None = None,
        threads: Value | None = None,
        memory: Value | None = None,
        rows_need_prefetch: Value | bool = False,
    ) -> None:
        """The tiles of piece `part` of the rows, `piece` of them (None: all), by block `block` of the lanes.

        `backward` tells whether the task after this one is the one before it, among so many `threads`. Local panels are packed into
        `memory`, if that is given. `rows_need_prefetch` tells whether this block is the first one that reads its rows of A.
        """
        code, depth, local = kernel.code, tasks.steps, tasks.local
        panels = self.panels if tasks.panels else None
        rows, vectors = self.tile
        width = vectors * self.lanes
        tile = (BlockTile if self.schedule.amx else Tile)(self.product, kernel, around, block, panels, vectors, self.schedule.form, local)
        tile.backward, tile.threads, tile.rows_need_prefetch, tile.evenly = backward, threads, rows_need_prefetch, self.schedule.evenly
        if depth is not None:
            tile.blocks = Blocks(depth, piece or typical(self.m), width)
        if local:
            assert panels is not None and isinstance(panels.depth, int)
            room = (depth or panels.depth) * width
            assert memory is None or room <= memory.type.shape[0], "expected room for a panel"
            tile.local = code.scratch(room, self.p.dtype) if memory is None else memory
        first: Index = 0
        count: Index = self.m
        if piece is not None:
            first = code.mul(part, piece)
            count = piece if isinstance(self.m, int) and self.m % piece == 0 else code.min(piece, code.sub(self.m, first))
        full = self.n // width if isinstance(self.n, int) else None
        left_over = self.n % width if isinstance(self.n, int) else None
        if left_over == 0:
            tile.write_rows(first, count, tile_heights(rows, self.m), vectors, None)
        elif full == 0:
            tile.write_rows(first, count, tile_heights(rows, self.m), -(-typical(self.n) // self.lanes), self.n)
        else:
            inside = code.condition("le", code.mul(code.add(block, 1), width), self.n)
            valid = code.sub(self.n, code.mul(block, width)) if left_over is None else left_over
            rest = vectors if left_over is None else -(-left_over // self.lanes)
            if not isinstance(inside, Value):
                assert not inside, "expected a panel that is not full, or one of any number"
                tile.write_rows(first, count, tile_heights(rows, self.m), rest, valid)
                return
            with code.when(inside):
                tile.write_rows(first, count, tile_heights(rows, self.m), vectors, None)
            with code.when(inside, then=False):
                self._rest(tile, first, count, rest, valid)

    def _rest(self, tile: Tile, first: Index, count: Index, vectors: int, valid: Index) -> None:
        """The last panel of a block, of up to so many vectors: an unknown number of lanes takes at most twice the vectors that it needs."""
        code, half = tile.code, vectors // 2
        if isinstance(valid, int) or vectors == 1:
            tile.write_rows(first, count, tile_heights(self.tile[0], self.m), vectors, valid)
            return
        few = code.apply("le", code.value(valid), code.value(half * self.lanes))
        with code.when(few):
            self._rest(tile, first, count, half, valid)
        with code.when(few, then=False):
            tile.write_rows(first, count, tile_heights(self.tile[0], self.m), vectors, valid)

    # --- lanes along the contracted axis

    def _dots(self, kernel: ProductKernel, tasks: DotTasks) -> None:
        p, code, rows, columns = self.p, kernel.code, tasks.rows, tasks.columns
        sizes = [p.size(c) for c in self.outer]
        axes = join_axes([Axis(p.size(c), p.left.stride(c), p.right.stride(c)) for c in p.contracted if c != tasks.along])
        # The last one of an unknown number of columns has those that are left over, too.
        blocks = ceildiv(self.n, columns) if isinstance(self.n, int) else maximum(floordiv(self.n, columns), 1)
        with code.parallel(code.value(product(sizes) * blocks), grain=tasks.grain, name="task") as task:
            *around, block = code.split(task, [*sizes, blocks])
            tile = Tile(self.product, kernel, dict(zip(self.outer, around, strict=True)), 0, None, 1)

            def sums(first: Index, columns: int) -> None:
                dot = lambda row, count: tile.dot(row, count, first, columns, axes, tasks.along)
                tile_rows(code, self.m, tile_heights(rows, self.m), dot)

            if not isinstance(self.n, int):
                self._dots_of_block(code, self.n, code.mul(block, columns), columns, sums)
                return
            first = code.mul(block, columns)
            rest = self.n % columns
            if not rest:
                sums(first, columns)
            else:
                whole = code.condition("lt", block, self.n // columns)
                assert isinstance(whole, Value)
                with code.when(whole):
                    sums(first, columns)
                with code.when(whole, then=False):
                    sums(first, rest)

    def _dots_of_block(self, code: Code, n: Dim, first: Index, columns: int, sums: Callable[[Index, int], None]) -> None:
        """A block of `columns` of `n`, which are unknown, from the first on. The last block ends with the last column, over columns that it
        has computed before; of fewer columns than a block each is computed alone.
        """
        wide = code.condition("ge", n, columns)
        assert isinstance(wide, Value)
        with code.when(wide):
            sums(first, columns)
            left = code.sub(n, first)
            is_last = code.apply("lt", code.value(left), code.value(2 * columns))
            more = code.apply("and", is_last, code.apply("gt", code.value(left), code.value(columns)))
            with code.when(more):
                sums(code.add(first, code.sub(left, columns)), columns)
        with code.when(wide, then=False), code.loop(first, n, name="column") as loop:
            sums(loop.iv, 1)


def other_products(found: Product) -> Iterator[ContractSchedule]:
    """Other candidates of a product, then by other tiles; of known sizes, the one that is thought to be the fastest first."""
    own, *others = rank_schedules(found)
    yield from others
    if own.tile is None or own.amx or not all(isinstance(d, int) for d in found.problem.sizes.values()):
        return
    for tile in rank_tiles(typical(found.m), typical(found.n), typical(found.k), found.problem.registers):
        if tile != own.tile:
            yield schedule_product(found, tile)


build_contract = Way(
    "contract", ContractSchedule, find_with_halves, schedule_product, write_product, fit_product, others=other_products
)
