"""Cycles of work: the busiest unit, and the caches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyreme.lowering.machines.cost import Traffic, Work, busy_cycles, together, traffic_cycles
from polyreme.lowering.machines.targets import TARGETS

TARGET = replace(TARGETS["x86-64-avx512"], multiply_adds=2, spare_adders=False, l3_bytes_per_cycle=10, memory_bytes_per_cycle=5)


@pytest.mark.parametrize(
    ("work", "cycles"),
    [
        (Work(multiply_adds=24, loads=10), 12),
        (Work(multiply_adds=2, loads=10), 5),
        (Work(loads=2, stores=4), 4),
        (Work(multiply_adds=10, arithmetic=10), 10),
        (Work(shuffles=8), 8),
        (Work(multiply_adds=1, waits=4), 4),
        (Work(tiles=100, arithmetic=50), 100),
    ],
    ids=str,
)
def test_the_busiest_unit_decides(work: Work, cycles: float) -> None:
    assert busy_cycles(work, TARGET) == cycles


def test_spare_adders_add_beside_multiply_adds() -> None:
    both = Work(multiply_adds=10, arithmetic=10)
    assert busy_cycles(both, replace(TARGET, spare_adders=True)) < busy_cycles(both, TARGET)


def test_bytes_take_the_rate_of_the_cache_that_they_come_from() -> None:
    assert traffic_cycles(Traffic(l3=100), TARGET) == 10
    assert traffic_cycles(Traffic(memory=100), TARGET) == 20
    assert traffic_cycles(Traffic(l2=100) + Traffic(l3=100), TARGET) == 10
    assert 0 < traffic_cycles(Traffic(l2=100), TARGET) < 10


def test_a_part_of_the_shorter_time_shows() -> None:
    assert 100 < together(100, 50, TARGET) < 150
    assert together(100, 50, TARGET) == together(50, 100, TARGET)


def test_work_adds_up() -> None:
    assert (Work(loads=1, stores=2) + Work(loads=2)) * 3 == Work(loads=9, stores=6)
    assert str(Work(loads=9, stores=6)) == "work<loads = 9, stores = 6>"
