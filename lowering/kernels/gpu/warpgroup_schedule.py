"""Schedules of products by warpgroups: what a block computes, how many tiles are under way, in which order blocks run; and the choice.

    wgmma<tile = 128x256x64, stages = 4, group = 8>

A warpgroup multiplies 64 rows of the tile, and one more copies. The choice is the schedule with the fewest estimated cycles on the target's
device (`machines/gpu.py`); the estimate has not met a device yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.kernels.gpu.product import GpuProduct, blocks_of, parts_of
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.gpu import (
    BARRIER_BYTES,
    MOST_STAGES,
    MULTIPLYING_REGISTERS,
    TILE_LINE,
    WARPGROUP,
    WGMMA_DEPTH,
    WGMMA_ROWS,
    WGMMA_TILES,
    GpuDevice,
)
from polyreme.lowering.machines.gpu import MMA_COSTS as COSTS


@dataclass(frozen=True)
class WarpgroupSchedule(Schedule, kind="wgmma"):
    """`tile` is rows, columns and steps of a block, whose warpgroups have 64 rows each. `stages` tiles lie in shared memory. The depth is
    cut into `parts`. Blocks run along columns for `group` rows of tiles at a time.
    """

    tile: tuple[int, int, int]
    stages: int
    parts: int = 1
    group: int = 1

    @property
    def rows(self) -> int:
        return self.tile[0]

    @property
    def columns(self) -> int:
        return self.tile[1]

    @property
    def depth(self) -> int:
        return self.tile[2]

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // WGMMA_ROWS

    @property
    def threads(self) -> int:
        return WARPGROUP * (self.consumers + 1)

    @property
    def stage_bytes(self) -> int:
        return 2 * (self.rows + self.columns) * self.depth

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.stage_bytes + BARRIER_BYTES


def fits(p: GpuProduct, chosen: WarpgroupSchedule, device: GpuDevice) -> None:
    """`ScheduleError` for a schedule that no kernel can be written by."""
    if min(*chosen.tile, chosen.parts, chosen.group) < 1:
        raise ScheduleError(f"expected positive numbers but got '{chosen}'")
    if chosen.rows not in (WGMMA_ROWS, 2 * WGMMA_ROWS) or chosen.columns % TILE_LINE or chosen.columns > 4 * TILE_LINE:
        raise ScheduleError(f"expected 64 or 128 rows and a multiple of 64 up to 256 columns but got '{chosen}'")
    if chosen.depth != TILE_LINE:
        raise ScheduleError(f"expected {TILE_LINE} steps of the depth in a tile but got '{chosen}'")
    # A stage is free when the products of the next one are begun.
    if not 2 <= chosen.stages <= MOST_STAGES:
        raise ScheduleError(f"expected from 2 to {MOST_STAGES} stages but got '{chosen}'")
    if chosen.shared_bytes > device.shared_block:
        raise ScheduleError(f"expected at most {device.shared_block} bytes of shared memory but '{chosen}' takes {chosen.shared_bytes}")
    if chosen.parts > max(1, estimate(p.count(p.contracted)) // chosen.depth):
        raise ScheduleError(f"expected parts of at least {chosen.depth} steps of the depth but got '{chosen}'")


def schedules(p: GpuProduct, device: GpuDevice) -> list[WarpgroupSchedule]:
    """Those that fit, the one with the fewest estimated cycles first."""
    return sorted(_all(p, device), key=lambda s: cycles(p, s, device))


def _all(p: GpuProduct, device: GpuDevice) -> Iterator[WarpgroupSchedule]:
    for rows, columns in WGMMA_TILES:
        tile = WarpgroupSchedule((rows, columns, TILE_LINE), 2)
        parts = parts_of(p, tile, device.multiprocessors)
        group = COSTS.group if parts == 1 and -(-estimate(p.count(p.row_letters)) // rows) > COSTS.group else 1
        steps = -(-estimate(p.count(p.contracted)) // (parts * TILE_LINE))
        for share in (1, 2):
            # As many tiles as there is room for, where so many blocks share a multiprocessor, but not many more than there are steps.
            most = (device.shared_block // share - BARRIER_BYTES) // tile.stage_bytes
            stages = min(most, MOST_STAGES, max(3, steps))
            if stages >= 3:
                yield WarpgroupSchedule(tile.tile, stages, parts, group)


def cycles(p: GpuProduct, chosen: WarpgroupSchedule, device: GpuDevice) -> float:
    """Cycles of the device, estimated as those of `mma_schedule.cycles`: in each step the slowest of tensor cores, shared memory (each
    warpgroup reads its rows and all columns), second-level cache and the wait for tiles.
    """
    m, n, k, around = (estimate(p.count(c)) for c in (p.row_letters, p.column_letters, p.contracted, p.batch))
    registers = MULTIPLYING_REGISTERS * 2 // 3 if chosen.consumers > 1 else chosen.columns // 2 + COSTS.other_registers
    most = device.blocks_at_once(chosen.threads, registers, chosen.shared_bytes)
    if not most:
        return float("inf")
    steps = -(-k // (chosen.parts * chosen.depth))

    def wave(at_once: int) -> float:
        products = at_once * chosen.rows * chosen.columns * chosen.depth / device.wgmma_16
        read = chosen.consumers * chosen.depth // WGMMA_DEPTH * 2 * WGMMA_DEPTH * (WGMMA_ROWS + chosen.columns)
        shared = at_once * (read + chosen.stage_bytes) / device.shared_rate
        l2 = at_once * chosen.stage_bytes * device.multiprocessors / device.l2_rate
        result = at_once * chosen.rows * chosen.columns * f32.bytes * device.multiprocessors / device.l2_rate
        # One warpgroup alone waits for its products before it begins the next ones.
        alone = COSTS.barrier * 4 if at_once * chosen.consumers == 1 else COSTS.barrier
        return steps * (max(products, shared, l2, COSTS.latency / (chosen.stages - 1)) + alone) + COSTS.latency + result

    waves, rest = divmod(blocks_of(p, chosen) * chosen.parts, most * device.multiprocessors)
    total = waves * wave(most) + (wave(-(-rest // device.multiprocessors)) if rest else 0)
    if chosen.parts > 1:
        total += COSTS.second_kernel + around * m * n * f32.bytes * (2 * chosen.parts + 1) / device.l2_rate
    return max(total, 2 * around * (m * k + n * k + m * n) / device.memory_rate)
