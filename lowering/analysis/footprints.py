"""Footprints: which bytes of a buffer a loop touches, from positions as linear functions of the rounds of loops.

References at places that differ by numbers alone are one set of spans of bytes. When a loop moves it, the bytes of all rounds are the union
of the moved sets: neighbouring windows, and taps of one, share most of theirs. Positions that are not linear, as remainders are, have no
spans, and each round is taken to touch others.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass

__all__ = ["Place", "Spans", "Unknown", "bytes_of", "moved", "spans_of", "union"]

# Spans of bytes as rows of first and end, in order and apart.
Spans = Any

# So many spans are united one by one; of more, the last rounds are taken to bring as much as the ones before.
MOST_SPANS = 1024


@dataclass(frozen=True, slots=True)
class Unknown:
    """A number that no linear function tells, which the loops `moved_by` change."""

    value: Value
    moved_by: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """A position: `start`, and so much for each round of the loops of `steps`, and so many times each number of `rest`."""

    start: int = 0
    steps: frozenset[tuple[Hashable, int]] = frozenset()
    rest: frozenset[tuple[Unknown, int]] = frozenset()

    @property
    def moved_by(self) -> frozenset[Any]:
        """The loops that change it in ways that are not known."""
        return frozenset[Any]().union(*(number.moved_by for number, _ in self.rest))

    @property
    def loops(self) -> frozenset[Any]:
        """All loops that change it."""
        return self.moved_by | {loop for loop, _ in self.steps}

    def plus(self, other: Place, times: int = 1) -> Place:
        """The sum with so many times another."""
        return Place(self.start + times * other.start, _sum(self.steps, other.steps, times), _sum(self.rest, other.rest, times))


def _sum(a: frozenset[tuple[Any, int]], b: frozenset[tuple[Any, int]], times: int) -> frozenset[tuple[Any, int]]:
    if not b:
        return a
    found = dict(a)
    for key, factor in b:
        found[key] = found.get(key, 0) + times * factor
    return frozenset((key, factor) for key, factor in found.items() if factor)


def spans_of(start: int, count: float, line: int) -> Spans:
    """The lines that so many bytes from `start` on lie in."""
    first, end = start // line * line, -(-(start + int(count)) // line) * line
    return np.array([[first, end]], np.int64)


def union(spans: Spans) -> Spans:
    """The same bytes, each span once."""
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    ends = np.maximum.accumulate(spans[:, 1])
    # A span begins where all before it have ended.
    begins = np.flatnonzero(np.concatenate([[True], spans[1:, 0] > ends[:-1]]))
    last = np.concatenate([begins[1:], [len(spans)]]) - 1
    return np.stack([spans[begins, 0], ends[last]], axis=1)


def bytes_of(spans: Spans) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum())


def moved(spans: Spans, step: int, rounds: float) -> tuple[Spans | None, float]:
    """What so many rounds touch that are `step` bytes apart: its spans, unless they are too many, and how many bytes."""
    whole = max(1, round(rounds))
    few = min(whole, max(2, MOST_SPANS // len(spans)))
    found = _of_rounds(spans, step, few)
    count = bytes_of(found)
    if few < whole:
        more = count - bytes_of(_of_rounds(spans, step, few - 1))
        count += (whole - few) * more
        if len(found) == 1:
            far = (whole - few) * step
            found = found + np.array([[min(far, 0), max(far, 0)]])
        else:
            found = None
    return found, count * rounds / whole


def lines_together(spans: Spans, line: int, way: int) -> int:
    """The most lines of short spans that share a place in a cache whose places are those of a way of so many bytes; 0 where spans are of
    more than a line.
    """
    if (spans[:, 1] - spans[:, 0] > line).any():
        return 0
    return int(np.bincount(spans[:, 0] % way // line).max())


def _of_rounds(spans: Spans, step: int, rounds: int) -> Spans:
    return union((spans[None] + step * np.arange(rounds)[:, None, None]).reshape(-1, 2))
