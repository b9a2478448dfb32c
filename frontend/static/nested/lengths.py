"""What operators ask of the lengths of sequences: that they are those of others, or that a number divides them. What is known while a
program is translated costs no run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polyreme import dispatch
from polyreme.ir.types import TensorType
from polyreme.operators.arguments import UnsupportedError
from polyreme.static.kinds import NAMED_KINDS, Applied, OperatorKind, Slots, TableOperator
from polyreme.static.lod.travel import LOD
from polyreme.static.nested.values import host_calls, is_translating
from polyreme.static.operator import Operator, RunError


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


NAMED_KINDS["steps_of_same_lengths"] = SameLengths()
NAMED_KINDS["sequence_reshape"] = ReshapedSequences()
