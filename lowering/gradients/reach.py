"""Which arguments of a function a value has gradients for, where a branch or a loop may go one way or the other.

The gradients of a branch are those of all its ways, zeros for what only another way reads. That is what Python would have had only where
every way reaches the same arguments: elsewhere there would be no gradient at all for some.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from polyreme.dialects.nn import CustomGradient, If, Scan, While
from polyreme.ir.core import Block, Op, Value
from polyreme.lowering.gradients.table import has_gradient

__all__ = ["undecided"]

Leaves = frozenset[Value]
NONE: Leaves = frozenset()


def undecided(block: Block, arguments: Collection[Value], unread: Collection[Value] = ()) -> Op | None:
    """The first branch or loop in `block` that decides for which of the `arguments` its results have gradients; None if there is none.

    Values in `unread` stand where nobody reads them: they agree with whatever another way gives.
    """
    search = _Search(frozenset(unread))
    search.results(block, {arg: frozenset([arg]) for arg in arguments})
    return search.found[0] if search.found else None


class _Search:
    """The arguments that values reach, block by block. None stands for what nobody reads."""

    def __init__(self, unread: frozenset[Value]):
        self.unread = unread
        self.found: list[Op] = []

    def results(self, block: Block, reached: Mapping[Value, Leaves | None]) -> list[Leaves | None]:
        """The arguments that each value at the end of a block reaches."""
        from polyreme.lowering.gradients.autodiff import NOT_DIFFERENTIABLE

        known = dict(reached)
        for op in block.ops:
            given = [known.get(v, NONE) for v in op.operands]
            if isinstance(op, If):
                made = self.branch(op, given)
            elif isinstance(op, While):
                made = [*self.rounds(op, given[: len(op.inits)], given[len(op.inits) :]), NONE]
            elif isinstance(op, Scan):
                made = self.steps(op, given)
            elif isinstance(op, CustomGradient):
                inputs = given[len(op.values) : len(op.values) + len(op.inputs)]
                made = [_union([inputs[i] for i in op.reached])] * len(op.results)
            else:
                made = [NONE if type(op) in NOT_DIFFERENTIABLE else _union(given)] * len(op.results)
            known.update((r, None if r in self.unread else leaves) for r, leaves in zip(op.results, made, strict=True) if has_gradient(r))
        last = block.last
        return [known.get(v, NONE) for v in last.operands] if last is not None else []

    def inside(self, block: Block, given: Sequence[Leaves | None]) -> list[Leaves | None]:
        return self.results(block, {arg: leaves for arg, leaves in zip(block.args, given, strict=True) if has_gradient(arg)})

    def branch(self, op: If, given: Sequence[Leaves | None]) -> list[Leaves | None]:
        """Both ways must reach the same."""
        first, second = (self.inside(region.block, given[1:]) for region in op.regions)
        return self.agreed(op, first, second)

    def agreed(self, op: Op, first: Sequence[Leaves | None], second: Sequence[Leaves | None]) -> list[Leaves | None]:
        """What results reach that come by two ways."""
        made: list[Leaves | None] = []
        for a, b, result in zip(first, second, op.results, strict=False):
            if not has_gradient(result):
                made.append(NONE)
                continue
            if a is not None and b is not None and a != b:
                self.found.append(op)
            made.append(b if a is None else a if b is None else a | b)
        return made

    def rounds(self, op: While, inits: Sequence[Leaves | None], captured: Sequence[Leaves | None]) -> list[Leaves | None]:
        """No round, one, and any number of them must reach the same."""
        carried = list(inits)
        while True:
            wider = self.agreed(op, carried, self.inside(op.body.block, [*carried, *captured]))
            if wider == carried:
                return carried
            carried = wider

    def steps(self, op: Scan, given: Sequence[Leaves | None]) -> list[Leaves | None]:
        """A number of steps that is known decides nothing; one that is not is as for a loop."""
        count = len(op.inits)
        rows, carried, shared = list(given[: len(op.xs)]), list(given[len(op.xs) : len(op.xs) + count]), list(given[len(op.xs) + count :])
        gives: list[Leaves | None] = [NONE] * (len(op.results) - count)
        met: list[list[Leaves | None]] = []  # what was carried into each step so far
        while not isinstance(op.steps, int) or len(met) < op.steps:
            if carried in met:
                if isinstance(op.steps, int):
                    # From here on it all comes again, with this period.
                    first = met.index(carried)
                    carried = met[first + (op.steps - first) % (len(met) - first)]
                break
            met.append(carried)
            after = self.inside(op.body.block, [*rows, *carried, *shared])
            gives = [_union(pair) for pair in zip(gives, after[count:], strict=True)]
            if isinstance(op.steps, int):
                carried = [b if has_gradient(r) else NONE for b, r in zip(after, op.results[:count], strict=False)]
            else:
                carried = self.agreed(op, carried, after[:count])
        return [*carried, *gives]


def _union(parts: Sequence[Leaves | None]) -> Leaves:
    return NONE.union(*(part for part in parts if part is not None))
