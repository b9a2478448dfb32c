"""Latency of calls: several callables in turns, so that a machine whose speed moves treats them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polyreme.ir.python.records import dataclass

QUANTILES = (10, 50, 90, 99)


@dataclass(frozen=True)
class CallTimes:
    """Seconds per call: the best, the percentiles of `QUANTILES`, and how many calls were timed."""

    best: float
    percentiles: tuple[float, ...]
    calls: int

    @property
    def typical(self) -> float:
        """The median."""
        return self.percentiles[QUANTILES.index(50)]


def measure(calls: Mapping[str, Callable[[], Any]], seconds: float = 2.0, rounds: int = 8) -> dict[str, CallTimes]:
    """Time each call for `seconds` altogether, in `rounds` turns; a first round is not counted."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    clock = time.perf_counter
    for counted in [False, *[True] * rounds]:
        for name, call in calls.items():
            end = clock() + seconds / rounds
            taken = []
            while True:
                start = clock()
                call()
                stop = clock()
                taken.append(stop - start)
                if stop >= end or (not counted and len(taken) >= 3):
                    break
            if counted:
                times[name] += taken
    return {
        name: CallTimes(min(values), tuple(float(np.percentile(values, q)) for q in QUANTILES), len(values))
        for name, values in times.items()
    }


def duration(seconds: float) -> str:
    """A time with a fitting unit: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`."""
    for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 100 or unit == "ns" else f"{value:.3g} {unit}"
    return f"{seconds:.2f} s"
