"""How kernels are timed on a machine that has other work, too: often, in turns, and what is fastest counts."""

from __future__ import annotations

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True)
class Timing:
    """Schedules are timed in so many `rounds`, each for so many `seconds`. A kernel that measures a unit of the core has a chain of so many
    operations at least, and `runs` in all. On a GPU, where each schedule has a tile of its own, and launches are many at a time,
    `gpu_candidates` are timed in `gpu_rounds`.
    """

    rounds: int = 5
    seconds: float = 0.004
    chain: int = 20_000
    runs: int = 40
    gpu_candidates: int = 12
    gpu_rounds: int = 3


TIMING = Timing()
