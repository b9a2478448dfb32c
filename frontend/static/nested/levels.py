"""Levels of detail of the variables that a block writes which an operator runs: those that they have behind it.

The block is run once on trial. Levels that it leaves as they are, or takes from variables around it, are known then. Those that it makes
itself go through the loop or branch as values of their own, beside the tensors that they are levels of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polyreme import dispatch, tape
from polyreme.control_flow import UNDEFINED, on_trial
from polyreme.dialects import nn
from polyreme.operators.table import LEGACY
from polyreme.static.lod.travel import LOD, level_name
from polyreme.static.nested.growing import is_array
from polyreme.static.nested.uses import block_of
from polyreme.static.nested.values import levels_around, run_nested, values_around
from polyreme.static.operator import Operator, RunError
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.program import Block

__all__ = ["LevelsThrough"]


class LevelsThrough:
    """What is known of the levels of `names`, which a block writes; `known` are the values of variables in front of it.

    `entry` are the levels in front of the block by the names of levels (`x@LOD0`), to be known to it; `carried` the names of those that
    the block makes anew.
    """

    def __init__(self, op: Operator, names: Sequence[str], known: Mapping[str, Any]):
        self.op, self.block = op, block_of(op)
        self.before = {name: levels_around(name) for name in names}
        self.entry = {level_name(n, i): level for n, levels in self.before.items() for i, level in enumerate(levels)}
        self.carried: list[str] = []
        self.settled = dict(self.before)
        if any(self.before.values()) or _reads_levels(self.block):
            while self._try(names, known):
                """Once more, without what was thought to stay."""

    def _try(self, names: Sequence[str], known: Mapping[str, Any]) -> bool:
        """Run the block; whether there are more levels that it makes itself."""
        found: dict[str, list[Tensor]] = {}

        def run() -> None:
            carried = {name: _another(self.entry[name]) for name in self.carried if name in self.entry}
            run_nested(self.block, [], {**known, **self.entry, **carried}, levels=found)

        outside = {id(level._value) for values in values_around() for levels in values.levels.values() for level in levels}
        outside |= {id(level._value) for level in self.entry.values()}
        with tape.no_grad():
            on_trial(run)
        more = False
        for name in names:
            before, after = self.before[name], found.get(name, [])
            if level_name(name, 0) in self.carried or [id(level._value) for level in after] == [id(level._value) for level in before]:
                continue
            from_outside = all(id(level._value) in outside for level in after)
            if is_array(self.block, name):
                if before or not from_outside:
                    raise RunError(
                        f"expected elements of the same sequences in the tensor array '{name}' but block {self.block.idx} writes some of "
                        "other ones; keep them in an array of their own",
                        self.op.location,
                    )
                self.settled[name] = after
            elif not after or from_outside and not before and name not in known:
                self.settled[name] = after
            elif before and len(before) != len(after):
                raise RunError(
                    f"expected {len(before)} levels of detail of '{name}' behind block {self.block.idx} as in front of it but got "
                    f"{len(after)}",
                    self.op.location,
                )
            else:
                self.carried += [level_name(name, i) for i in range(len(after))]
                self.settled[name] = []
                more = True
        return more

    def after(self, ends: Mapping[str, Any]) -> dict[str, list[Tensor]]:
        """The levels behind the block by `NAME@LOD`, where `ends` has what became of `carried`."""
        found = {name + LOD: list(levels) for name, levels in self.settled.items()}
        for name in self.carried:
            if ends[name] is not UNDEFINED:
                found[name.partition(LOD)[0] + LOD].append(ends[name])
        return found


def _another(level: Tensor) -> Tensor:
    """The same offsets as another value."""
    made: Tensor = dispatch.call(nn.Reshape, level, shape=tuple(level.type.shape))
    return made


def _reads_levels(block: Block) -> bool:
    """Whether an operator of a block, or of one within, has to do with levels."""
    for op in block.ops:
        if any(levels_around(name) for name in op.input_arg_names if name not in block.vars):
            return True
        if op.type in LEGACY and any(LOD in slot for slot in LEGACY[op.type][1].outputs):
            return True
        if op.has_attr("sub_block") and _reads_levels(block_of(op)):
            return True
    return False
