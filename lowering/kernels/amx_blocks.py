"""How int8 products are cut into blocks of AMX tiles (`kernel.dot_block`): the rows of a block, and the steps of its sums.

An AMX tile has up to 16 rows. A block has up to two tiles of rows by two of columns, so that each loaded tile is multiplied twice. Its two
tiles of rows have the same height, and may overlap: the first begins with the block, the second ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polyreme.dialects.kernel.int8_block import COLUMNS, MOST_ROWS, STEP
from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.microkernel import Axis
from polyreme.lowering.machines.instructions import has_tiles
from polyreme.lowering.machines.memory import LINES_OF_ROUND
from polyreme.lowering.machines.targets import Target

# Vectors of a panel of B, which is as wide as a block.
VECTORS = 2
# With fewer rows (or pixels) AMX gains nothing over dot products of vectors.
LEAST_ROWS = 7
# Rows whose results are made side by side, at most.
MOST_ROWS_AT_ONCE = 8


def target_has_blocks(target: Target) -> bool:
    """Whether vectors of the target are as wide as tiles, of which it has some."""
    return has_tiles(target) and target.vector_bytes == COLUMNS * 4


def rows_of_run(rows: int) -> int:
    """Rows of each tile of a block of so many rows."""
    return rows if rows <= MOST_ROWS else -(-rows // 2)


def rows_of_block(count: int) -> int | None:
    """Rows of the blocks that cover `count` rows with the fewest rows of tiles. None if AMX tiles do not pay.

    The last block may be smaller, but has at least a tile's rows.
    """
    if count < LEAST_ROWS:
        return None
    best: tuple[int, int] | None = None
    for rows in range(min(count, 2 * MOST_ROWS), 0, -1):
        whole, rest = divmod(count, rows)
        run = rows_of_run(rows)
        if run < LEAST_ROWS or 0 < rest < run:
            continue
        # A block of one tile loads as much of B as one of two.
        tiles = whole * (1 + (rows > run)) + (0 if not rest else 1 + (rest > run))
        cost = tiles * (run + 2)
        if best is None or cost < best[0]:
            best = cost, rows
    return None if best is None else best[1]


def pixels_of_block(height: int, width: int) -> tuple[int, int] | None:
    """Rows and columns of pixels of a block: part of a row, or two short rows, each of them a tile."""
    wide = rows_of_block(width)
    if wide is None:
        return None
    return (2 if wide == rows_of_run(wide) and wide == width and height > 1 else 1), wide


def rows_at_once(rows: int) -> int:
    """How many of a block's rows are finished side by side."""
    return next(n for n in range(min(rows, MOST_ROWS_AT_ONCE), 0, -1) if rows % n == 0)


def step_of_block(rows: int) -> float:
    """Cycles of a step over one word of a block: 16 for each pair of full tiles in one of 16 words, or loading a tile of each."""
    return (2 * VECTORS * rows_of_run(rows) + 2 * COLUMNS) / STEP


@dataclass(frozen=True)
class BlockSteps:
    """The axes of `kernel.dot_block`."""

    counts: tuple[int, ...]
    moves_a: tuple[int, ...]
    moves_b: tuple[int, ...]

    def lines(self, blocks: int) -> int:
        """Lines of the next panel that a step prefetches, so that so many blocks prefetch all of it, or most if they are few."""
        return min(-(-STEP * VECTORS // blocks), 2 * LINES_OF_ROUND)

    def prefetch_position(self, code: Code, following: Index, number: Index, blocks: int) -> Value:
        """Where block `number` of `blocks` begins to prefetch, in the next panel, which begins at `following`."""
        return code.value(code.add(following, code.mul(number, prod(self.counts) * self.lines(blocks) * COLUMNS)))


def steps_of(axes: Sequence[Axis], width: int) -> BlockSteps | None:
    """The steps over joined contracted axes, or None if `kernel.dot_block` cannot take them.

    The last axis goes in steps of 16 words, contiguous in A and `width` apart in B. Sizes and strides have to be known.
    """
    if not axes or not all(isinstance(n, int) for axis in axes for n in (axis.size, axis.a, axis.b)):
        return None
    *outer, last = axes
    if (last.a, last.b) != (1, width) or int(last.size) % STEP:
        return None
    all_axes = [*((axis.size, axis.a, axis.b) for axis in outer), (int(last.size) // STEP, STEP, STEP * width)]
    counts, moves_a, moves_b = zip(*all_axes, strict=True)
    return BlockSteps(counts, moves_a, moves_b)
