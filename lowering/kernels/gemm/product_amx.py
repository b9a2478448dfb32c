"""Matrix products of bytes on AMX: the tiles of `product_tile.py`, with sums from `kernel.dot_block` that wait in memory for the epilogue.
"""

from __future__ import annotations

from polyreme.dialects import kernel as kernel_ops
from polyreme.lowering.kernels.amx_blocks import rows_at_once, rows_of_run, steps_of
from polyreme.lowering.kernels.code import Index
from polyreme.lowering.kernels.gemm.product_tile import Tile
from polyreme.lowering.kernels.microkernel import tile_rows
from polyreme.lowering.kernels.problem import typical


class BlockTile(Tile):
    """Writes the blocks of one task, from panels that were packed before."""

    def write_rows(self, first: Index, count: Index, sizes: list[int], vectors: int, valid: Index | None) -> None:
        """The rows from `first` on, by blocks of `sizes` rows, which have tiles of the same height; `valid` lanes exist (None: all)."""
        code, lanes = self.code, self.product.lanes
        steps, columns, align = self.steps(vectors, valid), vectors * lanes, lanes * self.p.dtype.bytes
        assert self.panels is not None
        width, run = self.panels.width, rows_of_run(sizes[0])
        found = steps_of(steps.axes, width)
        assert found is not None
        sums = code.scratch(sizes[0] * columns, self.p.dtype)
        blocks = -(-typical(count if isinstance(count, int) else self.product.m) // sizes[0])

        def block(at: Index, rows: int) -> None:
            row = code.add(first, at)
            left = code.value(code.add(self.left0, code.mul(row, self.row_left), steps.left))
            places = (0,) if rows == run else (0, rows - run)
            starts = tuple(place * typical(self.row_left) for place in places)
            prefetch_at = (
                None if steps.prefetching is None else found.prefetch_position(code, steps.prefetching.at, code.div(at, sizes[0]), blocks)
            )
            code.b(
                kernel_ops.DotBlock, self.kernel.left, left, steps.right, code.value(steps.at), sums, prefetch_at, rows=run,
                row=typical(self.row_left), starts=starts, places=places,
                columns=columns, width=width, counts=found.counts, moves_a=found.moves_a, moves_b=found.moves_b,
                lines=0 if prefetch_at is None else found.lines(blocks),
            )  # fmt: skip
            some = rows_at_once(rows)
            with code.loop(0, rows // some, name="row") as loop:
                line = code.mul(loop.iv, some)
                acc = [
                    [
                        code.load(sums, code.add(code.mul(line, columns), r * columns + v * lanes), lanes, None, align)
                        for v in range(vectors)
                    ]
                    for r in range(some)
                ]
                self.close(code.add(row, line), acc, valid)

        tile_rows(code, count, sizes, block)
