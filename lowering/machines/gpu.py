"""Facts of GPUs, which kernels for them share, and a row for each kind of device."""

from __future__ import annotations

from dataclasses import replace

from polyreme.ir.python.records import dataclass

# Threads that go together.
WARP = 32
# Bytes that one thread reads or writes at once.
VECTOR_BYTES = 16
# Bytes that all banks of shared memory have next to each other, and give in a cycle.
BANKS_BYTES = 128
# Threads of a block that does one thing to many elements.
BLOCK_THREADS = 256
# About so many multiprocessors does a device have.
MULTIPROCESSORS = 128
# Threads of a block at most, and registers of a thread.
MOST_THREADS, MOST_REGISTERS = 1024, 255
# Sums that a thread could keep in them.
MOST_SUMS = 128
# Blocks that a device runs at a time: several on each of them, which wait for memory in turn.
RUNNING_BLOCKS = 4 * MULTIPROCESSORS
# One `mma`: rows, columns and depth; so many sums of it are each lane's.
MMA_ROWS, MMA_COLUMNS, MMA_DEPTH, MMA_SUMS = 16, 8, 16, 4
# Products with so few rows or columns, and so little depth, are computed element by element: depthwise convolutions, say, would leave most
# of a tile empty.
NARROW, SHALLOW = 4, 64
# A depth is cut into parts of at least so many steps, and a row that is reduced into parts of so many elements, until there are enough
# blocks for a device.
STEPS_OF_PART, ELEMENTS_OF_PART = 256, 4096
# Tiles under way and being multiplied, where they fit.
STAGES = (4, 3, 2)
# Rows of at most so many elements are one thread's work, if there are many; elements that a thread reads before it adds any of them.
ELEMENTS_OF_THREAD, READ_AT_ONCE = 16, 4
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
# --- tensor cores


@dataclass(frozen=True)
class MmaCosts:
    """What is tried for products on tensor cores, and what these take beside multiplications.

    - `tiles`: of the result, and the warps that share them; `tiles_of_registers` where elements go through registers.
    - `lines`: bytes of a line along the depth; `stages`: tiles in shared memory, where more than one is.
    - `group`: rows of tiles that blocks take together.
    - `other_registers`: of a thread, beside sums and fragments.
    - In cycles: `latency` from asking for memory to having it; `barrier`, of one with what stands around it; `second_kernel`, of starting
      another kernel.
    - `overlap_loss`: what of the shorter one of arithmetic and memory is not hidden behind the other.
    - `copied`: multiplications of a product for which it pays to copy its operands first, so that they lie as they should.
    """

    tiles: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
        ((128, 256), (2, 4)),
        ((256, 128), (4, 2)),
        ((128, 128), (2, 2)),
        ((64, 256), (1, 4)),
        ((256, 64), (4, 1)),
        ((64, 128), (2, 2)),
        ((128, 64), (2, 2)),
        ((64, 64), (2, 2)),
        ((32, 64), (1, 2)),
        ((64, 32), (2, 1)),
    )
    tiles_of_registers: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (((64, 64), (2, 2)), ((32, 64), (1, 2)), ((64, 32), (2, 1)))
    lines: tuple[int, ...] = (64, 128)
    stages: tuple[int, ...] = (5, 4, 3)
    group: int = 8
    other_registers: int = 56
    latency: float = 700
    barrier: float = 30
    second_kernel: float = 4000
    overlap_loss: float = 0.1
    copied: int = 1 << 22


MMA_COSTS = MmaCosts()

# --- warpgroups of sm_90a

# Threads of a warpgroup, and what one `wgmma` has: rows, and steps of the depth.
WARPGROUP, WGMMA_ROWS, WGMMA_DEPTH = 4 * WARP, 64, 16
# Elements of 16 bits in a line of the tiles that `wgmma` reads, and elements at multiples of which everything lies of an array of boxes.
TILE_LINE, WHOLE_PIECE = 64, 8
# Rows and columns of a block, and the most stages of tiles that it goes through.
WGMMA_TILES = ((128, 256), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64))
MOST_STAGES = 8
# Bytes of shared memory that are left for barriers.
BARRIER_BYTES = 1 << 10
# Registers of a thread that copies, and of one that multiplies, where two warpgroups multiply: together no more than there are.
COPYING_REGISTERS, MULTIPLYING_REGISTERS = 40, 232

# --- attention


@dataclass(frozen=True)
class FlashBlocks:
    """Blocks for attention, each with the share of a device's arithmetic that it is expected to reach: `rows` and warps of a block,
    `keys` of a tile, tiles (`stages`) in shared memory. A multiprocessor with fewer `warps` waits for results. To be measured.
    """

    rows: tuple[tuple[int, int, float], ...]
    keys: tuple[tuple[int, float], ...]
    stages: tuple[tuple[int, float], ...]
    warps: int


# More rows of a warp, 32 in place of 16, read less of shared memory for what they multiply.
FLASH_TENSOR_CORES = FlashBlocks(
    rows=((128, 4, 1.0), (64, 4, 0.7), (64, 2, 1.0), (32, 2, 0.7), (32, 1, 1.0), (16, 1, 0.7)),
    keys=((64, 1.0), (32, 0.9), (16, 0.7)),
    stages=((3, 1.0), (2, 1.0), (1, 0.7)),
    warps=8,
)
# The same for 16 and 8 rows, by multiply and add.
FLASH_FLOATS = FlashBlocks(
    rows=((128, 8, 1.0), (64, 4, 1.0), (32, 4, 0.7), (32, 2, 1.0), (16, 2, 0.7), (16, 1, 1.0), (8, 1, 0.7)),
    keys=((64, 1.0), (32, 0.9), (16, 0.7), (8, 0.5)),
    stages=((3, 1.0), (2, 1.0), (1, 0.7)),
    warps=8,
)
# Registers of a thread that a block for attention may be estimated to need: some are left for addresses. Left operands of up to so many
# registers are kept in them.
FLASH_REGISTERS, FLASH_KEPT_REGISTERS = 224, 48
# Threads of a warp down and across, where each has rows and columns of scores; elements of the depth that are written out at once.
FLASH_DEEP, FLASH_WIDE, FLASH_AT_ONCE = 4, 8, 16
# Deeper keys and wider values have a kernel for the gradients of each.
FLASH_TOGETHER = 128
# Elements of a row that a thread holds in registers at most, of all operands together; a block of `BLOCK_THREADS` holds as many of each.
HELD_ELEMENTS = 32
# An exponential is a power of two, which a device has an instruction for, of so many times the number.
LOG2_E = 1.4426950408889634

# --- devices

# Shared memory that a kernel has without asking for more when it is launched.
STATIC_SHARED_BYTES = 48 << 10
# Registers are given to a warp in so many at a time, and shared memory to a block; each block has so much of it beside its own.
REGISTER_GRANULE, SHARED_GRANULE, SHARED_OF_DRIVER = 256, 128, 1 << 10


@dataclass(frozen=True)
class GpuDevice:
    """A device as its maker describes it, the most usual one of its compute capability. Rates are per cycle.

    `shared_block` and `shared_bytes` are the most shared memory of a block and of a multiprocessor. `mma_16`, `mma_tf32` and `fma` count
    multiplications of one multiprocessor: of 16-bit floats and of tf32 by the instruction `mma`, and of float32;
    `wgmma_16` of 16-bit floats by warpgroups. `l2_rate` and
    `memory_rate` are bytes of the whole device.
    """

    sm: int
    name: str
    multiprocessors: int
    gigahertz: float
    shared_block: int
    shared_bytes: int
    mma_16: int
    mma_tf32: int
    fma: int
    l2_bytes: int
    l2_rate: int
    memory_rate: int
    threads: int = 2048
    blocks: int = 32
    registers: int = 65536
    shared_rate: int = BANKS_BYTES
    wgmma_16: int = 0

    def blocks_at_once(self, threads: int, registers: int, shared: int) -> int:
        """Blocks that a multiprocessor holds, of so many threads with so many registers each, and so many bytes of shared memory."""
        warps = -(-threads // WARP)
        of_warp = -(-registers * WARP // REGISTER_GRANULE) * REGISTER_GRANULE
        of_block = -(-(shared + SHARED_OF_DRIVER) // SHARED_GRANULE) * SHARED_GRANULE
        return min(self.blocks, self.threads // (warps * WARP), self.registers // (warps * of_warp), self.shared_bytes // of_block)


# By compute capability. A device of another one is like the newest that is not newer and whose blocks have no more shared memory.
GPU_DEVICES = {
    d.sm: d
    for d in (
        GpuDevice(75, "T4", 40, 1.59, 64 << 10, 64 << 10, 0, 0, 64, 4 << 20, 1280, 201, threads=1024, blocks=16),
        GpuDevice(80, "A100", 108, 1.41, 163 << 10, 164 << 10, 1024, 512, 64, 40 << 20, 5120, 1446),
        GpuDevice(86, "A10", 72, 1.69, 99 << 10, 100 << 10, 512, 256, 128, 6 << 20, 1536, 354, threads=1536, blocks=16),
        # `mma` reaches five eighths of what `wgmma` does.
        GpuDevice(90, "H100", 132, 1.75, 227 << 10, 228 << 10, 1280, 640, 128, 50 << 20, 5120, 1909, wgmma_16=2048),
    )
}
# Devices for workstations that are newer than a row with more shared memory.
_SMALLER = (120, 121)


def device_of(sm: int) -> GpuDevice | None:
    """The row whose code a device of this compute capability runs best; None where it is too old for all."""
    found = [d for d in GPU_DEVICES.values() if d.sm <= sm and (sm not in _SMALLER or d.shared_block <= GPU_DEVICES[86].shared_block)]
    return found[-1] if found else None
