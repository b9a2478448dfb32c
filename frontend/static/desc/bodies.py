"""Branches and loops that functions recorded, `nn.if` and `nn.while` with bodies of ops, as operators with blocks, which Paddle has.

A branch is two `conditional_block`s that write the same variables. A loop assigns its first values to variables, which a `while` writes in
each round; what it carries changes at the end of a round, all at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polyreme.dialects import nn
from polyreme.dtypes import of_scalar
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.types import TensorType, i1
from polyreme.operators.table import name_of_nn_op
from polyreme.static.kinds import Nn, kind_named, kind_of_nn_op
from polyreme.static.operator import Operator

if TYPE_CHECKING:
    from polyreme.static.program import Block, Program

__all__ = ["has_bodies", "with_blocks"]

_SUPPORTED = (nn.If, nn.While)


def has_bodies(program: Program) -> bool:
    """Whether a program has recorded branches or loops."""
    return any(isinstance(op.kind, Nn) and op.kind.cls in _SUPPORTED for block in program.blocks for op in block.ops)


def with_blocks(program: Program) -> Program:
    """A copy whose branches and loops are operators with blocks."""
    copy = program.clone()
    current = copy.current_block_idx
    for number in range(copy.num_blocks):
        copy.current_block_idx = number
        _BodyWriter(copy).rewrite(copy.block(number))
    copy.current_block_idx = current
    return copy


class _BodyWriter:
    """Appends operators to the current block of a program, in the place of one of its operators."""

    def __init__(self, program: Program):
        self.program = program
        self.op: Operator | None = None

    def rewrite(self, block: Block) -> None:
        ops, block.ops = block.ops, []
        for op in ops:
            cls = op.kind.cls if isinstance(op.kind, Nn) else None
            if cls not in _SUPPORTED:
                block.ops.append(op)
                continue
            self.op = op
            if cls is nn.If:
                self._branch(op.inputs["Cond"][0], op.inputs.get("Captured", []), op.data, op.outputs["Out"])
            else:
                self._loop(op.inputs["Inits"], op.inputs.get("Captured", []), op.data, op.outputs["Out"])

    # --- what is appended

    def _append(self, type: str, kind: Any, inputs: Mapping[str, Sequence[str]], outputs: Mapping[str, Sequence[str]], attrs: Any) -> None:
        assert self.op is not None
        roles = {name: value for name, value in self.op.attrs.items() if name.startswith("op_")}
        block = self.program.current_block()
        made = Operator(block, type, kind, inputs, outputs, {**attrs, **roles}, None, self.op.location)
        made.lines, made.stands_for = self.op.lines, self.op.uid
        block.ops.append(made)

    def _named(self, type: str, inputs: Mapping[str, Sequence[str]], outputs: Mapping[str, Sequence[str]], **attrs: Any) -> None:
        self._append(type, kind_named(type), inputs, outputs, attrs)

    def _variable(self, kind: TensorType, what: str) -> str:
        """A new variable of the current block."""
        block, number = self.program.current_block(), 0
        while block.has_var_recursive(f"{what}.{block.idx}_{number}"):
            number += 1
        made = block.create_var(f"{what}.{block.idx}_{number}", None, of_scalar(kind.dtype))
        made.set_type(kind)
        return made.name

    def _type(self, name: str) -> TensorType:
        return self.program.current_block().var_recursive(name).type

    # --- branches and loops

    def _branch(self, condition: str, captured: Sequence[str], regions: Mapping[str, Region], outs: Sequence[str]) -> None:
        opposite = self._variable(self._type(condition), "otherwise")
        self._named("logical_not", {"X": [condition]}, {"Out": [opposite]})
        for name, region in ((condition, regions["then_body"]), (opposite, regions["else_body"])):
            block = self.program.create_block()
            self._assign(self._ops(region, captured), outs)
            self.program.rollback()
            attrs = {"sub_block": block, "is_scalar_condition": True}
            self._named("conditional_block", {"Cond": [name], "Input": captured}, {"Out": outs, "Scope": [self._scopes()]}, **attrs)

    def _loop(self, inits: Sequence[str], captured: Sequence[str], regions: Mapping[str, Region], outs: Sequence[str]) -> None:
        *carried, rounds = outs
        self._assign(inits, carried)
        kind = self._type(rounds)
        attrs = {"shape": list(kind.shape), "value": 0.0, "dtype": of_scalar(kind.dtype).name}
        self._named("fill_constant", {}, {"Out": [rounds]}, **attrs)
        again = self._variable(TensorType((1,), i1), "again")
        given = [*carried, *captured]
        self._assign(self._ops(regions["condition"], given), [again])
        block = self.program.create_block()
        ends = self._ops(regions["body"], given)
        held = [self._variable(self._type(name), "next") for name in ends]
        self._assign(ends, held)
        self._assign(held, carried)
        self._named("increment", {"X": [rounds]}, {"Out": [rounds]}, step=1.0)
        self._assign(self._ops(regions["condition"], given), [again])
        self.program.rollback()
        self._named(
            "while", {"X": [*given, rounds], "Condition": [again]}, {"Out": [*carried, rounds, again], "StepScopes": [self._scopes()]},
            sub_block=block, is_test=False,
        )  # fmt: skip

    def _scopes(self) -> str:
        return self._variable(TensorType((), i1), "scopes")

    def _assign(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._named("assign", {"X": [source]}, {"Out": [target]})

    def _ops(self, region: Region, given: Sequence[str]) -> list[str]:
        """The ops of a body, whose arguments are the variables `given`; the variables that it yields."""
        names: dict[Value, str] = dict(zip(region.block.args, given, strict=True))
        for op in region.block:
            if op is region.block.last:
                break
            self._op(op, names)
        return [names[value] for value in region.block.terminator.operands]

    def _op(self, op: Op, names: dict[Value, str]) -> None:
        cls = type(op)
        groups = [names[v] for v in op.operands]
        outs = [self._variable(result.type, name_of_nn_op(cls)) for result in op.results]
        split = op.definition.split(groups, op.segments)
        slots = [part.name.capitalize() for part in op.definition.operands]
        inputs = {s: [g] if isinstance(g, str) else list(g or ()) for s, g in zip(slots, split, strict=True)}
        if cls is nn.If:
            self._branch(inputs["Cond"][0], inputs["Captured"], {r: getattr(op, r) for r in ("then_body", "else_body")}, outs)
        elif cls is nn.While:
            self._loop(inputs["Inits"], inputs["Captured"], {r: getattr(op, r) for r in ("condition", "body")}, outs)
        else:
            attrs = {name: getattr(op, name) for name in op.definition.attributes}
            self._append(name_of_nn_op(cls), kind_of_nn_op(cls), inputs, {"Out": outs}, attrs)
        names.update(zip(op.results, outs, strict=True))
