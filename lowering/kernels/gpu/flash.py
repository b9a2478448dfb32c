"""Attention on a GPU without its scores in memory, and its gradients: what is chosen, and who writes it.

Tensor cores take operands of 16 bits from sm_80 on; everything else is multiplied and added in float32. The order in which anything is
added up depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyreme.ir.dims import product
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
from polyreme.lowering.machines.gpu import FLASH_FLOATS, FLASH_REGISTERS, FLASH_TENSOR_CORES, WARP, device_of
from polyreme.lowering.machines.ptx import has
from polyreme.lowering.machines.targets import GpuTarget


def _uses_tensor_cores(p: Flash) -> bool:
    target = p.request.target
    assert isinstance(target, GpuTarget)
    return p.dtype in HALVES and has("mma.m16n8k16.row.col.bf16", target)


def _write(p: Flash, schedule: FlashSchedule) -> FlashKernel:
    return (WarpFlash if schedule.tensor_cores else ThreadFlash)(p, schedule)


def _fitting(p: Flash) -> Iterator[tuple[float, FlashSchedule]]:
    """All schedules that a block has registers and memory for, with the scores that the busiest multiprocessor is to compute, over the
    share of its arithmetic that the schedule is expected to reach.
    """
    target, cores = p.request.target, _uses_tensor_cores(p)
    assert isinstance(target, GpuTarget)
    device = device_of(target.sm)
    assert device is not None
    count, blocks = (flash_mma.registers, FLASH_TENSOR_CORES) if cores else (flash_fma.registers, FLASH_FLOATS)
    around, high, wide = (estimate(n) for n in (product(p.sizes[c] for c in p.batch), p.sizes[p.row], p.sizes[p.column]))
    for rows, warps, share in blocks.rows:
        for keys, of_keys in blocks.keys:
            registers = count(p, rows, warps, keys)
            if registers > FLASH_REGISTERS:
                continue
            for stages, of_stages in blocks.stages:
                schedule = FlashSchedule(rows, keys, stages, warps, cores)
                made = _write(p, schedule)
                if made.shared_bytes > target.shared_bytes or (stages > 1 and not made.is_copied):
                    continue
                together = device.blocks_at_once(warps * WARP, registers, made.shared_bytes)
                each = -(-around * -(-high // rows) // device.multiprocessors)
                held = min(together, each)
                reached = share * of_keys * of_stages * min(1, held * warps / blocks.warps)
                yield -(-each // held) * held * rows * -(-wide // keys) * keys / reached, schedule


def choose_flash(p: Flash) -> FlashSchedule | None:
    """The schedule with which the busiest multiprocessor has the least to do; None where none fits."""
    found = _by_cost(p)
    return found[0] if found else None


def _by_cost(p: Flash) -> list[FlashSchedule]:
    return [schedule for _, schedule in sorted(_fitting(p), key=lambda item: item[0])]


def estimate_flash(p: Flash, schedule: FlashSchedule) -> float:
    """Cycles of the busiest multiprocessor."""
    target = p.request.target
    assert isinstance(target, GpuTarget)
    device = device_of(target.sm)
    assert device is not None
    scores = next(cost for cost, other in _fitting(p) if other == schedule)
    depths = [p.room(s.rows.inner) for s in p.scores] + [p.room(s.columns.inner) for s in p.sums]
    return scores * sum(depths) / (device.mma_16 if schedule.tensor_cores else device.fma)


def fit_flash(p: Flash, schedule: FlashSchedule) -> None:
    """`ScheduleError` unless the schedule is one of those that fit."""
    fitting = _by_cost(p)
    if schedule not in fitting:
        raise ScheduleError(f"expected a schedule like {fitting[0] if fitting else None} for this attention and device but got {schedule}")


def write_flash(p: Flash, schedule: FlashSchedule) -> KernelPlan:
    return KernelPlan((_write(p, schedule).build(),))


build_flash = Way(
    "flash",
    FlashSchedule,
    find_flash,
    choose_flash,
    write_flash,
    fit_flash,
    refusal=lambda p: "registers and shared memory have room for no block",
    others=lambda p: _by_cost(p)[1:9],
    estimate=estimate_flash,
)
