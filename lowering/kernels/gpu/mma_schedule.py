"""Schedules of products on tensor cores: what a block computes, how many tiles are under way, in which order blocks run; and the choice.

    mma<tile = 128x256x64, warps = 2x4, stages = 3, group = 8>

A block of 2 x 4 warps has 128 x 256 of the result, 64 steps of the depth at a time. Three such tiles of the operands lie in shared memory:
one is multiplied while two are on their way. Blocks run along columns for 8 rows of tiles at a time, so that what they read together stays
in the second-level cache. The choice is the schedule with the fewest estimated cycles on the target's device (`machines/gpu.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polyreme.ir.dims import product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import ScalarType, f32
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.kernels.gpu.product import GpuProduct, blocks_of, parts_of
from polyreme.lowering.kernels.schedule import Schedule, ScheduleError
from polyreme.lowering.machines.gpu import (
    MMA_COLUMNS,
    MMA_ROWS,
    MOST_REGISTERS,
    MOST_THREADS,
    STATIC_SHARED_BYTES,
    VECTOR_BYTES,
    WARP,
    GpuDevice,
)
from polyreme.lowering.machines.gpu import MMA_COSTS as COSTS


@dataclass(frozen=True)
class MmaSchedule(Schedule, kind="mma"):
    """`tile` is rows, columns and steps of a block, which `warps` share, so many along rows and along columns. `stages` tiles lie in shared
    memory; with one, elements go there through registers. The depth is cut into `parts`. Blocks run along columns for `group` rows of tiles
    at a time. In a line of shared memory, pieces of 16 bytes change places among `swizzle` of them.
    """

    tile: tuple[int, int, int]
    warps: tuple[int, int]
    stages: int
    parts: int = 1
    group: int = 1
    swizzle: int = 8

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
    def threads(self) -> int:
        return WARP * self.warps[0] * self.warps[1]

    @property
    def of_warp(self) -> tuple[int, int]:
        """Rows and columns of a warp."""
        return self.rows // self.warps[0], self.columns // self.warps[1]

    def shared_bytes(self, size: int) -> int:
        """Shared memory for elements of so many bytes."""
        return self.stages * (self.rows + self.columns) * self.depth * size

    @property
    def registers(self) -> int:
        """Registers of a thread, about: its sums, fragments of two steps, and others."""
        rows, columns = self.of_warp
        return rows * columns // WARP + 2 * (rows // MMA_ROWS * 4 + columns // MMA_COLUMNS * 2) + COSTS.other_registers


def fits(p: GpuProduct, chosen: MmaSchedule, stored: ScalarType, copied: bool, shared_bytes: int) -> None:
    """`ScheduleError` for a schedule that no kernel can be written by. `copied` says that operands can be copied 16 bytes at a time."""
    if min(*chosen.tile, *chosen.warps, chosen.stages, chosen.parts, chosen.group, chosen.swizzle) < 1:
        raise ScheduleError(f"expected positive numbers but got '{chosen}'")
    rows, columns = chosen.of_warp
    step = MMA_ROWS if stored.bytes == 2 else MMA_COLUMNS
    uneven = rows * chosen.warps[0] != chosen.rows or columns * chosen.warps[1] != chosen.columns
    if uneven or rows % MMA_ROWS or columns % (2 * MMA_COLUMNS):
        raise ScheduleError(f"expected warps with multiples of {MMA_ROWS} x {2 * MMA_COLUMNS} of the tile but got '{chosen}'")
    if chosen.depth % step or chosen.depth & (chosen.depth - 1) or any(n & (n - 1) and n % 64 for n in (chosen.rows, chosen.columns)):
        raise ScheduleError(
            f"expected rows and columns of a power of two or a multiple of 64, and a power of two of steps, from {step} on, but got "
            f"'{chosen}'"
        )
    if chosen.swizzle not in (1, 2, 4, 8):
        raise ScheduleError(f"expected 1, 2, 4 or 8 for 'swizzle' but got '{chosen}'")
    if chosen.registers > MOST_REGISTERS or chosen.threads > MOST_THREADS or chosen.threads * chosen.registers > 65536:
        raise ScheduleError(f"expected at most {MOST_REGISTERS} registers of a thread, and 65536 of a block, but got '{chosen}'")
    if chosen.stages > 1 and not copied:
        raise ScheduleError(f"expected one stage, since operands are not copied 16 bytes at a time, but got '{chosen}'")
    lanes = VECTOR_BYTES // stored.bytes if chosen.stages > 1 else 1
    for extent in (chosen.rows, chosen.columns):
        for length in (extent // lanes, chosen.depth // lanes):
            if chosen.threads % length or extent * chosen.depth % (lanes * chosen.threads):
                raise ScheduleError(f"expected lines that {chosen.threads} threads fill evenly but got '{chosen}'")
    most = shared_bytes if chosen.stages > 1 else STATIC_SHARED_BYTES
    if chosen.shared_bytes(stored.bytes) > most:
        raise ScheduleError(f"expected at most {most} bytes of shared memory but '{chosen}' takes {chosen.shared_bytes(stored.bytes)}")
    if chosen.parts > max(1, estimate(p.count(p.contracted)) // chosen.depth):
        raise ScheduleError(f"expected parts of at least {chosen.depth} steps of the depth but got '{chosen}'")


def schedules(p: GpuProduct, stored: ScalarType, copied: bool, device: GpuDevice) -> list[MmaSchedule]:
    """Those that fit, the one with the fewest estimated cycles first."""
    found = [s for s in _all(p, stored, copied, device) if _is_fitting(p, s, stored, copied, device)]
    return sorted(found, key=lambda s: cycles(p, s, stored, device))


def _all(p: GpuProduct, stored: ScalarType, copied: bool, device: GpuDevice) -> Iterator[MmaSchedule]:
    """Each tile with its depth as a whole, and in as many parts as give each multiprocessor a block."""
    tall = estimate(p.count(p.row_letters))
    for tile, warps in COSTS.tiles if copied else COSTS.tiles_of_registers:
        for line in COSTS.lines[: 1 + copied]:
            for stages in COSTS.stages if copied else (1,):
                group = COSTS.group if -(-tall // tile[0]) > COSTS.group else 1
                whole = MmaSchedule((*tile, line // stored.bytes), warps, stages, group=group)
                yield whole
                parts = parts_of(p, whole, device.multiprocessors)
                if parts > 1:
                    yield replace(whole, parts=parts)


def _is_fitting(p: GpuProduct, chosen: MmaSchedule, stored: ScalarType, copied: bool, device: GpuDevice) -> bool:
    try:
        fits(p, chosen, stored, copied, device.shared_block)
    except ScheduleError:
        return False
    return True


def cycles(p: GpuProduct, chosen: MmaSchedule, stored: ScalarType, device: GpuDevice) -> float:
    """Cycles of the device, estimated.

    Blocks run in waves, `at_once` of them on each multiprocessor. In each step of the depth the slowest of these counts: the tensor cores,
    shared memory (fragments are read, tiles written), the second-level cache, memory, the wait for tiles that are not under way early
    enough.
    """
    k, results = estimate(p.count(p.contracted)), estimate(product(p.out_shape))
    blocks = blocks_of(p, chosen) * chosen.parts
    most = device.blocks_at_once(chosen.threads, min(chosen.registers, MOST_REGISTERS), chosen.shared_bytes(stored.bytes))
    if not most:
        return float("inf")
    steps = -(-k // (chosen.parts * chosen.depth))
    waves, rest = divmod(blocks, most * device.multiprocessors)
    total = waves * _wave(chosen, stored, device, most, steps)
    if rest:
        total += _wave(chosen, stored, device, -(-rest // device.multiprocessors), steps)
    request = p.request
    touched = sum(estimate(product(t.shape)) * t.dtype.bytes for t in (*request.operand_types, *request.result_types))
    memory = touched / device.memory_rate
    if chosen.parts > 1:
        total += COSTS.second_kernel + results * f32.bytes * (2 * chosen.parts + 1) / device.l2_rate
    # Both go on at a time, but not without a loss.
    return max(total, memory) + COSTS.overlap_loss * min(total, memory)


def _wave(chosen: MmaSchedule, stored: ScalarType, device: GpuDevice, at_once: int, steps: int) -> float:
    """Cycles of a multiprocessor for so many blocks at once."""
    rows, columns = chosen.of_warp
    rate = device.mma_16 if stored.bytes == 2 else device.mma_tf32
    warps = chosen.warps[0] * chosen.warps[1]
    tile = (chosen.rows + chosen.columns) * chosen.depth * stored.bytes
    # Fewer than two warps for each of its four parts leave tensor cores waiting.
    busy = min(1.0, at_once * warps / 8) ** 0.5
    products = at_once * chosen.rows * chosen.columns * chosen.depth / (rate * busy)
    fragments = at_once * warps * (rows + columns) * chosen.depth * stored.bytes
    shared = (fragments + at_once * tile) / device.shared_rate
    l2 = at_once * tile * device.multiprocessors / device.l2_rate
    waiting = COSTS.latency / max(1, chosen.stages - 1)
    result = at_once * chosen.rows * chosen.columns * 4 * device.multiprocessors / device.l2_rate
    return steps * (max(products, shared, l2, waiting) + COSTS.barrier) + COSTS.latency + result
