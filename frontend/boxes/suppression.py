"""Boxes in the order of their scores, each of which acts on those that come behind it.

Boxes stand along the last axis, the best first, and each round takes one box of every list: no table of all pairs is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme import dispatch, math
from polyreme.boxes.lists import along, numbers, single, take
from polyreme.control_flow import loop
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import i64
from polyreme.math.common import number_like, select
from polyreme.tensor import Tensor

__all__ = ["Boxes", "Rounds", "longest", "strike", "suppress"]


@dataclass(frozen=True)
class Boxes:
    """The edges x1, y1, x2, y2 of boxes, a tensor [..., boxes] each, and their areas.

    Of boxes that are not `normalized` the edges are pixels that belong to them.
    """

    edges: tuple[Tensor, ...]
    area: Tensor
    normalized: bool

    @staticmethod
    def of(edges: Sequence[Tensor], normalized: bool) -> Boxes:
        x1, y1, x2, y2 = edges
        wide, high = x2 - x1, y2 - y1
        turned = math.logical_or(math.less_than(x2, x1), math.less_than(y2, y1))
        area = wide * high if normalized else (wide + 1.0) * (high + 1.0)
        return Boxes((x1, y1, x2, y2), select(turned, number_like(area, 0.0), area), normalized)

    def each(self, choose: Callable[[Tensor], Tensor]) -> Boxes:
        """Boxes of what `choose` makes of each edge and of the area."""
        return Boxes(tuple(choose(edge) for edge in self.edges), choose(self.area), self.normalized)

    def overlap(self, other: Boxes) -> Tensor:
        """What both cover over what they cover together; boxes that are apart overlap by 0."""
        (x1, y1, x2, y2), (u1, v1, u2, v2) = self.edges, other.edges
        apart = math.logical_or(
            math.logical_or(math.less_than(x2, u1), math.less_than(u2, x1)), math.logical_or(math.less_than(y2, v1), math.less_than(v2, y1))
        )
        wide, high = math.minimum(x2, u2) - math.maximum(x1, u1), math.minimum(y2, v2) - math.maximum(y1, v1)
        both = wide * high if self.normalized else (wide + 1.0) * (high + 1.0)
        return select(apart, number_like(both, 0.0), both / (self.area + other.area - both))


def longest(sizes: Tensor) -> Tensor:
    """The greatest of sizes, 0 where there are none."""
    none = dispatch.full((), 0, i64)
    if 0 in sizes.type.shape:
        return none
    found = math.max(sizes)
    # Whether there are some may be known only when the program runs; the greatest of none is the least number that there is.
    return found if all(isinstance(size, int) for size in sizes.type.shape) else math.maximum(found, none)


@dataclass(frozen=True)
class Rounds:
    """How many rounds there are, the round in which each box acts, and how to find the box of a round: its value, of values of all boxes.

    Where `apart`, each list may have a round of its own.
    """

    count: Tensor
    rank: Tensor
    current: Callable[[Tensor, Tensor], Tensor]
    apart: bool = False

    @staticmethod
    def of_lists(held: Tensor) -> Rounds:
        """Those of lists [..., boxes]: each list has its first box in the first round. Behind the last held one nobody acts."""
        rank = numbers(held.type.shape[-1])
        last = select(held, rank + 1, number_like(rank, 0))
        return Rounds(longest(last), rank, lambda x, i: take(x, i, -1) if i.ndim == 1 else along(x, i), True)

    def run(self, body: Callable[..., Sequence[Tensor]], state: Sequence[Tensor]) -> list[Tensor]:
        """The state behind `state = body(i, *state)` for each round i, which is an int64 of shape [1]."""
        first = dispatch.full((1,), 0, i64)
        return list(loop(lambda i, *now: math.less_than(i, self.count), lambda i, *now: [i + 1, *body(i, *now)], [first, *state])[1:])

    def run_skipping(self, body: Callable[[Tensor, Tensor], Tensor], mask: Tensor) -> Tensor:
        """The mask behind `mask = body(i, mask)`, where i, [..., 1], goes on in each list from box to box for which the mask holds."""
        if 0 in mask.type.shape:
            return mask
        last = self.count - 1

        def step(i: Tensor, mask: Tensor) -> list[Tensor]:
            behind = math.logical_and(mask, math.greater_than(self.rank, i))
            here = math.min(select(behind, self.rank, self.count), -1, keepdim=True)
            # In a list where nobody is left the last box acts again, behind which there are none.
            return [here, body(math.minimum(here, last), mask)]

        # The last box need not act, and where no box is held nobody does.
        first = dispatch.full((*mask.type.shape[:-1], 1), -1, i64)
        return loop(lambda i, mask: math.less_than(math.min(i), last), step, [first, mask])[1]


def strike(over: Callable[[Tensor], Tensor], held: Tensor, rounds: Rounds) -> Tensor:
    """Which of the held boxes stay: those that none before them that stays is over. `over(i)` says which boxes the one of round i is over.
    """

    def body(i: Tensor, stays: Tensor) -> Tensor:
        struck = math.logical_and(math.logical_and(over(i), math.greater_than(rounds.rank, i)), rounds.current(stays, i))
        return math.logical_and(stays, math.logical_not(struck))

    return rounds.run_skipping(body, held) if rounds.apart else rounds.run(lambda i, stays: [body(i, stays)], [held])[0]


def suppress(boxes: Boxes, held: Tensor, rounds: Rounds, threshold: float, eta: float = 1.0) -> Tensor:
    """Which of the held boxes stay: those that overlap no box before them that stays by more than the threshold.

    With `eta` below 1 the threshold of a list is multiplied by it after each box that stays, as long as it is above 0.5.
    """
    limit = single(threshold)

    def behind(i: Tensor) -> Tensor:
        return math.greater_than(rounds.rank, i)

    def meets(i: Tensor) -> Tensor:
        return boxes.each(lambda x: rounds.current(x, i)).overlap(boxes)

    if not eta < 1 or limit <= 0.5:
        # Of nan it is not known that it is no more than the threshold.
        return strike(lambda i: math.logical_not(math.less_equal(meets(i), number_like(boxes.area, limit))), held, rounds)

    def strike_by_falling(i: Tensor, stays: Tensor, reach: Tensor, limit: Tensor) -> list[Tensor]:
        """`reach` is the most by which each box overlaps one before it that stays; `limit` the threshold of each box's list."""
        stays_now = math.logical_and(stays, math.less_equal(reach, limit))
        now = rounds.current(stays_now, i)
        overlap = meets(i)
        overlap = select(math.equal(overlap, overlap), overlap, number_like(overlap, float("inf")))
        struck = math.logical_and(behind(i), now)
        reach = select(struck, math.maximum(reach, overlap), reach)
        stays = select(math.equal(rounds.rank, i), stays_now, stays)
        falls = math.logical_and(struck, math.greater_than(limit, number_like(limit, 0.5)))
        return [stays, reach, select(falls, limit * single(eta), limit)]

    shape, dtype = held.type.shape, boxes.area.type.dtype
    state = [held, dispatch.full(shape, float("-inf"), dtype), dispatch.full(shape, limit, dtype)]
    return rounds.run(strike_by_falling, state)[0]
