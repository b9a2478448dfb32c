"""What operators ask of the lengths of sequences: that they are those of others, or that a number divides them, and what `concat` makes of
them. What is known while a program is translated costs no run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polyreme import dispatch, math
from polyreme.ir.types import TensorType
from polyreme.operators.arguments import UnsupportedError
from polyreme.static.kinds import NAMED_KINDS, Applied, OperatorKind, Slots, TableOperator
from polyreme.static.lod.travel import LOD
from polyreme.static.nested.values import host_calls, is_translating, levels_around
from polyreme.static.operator import Operator, RunError
from polyreme.tensor import Tensor


class SameLengths(OperatorKind):
    """Gives `Places`, those of the steps of `Like`, as `Out`; a run where the lengths of `X` are not those of `Like` is a `RunError`."""

    def level_slots(self, op: Operator) -> Sequence[str]:
        return ["X" + LOD, "Like" + LOD]

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        return {"Out": [op.block.var_recursive(op.inputs["Places"][0]).type]}

    def differentiable(self, op: Operator) -> bool:
        return False

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        mine, others = inputs["X" + LOD], inputs["Like" + LOD]
        (x,), (like,) = op.inputs["X"], op.inputs["Like"]
        for name, levels in ((x, mine), (like, others)):
            if not levels:
                raise UnsupportedError(f"expected sequences in '{name}' but it has no levels of detail; feed a LoDTensor")
        if mine[-1]._value is not others[-1]._value:
            calls = host_calls()
            if calls is None:
                raise RunError(
                    f"expected '{x}' to have the levels of detail of '{like}' but they come from elsewhere, and whether they are equal "
                    "only a run by an Executor tells",
                    op.location,
                )

            def compare(offsets: list[np.ndarray]) -> list[np.ndarray]:
                found = [np.diff(o).tolist() for o in offsets]
                if found[0] != found[1]:
                    raise RunError(
                        f"expected the sequences of '{x}' to have the lengths of those of '{like}', {found[1]}, but theirs are {found[0]}",
                        op.location,
                    )
                return []

            calls.check(dispatch.active_trace(), "same_lengths", compare, [mine[-1], others[-1]], op.location)
        return {"Out": inputs["Places"]}


class ReshapedSequences(TableOperator):
    """`sequence_reshape`; a run in which rows of the new size do not make up each sequence is a `RunError`."""

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        made = super().apply(op, inputs, applied)
        (x,), size = inputs["X"], op.attrs["new_dim"]
        columns = x.type.shape[1]
        if isinstance(columns, int) and columns % size and is_translating():
            calls, levels = host_calls(), inputs["X" + LOD]
            if calls is None:
                raise RunError(
                    f"expected rows of which {size} elements make up a row of '{op.inputs['X'][0]}' in a block, but they have {columns}; "
                    "reshape the sequences in front of the block",
                    op.location,
                )

            def compare(offsets: list[np.ndarray]) -> list[np.ndarray]:
                lengths = np.diff(offsets[0]).tolist()
                if any(length * columns % size for length in lengths):
                    raise RunError(
                        f"expected sequences of '{op.inputs['X'][0]}' whose elements make up rows of {size} but they have {lengths} rows "
                        f"of {columns}",
                        op.location,
                    )
                return []

            calls.check(dispatch.active_trace(), "whole_rows", compare, levels[-1:], op.location)
        return made


class Joined(TableOperator):
    """`concat`: along axis 0 the sequences of each input are behind those of the one before, where all inputs have as many levels."""

    def level_slots(self, op: Operator) -> Sequence[str]:
        return ["X" + LOD]

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        given = dict(inputs)
        levels = given.pop("X" + LOD, [])
        made = super().apply(op, given, applied)
        names = op.inputs.get("X", [])
        counts = {len(levels_around(name)) if is_translating() else op.block.var_recursive(name).lod_level for name in names}
        along_rows = op.attrs.get("axis", 0) in (0, -given["X"][0].ndim) and not given.get("AxisTensor")
        if along_rows and len(counts) == 1 and len(levels) == (count := counts.pop()) * len(names) > 0:
            made["Out" + LOD] = [_one_behind_the_other(levels[level::count]) for level in range(count)]
        return made


def _one_behind_the_other(levels: Sequence[Tensor]) -> Tensor:
    """The offsets of the sequences of all of these."""
    joined = levels[0]
    for level in levels[1:]:
        joined = math.concat([joined, math.add(level[1:], joined[-1:])], 0)
    return joined


NAMED_KINDS["concat"] = Joined()
NAMED_KINDS["steps_of_same_lengths"] = SameLengths()
NAMED_KINDS["sequence_reshape"] = ReshapedSequences()
