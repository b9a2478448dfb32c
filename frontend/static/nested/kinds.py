"""`while`, `conditional_block` and `recurrent`: operators that run a block of their own. They become `nn.while`, `nn.if` and `nn.scan`.

What such an operator reads and writes is what its block does, besides what its slots name: a program built by hand may leave names out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from polyreme import dispatch, tape
from polyreme.control_flow import UNDEFINED
from polyreme.dialects import nn
from polyreme.ir.core import Value
from polyreme.ir.diagnostics import InferError
from polyreme.ir.types import TensorType
from polyreme.operators.control.arrays import empty_arrays
from polyreme.operators.control.blocks import (
    BRANCHES,
    OVER_SEQUENCES,
    RECURRENT,
    WHILE,
    is_not_empty,
    run_branch,
    run_recurrent,
    run_while,
)
from polyreme.static.kinds import NAMED_KINDS, Applied, OperatorKind, Slots
from polyreme.static.lod.travel import LOD
from polyreme.static.nested.growing import new_arrays, room_for_arrays
from polyreme.static.nested.levels import LevelsThrough
from polyreme.static.nested.rowwise import SEQUENCE_OPERATORS, MixedRows, OfSequences, check_rowwise
from polyreme.static.nested.uses import block_of, names_from_outside
from polyreme.static.nested.values import levels_around, run_nested, watching
from polyreme.static.operator import ROLE_NAMES, Operator, OperatorError
from polyreme.tensor import Tensor

__all__ = ["BlockKind"]


class BlockKind(OperatorKind):
    """An operator that runs a block. `reading` and `writing` are the slots of the variables that the block reads and writes."""

    reading = "X"
    writing = "Out"
    scopes = "StepScopes"
    taken: tuple[str, ...] = ()
    fixed: frozenset[str] = frozenset()

    def attributes(self, op: Operator) -> Collection[str]:
        return ["sub_block", *self.taken]

    def optional(self, op: Operator) -> Collection[str]:
        return (self.reading,)

    def reads(self, op: Operator) -> dict[str, list[str]]:
        given = op.inputs.get(self.reading, [])
        reads, writes = names_from_outside(block_of(op))
        return {**op.inputs, self.reading: list(dict.fromkeys([*given, *reads, *writes]))}

    def writes(self, op: Operator) -> dict[str, list[str]]:
        given = op.outputs.get(self.writing, [])
        _, writes = names_from_outside(block_of(op))
        return {**op.outputs, self.writing: list(dict.fromkeys([*given, *writes]))}

    def known(self, op: Operator, inputs: Slots) -> dict[str, Any]:
        """What the variables hold that the block may read."""
        return {
            name: tensor
            for slot, names in op.read_slots().items()
            for name, tensor in zip(names, inputs.get(slot, ()), strict=True)
            if tensor is not None
        }

    def infer(self, op: Operator) -> dict[str, list[TensorType]]:
        """Nothing but slots: the variables that a block writes have the types that its operators gave them."""
        self.check(op)
        return {self.writing: [], self.scopes: []}

    def check(self, op: Operator) -> None:
        """That slots and attributes are what the operator takes."""
        block = op.attrs.get("sub_block")
        if "sub_block" not in op.attrs or op.block_attr("sub_block") == op.block.idx:
            message = f"expected another block as the attribute 'sub_block' of '{op.type}' but got {block!r}"
            raise OperatorError(message, op.location, code="E0606")
        for slot in op.inputs:
            if slot not in (self.reading, *self.fixed):
                raise OperatorError(
                    f"expected the input slots {', '.join(sorted((self.reading, *self.fixed)))} of '{op.type}' but got '{slot}'",
                    op.location,
                    code="E0606",
                )
        for name in op.attrs:
            if name not in self.attributes(op) and name not in ROLE_NAMES:
                raise OperatorError(f"'{op.type}' has no attribute '{name}'", op.location, code="E0606")


def _one_bool(op: Operator, slot: str) -> str:
    """The name in a slot, which is one bool of one element."""
    names = op.inputs.get(slot, [])
    if len(names) != 1:
        raise OperatorError(f"expected one variable in '{slot}' of '{op.type}' but got {len(names)}", op.location, code="E0606")
    variable = op.block.var_recursive(names[0])
    if variable.has_shape and variable.type.dtype.name != "i1":
        raise OperatorError(
            f"expected a bool as the condition of '{op.type}' but '{names[0]}' is {variable.dtype.name}{list(variable.shape)}",
            op.location,
            code="E0606",
        )
    return names[0]


class While(BlockKind):
    """Runs its block as long as its condition, which the block writes, holds."""

    taken = ("is_test", "skip_eager_deletion_vars")
    fixed = frozenset(("Condition",))

    def check(self, op: Operator) -> None:
        super().check(op)
        condition = _one_bool(op, "Condition")
        if condition not in names_from_outside(block_of(op))[1]:
            raise OperatorError(
                f"expected the block of '{op.type}' to write its condition '{condition}' but no operator of it does: it would not end",
                op.location,
                code="E0606",
            )

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        known = self.known(op, inputs)
        try:
            return self._rounds(op, dict(known))
        except InferError as error:
            condition = _one_bool(op, "Condition")
            changing = names_from_outside(block_of(op))[1]
            begins = known[condition]._known() if condition in known else None
            if error.diagnostics[0].code != "E0305" or begins is None or not begins.all() or any(map(levels_around, changing)):
                raise
            # A state of one row that the first round makes as many as the batch has. That round is sure: it stands in front of the loop.
            made = run_nested(block_of(op), changing, known)
            return self._rounds(op, known | {name: value for name, value in zip(changing, made, strict=True) if value is not UNDEFINED})

    def _rounds(self, op: Operator, known: dict[str, Any]) -> Slots:
        """The loop, on what the variables `known` hold."""
        block = block_of(op)
        condition = _one_bool(op, "Condition")
        names = op.write_slots()[self.writing]
        changing = [name for name in names_from_outside(block)[1] if name != condition]
        def run(wanted: Sequence[str], given: Mapping[str, Any], ops: Sequence[Operator] | None = None) -> list[Any]:
            return run_nested(block, wanted, given, ops, as_many=levels.as_many)

        levels = LevelsThrough(op, changing, known)
        known |= levels.entry | levels.arrays
        known |= empty_arrays(new_arrays(block, changing, known), known, run)
        room = room_for_arrays(block, condition, changing, known, run) if tape.is_grad_enabled() else {}
        carried = [condition, *changing, *(name for name in room if name not in changing), *levels.carried]
        made = run_while(condition, carried, {**known, **room}, run)
        ends = dict(zip(carried, made, strict=True))
        return {self.writing: [ends.get(name, known.get(name, UNDEFINED)) for name in names], **levels.after(ends)}


class ConditionalBlock(BlockKind):
    """Runs its block if its condition holds: a bool, or with `is_scalar_condition` off, that the tensors of `Cond` have elements."""

    reading = "Input"
    scopes = "Scope"
    taken = ("is_scalar_condition", "skip_eager_deletion_vars")
    fixed = frozenset(("Cond",))

    def check(self, op: Operator) -> None:
        super().check(op)
        if op.attrs.get("is_scalar_condition"):
            _one_bool(op, "Cond")

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        block = block_of(op)
        condition = inputs["Cond"][0] if op.attrs.get("is_scalar_condition") else is_not_empty(inputs["Cond"])
        names = op.write_slots()[self.writing]
        known = self.known(op, inputs)
        levels = LevelsThrough(op, names, known)
        wanted = [*names, *levels.carried]

        def run(wanted: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
            return run_nested(block, wanted, given, as_many=levels.as_many)

        made = run_branch(condition, wanted, {**known, **levels.arrays, **levels.entry}, run)
        return {self.writing: made[: len(names)], **levels.after(dict(zip(wanted, made, strict=True)))}


class Recurrent(BlockKind):
    """Runs its block once for each row of its inputs, which in the block go by the same names, as do the rows of its outputs."""

    reading = "parameters"
    writing = "outputs"
    scopes = "step_scopes"
    taken = ("ex_states", "states", "reverse", "has_states", "is_train", "skip_eager_deletion_vars")
    fixed = frozenset(("inputs", "initial_states"))

    def reads(self, op: Operator) -> dict[str, list[str]]:
        own = op.inputs.get("inputs", ())
        found = super().reads(op)
        block = block_of(op)
        names = [name for name in found[self.reading] if name not in own and name not in op.outputs.get(self.writing, ())]
        return {**found, self.reading: [name for name in names if name not in block.vars]}

    def writes(self, op: Operator) -> dict[str, list[str]]:
        return op.outputs

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        block = block_of(op)
        names, firsts = op.attrs.get("ex_states", []), inputs.get("initial_states", [])
        ends = op.attrs.get("states", [])
        if not len(names) == len(ends) == len(firsts):
            raise OperatorError(
                f"expected as many 'ex_states' and 'states' as there are initial states, {len(firsts)}, "
                f"but got {len(names)} and {len(ends)}",
                op.location,
                code="E0606",
            )
        rows = dict(zip(op.inputs.get("inputs", ()), inputs.get("inputs", ()), strict=True))
        states: dict[str, tuple[str, Tensor]] = {
            name: (end, first) for name, end, first in zip(names, ends, firsts, strict=True)
        }
        known = {name: t for name, t in zip(op.read_slots()[self.reading], inputs[self.reading], strict=True) if t is not None}
        outputs = op.outputs.get(self.writing, [])
        made = run_recurrent(
            rows, states, outputs, known, lambda wanted, given: run_nested(block, wanted, given), bool(op.attrs.get("reverse"))
        )
        return {self.writing: list(made)}


class OverSequences(Recurrent):
    """A `recurrent` whose inputs, states and `static_inputs` have a row for each sequence, none of which may depend on others."""

    fixed = frozenset(("inputs", "initial_states", "static_inputs"))

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        marks: dict[Value, OfSequences] = {}

        def watch(inner: Operator, read: Slots, gave: Slots) -> None:
            if inner.type in SEQUENCE_OPERATORS:
                recorder: Any = dispatch.active_trace()
                given = {slot: [recorder.value_of(t) for t in tensors] for slot, tensors in read.items() if not slot.endswith(LOD)}
                levels = read[SEQUENCE_OPERATORS[inner.type][0] + LOD]
                marks[gave["Out"][0]._value] = OfSequences(inner.type, given, levels[-1]._value)

        with watching(watch):
            made = super().apply(op, inputs, applied)
        scan = made[self.writing][0]._value.producer(nn.Scan)
        recorder: Any = dispatch.active_trace()
        levels = [levels_around(name) for name in op.inputs.get("static_inputs", ())]
        static = [
            (recorder.value_of(tensor), level[-1]._value if level else None)
            for tensor, level in zip(inputs.get("static_inputs", ()), levels, strict=True)
        ]
        try:
            check_rowwise(scan, len(inputs.get("initial_states", ())), static, marks)
        except MixedRows as error:
            location = error.op.location if error.op is not None else op.location
            inner = next((o for o in block_of(op).ops if o.location == location), None)
            what = f"'{inner.type}' cannot stand there: {error.why}" if inner is not None else error.why
            raise OperatorError(
                f"expected each row of a step of 'DynamicRNN' to be of its own sequence alone but {what}; do it outside the block",
                location,
                code="E0703",
            ) from None
        return made


NAMED_KINDS[WHILE] = While()
NAMED_KINDS.update(dict.fromkeys(BRANCHES, ConditionalBlock()))
NAMED_KINDS[RECURRENT] = Recurrent()
NAMED_KINDS[OVER_SEQUENCES] = OverSequences()
