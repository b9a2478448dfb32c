"""Facts of GPUs, which kernels for them share."""

from __future__ import annotations

from dataclasses import replace

from polyreme.ir.python.records import dataclass

# Threads that go together.
WARP = 32
# Bytes that one thread reads or writes at once.
VECTOR_BYTES = 16
# Threads of a block that does one thing to many elements.
BLOCK_THREADS = 256
# About so many multiprocessors does a device have.
MULTIPROCESSORS = 128
# Blocks that a device runs at a time: several on each of them, which wait for memory in turn.
RUNNING_BLOCKS = 4 * MULTIPROCESSORS
# One `mma`: rows, columns and depth; so many sums of it are each lane's.
MMA_ROWS, MMA_COLUMNS, MMA_DEPTH, MMA_SUMS = 16, 8, 16, 4
# Loops of so many rounds, and shorter ones, ptxas writes out unless it is told to leave them loops.
UNROLLED_ROUNDS = 4


@dataclass(frozen=True)
class GpuTile:
    """`rows` x `columns` of the result per block, `depth` steps at a time; each thread has `tall` x `wide` of them."""

    rows: int
    columns: int
    depth: int
    tall: int
    wide: int

    @property
    def threads(self) -> int:
        return (self.rows // self.tall) * (self.columns // self.wide)


@dataclass(frozen=True)
class TileRate:
    """A tile, the share of a device's arithmetic that it reaches where there are many blocks, and what a multiprocessor loses of it: the
    time of so many blocks, since few of them leave it waiting for memory. Both as measured on an H100 (`docs/gpu.md`).
    """

    tile: GpuTile
    share: float
    lost: float


@dataclass(frozen=True)
class Multiplier:
    """What multiplies: by these tiles. A second kernel, for the sum over parts of the depth, costs as much as so many multiplications of
    one multiprocessor.
    """

    tiles: tuple[TileRate, ...]
    second_kernel: float


FLOATS = Multiplier(
    (
        TileRate(GpuTile(64, 128, 16, 8, 8), 1.0, 0.3),
        TileRate(GpuTile(128, 64, 16, 8, 8), 0.95, 0.3),
        TileRate(GpuTile(64, 64, 16, 8, 4), 0.87, 0.3),
        TileRate(GpuTile(32, 64, 16, 4, 4), 0.72, 0.37),
        TileRate(GpuTile(64, 32, 16, 4, 4), 0.66, 0.37),
        TileRate(GpuTile(32, 32, 16, 4, 4), 0.65, 1.5),
    ),
    second_kernel=1.2e6,
)
# Of windows, whose elements come one by one, four tiles of half the depth in flight are better than three.
FLOATS_OF_WINDOWS = replace(
    FLOATS, tiles=tuple(replace(r, tile=replace(r.tile, depth=8)) if max(r.tile.rows, r.tile.columns) == 128 else r for r in FLOATS.tiles)
)
# 4 warps, two by two, each with a quarter of the tile: larger quarters read less of shared memory for what they multiply.
TENSOR_CORES = Multiplier(
    (
        TileRate(GpuTile(128, 128, 32, 8, 16), 1.0, 0.4),
        TileRate(GpuTile(64, 128, 16, 8, 8), 0.73, 0.4),
        TileRate(GpuTile(64, 64, 32, 4, 8), 0.6, 0.4),
    ),
    second_kernel=6e6,
)
