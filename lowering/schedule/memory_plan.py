"""The memory plan: from lifetimes to offsets in one arena. Pure functions; they know neither programs nor devices.

Buffers that are never live together may share bytes. Buffers of known size are placed exactly. A buffer whose size is a number of bytes
times a symbolic `unit` (such as the batch `N`) is planned in units among the buffers of the same unit, which is as tight as a static plan
and right for every value of the unit. Each unit gets a region of its own, one after the other in the arena. Where that wastes too much,
buffers of several units share slots, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from polyreme.ir.python.records import dataclass
from polyreme.lowering.machines.memory import LINE_BYTES

ALIGNMENT = LINE_BYTES


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of `bytes` (times `unit`, unless that is None) that is live from step `first` to step `last`, both included."""

    first: int
    last: int
    bytes: int
    unit: Hashable = None

    def __post_init__(self) -> None:
        if self.first > self.last or self.bytes < 0:
            raise ValueError(f"expected first <= last and bytes >= 0 but got {self.first}, {self.last} and {self.bytes}")


@dataclass(frozen=True)
class ArenaPlan:
    """`offsets[i]` is where buffer i starts inside the region of its unit; `regions` gives each unit's bytes, static (None) first."""

    offsets: tuple[int, ...]
    regions: dict[Hashable, int]


def plan_arena(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> ArenaPlan:
    """Offsets for all buffers, unit by unit in order of first appearance. All offsets and regions are multiples of `alignment`."""
    units = dict.fromkeys([None, *(lifetime.unit for lifetime in lifetimes)])
    offsets = [0] * len(lifetimes)
    regions: dict[Hashable, int] = {}
    for unit in units:
        members = [i for i, lifetime in enumerate(lifetimes) if lifetime.unit == unit]
        placed, regions[unit] = plan_offsets([lifetimes[i] for i in members], alignment)
        for i, offset in zip(members, placed, strict=True):
            offsets[i] = offset
    return ArenaPlan(tuple(offsets), regions)


def plan_offsets(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Offsets of buffers of known size, and the total. The result depends on the arguments alone.

    Best fit in several orders; the smallest total wins, the first at equal totals. No plan beats the most bytes live at once, so an order
    that reaches them ends the search. When none does, filling so many bytes from both ends is tried.
    """
    sizes = [align(lifetime.bytes, alignment) for lifetime in lifetimes]
    bound = most_live(lifetimes, alignment)
    best: tuple[list[int], int] | None = None
    for order in _ORDERS:
        ranked = sorted(range(len(lifetimes)), key=lambda i: (*order(lifetimes[i]), i))
        plan = _best_fit(lifetimes, sizes, ranked)
        if best is None or plan[1] < best[1]:
            best = plan
        if best[1] == bound:
            break
    assert best is not None
    if best[1] > bound:
        two_ended = _two_ended(lifetimes, sizes, bound)
        if two_ended is not None:
            return two_ended, bound
    return best


def plan_slots(lifetimes: Sequence[Lifetime]) -> list[int]:
    """The slot of each buffer: a place for one buffer at a time, as large as the largest that comes there. `bytes` are estimates, so that
    no plan depends on them: large buffers choose first, each the first slot that nobody else has while it lives.
    """
    slots = [0] * len(lifetimes)
    taken: list[list[Lifetime]] = []
    for i in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].bytes, lifetimes[i].first, i)):
        mine = lifetimes[i]
        free = (k for k, others in enumerate(taken) if all(x.last < mine.first or mine.last < x.first for x in others))
        slots[i] = next(free, len(taken))
        if slots[i] == len(taken):
            taken.append([])
        taken[slots[i]].append(mine)
    return slots


def most_live(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> int:
    """The most bytes that are live at one step, each buffer rounded up to `alignment`: no plan can be smaller."""
    change: dict[int, int] = {}
    for lifetime in lifetimes:
        size = align(lifetime.bytes, alignment)
        change[lifetime.first] = change.get(lifetime.first, 0) + size
        change[lifetime.last + 1] = change.get(lifetime.last + 1, 0) - size
    live = most = 0
    for step in sorted(change):
        live += change[step]
        most = max(most, live)
    return most


def _length(lifetime: Lifetime) -> int:
    return lifetime.last - lifetime.first + 1


# Large first leaves the gaps to the small; by area keeps long-lived ones out of the middle; by time is best for chains.
_ORDERS: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
    lambda x: (-x.bytes, -_length(x)),
    lambda x: (-x.bytes * _length(x), -x.bytes),
    lambda x: (-_length(x), -x.bytes),
    lambda x: (x.first, -x.bytes),
    lambda x: (-x.last, -x.bytes),
)


def _best_fit(lifetimes: Sequence[Lifetime], sizes: Sequence[int], ranked: Sequence[int]) -> tuple[list[int], int]:
    """Each buffer in turn goes into the tightest gap between those that live at the same time, else above them."""
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    total = 0
    for i in ranked:
        mine = lifetimes[i]
        neighbours = [j for j in placed if lifetimes[j].first <= mine.last and mine.first <= lifetimes[j].last]
        neighbours.sort(key=lambda j: offsets[j])
        top, chosen, slack = 0, -1, -1
        for j in neighbours:
            gap = offsets[j] - top
            if gap >= sizes[i] and (chosen < 0 or gap - sizes[i] < slack):
                chosen, slack = top, gap - sizes[i]
            top = max(top, offsets[j] + sizes[j])
        offsets[i] = chosen if chosen >= 0 else top
        total = max(total, offsets[i] + sizes[i])
        placed.append(i)
    return offsets, total


def _two_ended(lifetimes: Sequence[Lifetime], sizes: Sequence[int], total: int) -> list[int] | None:
    """In order of time, each buffer as low or as high as it goes within `total`, in turn; None when one does not fit.

    In a chain, where each buffer meets only the one before and the one after, this always fits.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for turn, i in enumerate(sorted(range(len(lifetimes)), key=lambda i: (lifetimes[i].first, i))):
        live = sorted((offsets[j], offsets[j] + sizes[j]) for j in placed if lifetimes[j].last >= lifetimes[i].first)
        gaps, top = [], 0
        for start, end in [*live, (total, total)]:
            if start - top >= sizes[i]:
                gaps.append((top, start))
            top = max(top, end)
        if not gaps:
            return None
        offsets[i] = gaps[0][0] if turn % 2 == 0 else gaps[-1][1] - sizes[i]
        placed.append(i)
    return offsets


def align(size: int, alignment: int = ALIGNMENT) -> int:
    """The next multiple of `alignment`."""
    return -(-size // alignment) * alignment
