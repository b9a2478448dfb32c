"""Attention on a GPU without its scores in memory, and its gradients: what is chosen, and who writes it.

Tensor cores take operands of 16 bits from sm_80 on; everything else is multiplied and added in float32. The order in which anything is
added up depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polyreme.ir.dims import ceildiv, product
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.half_floats import HALVES
from polyreme.lowering.kernels.gpu import flash_fma, flash_mma
from polyreme.lowering.kernels.gpu.flash_fma import ThreadFlash
from polyreme.lowering.kernels.gpu.flash_kernel import FlashKernel, FlashSchedule
from polyreme.lowering.kernels.gpu.flash_mma import WarpFlash
from polyreme.lowering.kernels.gpu.flash_problem import Flash, find_flash
from polyreme.lowering.kernels.plan import KernelPlan
from polyreme.lowering.kernels.schedule import ScheduleError
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.gpu import MULTIPROCESSORS
from polyreme.lowering.machines.targets import GpuTarget

# Registers of a thread that a schedule may be estimated to need: some are left for addresses.
MOST_REGISTERS = 224
# Rows and warps of a block, and the share of a device's arithmetic that it is expected to reach: more rows of a warp read less of shared
# memory for what they multiply.
_WARP_BLOCKS = ((128, 4, 1.0), (64, 4, 0.7), (64, 2, 0.9), (32, 2, 0.55), (32, 1, 0.7), (16, 1, 0.4))
_THREAD_BLOCKS = ((64, 4, 1.0), (128, 8, 1.0), (32, 4, 0.7), (32, 2, 0.8), (16, 2, 0.5), (16, 1, 0.5), (8, 1, 0.3))
_KEYS = (64, 32, 16)
_THREAD_KEYS = (64, 32, 16, 8)
# What fewer keys of a tile, and waiting for each tile, cost.
_SHARE_OF_KEYS = {64: 1.0, 32: 0.9, 16: 0.7, 8: 0.5}
_SHARE_OF_ONE_STAGE = 0.7


def _uses_tensor_cores(p: Flash) -> bool:
    target = p.request.target
    assert isinstance(target, GpuTarget)
    return p.dtype in HALVES and target.sm >= 80


def _write(p: Flash, schedule: FlashSchedule) -> FlashKernel:
    return (WarpFlash if schedule.tensor_cores else ThreadFlash)(p, schedule)


def _fitting(p: Flash) -> Iterator[tuple[float, FlashSchedule]]:
    """All schedules that a block has registers and memory for, with what each is estimated to cost."""
    target, cores = p.request.target, _uses_tensor_cores(p)
    assert isinstance(target, GpuTarget)
    count = flash_mma.registers if cores else flash_fma.registers
    around, rows_, columns = (estimate(n) for n in (product(p.sizes[c] for c in p.batch), p.sizes[p.row], p.sizes[p.column]))
    for rows, warps, share in _WARP_BLOCKS if cores else _THREAD_BLOCKS:
        for keys in _KEYS if cores else _THREAD_KEYS:
            if count(p, rows, warps, keys) > MOST_REGISTERS:
                continue
            for stages in (3, 2, 1):
                schedule = FlashSchedule(rows, keys, stages, warps, cores)
                made = _write(p, schedule)
                if made.shared_bytes > target.shared_bytes or (stages > 1 and not made.is_copied):
                    continue
                blocks = around * -(-rows_ // rows)
                reached = share * _SHARE_OF_KEYS[keys] * (1 if stages > 1 else _SHARE_OF_ONE_STAGE)
                yield ceildiv(blocks, MULTIPROCESSORS) * rows * -(-columns // keys) * keys / reached, schedule
                break


def choose_flash(p: Flash) -> FlashSchedule | None:
    """The schedule with which the busiest multiprocessor has the least to do; None where none fits."""
    found = list(_fitting(p))
    return min(found, key=lambda item: item[0])[1] if found else None


def fit_flash(p: Flash, schedule: FlashSchedule) -> None:
    """`ScheduleError` unless the schedule is one of those that fit, with as many stages or fewer."""
    fitting = [s for _, s in _fitting(p)]
    if not any(schedule == replace(s, stages=schedule.stages) and 0 < schedule.stages <= s.stages for s in fitting):
        raise ScheduleError(f"expected a schedule like {choose_flash(p)} for this attention and device but got {schedule}")


def write_flash(p: Flash, schedule: FlashSchedule) -> KernelPlan:
    return KernelPlan((_write(p, schedule).build(),))


build_flash = Way("flash", FlashSchedule, find_flash, choose_flash, write_flash, fit_flash)
