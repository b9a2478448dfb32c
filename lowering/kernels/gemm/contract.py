"""Matrix products: `tensor.contract` of any spec by register tiles. `product_tile.py` writes the kernel, `problem.py` names the letters.

Where the right operand B comes from:

- *packed*: panels `[N/NR][K][NR]`, which a tile reads from front to back. A constant B is packed at compile time. Otherwise each task packs
  its own panels, or a kernel packs all of them first. `double_buffered.py` packs while it multiplies.
- *direct*: B is read in place. For few rows, when B's lanes are contiguous.
- *dot*: lanes run along the contracted axis and are summed at the end. For few rows, when both operands are contiguous along it.

A task is a panel and a piece of the rows. The order of additions follows from shapes alone, so results do not depend on threads.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from polyreme.dialects import kernel as kernel_ops
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Value
from polyreme.ir.dims import Dim, ceildiv, product
from polyreme.ir.types import element_type
from polyreme.lowering.kernels.amx_blocks import VECTORS, rows_of_block, step_of_block, steps_of, target_has_blocks
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.gemm.double_buffered import (
    L2_SHARE_OF_LEFT,
    DoubleBufferKernel,
    DoubleBufferPlan,
    is_packed_at_once,
    plan_double_buffer,
)
from polyreme.lowering.kernels.gemm.product_amx import BlockTile
from polyreme.lowering.kernels.gemm.product_tile import Blocks, ProductKernel, Tile
from polyreme.lowering.kernels.microkernel import (
    UNROLL,
    Axis,
    choose_tile,
    join_axes,
    rank_tiles,
    step_cycles,
    streams_of_row,
    tile_heights,
    tile_rows,
    vectors_of_row,
)
from polyreme.lowering.kernels.packing import Panels, PlanParts
from polyreme.lowering.kernels.plan import KernelPlan, Request, Slot, Step, operand, result
from polyreme.lowering.kernels.problem import GRAIN_CYCLES, PIECE_CYCLES, PIECES, TYPICAL, Product, find_product, typical
from polyreme.lowering.machines.instructions import MANY_REGISTERS

# With fewer rows B is not packed at run time: if its lanes are contiguous; if also a panel of it stays in L2 unpacked; if lanes run over
# the contracted axis; if the packed form is kept between runs.
MIN_ROWS_TO_PACK, MIN_ROWS_TO_PACK_L2_PANEL, MIN_ROWS_TO_PACK_DOTS, MIN_ROWS_TO_PACK_ONCE = 48, 130, 32, 16
# The same if lanes are contiguous and L3 is slow: for a B larger than half of L2, which tasks that pack prefetch, and for a smaller one.
MIN_ROWS_TO_PACK_BEYOND_L2, MIN_ROWS_TO_PACK_L2_RESIDENT = 8, 96
# Associativity of L2.
L2_WAYS = 16
# A task has its panel on the stack, and threads of programs that call a library may have small ones.
MOST_PANEL_BYTES = 256 << 10
# With fewer rows the contracted axis is not cut into blocks.
MIN_ROWS_FOR_K_BLOCKS = 32
# L3 is slow if a core reads fewer bytes from it in a cycle.
FAST_L3_BYTES = 12
# If L3 is slow, a task packs B in blocks of 1 / this of L1. Whole panels would go to L2, and evict what was prefetched there.
L1_SHARE_OF_BLOCK = 3
# Vectors of such a block, if the lanes are a whole number of such panels or more than so many of them. Wider ones read longer pieces of B's
# rows, which the hardware prefetcher follows.
L1_BLOCK_VECTORS, MIN_PANELS_TO_NARROW = 4, 4
# The same with 16 registers.
L1_BLOCK_VECTORS_OF_16_REGISTERS = 3
# With fewer rows for each panel a task does not pack the panels for itself.
MIN_ROWS_TO_PACK_PER_TASK = 48
# The tile where lanes run over the contracted axis.
ROWS_OF_DOT, COLUMNS_OF_DOT = 4, 8
# Rows of a task if the contracted axis is cut into blocks, whose partial sums wait in scratch memory.
ROWS_OF_BLOCKS = 128
# If L3 is slow, pieces of A's rows that fit into 1 / this of L2 stay there while all panels pass. Pieces of fewer rows do not pay.
L2_SHARE_OF_ROWS, MIN_RESIDENT_ROWS = 3, 64
# The rows of a tile and of the next one are prefetched from L2 if they take at most 1 / this of L1.
L1_SHARE_OF_TILES = 4
# Rows of a task that makes all lanes of its rows. With fewer, panels are read from L2 too often; with more, results are evicted half made.
ROWS_OF_TASK = 192
# Bounds of the same if all panels fit into 1 / this of L2 and L3 is slow: fewer rows, so that A stays in L2 while every panel passes.
L2_SHARE_OF_PANELS, MIN_ROWS_OF_TASK, MAX_ROWS_OF_TASK = 4, 24, 56
# The order of panels is reversed in every other call for up to so many rows, if the panels are at most so many times L2.
MOST_ALTERNATING_ROWS, MOST_ALTERNATING = 32, 5
# The hardware prefetcher stops at the end of a page.
PAGE_BYTES = 4096


def build_contract(request: Request) -> KernelPlan | None:
    """The plan of a group around a matrix product; None for any other group."""
    builder = _builder_of(request)
    return None if builder is None else builder.build()


def build_with_tile(request: Request, tile: tuple[int, int], evenly: bool = False) -> KernelPlan | None:
    """The same with a tile of so many rows and vectors, one of `tiles_of`; with `evenly`, an unknown number of rows is covered by tiles of
    about as many each, and no more.
    """
    builder = _builder_of(request)
    if builder is None:
        return None
    builder.tile, builder.evenly = tile, evenly
    return builder.build()


def tiles_of(request: Request) -> tuple[tuple[int, int], ...]:
    """The tiles that a matrix product of known sizes may be computed with, the one that is thought to be the fastest first; none for other
    groups.
    """
    builder = _builder_of(request)
    if builder is None or builder.in_blocks or not all(isinstance(d, int) for d in builder.p.sizes.values()):
        return ()
    ranked = rank_tiles(typical(builder.m), typical(builder.n), typical(builder.k), builder.p.registers)
    return (builder.tile, *(tile for tile in ranked if tile != builder.tile))


def _builder_of(request: Request) -> ProductBuilder | None:
    found = find_product(request, halves=True)
    return None if found is None else ProductBuilder(found)


class ProductBuilder:
    """Makes the plan of one product: where B comes from, then the kernel over tiles."""

    def __init__(self, product: Product):
        self.product, self.p = product, product.problem
        self.parts = PlanParts(self.p.request)
        self.lane, self.lanes, self.outer = product.lane, product.lanes, product.outer
        self.m, self.n, self.k = product.m, product.n, product.k
        self.tile = choose_tile(typical(self.m), typical(self.n), typical(self.k), self.p.registers)
        # Whether tiles of an unknown number of rows are of about as many each.
        self.evenly = False
        # Whether sums are made by tile registers, in blocks of `tile`.
        self.in_blocks = False
        # Whether each vector of a tile has a panel of its own, so that B is read in so many streams.
        self.in_streams = False
        transposes = self._transposes()
        self.transposes_panels = transposes and typical(self.k) * self.tile[1] * self.lanes * self.p.dtype.bytes > MOST_PANEL_BYTES
        # How B is packed while it is multiplied, if it is.
        self.double_buffer = plan_double_buffer(product, self._l3_is_slow) if self._pays_to_pack else None
        if self.double_buffer is not None:
            self.tile = self.double_buffer.tile
        elif self.transposes_panels:
            # Narrow, so that B's rows to transpose are few pages at a time; tall, since B is read from L2 once for each tile.
            self.tile = self.p.registers.accumulators // 2, 2
        elif transposes and isinstance(self.n, int) and self.n % (self.tile[1] * self.lanes) and self.n % (2 * self.lanes) == 0:
            # Narrow panels transpose as fast, and these divide the lanes evenly.
            ranked = rank_tiles(typical(self.m), self.n, typical(self.k), self.p.registers)
            self.tile = next(tile for tile in ranked if tile[1] == 2)
        elif self._packs_l1_blocks and (
            self.n % (self._block_vectors * self.lanes) == 0 or self.n > MIN_PANELS_TO_NARROW * self._block_vectors * self.lanes
        ):
            ranked = rank_tiles(self.m, self.n, self.k, self.p.registers)
            self.tile = next((tile for tile in ranked if tile[1] == self._block_vectors), self.tile)
        elif (rows := self._rows_of_block()) is not None:
            self.tile = rows, VECTORS
            self.in_blocks = True
        elif self.m == 1 and self._is_constant and isinstance(self.n, int):
            vectors = -(-self.n // self.lanes)
            self.in_streams = self._comes_in_streams()
            self.tile = 1, streams_of_row(vectors, self.p.request.target.memory_streams) if self.in_streams else vectors_of_row(vectors)

    def _rows_of_block(self) -> int | None:
        """Rows of a block for tile registers, where the target has them for a product like this."""
        p = self.p
        if p.word_letter is None or not target_has_blocks(p.request.target) or not isinstance(self.m, int) or not isinstance(self.n, int):
            return None
        last = self.product.rows[-1] if self.product.rows else None
        width = VECTORS * self.lanes
        panels = Panels((), tuple(p.contracted), self.lane, width, p.sizes)
        if last is None or not isinstance(p.left.stride(last), int) or steps_of(p.axes(panels.strides), width) is None:
            return None
        return rows_of_block(self.m)

    def _comes_in_streams(self) -> bool:
        """Whether one row reads a constant B the fastest in several streams: B exceeds L2, and the panels of vectors are pages apart."""
        p, target = self.p, self.p.request.target
        if target.memory_streams == 1 or not isinstance(self.n, int) or not isinstance(self.k, int):
            return False
        step = self.lanes * (p.dtype if p.word_letter is not None else element_type(p.right.source.type)).bytes
        return self.k * step >= PAGE_BYTES and -(-self.n // self.lanes) * self.k * step > target.caches[1]

    @property
    def _is_constant(self) -> bool:
        """Whether B is known at compile time, and packed there."""
        source = self.p.right.source
        return isinstance(source, BlockArgument) and source.index in self.p.request.constant

    @property
    def _is_known(self) -> bool:
        """Whether B is packed at compile time, or stays packed between runs."""
        source = self.p.right.source
        return self._is_constant or (isinstance(source, BlockArgument) and source.index in self.p.request.kept)

    def _transposes(self) -> bool:
        """Whether tasks transpose panels of B, of known sizes, that are contiguous along the steps."""
        letters = self.p.step_letters
        if self.p.right.stride(self.lane) == 1 or len(letters) != 1 or self.p.right.stride(letters[0]) != 1:
            return False
        if not isinstance(self.m, int) or not isinstance(self.k, int) or self.m < MIN_ROWS_TO_PACK_PER_TASK or self.lanes == 1:
            return False
        return not self._is_known

    @property
    def _l3_is_slow(self) -> bool:
        """Whether L3 is much slower than the second one."""
        return self.p.request.target.l3_bytes_per_cycle < FAST_L3_BYTES

    @property
    def _packs_small_blocks(self) -> bool:
        """Whether tasks that pack B make blocks that stay in L1.

        They do if L3 is slow. They also do if tiles have few registers and B exceeds half of L2: a row of a panel is then a line or two
        from afar.
        """
        if self._l3_is_slow or self.p.registers.count >= MANY_REGISTERS:
            return self._l3_is_slow
        return (
            isinstance(self.k, int)
            and isinstance(self.n, int)
            and 2 * self.k * self.n * self.p.dtype.bytes > self.p.request.target.caches[1]
        )

    @property
    def _block_vectors(self) -> int:
        """Vectors of such a block."""
        return L1_BLOCK_VECTORS if self.p.registers.count >= MANY_REGISTERS else L1_BLOCK_VECTORS_OF_16_REGISTERS

    def build(self) -> KernelPlan:
        p, source = self.p, self.p.right.source
        left = self.parts.memory_of(p.left.source)
        dot = next((c for c in p.contracted if p.left.stride(c) == 1 and p.right.stride(c) == 1), None)
        # B may be read where it stands: along its lanes, or else along a contracted letter.
        unit = self._is_unit
        in_place = not self._is_constant and p.word_letter is None and (unit or (dot is not None and self.lanes > 1))
        along = None if unit else dot
        reuse, threshold = self._reuse, self._min_rows_to_pack
        if in_place and isinstance(reuse, int) and reuse < threshold:
            kernel = self._open("contract" if unit else "dot", [left, self.parts.memory_of(source)])
            self._read_in_place(kernel, along)
        else:
            self._read_panels(left, (reuse, threshold) if in_place and not isinstance(reuse, int) else None, along)
        return self.parts.plan("contract")

    @property
    def _is_unit(self) -> bool:
        """Whether the lanes of B are neighbours."""
        return self.p.right.stride(self.lane) == 1

    @property
    def _reuse(self) -> Dim:
        """Rows that meet each element of B."""
        return product([self.m, *(self.p.size(c) for c in self.outer if self.p.right.stride(c) == 0)])

    @property
    def _packs_l1_blocks(self) -> bool:
        """Whether tasks pack B, of known sizes, in blocks that stay in L1."""
        if (
            self._is_known
            or not self._packs_small_blocks
            or not self._is_unit
            or self.p.word_letter is not None
            or self.p.is_narrow
            or self.lanes == 1
        ):
            return False
        return isinstance(self.n, int) and isinstance(self.k, int) and self._pays_to_pack

    @property
    def _pays_to_pack(self) -> bool:
        """Whether known rows of A are enough for tasks to pack B, whose lanes are neighbours."""
        if self._is_known or not isinstance(self.m, int) or not isinstance(self._reuse, int):
            return False
        return self._reuse >= self._min_rows_to_pack and (self.m >= MIN_ROWS_TO_PACK_PER_TASK or not self._is_shared)

    @property
    def _min_rows_to_pack(self) -> int:
        """From how many rows on B is packed at run time."""
        source, target = self.p.right.source, self.p.request.target
        if isinstance(source, BlockArgument) and source.index in self.p.request.kept:
            return MIN_ROWS_TO_PACK_ONCE
        if not self._is_unit:
            return MIN_ROWS_TO_PACK_DOTS
        if not isinstance(self._reuse, int):
            return MIN_ROWS_TO_PACK
        if not self._packs_small_blocks:
            return MIN_ROWS_TO_PACK_L2_PANEL if self._panel_stays_in_l2() else MIN_ROWS_TO_PACK
        size = product(self.p.size(c) for c in self.p.right_letters)
        if self._is_shared or not isinstance(size, int):
            return MIN_ROWS_TO_PACK
        return MIN_ROWS_TO_PACK_BEYOND_L2 if 2 * size * self.p.dtype.bytes > target.caches[1] else MIN_ROWS_TO_PACK_L2_RESIDENT

    def _panel_stays_in_l2(self) -> bool:
        """Whether an unpacked panel stays in L2: rows of B that are far apart may share few of its sets."""
        p = self.p
        letters = p.step_letters
        if len(letters) != 1 or not isinstance(self.k, int):
            return False
        stride = p.right.stride(letters[0])
        if not isinstance(stride, int) or self.k * self.tile[1] * self.lanes * p.dtype.bytes > self._panel_budget:
            return False
        period = p.request.target.caches[1] // L2_WAYS
        places = period // gcd(stride * p.dtype.bytes, period)
        return self.k * 4 <= places * L2_WAYS * 3

    def _read_panels(self, left: Slot, threshold: tuple[Dim, int] | None, along: str | None) -> None:
        """From panels; in place where it shows at run time only that there are fewer rows than are `threshold` a packing (how many there
        are, and the least).
        """
        p = self.p
        _, vectors = self.tile
        outer = tuple(c for c in self.outer if p.right.stride(c) != 0)
        panels = Panels(outer, tuple(p.contracted), self.lane, self.lanes * (1 if self.in_streams else vectors), p.sizes)
        if threshold is None and self._packs_in_tasks(panels):
            memory = [left, self.parts.memory_of(p.right.source)]
            if self.double_buffer is None:
                self._tiles(self._open("contract", memory), panels, local=True)
            else:
                self._double_buffered(memory, self.double_buffer, panels)
            return
        value = p.contract.b if p.right_is_b else p.contract.a
        packed = self.parts.packed(value, p.right_letters, p.right, panels, threshold, p.word_letter)
        if threshold is None:
            self._tiles(self._open("contract", [left, packed]), panels)
            return
        kernel = self._open("contract", [left, packed, self.parts.memory_of(p.right.source)])
        many = kernel.code.condition("ge", *threshold)
        assert isinstance(many, Value)
        with kernel.code.when(many):
            self._tiles(kernel, panels)
        with kernel.code.when(many, then=False):
            self._read_in_place(replace(kernel, right=kernel.func.args[2]), along)

    def _double_buffered(self, memory: list[Slot], plan: DoubleBufferPlan, panels: Panels) -> None:
        """Tasks that pack the next block of a panel while they multiply by this one."""
        p, (rows, _) = self.p, self.tile
        assert isinstance(self.m, int) and isinstance(self.n, int) and isinstance(self.k, int)
        whole = self.n // panels.width
        outer = product(p.size(c) for c in self.outer)
        if plan.depth < self.k:
            memory.append(self.parts.new_scratch(outer * whole * self.m * panels.width, p.dtype))
        row, most = plan.depth * element_type(p.left.source.type).bytes, None
        if self._l3_is_slow and self.m * row > p.request.target.caches[1] // L2_SHARE_OF_LEFT:
            most = max(MIN_RESIDENT_ROWS, p.request.target.caches[1] // L2_SHARE_OF_LEFT // row)
        _, piece = self._row_pieces(rows, typical(outer) * whole, most, True)
        if piece is not None and self.m % piece and self.m % piece < rows:
            piece = None
        kernel = self._open("contract", memory)
        rest = lambda places, part, memory: self._piece(kernel, places, whole, part, piece, panels, True, memory=memory)
        DoubleBufferKernel(self.product, kernel, plan, panels, piece, rest, self.n == panels.width and self._rows_need_prefetch()).write()

    def _rows_need_prefetch(self) -> bool:
        """Whether to prefetch the rows of A that a single panel reads, once.

        Those beyond L2 are. Of several products also those in L2, if the rows of two tiles are whole lines and leave room in L1.
        """
        p, target = self.p, self.p.request.target
        products = product(p.size(c) for c in self.outer if p.left.stride(c) != 0)
        row = typical(self.k) * element_type(p.left.source.type).bytes
        fits = row % target.line_bytes == 0 and 2 * self.tile[0] * row <= target.caches[0] // L1_SHARE_OF_TILES
        return self._rows_exceed_l2(products) or (typical(products) > 1 and fits)

    def _packs_in_tasks(self, panels: Panels) -> bool:
        """Whether each task packs its panels into its own memory, which stays in L2. B is then read once, and never written back."""
        if self._is_known or self.p.is_narrow:
            return False
        if not isinstance(panels.depth, int) or not isinstance(self.m, int):
            return False
        if panels.depth * panels.width * self.p.dtype.bytes > self._panel_budget and len(self.p.step_letters) != 1:
            return False
        if self._is_unit and is_packed_at_once(self.product, self._l3_is_slow):
            return False
        return self.m >= MIN_ROWS_TO_PACK_PER_TASK or not self._is_shared

    @property
    def _is_shared(self) -> bool:
        """Whether B is the same at several places of the outer letters."""
        return any(self.p.right.stride(c) == 0 for c in self.outer)

    @property
    def _panel_budget(self) -> int:
        """Bytes of a panel, or of a block of one, that leave room for rows of A in L2, and on the stack of a task that
        packs it.
        """
        return min(self.p.request.target.caches[1] // 4, MOST_PANEL_BYTES) // (2 if self.transposes_panels else 1)

    def _read_in_place(self, kernel: ProductKernel, along: str | None) -> None:
        if along is None:
            self._tiles(kernel, None)
        else:
            self._dots(kernel, along)

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

    def _depth(self, panels: Panels | None, local: bool) -> int | None:
        """Steps of a block of a panel, `local` if a task packs it, that has room in L2, or in the first one; None when
        a panel is such a block as a whole.
        """
        near = local and self._packs_small_blocks and self._is_unit
        if panels is None or self.in_blocks or not isinstance(panels.depth, int) or (typical(self.m) < MIN_ROWS_FOR_K_BLOCKS and not near):
            return None
        # A task packs along one letter: several may be one axis of A and of the panels, and not of B.
        if local and len(self.p.step_letters) != 1:
            return None
        room = self.p.request.target.caches[0] // L1_SHARE_OF_BLOCK if near else self._panel_budget
        blocks = -(-panels.depth * panels.width * self.p.dtype.bytes // room)
        if blocks < 2 or len(self.p.axes(panels.strides)) != 1:
            return None
        return -(-panels.depth // blocks // UNROLL) * UNROLL

    def _row_pieces(self, rows: int, outer: int, most: int | None, local: bool) -> tuple[Dim, int | None]:
        """How many pieces the rows are cut into for the threads, and how many rows each has (None: all of them); `most` if that is given.
        `local` panels are packed for each piece anew.
        """
        cycles = typical(self.m) * -(-typical(self.n) // self.lanes) * typical(self.k) * outer / 2
        if self.in_blocks:
            cycles *= step_of_block(rows) / (rows * VECTORS / 2)
        wanted = min(-(-PIECES // max(outer, 1)), int(cycles / PIECE_CYCLES / max(outer, 1)))
        if local:
            wanted = min(wanted, typical(self.m) // ROWS_OF_BLOCKS)
        if most is not None:
            wanted = max(wanted, -(-typical(self.m) // most))
        if not isinstance(self.m, int):
            piece = -(-TYPICAL // rows) * rows
            return ceildiv(self.m, piece), piece
        if wanted <= 1:
            return 1, None
        piece = -(-self.m // (wanted * rows)) * rows
        return (1, None) if piece >= self.m else (-(-self.m // piece), piece)

    def _tiles(self, kernel: ProductKernel, panels: Panels | None, local: bool = False) -> None:
        """Tiles of all rows and lanes, B read from `panels` or in place; the panels are made by each task when they are `local`."""
        p, code = self.p, kernel.code
        rows, vectors = self.tile
        blocks = ceildiv(self.n, vectors * self.lanes)
        sizes = [p.size(c) for c in self.outer]
        depth = self._depth(panels, local)
        pieces, piece = self._row_pieces(
            rows, typical(product(sizes)) * typical(blocks), None if depth is None else ROWS_OF_BLOCKS * (1 + local), local
        )
        step = step_of_block(rows) if self.in_blocks else step_cycles(rows, vectors)
        per_task = typical(piece or self.m) * step / rows * typical(self.k)
        grain = max(1, int(GRAIN_CYCLES / max(per_task, 1)))
        first = self._rows_first(panels, local)
        if first is not None:
            piece = first
            with code.parallel(code.value(product(sizes) * ceildiv(self.m, piece)), name="task") as task:
                *around, part = code.split(task, [*sizes, ceildiv(self.m, piece)])
                with code.loop(0, blocks, name="panel") as panel:
                    # Rows of A come from L3 for the first panel, and are in L2 for the others.
                    far = code.apply("eq", panel.iv, code.value(0)) if self._rows_exceed_l2() else False
                    self._piece(
                        kernel, dict(zip(self.outer, around, strict=True)), panel.iv, part, piece, panels, False, rows_need_prefetch=far
                    )
            return
        near = self._resident_rows(panels, local)
        if near is not None:
            piece, pieces = near, ceildiv(self.m, near)
        tasks = product(sizes) * blocks * pieces
        threads = code.b(kernel_ops.Threads)
        shared = code.apply("gt", threads, code.value(1))
        reversed_order = None
        if self._alternates(panels, local):
            assert isinstance(blocks, int)
            # Threads have their own panels each, the same ones in each call.
            reversed_order = code.apply("and", code.apply("le", threads, code.value(1)), code.b(kernel_ops.Alternate))
        with code.parallel(code.value(tasks), grain=grain, name="task") as task:
            if near is None:
                *around, block, part = code.split(task, [*sizes, blocks, pieces])
            else:
                *around, part, block = code.split(task, [*sizes, pieces, blocks])
            # One of two threads takes its tasks from the end on.
            backward = code.apply("and", shared, code.apply("ge", code.value(code.mul(task, 2)), code.value(tasks)))
            if reversed_order is not None:
                block = code.apply("select", reversed_order, code.value(code.sub(blocks - 1, block)), code.value(block))
                backward = code.apply("or", backward, reversed_order)
            self._piece(kernel, dict(zip(self.outer, around, strict=True)), block, part, piece, panels, local, backward, threads)

    def _rows_first(self, panels: Panels | None, local: bool) -> int | None:
        """Rows of a task that makes all lanes of its rows, panel by panel. None if a task has one panel.

        It pays for many rows, whose results come from memory and are then read and written once, in whole rows. Fewer rows are enough if
        all panels stay in L2, from where they are read for each task.
        """
        if panels is None or local or not isinstance(self.m, int):
            return None
        rows, depth = self.tile[0], self._depth(panels, local)
        if self.m >= PIECES * MIN_ROWS_OF_TASK * 2 and self._panels_stay_in_l2(panels) and depth is None:
            sizes = range(-(-MIN_ROWS_OF_TASK // rows) * rows, MAX_ROWS_OF_TASK + 1, rows)
            # What the busier one of two threads has to do, and the larger piece of equal ones.
            return min(sizes, key=lambda size: (-(-self.m // (2 * size)) * size, -size))
        if self.m >= PIECES * ROWS_OF_TASK:
            return -(-(ROWS_OF_TASK if depth is None else ROWS_OF_BLOCKS) // rows) * rows
        return None

    def _rows_exceed_l2(self, products: Dim = 1) -> bool:
        """Whether A of so many products is more than L2 holds."""
        size = typical(products) * typical(self.m) * typical(self.k) * element_type(self.p.left.source.type).bytes
        return size > self.p.request.target.caches[1]

    def _alternates(self, panels: Panels | None, local: bool) -> bool:
        """Whether one call goes through the panels forwards and the next one backwards, so that it begins with those that are still in the
        L2: more of them than it holds, but not many times as many, which are read once in each call.
        """
        if panels is None or local or self.outer or not isinstance(panels.elements, int):
            return False
        size, cache = panels.elements * self.p.dtype.bytes, self.p.request.target.caches[1]
        is_read_once = not isinstance(self.m, int) or self.m <= MOST_ALTERNATING_ROWS
        return is_read_once and 3 * cache < 4 * size <= 4 * MOST_ALTERNATING * cache

    def _panels_stay_in_l2(self, panels: Panels) -> bool:
        """Whether several panels, and room for more, are in L2, and the third one is too slow to read anything else
        from it more often than needed.
        """
        target, size = self.p.request.target, panels.elements
        if self.in_blocks or not self._l3_is_slow or not isinstance(size, int) or not isinstance(self.n, int) or self.n <= panels.width:
            return False
        return size * self.p.dtype.bytes <= target.caches[1] // L2_SHARE_OF_PANELS

    def _resident_rows(self, panels: Panels | None, local: bool) -> int | None:
        """Rows of a piece that stays in L2 while every panel passes. None if all rows of A fit, if L3 is fast, or if rows are too long."""
        target = self.p.request.target
        if panels is None or local or self.in_blocks or self.outer or not self._l3_is_slow or self._depth(panels, local) is not None:
            return None
        if not isinstance(self.m, int) or not isinstance(self.n, int) or not isinstance(self.k, int) or self.n <= panels.width:
            return None
        room, row = target.caches[1] // L2_SHARE_OF_ROWS, self.k * element_type(self.p.left.source.type).bytes
        if self.m * row <= room or room < row * MIN_RESIDENT_ROWS:
            return None
        rows, _ = self.tile
        return -(-self.m // (-(-self.m * row // room) * rows)) * rows


    def _piece(
        self,
        kernel: ProductKernel,
        around: dict[str, Index],
        block: Index,
        part: Index,
        piece: int | None,
        panels: Panels | None,
        local: bool,
        backward: Value | None = None,
        threads: Value | None = None,
        memory: Value | None = None,
        rows_need_prefetch: Value | bool = False,
    ) -> None:
        """The tiles of piece `part` of the rows, `piece` of them (None: all), by block `block` of the lanes.

        `backward` tells whether the task after this one is the one before it, among so many `threads`. Local panels are packed into
        `memory`, if that is given. `rows_need_prefetch` tells whether this block is the first one that reads its rows of A.
        """
        p, code, depth = self.p, kernel.code, self._depth(panels, local)
        rows, vectors = self.tile
        width = vectors * self.lanes
        tile = (BlockTile if self.in_blocks else Tile)(self.product, kernel, around, block, panels, vectors, local)
        tile.backward, tile.threads, tile.rows_need_prefetch, tile.evenly = backward, threads, rows_need_prefetch, self.evenly
        if depth is not None:
            tile.blocks = Blocks(depth, piece or typical(self.m), width)
        if local:
            assert panels is not None and isinstance(panels.depth, int)
            room = (depth or panels.depth) * width
            assert memory is None or room <= memory.type.shape[0], "expected room for a panel"
            tile.local = code.scratch(room, p.dtype) if memory is None else memory
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

    def _dots(self, kernel: ProductKernel, dot: str) -> None:
        p, code = self.p, kernel.code
        rows = min(self.m, ROWS_OF_DOT) if isinstance(self.m, int) else ROWS_OF_DOT
        columns = min(self.n, p.registers.accumulators // rows, COLUMNS_OF_DOT) if isinstance(self.n, int) else 1
        sizes = [p.size(c) for c in self.outer]
        axes = join_axes([Axis(p.size(c), p.left.stride(c), p.right.stride(c)) for c in p.contracted if c != dot])
        per_task = typical(self.m) * columns * typical(self.k) / self.lanes / 2
        blocks = ceildiv(self.n, columns)
        with code.parallel(code.value(product(sizes) * blocks), grain=max(1, int(GRAIN_CYCLES / max(per_task, 1))), name="task") as task:
            *around, block = code.split(task, [*sizes, blocks])
            tile = Tile(self.product, kernel, dict(zip(self.outer, around, strict=True)), 0, None, 1)
            first = code.mul(block, columns)

            def sums(columns: int) -> None:
                tile_rows(code, self.m, tile_heights(rows, self.m), lambda row, count: tile.dot(row, count, first, columns, axes, dot))

            rest = self.n % columns if isinstance(self.n, int) else 0
            if not rest:
                sums(columns)
            else:
                whole = code.condition("lt", block, self.n // columns)
                assert isinstance(whole, Value)
                with code.when(whole):
                    sums(columns)
                with code.when(whole, then=False):
                    sums(rest)
