"""Direct convolutions of bytes on AMX: the tiles of `direct.py`, with sums from `kernel.dot_block` that wait in memory for the epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyreme.dialects import kernel
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.amx_blocks import rows_at_once, rows_of_run, steps_of
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.microkernel import Axis
from polyreme.lowering.kernels.problem import typical

if TYPE_CHECKING:
    from polyreme.lowering.kernels.conv.direct import DirectPixels, DirectTask


@dataclass(frozen=True)
class DirectBlock:
    """The pixels of `size` (rows, columns) from `corner` on, by the lanes of one panel from `lane0` on, of which `valid` exist (None: all).
    Tiles are runs along rows: one or two of a single row, or one of each of two.
    """

    task: DirectTask
    corner: Sequence[Index]
    size: tuple[int, int]
    lane0: Index
    vectors: int
    valid: int | None

    def make(self, axes: Sequence[Axis], at: Index, weights: Index, following: Index, number: Index) -> None:
        """All of the block, the one of this `number` among those of its panel: its steps over `axes` from `at` on in the image and
        `weights` in the panels, the next one of which is `following`.
        """
        task, code = self.task, self.task.code
        direct, (high, wide) = task.direct, self.size
        found, lanes = steps_of(axes, direct.width), direct.lanes
        assert found is not None
        run, columns = rows_of_run(wide), self.vectors * lanes
        along = typical(task.moves[-1])
        places: tuple[int, ...] = (0, wide) if high > 1 else (0,) if wide == run else (0, wide - run)
        starts = (0, typical(task.moves[0])) if high > 1 else tuple(place * along for place in places)
        some = rows_at_once(wide)
        turns = wide // some
        if task.p.epilogue.residuals:
            for y in range(high):
                with code.loop(0, turns, name="x") as loop:
                    task.prefetch(self._pixels(y, code.mul(loop.iv, some), some), self.lane0, self.vectors)
        pixel = code.add(at, *(code.mul(c, m) for c, m in zip(self.corner, task.moves, strict=True)))
        # Its share of the next panel.
        blocks = -(-task.most[-1] // direct.tile[1]) * (-(-task.most[0] // direct.tile[0]) if len(task.most) > 1 else 1)
        prefetch_at = found.prefetch_position(code, following, number, blocks)
        code.b(
            kernel.DotBlock, task.image, code.value(pixel), task.weights, code.value(weights), task.block_sums, prefetch_at, rows=run,
            row=along,
            starts=starts, places=places,
            columns=columns, width=direct.width, counts=found.counts, moves_a=found.moves_a, moves_b=found.moves_b,
            lines=found.lines(blocks),
        )  # fmt: skip
        for y in range(high):
            with code.loop(0, turns, name="x") as loop:
                self._finish(y, code.mul(loop.iv, some), some, columns)

    def _pixels(self, y: int, x: Index, some: int) -> DirectPixels:
        corner = [self.task.code.add(c, o) for c, o in zip(self.corner, (y, x)[-len(self.corner) :], strict=True)]
        return self.task.rectangle(corner, (1, some))

    def _finish(self, y: int, x: Index, some: int, columns: int) -> None:
        """The results of `some` pixels of row `y` of the block, from column `x` on."""
        task, code, lanes = self.task, self.task.code, self.task.direct.lanes
        first = code.mul(code.add(x, y * self.size[1]), columns)
        acc = [
            [
                code.load(task.block_sums, code.add(first, i * columns + v * lanes), lanes, None, lanes * task.p.dtype.bytes)
                for v in range(self.vectors)
            ]
            for i in range(some)
        ]
        task.finish(self._pixels(y, x, some), acc, self.lane0, self.valid)
