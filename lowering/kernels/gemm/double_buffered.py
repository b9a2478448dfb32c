"""Matrix products that pack B while they multiply, into a double buffer.

    copy block 0
    for each block, for each tile of rows:
        multiply by the block  |  copy a share of the next block  |  prefetch the share after that

A task multiplies by a group of neighbouring panels of B, and has memory for two blocks of a panel. While its tiles read one half, each
round of their steps copies a part of the next block to the other half. So B streams in from L3 or memory behind the multiplications, and
costs a load and a store for each vector.

Where L3 is slow, deep panels are cut into blocks of steps. A task takes the first block of all its panels, then the second one of all. A's
part of a block stays in L2, and B's rows touch few pages at a time. Partial sums wait in scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable

from polyreme.dialects import kernel as kernel_ops
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType
from polyreme.lowering.analysis.access import row_major
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.gemm.product_tile import ProductKernel, Steps, Tile, TileForm
from polyreme.lowering.kernels.microkernel import (
    MOST_UNROLLED,
    UNROLL,
    Axis,
    Overlapped,
    OverlappedRounds,
    step_cycles,
    tile_heights,
    tile_rows,
)
from polyreme.lowering.kernels.packing import Panels
from polyreme.lowering.kernels.problem import Product, typical
from polyreme.lowering.machines.cost import rows_that_hide_packing
from polyreme.lowering.machines.instructions import MANY_REGISTERS
from polyreme.lowering.machines.memory import PREFETCH_BYTES, PREFETCH_CYCLES
from polyreme.lowering.machines.tasks import TASK_STACK_BYTES, TASKS_OF_THREAD


@dataclass(frozen=True)
class DoubleBufferPlan:
    """The tile, (rows, vectors), of a product that packs while it multiplies, and the steps of a block."""

    tile: tuple[int, int]
    depth: int


def can_buffer(found: Product) -> bool:
    """Whether tasks of a product can pack B while they multiply: of known sizes, with lanes that are neighbours, and rounds of steps that
    the copies go beside.
    """
    p, m, n, k = found.problem, found.m, found.n, found.k
    if not isinstance(m, int) or not isinstance(n, int) or not isinstance(k, int) or p.right.stride(found.lane) != 1:
        return False
    if p.word_letter is not None or p.is_narrow or found.lanes == 1 or p.registers.count < MANY_REGISTERS or len(p.step_letters) != 1:
        return False
    return k > 2 * MOST_UNROLLED


def depths_of_buffer(found: Product, tile: tuple[int, int]) -> list[int]:
    """Steps of a block by this tile: all of them where a task has memory for two such blocks, and as many as leave a part of L1 for A."""
    k, size = typical(found.k), found.problem.dtype.bytes * typical(found.k) * tile[1] * found.lanes
    whole = [k] if 2 * size <= TASK_STACK_BYTES else []
    blocks = -(-2 * size // found.problem.request.target.caches[0])
    depth = _even_depth(k, blocks) if blocks > 1 else None
    return whole if depth is None or depth >= k else [*whole, depth]


def _even_depth(steps: int, blocks: int) -> int | None:
    """Steps of each of about so many blocks, of which the last one has at least half as many; None if there is no such number."""
    least = -(-steps // blocks // UNROLL) * UNROLL
    return next((depth for depth in range(least, 2 * least, UNROLL) if (steps % depth or depth) >= depth // 2 > MOST_UNROLLED), None)


@dataclass(frozen=True)
class BufferBlocks:
    """Panels of `vectors` vectors of `lanes` lanes in `count` blocks of `depth` steps, the last one of what is left of `steps`. Each meets
    `tiles` whole tiles of rows at least.
    """

    steps: int
    depth: int
    vectors: int
    lanes: int
    dtype: ScalarType
    tiles: int

    @property
    def count(self) -> int:
        return -(-self.steps // self.depth)

    @property
    def last(self) -> int:
        """Steps of the last block."""
        return self.steps - (self.count - 1) * self.depth

    @property
    def width(self) -> int:
        return self.vectors * self.lanes

    @property
    def size(self) -> int:
        """Elements of a block."""
        return self.depth * self.width

    @property
    def align(self) -> int:
        """Bytes of a vector."""
        return self.lanes * self.dtype.bytes


@dataclass(frozen=True)
class BufferShare:
    """How the tiles of one block copy another: the first `tiles` of them copy `each` steps in every `rounds` rounds, `steps` in all of a
    tile.
    """

    tiles: int
    rounds: int
    each: int
    steps: int

    @classmethod
    def of(cls, blocks: BufferBlocks, rounds: int) -> BufferShare:
        """As few steps at a time as copy a whole block within the tiles' rounds."""
        for together in range(blocks.vectors, 0, -1):
            if blocks.vectors % together == 0 and rounds // together * blocks.tiles >= blocks.depth:
                return cls(-(-blocks.depth // (rounds // together)), together, 1, rounds // together)
        each = -(-blocks.depth // (rounds * blocks.tiles))
        return cls(-(-blocks.depth // (rounds * each)), 1, each, rounds * each)


@dataclass(frozen=True)
class DoubleBuffer:
    """Memory for two blocks of the panels from `first` up to `end`, in the order in which they are multiplied: the first block of each, the
    second of each, and so on; there are so many `panels` in all. The steps of B are `along` elements apart in `source`, from position `at`
    on, and `line` elements are a line of memory.
    """

    code: Code
    blocks: BufferBlocks
    memory: Value
    source: Value
    at: Index
    along: Dim
    line: int
    first: Index
    end: Index
    panels: int

    @property
    def is_alone(self) -> bool:
        """Whether no block follows the first one, since there is one panel only."""
        return self.panels == 1 and self.blocks.count == 1

    def half(self, panel: Index, block: Index, later: int = 0) -> Index:
        """Where a block lies in the memory, or the one so much later."""
        code = self.code
        number = code.add(code.mul(code.sub(self.end, self.first), block), code.sub(panel, self.first), later)
        return code.mul(code.apply("and", code.value(number), code.value(1)), self.blocks.size)

    def begin(self) -> None:
        """Copy the first block of all."""
        code, blocks, at, to = self.code, self.blocks, self._place(self.first, 0), self.half(self.first, 0)
        ahead = PREFETCH_BYTES // (blocks.width * blocks.dtype.bytes)
        with code.loop(0, min(blocks.depth, blocks.steps), name="step") as step:
            for lane in range(0, blocks.width, blocks.lanes):
                code.prefetch(self.source, code.add(at, code.mul(code.add(step.iv, ahead), self.along), lane + self.line - 1))
                row = code.load(self.source, code.add(at, code.mul(step.iv, self.along), lane), blocks.lanes)
                code.store(row, self.memory, code.add(to, code.mul(step.iv, blocks.width), lane), None, blocks.align)

    def share(self, panel: Index, block: Index, rounds: int) -> tuple[BufferShare, Callable[[Index], OverlappedRounds]]:
        """How the tiles of a block copy the next block in their rounds: the share, and what tile number i does.

        The tiles of the last block of all copy it again, for nothing.
        """
        code, blocks = self.code, self.blocks
        following = self._following(panel, block)
        if isinstance(block, int) and block == blocks.count - 1:
            following = code.min(code.add(panel, 1), code.sub(self.end, 1)), block
        steps = code.min(blocks.depth, code.sub(blocks.steps, code.mul(following[1], blocks.depth)))
        at, after, to = self._place(*following), self._place(*self._following(*following)), self.half(panel, block, 1)
        share = BufferShare.of(blocks, rounds)
        prefetch_distance = -(-PREFETCH_CYCLES * share.each // int(share.rounds * UNROLL * step_cycles(8, blocks.vectors)))
        # Behind the last step of the block, the block after it is prefetched.
        jump = code.sub(after, code.add(at, code.mul(steps, self.along)))

        def of_tile(tile: Index) -> OverlappedRounds:
            begin: Index = code.mul(tile, share.steps)
            most = None
            if share.steps <= blocks.last:
                # The last of the tiles that copy ends with the block, and copies some of it once more.
                begin = code.min(begin, code.sub(steps, share.steps))
            else:
                most = code.sub(code.sub(steps, 1), begin)
            source, target = code.add(at, code.mul(begin, self.along)), code.add(to, code.mul(begin, blocks.width))
            left = code.value(code.sub(steps, code.add(begin, prefetch_distance)))

            def copy(step: Index, lanes: range) -> None:
                jumped = code.apply("select", code.apply("lt", code.value(step), left), code.value(0), code.value(jump))
                prefetched = code.add(source, code.mul(code.add(step, prefetch_distance), self.along), jumped)
                if most is not None:
                    step = code.min(step, most)
                from_, to_ = code.add(source, code.mul(step, self.along)), code.add(target, code.mul(step, blocks.width))
                for lane in lanes:
                    # The last element of each line's length: where rows begin within a line, the panel's first one has come with the panel
                    # before.
                    code.prefetch(self.source, code.add(prefetched, lane + self.line - 1), locality=2)
                    code.store(
                        code.load(self.source, code.add(from_, lane), blocks.lanes), self.memory, code.add(to_, lane), None, blocks.align
                    )

            def of_round(number: int) -> Overlapped:
                width = blocks.width // share.rounds

                def overlapped(round_number: Value) -> None:
                    for step in range(share.each):
                        copy(code.add(code.mul(round_number, share.each), step), range(number * width, (number + 1) * width, blocks.lanes))

                return overlapped

            return [of_round(i) for i in range(share.rounds)]

        return share, of_tile

    def _place(self, panel: Index, block: Index) -> Index:
        """Where a block begins in B."""
        return self.code.add(
            self.at, self.code.mul(panel, self.blocks.width), self.code.mul(self.code.mul(block, self.blocks.depth), self.along)
        )

    def _following(self, panel: Index, block: Index) -> tuple[Index, Index]:
        """The panel and the block that come after these."""
        code = self.code
        panel = code.value(code.add(panel, 1))
        if self.blocks.count == 1:
            return panel, block
        is_next = code.apply("lt", panel, code.value(self.end))
        return code.apply("select", is_next, panel, code.value(self.first)), code.add(
            block, code.apply("select", is_next, code.value(0), code.value(1))
        )


class DoubleBufferTile(Tile):
    """Writes the tiles of one panel of the double buffer. Partial sums wait in `sums` from position `sums_at` on."""


    def __init__(
        self,
        product: Product,
        kernel: ProductKernel,
        around: dict[str, Index],
        panels: Panels,
        buffer: DoubleBuffer,
        panel: Index,
        sums_at: Index,
        form: TileForm,
        rows_need_prefetch: bool,
    ):
        super().__init__(product, kernel, around, panel, panels, buffer.blocks.vectors, form, local=True)
        self.buffer, self.panel, self.sums_at, self.rows_need_prefetch = buffer, panel, sums_at, rows_need_prefetch

    def cover_whole(self, first: Index, count: Index, sizes: list[int]) -> None:
        """The rows from `first` on, by tiles of `sizes` rows, of panels in one block."""
        code, vectors = self.code, self.buffer.blocks.vectors
        steps = self._steps_of(0)
        self._tiles(
            count, sizes, steps, 0, lambda at, rows, overlapped: self.compute(code.add(first, at), rows, vectors, None, steps, overlapped)
        )

    def cover_block(self, first: Index, count: Index, sizes: list[int], block: Index, sums: Value) -> None:
        """A block's part of these rows, added to `sums`; the last block's makes results of them."""
        code, blocks = self.code, self.buffer.blocks
        steps, vectors, is_last = self._steps_of(block), blocks.vectors, isinstance(block, int)

        def write(at: Index, rows: int, overlapped: OverlappedRounds) -> None:
            row = code.add(first, at)
            acc = self.sums(row, rows, vectors, None, self.saved(sums, row, rows, vectors), steps, overlapped)
            if is_last:
                self.close(row, acc, None)
                return
            for r, line in enumerate(acc):
                for v, value in enumerate(line):
                    code.store(value, sums, self._saved_at(row, r, v), None, blocks.align)

        self._tiles(count, sizes, steps, block, write)

    def _steps_of(self, block: Index) -> Steps:
        blocks, code = self.buffer.blocks, self.code
        (letter,) = self.p.step_letters
        along = self.p.left.stride(letter)
        depth = blocks.last if isinstance(block, int) else blocks.depth
        return Steps(
            self.buffer.memory,
            code.mul(code.mul(block, blocks.depth), along),
            self.buffer.half(self.panel, block),
            [Axis(depth, along, blocks.width)],
        )


    def _tiles(
        self, count: Index, sizes: list[int], steps: Steps, block: Index, write: Callable[[Index, int, OverlappedRounds], None]
    ) -> None:
        """Tiles that cover `count` rows: those that copy the block after this one, and the others."""
        code = self.code
        done = 0
        if not self.buffer.is_alone:
            share, copying = self.buffer.share(self.panel, block, steps.rounds)
            done = share.tiles * sizes[0]
            if isinstance(count, int) and count < 2 * done:
                # Those that are left copy the last steps again, which takes less than code of their own to be compiled.
                done = count // sizes[0] * sizes[0]
            tile_rows(code, done, sizes[:1], lambda at, rows: write(at, rows, copying(code.div(at, rows))))
        tile_rows(code, code.sub(count, done), sizes, lambda at, rows: write(code.add(done, at), rows, None))

    def _saved_at(self, row: Index, r: int, v: int) -> Index:
        blocks = self.buffer.blocks
        return self.code.add(self.sums_at, self.code.mul(row, blocks.width), r * blocks.width + v * blocks.lanes)


@dataclass(frozen=True)
class DoubleBufferKernel:
    """Writes the tasks of a product by `plan`: each makes `piece` rows (None: all) by a group of full `panels`, at most so many of them.

    `rest(places, part, memory)` writes the task of part `part` of the rows and the partial panel, in the same memory. Partial sums wait in
    the kernel's third argument, if there are any. With `rows_need_prefetch` each tile prefetches the next one's rows of A.
    """

    product: Product
    kernel: ProductKernel
    plan: DoubleBufferPlan
    panels: Panels
    piece: int | None
    most_panels: int | None
    grain: int
    form: TileForm
    rest: Callable[[dict[str, Index], Index, Value], None]
    rows_need_prefetch: bool = False

    def write(self) -> None:
        code, found = self.kernel.code, self.product
        m, n, width = found.m, found.n, self.panels.width
        assert isinstance(m, int) and isinstance(n, int)
        whole, over = divmod(n, width)
        sizes = [found.problem.size(c) for c in found.outer]
        pieces = 1 if self.piece is None else -(-m // self.piece)
        threads = code.b(kernel_ops.Threads)
        rows, most = self.piece or m, whole
        if self.most_panels is not None:
            most = self.most_panels
        # Several groups for each thread, so that a slow thread takes fewer of them.
        several = code.div(code.add(code.mul(threads, TASKS_OF_THREAD), whole - 1), code.mul(threads, TASKS_OF_THREAD))
        several = code.apply("max", code.value(several), code.value(-(-rows_that_hide_packing(found.problem.request.target) // rows)))
        several = code.min(several, code.div(code.add(threads, whole - 1), threads))
        alone = code.apply("eq", threads, code.value(1))
        group = code.min(code.apply("select", alone, code.value(whole), code.value(several)), most)
        groups = code.div(code.add(group, whole - 1), group)
        kinds = code.add(groups, int(over > 0))
        with code.parallel(code.value(code.mul(product(sizes) * pieces, kinds)), grain=self.grain, name="task") as task:
            *around, part, number = code.split(task, [*sizes, pieces, kinds])
            places = dict(zip(found.outer, around, strict=True))
            halves = 1 if whole == 1 and self.blocks.count == 1 else 2
            memory = code.scratch(halves * self.blocks.size, self.blocks.dtype)
            if not over:
                self._group(memory, around, part, code.mul(number, group), group, whole)
                return
            is_group = code.apply("lt", code.value(number), code.value(groups))
            with code.when(is_group):
                self._group(memory, around, part, code.mul(number, group), group, whole)
            with code.when(is_group, then=False):
                self.rest(places, part, memory)

    @property
    def blocks(self) -> BufferBlocks:
        m, depth, (rows, vectors) = self.product.m, self.panels.depth, self.plan.tile
        assert isinstance(m, int) and isinstance(depth, int)
        least = m if self.piece is None else m - (-(-m // self.piece) - 1) * self.piece
        return BufferBlocks(depth, self.plan.depth, vectors, self.product.lanes, self.product.problem.dtype, least // rows)

    def _group(self, memory: Value, around: list[Index], part: Index, first: Index, group: Index, whole: int) -> None:
        """A task: the panels from `first` on, `group` of them or those up to number `whole`, for part `part` of the rows."""
        code, p, blocks, m = self.kernel.code, self.product.problem, self.blocks, self.product.m
        assert isinstance(m, int)
        places = dict(zip(self.product.outer, around, strict=True))
        (letter,) = p.step_letters
        end = code.min(code.add(first, group), whole)
        start = code.add(p.right.base, *(code.mul(i, p.right.stride(c)) for c, i in places.items()))
        buffer = DoubleBuffer(
            code,
            blocks,
            memory,
            self.kernel.right,
            start,
            p.right.stride(letter),
            p.request.target.line_bytes // p.dtype.bytes,
            first,
            end,
            whole,
        )
        row0: Index = 0
        count: Index = m
        if self.piece is not None:
            row0 = code.mul(part, self.piece)
            count = self.piece if m % self.piece == 0 else code.min(self.piece, code.sub(m, row0))
        tall = tile_heights(self.plan.tile[0], m)
        number = code.add(
            0,
            *(
                code.mul(i, s)
                for i, s in zip(around, row_major(tuple(self.product.problem.size(c) for c in self.product.outer)), strict=True)
            ),
        )

        def tile(panel: Index) -> DoubleBufferTile:
            sums_at = code.mul(code.add(code.mul(number, whole), panel), m * blocks.width)
            prefetched = self.rows_need_prefetch
            return DoubleBufferTile(self.product, self.kernel, places, self.panels, buffer, panel, sums_at, self.form, prefetched)

        buffer.begin()
        if blocks.count == 1:
            with code.loop(first, end, name="panel") as panel:
                tile(panel.iv).cover_whole(row0, count, tall)
            return
        sums = self.kernel.func.args[2]
        zero = code.zero(p.dtype, blocks.lanes)
        with code.loop(first, end, name="panel") as panel:
            at = code.add(tile(panel.iv).sums_at, code.mul(row0, blocks.width))
            with code.loop(0, code.mul(count, blocks.width), step=blocks.lanes, name="clear") as clear:
                code.store(zero, sums, code.add(at, clear.iv), None, blocks.align)
        with code.loop(0, blocks.count - 1, name="block") as block, code.loop(first, end, name="panel") as panel:
            tile(panel.iv).cover_block(row0, count, tall, block.iv, sums)
        with code.loop(first, end, name="panel") as panel:
            tile(panel.iv).cover_block(row0, count, tall, blocks.count - 1, sums)
