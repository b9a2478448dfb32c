"""`steps_of_same_lengths`: that sequences have the lengths of others. What is known while a program is translated costs no run anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polyreme import dispatch
from polyreme.ir.types import TensorType
from polyreme.operators.arguments import UnsupportedError
from polyreme.static.kinds import NAMED_KINDS, Applied, OperatorKind, Slots
from polyreme.static.lod.travel import LOD
from polyreme.static.nested.values import host_calls
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


NAMED_KINDS["steps_of_same_lengths"] = SameLengths()
