"""Cycles of work: the busiest unit, and the caches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyreme.lowering.machines.cost import Traffic, Work, busy_cycles, with_traffic
from polyreme.lowering.machines.targets import TARGETS, core_of

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
    assert with_traffic(0, Traffic(l3=100), TARGET) == 10
    assert with_traffic(0, Traffic(memory=100), TARGET) == 20
    assert with_traffic(0, Traffic(l2=100) + Traffic(l3=100), TARGET) == 10
    assert 0 < with_traffic(0, Traffic(l2=100), TARGET) < 10


def test_a_part_of_the_shorter_time_shows() -> None:
    of_l3 = Traffic(l3=50 * TARGET.l3_bytes_per_cycle)
    assert 100 < with_traffic(100, of_l3, TARGET) < 150
    assert 100 < with_traffic(50, of_l3 + of_l3, TARGET) < 150


def test_of_bytes_from_l2_less_shows_where_the_machine_hides_them() -> None:
    zen = core_of(replace(TARGETS["x86-64-avx512"], cpu="znver4"))
    near, far = Traffic(l2=2000), Traffic(l3=50 * zen.l3_bytes_per_cycle)
    assert 100 < with_traffic(100, near, zen) < with_traffic(100, far, zen)


def test_work_adds_up() -> None:
    assert (Work(loads=1, stores=2) + Work(loads=2)) * 3 == Work(loads=9, stores=6)
    assert str(Work(loads=9, stores=6)) == "work<loads = 9, stores = 6>"
