"""Levels of detail of the variables that a block writes which an operator runs: those that they have behind it.

The block is run once on trial. Levels that it leaves as they are, or takes from variables around it, are known then. Those that it makes
itself go through the loop or branch as values of their own, beside the tensors that they are levels of. An array that the block writes an
element to which differs from the others in rows or levels is one whose elements differ in front of the block, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polyreme import dispatch, tape
from polyreme.control_flow import UNDEFINED, known_sizes, on_trial
from polyreme.dialects import nn
from polyreme.ir.dims import symbols
from polyreme.ir.types import type_symbols
from polyreme.operators.sequence.ragged import empty_ragged, is_ragged, spread
from polyreme.operators.table import LEGACY
from polyreme.static.lod.travel import LOD, level_name
from polyreme.static.nested.growing import WRITE, is_array
from polyreme.static.nested.uses import block_of
from polyreme.static.nested.values import levels_around, run_nested, values_around, watching
from polyreme.static.operator import Operator, RunError
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.static.program import Block

__all__ = ["LevelsThrough"]


class LevelsThrough:
    """What is known of the levels of `names`, which a block writes; `known` are the values of variables in front of it.

    `entry` are the levels in front of the block by the names of levels (`x@LOD0`), to be known to it; `carried` the names of those that
    the block makes anew. `arrays` are those among `names` whose elements differ behind the block and not in front of it, as they are there;
    of two with the same number in `as_many`, elements with one number have as many rows.
    """

    def __init__(self, op: Operator, names: Sequence[str], known: Mapping[str, Any]):
        self.op, self.block = op, block_of(op)
        self.before = {name: levels_around(name) for name in names}
        self.entry = {level_name(n, i): level for n, levels in self.before.items() for i, level in enumerate(levels)}
        self.carried: list[str] = []
        self.arrays: dict[str, Tensor] = {}
        self.as_many: dict[str, int] = {}
        self.settled = dict(self.before)
        if any(self.before.values()) or _reads_levels(self.block):
            while self._try(names, known):
                """Once more, without what was thought to stay."""

    def _try(self, names: Sequence[str], known: Mapping[str, Any]) -> bool:
        """Run the block; whether there are more levels that it makes itself."""
        found: dict[str, list[Tensor]] = {}
        made: list[Any] = []

        def run() -> None:
            carried = {name: _another(self.entry[name]) for name in self.carried if name in self.entry}
            given = {**known, **self.arrays, **self.entry, **carried}
            made.extend(run_nested(self.block, names, given, levels=found, as_many=self.as_many))

        outside = {id(level._value) for values in values_around() for levels in values.levels.values() for level in levels}
        outside |= {id(level._value) for level in self.entry.values()}
        sizes = {size for value in known.values() if isinstance(value, Tensor) for size in type_symbols(value.type)} | known_sizes()
        writes: dict[str, list[Any]] = {}

        def watch(op: Operator, inputs: Mapping[str, Sequence[Tensor]], outputs: Mapping[str, Sequence[Any]]) -> None:
            if op.type == WRITE:
                x, place = inputs["X"][0], inputs["I"][0]
                writes.setdefault(op.outputs["Out"][0], []).append((op.block is self.block, id(place._value), x.type.shape[:1]))

        with tape.no_grad(), watching(watch):
            on_trial(run)
        more = False
        for name, value in zip(names, made, strict=True):
            before, after = self.before[name], found.get(name, [])
            array = is_array(self.block, name) and isinstance(value, Tensor) and name not in self.arrays
            if array and self._differs(name, value, after, outside, known, sizes):
                self._let_differ(name, value, after, known, writes.get(name, []))
                more = True
                continue
            if level_name(name, 0) in self.carried or [id(level._value) for level in after] == [id(level._value) for level in before]:
                continue
            from_outside = all(id(level._value) in outside for level in after)
            if not after or from_outside and not before and (name not in known or is_array(self.block, name)):
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

    def _differs(
        self, name: str, value: Tensor, after: list[Tensor], outside: set[int], known: Mapping[str, Any], sizes: set[str]
    ) -> bool:
        """Whether the elements of an array that were alike in front of the block differ behind it, or are all of it and may differ."""
        before = self.before[name]
        if before and before[0].ndim != 1:
            return False
        if is_ragged(after):
            return True
        if after and after[0].ndim != 1:
            return False
        made_inside = any(id(level._value) not in outside for level in after)
        if name in known:
            return made_inside and not before
        rows = value.type.shape[1] if value.ndim > 1 else 0
        return made_inside or not symbols(rows) <= sizes

    def _let_differ(self, name: str, value: Tensor, after: list[Tensor], known: Mapping[str, Any], writes: list[Any]) -> None:
        """Note an array as one whose elements differ in front of the block. Arrays whose elements have as many rows as each other's there,
        and get as many in the block, have so in each round.
        """
        if name in known and known[name].type.shape[0] != 0:
            if all(here for here, *_ in writes):
                self.as_many[name] = hash((known[name].type.shape[1], *writes))
            self.arrays[name], levels = spread(known[name], self.before[name])
        else:
            alike = not is_ragged(after)
            kind = value.type.with_shape(value.type.shape[1:]) if alike else value.type
            self.arrays[name], levels = empty_ragged(kind, len(after) - (not alike))
        self.before[name] = levels
        self.entry |= {level_name(name, i): level for i, level in enumerate(levels)}
        self.carried += [level_name(name, i) for i in range(len(levels))]
        self.settled[name] = []

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
