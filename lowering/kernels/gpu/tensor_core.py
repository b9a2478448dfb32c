"""Products on tensor cores, for devices from sm_80 on: `mma` of 16 x 8 x 16, with sums in float32.

How a kernel reads (`inspect --level kernel` prints it):

1. Which tile the block has, and which part of it the warp has (`place_of_block`, `_mine`).
2. `stages - 1` tiles of both operands are sent for: `copy_async` of 16 bytes a thread, a group of copies for each tile (`Filler`).
3. A loop over tiles of the depth. Each round multiplies one tile, in steps of 16. While a step is multiplied, fragments of the next one are
   loaded (`load_matrix`), in registers of their own. Step 0 sends for a tile, into the stage that was multiplied in the round before. The
   last step waits for the next tile and meets the other warps, so that its fragments are from there.
4. Sums leave as pairs of neighbours, through what follows the product (`product.py`).

Tiles lie as lines along the depth, one line per row or column; where an operand has rows or columns side by side, as lines along these,
and `load_matrix` turns them. `shared_lines.py` says where the elements of a line are, so that no lanes meet in a bank.

A device without such instructions gets the tiles of `tiles.py`, with the same sums in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from polyreme.dialects import kernel
from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, bf16, element_type, f16, f32, i32
from polyreme.lowering.analysis.access import side_by_side
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gpu.mma_schedule import MmaSchedule, cycles, fits, schedules
from polyreme.lowering.kernels.gpu.product import GpuProduct, find_product, plan_product
from polyreme.lowering.kernels.gpu.shared_lines import SharedLines
from polyreme.lowering.kernels.gpu.tiles import Filler, TiledProduct, TilesSchedule, check_tiles, other_tiles, schedule_tiles
from polyreme.lowering.kernels.gpu.turned_operands import Turned, plan_of_copies, turn_operands
from polyreme.lowering.kernels.plan import KernelPlan, Request
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.gpu import MMA_COLUMNS, MMA_DEPTH, MMA_ROWS, MMA_SUMS, VECTOR_BYTES, WARP
from polyreme.lowering.machines.ptx import has
from polyreme.lowering.machines.targets import GpuTarget


@dataclass(frozen=True)
class MmaProblem:
    """A root, and its product: of its operands, or of copies of them that lie so that 16 bytes are copied at once."""

    request: Request
    turned: Turned

    @property
    def product(self) -> GpuProduct:
        return self.turned.product

    @property
    def stored(self) -> ScalarType:
        return element_type(self.product.contract.result.type)

    @property
    def target(self) -> GpuTarget:
        assert isinstance(self.request.target, GpuTarget)
        return self.request.target


def find_mma(request: Request) -> MmaProblem | None:
    """A product of 16-bit floats on a device that multiplies them, its letters in the order in which operands are copied."""
    assert isinstance(request.target, GpuTarget)
    found = find_product(request, (bf16, f16)) if has("mma.m16n8k16.row.col.bf16", request.target) else None
    if found is None:
        return None
    turned = Turned(in_order(found)) if is_copied(in_order(found)) else turn_operands(found)
    return MmaProblem(request, replace(turned, product=in_order(turned.product)))


def in_order(p: GpuProduct) -> GpuProduct:
    """With the letters last along which operands lie side by side."""
    return replace(p, last="".join(c for c in vector_letters(p) if c))


def vector_letters(p: GpuProduct) -> tuple[str, str]:
    """The letters along which each operand can be copied 16 bytes at a time; "" where there is none."""
    lanes = VECTOR_BYTES // element_type(p.contract.result.type).bytes
    left, right = (side_by_side(v, letters, lanes) or "" for v, letters in ((p.left, p.left_letters), (p.right, p.right_letters)))
    return left, right


def is_copied(p: GpuProduct) -> bool:
    """Whether both operands can be copied 16 bytes at a time."""
    made = MmaProduct(p, MmaSchedule((64, 64, 32), (2, 2), 2), lambda *_: None, [], 1, list(p.request.operand_types))
    return made.copies_vectors()


def check_mma(found: MmaProblem, chosen: MmaSchedule) -> None:
    fits(found.product, chosen, found.stored, is_copied(found.product), found.target.shared_bytes)


def mma_schedules(found: MmaProblem) -> list[MmaSchedule]:
    """Schedules that fit, what is chosen first."""
    return schedules(found.product, found.stored, is_copied(found.product), found.target.device)


def different_first(found: Sequence[MmaSchedule]) -> list[MmaSchedule]:
    """The best one of each tile in front of all others."""
    best = {s.tile: s for s in reversed(found)}.values()
    return sorted(found, key=lambda s: s not in best)


def write_mma(found: MmaProblem, chosen: MmaSchedule) -> KernelPlan:
    return plan_of_copies(found.turned, found.request, plan_product(found.product, chosen, chosen.parts, MmaProduct))


def in_groups(made: TiledProduct, group: int) -> list[Index]:
    """The place of a block: blocks go down `group` rows of tiles, then to the next column of tiles, and so on."""
    code, (rows, columns) = made.code, made.tiles
    if group == 1:
        return TiledProduct.place_of_block(made)
    *around, flat = code.split(made.kernel.block_id(), [*made.p.shape(made.p.batch), rows * columns])
    group_of = code.div(flat, columns * group)
    first = code.mul(group_of, group)
    height = code.min(code.sub(rows, first), group)
    within = code.sub(flat, code.mul(group_of, columns * group))
    column = code.div(within, height)
    return [*around, code.add(first, code.sub(within, code.mul(column, height))), column]


class MmaProduct(TiledProduct):
    """Writes the kernel of a product on tensor cores."""

    what = "tensor_core"
    tile: MmaSchedule

    def takes_vectors(self, deep: bool) -> bool:
        return True

    def place_of_block(self) -> list[Index]:
        return in_groups(self, self.tile.group)

    # --- how tiles lie in shared memory

    def lines_of(self, filler: Filler) -> SharedLines:
        length = filler.extent if self.is_across(filler) else self.tile.depth
        return SharedLines(length, self.stored.bytes, self.tile.swizzle)

    @staticmethod
    def is_across(filler: Filler) -> bool:
        """Whether lines of the tile go along rows or columns."""
        return filler.lanes > 1 and not filler.deep

    def board_size(self, filler: Filler) -> int:
        return self.tile.depth * filler.extent

    def board_at(self, filler: Filler, along: Index, depth: Index) -> Index:
        line, element = (depth, along) if self.is_across(filler) else (along, depth)
        lines = self.lines_of(filler)
        return lines.at(self.code, line, element, lines.turn(self.code, line))

    def board_of_copy(self, filler: Filler, copy: int) -> Index:
        lines, code = self.lines_of(filler), self.code
        if filler.lanes == 1:
            return super().board_of_copy(filler, copy)
        # Lines that are a multiple of 8 apart turn alike.
        alike = filler.apart % 8 == 0
        line = code.add(filler.other, 0 if alike else copy * filler.apart)
        where = lines.at(code, line, filler.first, lines.turn(code, line))
        return code.add(where, copy * filler.apart * lines.length) if alike else where

    # --- tiles under way

    def copies_vectors(self) -> bool:
        """Whether both operands can be copied 16 bytes at a time."""
        self.thread, self.row0, self.column0, self.around, self.part = self.kernel.thread(), 0, 0, {}, 0
        self.buffers = dict(zip(self.p.request.func.args, self.kernel.buffers, strict=False))
        return all(filler.lanes > 1 for filler in self._fillers(copies=True))

    def stages(self, left: Filler, right: Filler) -> int:
        return self.tile.stages

    def with_copies(self, left: Filler, right: Filler, lo: Index, hi: Index, stages: int) -> list[Value]:
        """The sums over [lo, hi). The last step of a round waits for the next round's tile: then this thread's copies of it have arrived,
        at the barrier those of the others, and the stage that the next copies go to is no longer read.
        """
        code, depth, steps = self.code, self.tile.depth, self.tile.depth // MMA_DEPTH
        for first in range(stages - 1):
            for filler in (left, right):
                filler.copy(code.value(code.add(lo, first * depth)), hi, first)
            code.b(kernel.CopyCommit)
        code.b(kernel.CopyWait, pending=stages - 2)
        self.kernel.barrier()
        sums = self.zeros()
        fragments = self._fragments(left.at_stage(0), right.at_stage(0), 0)

        def send(at: Value, stage: Value) -> None:
            free = self._next_stage(stage, stages - 1)
            for filler in (left, right):
                filler.copy(code.value(code.add(at, (stages - 1) * depth)), hi, free)
            code.b(kernel.CopyCommit)

        with code.loop(lo, hi, [*sums, *fragments, code.value(0)], step=depth, name="k") as loop:
            sums, fragments, stage = loop.carried[: len(sums)], loop.carried[len(sums) : -1], loop.carried[-1]
            following = self._next_stage(stage, 1)
            for step in range(steps):
                if steps == 1:
                    # In front of the wait, which counts tiles.
                    send(loop.iv, stage)
                if step == steps - 1:
                    code.b(kernel.CopyWait, pending=stages - 2)
                    self.kernel.barrier()
                    ahead = self._fragments(left.at_stage(following), right.at_stage(following), 0)
                else:
                    ahead = self._fragments(left.at_stage(stage), right.at_stage(stage), step + 1)
                if step == 0 and steps > 1:
                    send(loop.iv, stage)
                sums = self._multiply(fragments, sums)
                fragments = ahead
            loop.next = [*sums, *fragments, code.value(following)]
        code.b(kernel.CopyWait, pending=0)
        return loop.results[: len(sums)]

    def _next_stage(self, stage: Value, by: int) -> Index:
        """`stage + by`, of `stages` in a ring; by one forwards or backwards."""
        code, stages = self.code, self.tile.stages
        if by == 1:
            at_end = code.apply("eq", stage, code.value(stages - 1))
            return code.apply("select", at_end, code.value(0), code.value(code.add(stage, 1)))
        at_start = code.apply("eq", stage, code.value(0))
        return code.apply("select", at_start, code.value(stages - 1), code.value(code.sub(stage, 1)))

    # --- products

    def zeros(self) -> list[Value]:
        rows, columns = self.tile.of_warp
        return [self.code.zero(f32, MMA_SUMS) for _ in range(rows // MMA_ROWS * columns // MMA_COLUMNS)]

    def _mine(self) -> tuple[Index, Index]:
        """The first row and column of the warp's part of the tile."""
        code, (rows, columns) = self.code, self.tile.of_warp
        warp = code.div(self.thread, WARP)
        return code.mul(code.div(warp, self.tile.warps[1]), rows), code.mul(code.mod(warp, self.tile.warps[1]), columns)

    def multiply(self, left: Filler, right: Filler, sums: list[Value]) -> list[Value]:
        for step in range(self.tile.depth // MMA_DEPTH):
            sums = self._multiply(self._fragments(left, right, step), sums)
        return sums

    def _fragments(self, left: Filler, right: Filler, step: int) -> list[Value]:
        """What the warp multiplies in a step: 16 rows each, then two times 8 columns each, as words."""
        rows, columns = self.tile.of_warp
        row, column = self._mine()
        found = [self._load(left, row, i * MMA_ROWS, step, False) for i in range(rows // MMA_ROWS)]
        # Two pieces of columns at once.
        return found + [self._load(right, column, j * 2 * MMA_COLUMNS, step, True) for j in range(columns // (2 * MMA_COLUMNS))]

    def _multiply(self, fragments: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        code, count = self.code, self.tile.of_warp[0] // MMA_ROWS
        rows = [code.reinterpret(words, self.stored) for words in fragments[:count]]
        columns = []
        for words in fragments[count:]:
            pair = code.reinterpret(words, self.stored)
            columns += [code.shuffle(pair, pair, picks) for picks in ((0, 1, 2, 3), (4, 5, 6, 7))]
        return [code.b(kernel.Mma, rows[i], columns[j], sums[i * len(columns) + j]) for i in range(count) for j in range(len(columns))]

    def _load(self, filler: Filler, start: Index, further: int, step: int, depth_first: bool) -> Value:
        """Four matrices of 8 x 8: of 16 lines from `start + further` on, and of a step of the depth. The second one follows the first along
        the depth or along the lines.

        Lane l says where line l % 8 of matrix l / 8 begins. Of tiles whose lines go along rows or columns, matrices come transposed.
        """
        code, lines = self.code, self.lines_of(filler)
        lane = code.mod(code.value(self.thread), WARP)
        line, second, third = code.mod(lane, 8), code.mul(code.mod(code.div(lane, 8), 2), 8), code.mul(code.div(lane, 16), 8)
        along, depth = (third, second) if depth_first else (second, third)
        turn = lines.turn(code, line)
        # All lines here begin at a multiple of 8, so that the lane says what a line is turned by.
        if self.is_across(filler):
            where = lines.at(code, code.add(depth, line), code.add(start, along, further), turn)
            where = code.add(where, step * MMA_DEPTH * lines.length)
        else:
            where = lines.at(code, code.add(start, along, line), code.add(depth, step * MMA_DEPTH), turn)
            where = code.add(where, further * lines.length)
        at = code.value(code.add(filler.offset, where))
        value: Value = code.b(kernel.LoadMatrix, filler.board, at, count=4, transpose=self.is_across(filler))
        return code.reinterpret(value, i32)

    def write(self, sums: list[Value]) -> None:
        code = self.code
        row, column = self._mine()
        lane = code.mod(self.thread, WARP)
        down, across = code.div(lane, 4), code.mul(code.mod(lane, 4), 2)
        pieces = self.tile.of_warp[1] // MMA_COLUMNS
        for k, piece in enumerate(sums):
            for r in range(2):
                pair = code.shuffle(piece, piece, (2 * r, 2 * r + 1))
                at = code.add(row, down, k // pieces * MMA_ROWS + 8 * r)
                self.write_vector(pair, at, code.add(column, across, k % pieces * MMA_COLUMNS))


build_tensor_core = Way(
    "tensor_core",
    MmaSchedule,
    find_mma,
    lambda found: mma_schedules(found)[0],
    write_mma,
    check_mma,
    others=lambda found: different_first(mma_schedules(found)),
    estimate=lambda found, chosen: cycles(found.product, chosen, found.stored, found.target.device),
)


@dataclass(frozen=True)
class WidenedSchedule(TilesSchedule, kind="widened"):
    """As `tiles`, of 16-bit floats that are widened on their way into shared memory."""


class _WidenedProduct(TiledProduct):
    """Elements are widened when tiles are brought in."""

    @property
    def stored(self) -> ScalarType:
        return f32


def _widened(chosen: TilesSchedule) -> WidenedSchedule:
    return WidenedSchedule(chosen.tile, chosen.thread, chosen.parts)


build_widened = Way(
    "widened",
    WidenedSchedule,
    partial(find_product, dtypes=(bf16, f16)),
    lambda p: _widened(schedule_tiles(p)),
    lambda p, chosen: plan_product(p, chosen.in_threads, chosen.parts, _WidenedProduct),
    check_tiles,
    others=lambda p: map(_widened, other_tiles(p)),
)
