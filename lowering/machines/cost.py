"""What work takes on a machine: the one function that turns it into cycles of one thread.

Work is counted, by `lowering/analysis/kernel_work.py`, from kernels as they are written, whoever chose them. So all ways to compute a root
are told in one currency. A core computes, loads and stores at the same time, and so takes as long as the busiest of its units; what comes
from other caches than L1 overlaps with that but for a part.
"""

from __future__ import annotations

from dataclasses import fields

from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.cores import Rates, core_named
from polyreme.lowering.machines.functions import OPERATIONS, POLYNOMIALS
from polyreme.lowering.machines.instructions import WIDEST_BYTES
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import PIECES


@dataclass(frozen=True, slots=True)
class Work:
    """What a stretch of code does when it runs once, in vectors as registers hold them: `multiply_adds`, other `arithmetic`, `shuffles`
    (that move lanes), `loads`, `stores`; `places` are single elements that are read or written one by one. Tile registers are busy for
    `tiles` cycles. What runs once waits for `waits` cycles for the time before it.
    """

    multiply_adds: float = 0.0
    arithmetic: float = 0.0
    shuffles: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    places: float = 0.0
    tiles: float = 0.0
    waits: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Work:
        return Work(*(getattr(self, f.name) * times for f in fields(self)))

    def __str__(self) -> str:
        said = [f"{f.name} = {count:.4g}" for f in fields(self) if (count := getattr(self, f.name))]
        return f"work<{', '.join(said)}>"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that come from `l2`, `l3` and `memory`, each from there on its way to L1. Of all of these so many are `crowded`: lines that
    drive each other out of L1, so that none of them is there before it is asked for.
    """

    l2: float = 0.0
    l3: float = 0.0
    memory: float = 0.0
    crowded: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        said = [f"{f.name} = {count:.4g}" for f in fields(self) if (count := getattr(self, f.name))]
        return f"traffic<{', '.join(said)}>"


# Estimates are no more exact than this: what is said to take more of another one's time is taken for as slow.
NOTICED = 0.95


# Simple operations on a vector that take no longer than to write it to memory and to read it again.
OPS_OF_A_TRIP = int(2 * WIDEST_BYTES / Target.memory_bytes_per_cycle * Target.multiply_adds)


def is_faster(cycles: float, others: float) -> bool:
    """Whether an estimate is lower by so much that it is worth other code."""
    return cycles <= NOTICED * others


def rates_of(target: Target) -> Rates:
    """What the target's core does in a cycle."""
    return core_named(target.cpu, target.arch).rates


def work_of_function(fn: str) -> Work:
    """A function of one vector, of elements in registers."""
    count = OPERATIONS.get(fn, 1)
    return Work(multiply_adds=count) if fn in POLYNOMIALS else Work(arithmetic=count)


def busy_cycles(work: Work, target: Target) -> float:
    """Cycles of a stretch whose data is in L1: of the unit that is the busiest, or of waiting."""
    rates, arithmetic = rates_of(target), work.multiply_adds + work.arithmetic + work.shuffles
    if target.spare_adders:
        computing = max((work.multiply_adds + work.shuffles) / target.multiply_adds, arithmetic / (2 * target.multiply_adds))
    else:
        computing = max(arithmetic / target.multiply_adds, work.shuffles / rates.shuffles)
    loading = work.loads / rates.loads + work.places / rates.places
    return max(computing, loading, work.stores / rates.stores, work.tiles, work.waits)


def traffic_cycles(traffic: Traffic, target: Target) -> float:
    """Cycles of bringing bytes to L1, with nothing else to do: caches work at the same time, and the busiest one decides."""
    return max(_near_and_far(traffic, target))


def with_traffic(busy: float, traffic: Traffic, target: Target) -> float:
    """Cycles of computing and moving bytes to L1 at the same time: a part of what is shorter shows."""
    rates = rates_of(target)
    near, far = _near_and_far(traffic, target)
    return max(busy, near, far) + max(rates.l2_shows * min(busy, near), rates.overlap_shows * min(busy, far))


def _near_and_far(traffic: Traffic, target: Target) -> tuple[float, float]:
    """Cycles of L2, and of what is behind it or as slow."""
    rates = rates_of(target)
    far = traffic.l3 / target.l3_bytes_per_cycle, traffic.memory / target.memory_bytes_per_cycle
    return traffic.l2 / rates.l2_bytes_per_cycle, max(*far, traffic.crowded / rates.crowded_bytes_per_cycle)


def rows_that_hide_packing(target: Target) -> int:
    """Rows that are multiplied by a panel for so long that packing it before takes a small part of that, as one piece of `PIECES` is."""
    cycles = PIECES * target.vector_bytes / rates_of(target).pack_bytes_per_cycle
    return int(cycles * target.multiply_adds)
