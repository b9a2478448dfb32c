"""Products of bfloat16 and float16 on sm_90a: one warpgroup brings tiles into shared memory, the others multiply them.

    producer (one thread)          for each step: wait until a stage is empty, expect its bytes, begin its copies (`kernel.copy_box`)
    consumers (64 rows each)       for each step: wait until a stage is full, begin its products (`kernel.wgmma`), wait for those of the
                                   step before, and say that that one's stage is empty

A stage is a tile of each operand, 64 steps of the depth. An operand is an array of boxes: it lies in memory as it is, its rows (or columns)
and its depth along one axis each, one of them side by side, everything at multiples of 16 bytes. Which of the two makes no difference to
the product. Copies give zeros for what lies outside, so only results are masked. What lies otherwise, such as a window of a pad, is for
`tensor_core.py`.

Blocks go down a few tiles of rows before they go on to the next columns, so that those that run at a time share operands in L2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme.dialects import kernel
from polyreme.dialects.kernel.warpgroups import MOST_AXES
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv, mod, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import bf16, element_type, f16, f32, i64
from polyreme.lowering.analysis.access import trace
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gpu.grid import truth
from polyreme.lowering.kernels.gpu.product import GpuProduct, find_product, plan_product
from polyreme.lowering.kernels.gpu.tensor_core import in_groups
from polyreme.lowering.kernels.gpu.tiles import TiledProduct
from polyreme.lowering.kernels.gpu.warpgroup_schedule import WarpgroupSchedule, cycles, fits, schedules
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.gpu import (
    COPYING_REGISTERS,
    MULTIPLYING_REGISTERS,
    TILE_LINE,
    WARP,
    WARPGROUP,
    WGMMA_DEPTH,
    WGMMA_ROWS,
    WHOLE_PIECE,
    GpuDevice,
)
from polyreme.lowering.machines.targets import GpuTarget


@dataclass(frozen=True)
class Boxed:
    """An operand as an array of boxes in memory: element `start` of `source` is its first one; (size, stride) of its rows or columns, of
    its depth, and of the batch's letters that it has. `is_across`: rows or columns lie side by side, not the depth.
    """

    source: Value
    start: Dim
    along: tuple[Dim, Dim]
    depth: tuple[Dim, Dim]
    batch: dict[str, tuple[Dim, Dim]]
    is_across: bool

    @property
    def sizes(self) -> list[Dim]:
        first, second = (self.along, self.depth) if self.is_across else (self.depth, self.along)
        return [first[0], second[0], *(size for size, _ in self.batch.values())]

    @property
    def strides(self) -> list[Dim]:
        second = self.depth if self.is_across else self.along
        return [second[1], *(stride for _, stride in self.batch.values())]


def find_warpgroups(request: Request) -> GpuProduct | None:
    """A product of 16-bit floats on sm_90a whose operands can be copied by boxes."""
    target = request.target
    assert isinstance(target, GpuTarget)
    found = find_product(request, (bf16, f16)) if target.only and target.device.wgmma_16 else None
    return None if found is None or find_boxes(found) is None else found


def _device(p: GpuProduct) -> GpuDevice:
    assert isinstance(p.request.target, GpuTarget)
    return p.request.target.device


def find_boxes(p: GpuProduct) -> tuple[Boxed, Boxed] | None:
    """Both operands as arrays of boxes; None where one cannot be."""
    left = _boxed(p, p.left, p.left_letters, p.row_letters)
    right = _boxed(p, p.right, p.right_letters, p.column_letters)
    return None if left is None or right is None else (left, right)


def _boxed(p: GpuProduct, value: Value, letters: str, along: Sequence[str]) -> Boxed | None:
    access = trace(value, letters)
    if access.source not in p.request.func.args or element_type(access.source.type) != element_type(p.contract.result.type):
        return None
    across, down = (_one_axis(p, part, access.stride) for part in (along, p.contracted))
    if across is None or down is None:
        return None
    (lines, apart), (depth, step) = across, down
    is_across = step != 1
    if is_across and apart != 1:
        return None
    # Of an axis of one element any stride will do.
    if apart is None:
        apart = ceildiv(depth, WHOLE_PIECE) * WHOLE_PIECE
    if step is None:
        step = ceildiv(lines, WHOLE_PIECE) * WHOLE_PIECE
    batch = {c: (p.sizes[c], access.stride(c)) for c in reversed(p.batch) if p.sizes[c] != 1 and access.stride(c) != 0}
    outer = [step if is_across else apart, *(s for _, s in batch.values())]
    if 2 + len(batch) > MOST_AXES or any(mod(x, WHOLE_PIECE) != 0 for x in (access.base, *outer)):
        return None
    if any(isinstance(x, int) and x <= 0 for x in outer):
        return None
    return Boxed(access.source, access.base, (lines, apart), (depth, step), batch, is_across)


def _one_axis(p: GpuProduct, letters: Sequence[str], stride: Callable[[str], Dim]) -> tuple[Dim, Dim | None] | None:
    """The letters as one axis: its size, and elements between neighbours (None where it has one element); None where they are not one."""
    sized = [c for c in letters if p.sizes[c] != 1]
    strides = [stride(c) for c in sized]
    for i in range(len(sized) - 1):
        if strides[i] != p.sizes[sized[i + 1]] * strides[i + 1]:
            return None
    return product(p.sizes[c] for c in sized), strides[-1] if sized else None


class WarpgroupProduct(TiledProduct):
    """The kernel of such a product."""

    what = "warpgroups"
    tile: WarpgroupSchedule

    def make(self, lo: Index, hi: Index) -> None:
        code, tile = self.code, self.tile
        self._take_memory()
        group = code.value(code.div(self.thread, WARPGROUP))
        is_producer = code.apply("eq", group, code.value(tile.consumers))
        with code.when(is_producer):
            if tile.consumers > 1:
                code.b(kernel.SetRegisters, count=COPYING_REGISTERS)
            with code.when(code.apply("eq", self.thread, code.value(tile.consumers * WARPGROUP))):
                self._produce(lo, hi)
        with code.when(is_producer, then=False):
            if tile.consumers > 1:
                code.b(kernel.SetRegisters, count=MULTIPLYING_REGISTERS, more=True)
            self.write([self._consume(group, lo, hi)])

    def place_of_block(self) -> list[Index]:
        return in_groups(self, self.tile.group)

    # --- memory and barriers

    def _take_memory(self) -> None:
        """Stages of both operands, and two barriers for each stage: that it is full, and that it is empty."""
        code, tile, p = self.code, self.tile, self.p
        boxes = find_boxes(p)
        assert boxes is not None
        self.left, self.right = boxes
        self.sizes = tile.rows * TILE_LINE, tile.columns * TILE_LINE
        self.board = self.kernel.shared(self.tile.stages * sum(self.sizes), self.stored)
        self.barriers = self.kernel.shared(2 * self.tile.stages, i64)
        with code.when(code.apply("eq", self.thread, code.value(0))):
            counts = [1] * self.tile.stages + [tile.consumers * WARPGROUP // WARP] * self.tile.stages
            code.b(kernel.CountedInit, self.barriers, counts=tuple(counts))
        self.kernel.barrier()

    def _place_left(self, stage: Index) -> Index:
        return self.code.mul(stage, self.sizes[0])

    def _place_right(self, stage: Index) -> Index:
        return self.code.add(self.code.mul(stage, self.sizes[1]), self.tile.stages * self.sizes[0])

    def _following(self, stage: Value, parity: Value) -> tuple[Value, Value]:
        """The next stage, and the parity of its phase."""
        code = self.code
        after = code.value(code.add(stage, 1))
        is_over = code.apply("eq", after, code.value(self.tile.stages))
        other = code.value(code.sub(code.value(1), parity))
        return code.apply("select", is_over, code.value(0), after), code.apply("select", is_over, other, parity)

    # --- who copies

    def _produce(self, lo: Index, hi: Index) -> None:
        """One thread begins all copies. The first round of stages is empty: its phase counts as over."""
        code = self.code
        with code.loop(lo, hi, [code.value(0), code.value(1)], step=TILE_LINE, name="k") as loop:
            stage, parity = loop.carried
            code.b(kernel.CountedWait, self.barriers, code.value(code.add(stage, self.tile.stages)), parity)
            code.b(kernel.CountedExpect, self.barriers, stage, bytes=2 * sum(self.sizes))
            self._copy(self.left, self.tile.rows, self.row0, loop.iv, self._place_left(stage), stage)
            self._copy(self.right, self.tile.columns, self.column0, loop.iv, self._place_right(stage), stage)
            loop.next = list(self._following(stage, parity))

    def _copy(self, operand: Boxed, extent: int, start: Index, depth: Value, at: Index, stage: Value) -> None:
        code = self.code
        around = [self.around[c].scalar(code) for c in operand.batch]
        boxes = extent // TILE_LINE if operand.is_across else 1
        box = [TILE_LINE, TILE_LINE if operand.is_across else extent, *[1] * len(around)]
        for i in range(boxes):
            along = code.add(start, i * TILE_LINE)
            first = [along, depth] if operand.is_across else [depth, along]
            code.b(
                kernel.CopyBox,
                self.buffers[operand.source],
                self.board,
                code.value(code.add(at, i * TILE_LINE * TILE_LINE)),
                self.barriers,
                stage,
                *(code.value(x) for x in (*first, *around)),
                sizes=operand.sizes,
                strides=operand.strides,
                box=box,
                start=operand.start,
            )

    # --- who multiplies

    def _consume(self, group: Value, lo: Index, hi: Index) -> Value:
        """The sums of 64 rows over [lo, hi). The products of one step are under way while the next step waits for its tiles."""
        code, columns = self.code, self.tile.columns
        start = [code.value(0), code.value(0), code.value(0), code.zero(f32, columns // 2)]
        leads = code.apply("eq", code.value(code.mod(self.thread, WARP)), code.value(0))
        mine = code.mul(group, WGMMA_ROWS * TILE_LINE)
        with code.loop(lo, hi, start, step=TILE_LINE, name="k") as loop:
            stage, parity, before, sums = loop.carried
            code.b(kernel.CountedWait, self.barriers, stage, parity)
            sums = code.b(kernel.WgmmaFence, sums)
            for step in range(0, TILE_LINE, WGMMA_DEPTH):
                sums = code.b(
                    kernel.Wgmma,
                    self.board,
                    code.value(code.add(self._place_left(stage), mine, self._step(self.left, step))),
                    self.board,
                    code.value(code.add(self._place_right(stage), self._step(self.right, step))),
                    sums,
                    columns=columns,
                    transpose_a=self.left.is_across,
                    transpose_b=self.right.is_across,
                    apart_a=TILE_LINE * TILE_LINE if self.left.is_across else 0,
                    apart_b=TILE_LINE * TILE_LINE if self.right.is_across else 0,
                )
            code.b(kernel.WgmmaCommit)
            code.b(kernel.WgmmaWait, pending=1)
            is_later = code.condition("gt", loop.iv, lo)
            mask = code.apply("and", leads, truth(code, is_later))
            code.b(kernel.CountedArrive, self.barriers, code.value(code.add(before, self.tile.stages)), mask)
            loop.next = [*self._following(stage, parity), stage, sums]
        value: Value = code.b(kernel.WgmmaWait, loop.results[-1])
        return value

    def _step(self, operand: Boxed, step: int) -> int:
        """Elements from the beginning of a tile to where a step of its depth begins."""
        return step * TILE_LINE if operand.is_across else step

    def write(self, sums: list[Value]) -> None:
        """As the sums lie in registers (`sum_places`), by pairs of neighbouring columns."""
        code = self.code
        (whole,) = sums
        lane = code.mod(self.thread, WARP)
        down = code.add(code.mul(code.div(self.thread, WARP), 16), code.div(lane, 4))
        across = code.mul(code.mod(lane, 4), 2)
        for i in range(0, self.tile.columns // 2, 2):
            pair = code.shuffle(whole, whole, (i, i + 1))
            self.write_vector(pair, code.add(down, 8 * (i // 2 % 2)), code.add(across, 8 * (i // 4)))


build_warpgroups = Way(
    "warpgroups",
    WarpgroupSchedule,
    find_warpgroups,
    lambda p: schedules(p, _device(p))[0],
    lambda p, chosen: plan_product(p, chosen, chosen.parts, WarpgroupProduct),
    lambda p, chosen: fits(p, chosen, _device(p)),
    others=lambda p: schedules(p, _device(p))[1:],
    estimate=lambda p, chosen: cycles(p, chosen, _device(p)),
)
