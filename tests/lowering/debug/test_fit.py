"""Measuring a core: each kernel does as much of what it is for as it is reckoned with, and the row that comes out is one."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from polyreme.ir.types import BufferType, f32
from polyreme.lowering.analysis.kernel_work import KernelWork, work_of
from polyreme.lowering.debug import fit
from polyreme.lowering.machines.cores import Core, Rates, core_named
from polyreme.lowering.machines.targets import TARGETS, Target, host

PLAIN = TARGETS["x86-64-avx512"]
WIDE = replace(PLAIN, cpu="sapphirerapids", features=f"{PLAIN.features},+amx-tile,+amx-bf16,+amx-int8")
NAMES = tuple(fit.rates(WIDE))


def work_of_bench(name: str, target: Target) -> tuple[fit.Bench, KernelWork]:
    bench = fit.rates(target)[name]
    types = [BufferType((bench.elements,), bench.dtype), BufferType((bench.results,), f32)]
    func = fit.kernel_module(types, ("input", "output"), bench.write).function("timed")
    return bench, work_of(func, target)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_has_as_many_units_as_it_is_reckoned_with(name: str) -> None:
    bench, found = work_of_bench(name, WIDE)
    counted = {
        "multiply_adds": found.work.multiply_adds,
        "loads": found.work.loads,
        "stores": found.work.stores,
        "shuffles": found.work.shuffles,
        "places": found.work.places,
        "l2_bytes_per_cycle": found.work.loads * WIDE.vector_bytes,
        "l3_bytes_per_cycle": found.traffic.l3,
        "memory_bytes_per_cycle": found.traffic.memory,
        "tile_row_cycles": found.work.tiles / core_named(WIDE.cpu, WIDE.arch).rates.tile_row_cycles,
    }
    assert counted[name] == pytest.approx(bench.units, rel=0.02)


def test_every_measured_rate_is_a_fact_of_a_row() -> None:
    assert set(NAMES) <= {f.name for f in (*fields(Core), *fields(Rates))}
    assert "tile_row_cycles" not in fit.rates(PLAIN)


def test_a_kernel_is_timed_and_computes() -> None:
    clock = fit.Clock(host())
    assert clock.rate(2) > 0
    bench, _ = work_of_bench("loads", host())
    assert bench.nanoseconds(host()) > 0


def test_arrays_begin_with_a_line() -> None:
    array = fit.aligned(np.arange(100, dtype=np.float32))
    assert array.ctypes.data % 64 == 0 and array.tolist() == list(range(100))
