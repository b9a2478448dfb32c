"""From Paddle's bytes to a Program: blocks, variables and operators as they are there.

A gradient operator is found its forward operator, by the names that both read and write. An operator that we do not know is kept, with all
it has, and refused when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyreme.dtypes import PROTOBUF_DTYPES
from polyreme.ir.diagnostics import UNKNOWN, Location, did_you_mean
from polyreme.ir.dims import symbol
from polyreme.loaders import attribute_kinds as attributes
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.program_desc import (
    LOD_TENSOR,
    LOD_TENSOR_ARRAY,
    BlockDesc,
    OpDesc,
    ProgramDesc,
    VarDesc,
    read_program,
)
from polyreme.operators.table import LEGACY
from polyreme.static.desc.gradients import EMPTY, compact
from polyreme.static.desc.versions import has_scalars
from polyreme.static.kinds import GRADIENT, NAMED_KINDS, Applied, GradientOf, OperatorKind, Slots, kind_named
from polyreme.static.lod.read_rows import is_read_by_rows
from polyreme.static.lod.travel import ROWS
from polyreme.static.nested import kinds as _nested  # noqa: F401  (which adds its kinds to the table)
from polyreme.static.nested.uses import SCOPES, blocks_of
from polyreme.static.operator import Operator, OperatorError, forward_type
from polyreme.static.variable import GRAD, Parameter, Variable

if TYPE_CHECKING:
    from polyreme.static.program import Block, Program

__all__ = ["fill_program"]

_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_LINE = re.compile(r'\s*File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}), in ')


class Unsupported(OperatorKind):
    """An operator of a type that has no meaning here. It may stand in a program, but cannot run."""

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        raise OperatorError(f"the operator '{op.type}' is not supported{did_you_mean(op.type, LEGACY)}", op.location, code="E0702")

    def optional(self, op: Operator) -> Sequence[str]:
        return list(op.inputs)

    def differentiable(self, op: Operator) -> bool:
        return False


class Passed(OperatorKind):
    """`feed` and `fetch`: what a run feeds and fetches is known by names, so that these do nothing."""

    def apply(self, op: Operator, inputs: Slots, applied: Mapping[int, Applied]) -> Slots:
        return {}

    def optional(self, op: Operator) -> Sequence[str]:
        return list(op.inputs)

    def differentiable(self, op: Operator) -> bool:
        return False

    def infer(self, op: Operator) -> dict[str, list[Any]]:
        return {"Out": []}


# What 1.8.5 puts before the names of gradients when it goes back through a program once more.
_OF_A_LATER_PASS = "grad/"

UNSUPPORTED, PASSED = Unsupported(), Passed()
NAMED_KINDS.update({"feed": PASSED, "fetch": PASSED})


def fill_program(program: Program, data: bytes, file: str = "the program") -> None:
    """Give an empty program what `data`, the bytes of a `ProgramDesc`, has. A `LoaderError` says where they are wrong."""
    desc = read_program(data, file)
    program.add_blocks([block.parent_idx for block in desc.blocks])
    for place, found in enumerate(desc.blocks):
        block = program.blocks[place]
        if not found.parent_idx < place:
            raise LoaderError(f"{file}: block {place}: expected its parent in front of it but got block {found.parent_idx}")
        block.forward_block_idx = found.forward_block_idx
        for variable in found.variables.values():
            block.vars[variable.name] = _variable(block, variable, desc)
    # The last one first: what an operator with a block reads is found in that.
    for place, found in reversed(list(enumerate(desc.blocks))):
        block, known = program.blocks[place], _Forwards()
        for number, op in enumerate(found.ops):
            where = f"{file}: at byte {op.at}, blocks[{place}].ops[{number}] ('{op.type}')"
            block.ops.append(_operator(block, op, known, where))
            known.note(block.ops[-1])
        _check_names(block, found, file)
    for block in program.blocks:
        for made in block.ops:
            for name in made.output_arg_names:
                if (target := block._find_var_recursive(name)) is not None:
                    target.op = made
    _count_rows_apart(program.global_block())
    _go_on_with_arrays(program)
    program.touch()


def _count_rows_apart(block: Block) -> None:
    """Sequences that are fed have as many rows as they have together, which is not how many sequences there are."""
    written = {name for op in block.ops for name in op.output_arg_names}
    for name, variable in block.vars.items():
        if variable.lod_level and not variable.persistable and name not in written and variable.shape[:1] == [-1]:
            variable.set_type(variable.type.with_shape((symbol(ROWS), *variable.type.shape[1:])))


def _go_on_with_arrays(program: Program) -> None:
    """In Paddle an array is written in place. Here the operator reads it as well, where it may have elements."""
    for block in program.blocks:
        written: set[str] = set()
        for op in block.ops:
            if op.type == "write_to_array" and not op.inputs.get("Array"):
                (name,) = op.outputs["Out"]
                if name in written or _may_have_elements(block, name):
                    op.inputs["Array"] = [name]
            written.update(op.output_arg_names)


def _may_have_elements(block: Block, name: str) -> bool:
    """Whether an array from outside of a block was written to in front of it, or by an earlier round of a loop."""
    parent = block.parent_block
    if parent is None or name in block.vars:
        return False
    for op in parent.ops:
        if block in blocks_of(op):
            return op.type == "while" or _may_have_elements(parent, name)
        if name in op.output_arg_names:
            return True
    return False


def _check_names(block: Block, desc: BlockDesc, file: str) -> None:
    """Operators name variables that are there; a backward block may name those of its forward block."""
    if block.forward_block_idx != -1:
        return
    for number, op in enumerate(block.ops):
        for name in (*op.input_arg_names, *op.output_arg_names):
            if name and name != EMPTY and not block.has_var_recursive(name):
                known = [n for b in block._chain() for n in b.vars]
                raise LoaderError(
                    f"{file}: at byte {desc.ops[number].at}, blocks[{block.idx}].ops[{number}] ('{op.type}'): expected a variable of the "
                    f"program but got '{name}'{did_you_mean(name, known)}"
                )


def _variable(block: Block, desc: VarDesc, program: ProgramDesc) -> Variable:
    dense = desc.kind == LOD_TENSOR and desc.dtype in PROTOBUF_DTYPES
    # Before there were tensors of rank 0, no sizes meant that nobody has said any.
    told = dense and (bool(desc.dims) or has_scalars(program.version))
    dtype = PROTOBUF_DTYPES.get(desc.dtype, "float32")
    if told and desc.is_parameter and desc.persistable and all(d >= 0 for d in desc.dims):
        made: Variable = Parameter(block, desc.name, desc.dims, dtype, trainable=not desc.stop_gradient, location=UNKNOWN)
    else:
        made = Variable(
            block,
            desc.name,
            desc.dims if told else None,
            dtype,
            persistable=desc.persistable,
            stop_gradient=desc.stop_gradient or desc.need_check_feed and not has_scalars(program.version),
            is_data=desc.need_check_feed,
            need_check_feed=desc.need_check_feed,
            lod_level=desc.lod_level,
            location=UNKNOWN,
        )
    made.kind, made.desc_kept = desc.kind, desc
    made.is_tensor_array = desc.kind == LOD_TENSOR_ARRAY
    return made


def _operator(block: Block, desc: OpDesc, known: _Forwards, where: str) -> Operator:
    attrs = {name: _attribute(block, desc, name, value, where) for name, value in desc.attrs.items()}
    desc = _without_undeclared(block, desc)
    inputs = {slot: [n for n in names if n] for slot, names in desc.inputs.items()}
    outputs = {slot: [n for n in names if n] for slot, names in desc.outputs.items()}
    kind: OperatorKind = UNSUPPORTED
    forward = known.of(desc) if forward_type(desc.type) is not None else None
    if forward is not None:
        kind = GRADIENT
        inputs, outputs = compact(inputs, forward.seeds), compact(outputs, forward.wrt)
    elif desc.type in LEGACY or desc.type in NAMED_KINDS:
        kind = kind_named(desc.type)
    made = Operator(block, desc.type, kind, inputs, outputs, attrs, forward, _location(desc))
    made.attr_kinds = dict(desc.kinds)
    if forward is not None:
        made.slots_kept = desc.inputs, desc.outputs
    return made


def _without_undeclared(block: Block, desc: OpDesc) -> OpDesc:
    """A gradient operator with a block may name, of results that nobody reads, gradients that nobody makes or declares: those are none."""
    if attributes.BLOCK not in desc.kinds.values():
        return desc
    inputs = {
        slot: [n if not n.endswith(GRAD) or block.has_var_recursive(n) else EMPTY for n in names] if slot.endswith(GRAD) else names
        for slot, names in desc.inputs.items()
    }
    return replace(desc, inputs=inputs)


def _attribute(block: Block, desc: OpDesc, name: str, value: Any, where: str) -> Any:
    kind = desc.kinds[name]
    if name in attributes.ROLE_KINDS and kind != attributes.ROLE_KINDS[name]:
        raise LoaderError(f"{where}: expected an attribute of kind {attributes.ROLE_KINDS[name]} as '{name}' but got {value!r}")
    if kind not in (attributes.BLOCK, attributes.BLOCKS):
        return value
    found = []
    for number in value if kind == attributes.BLOCKS else [value]:
        if not isinstance(number, int) or not 0 < number < block.program.num_blocks:
            count = block.program.num_blocks
            raise LoaderError(f"{where}: expected the number of a block as '{name}', below {count}, but got {number!r}")
        found.append(block.program.blocks[number])
    return found if kind == attributes.BLOCKS else found[0]


def _location(desc: OpDesc) -> Location:
    """The user's line, of the calls that Paddle notes with an operator: the last one that is not of an installed package, as Paddle is."""
    calls = [_LINE.match(call) for call in desc.attrs.get("op_callstack") or () if isinstance(call, str)]
    found = [call for call in calls if call is not None]
    users = [call for call in found if not _INSTALLED.search(call["file"])] or found
    # A name, not a file: what a program says must not make us open it.
    return Location(name=f"{users[-1]['file']}:{users[-1]['line']}") if users else UNKNOWN


class _Forwards:
    """The operators of a block so far whose gradients may follow."""

    def __init__(self) -> None:
        self.by_type: dict[str, list[Operator]] = {}
        self.used: set[tuple[int, tuple[str, ...]]] = set()

    def note(self, op: Operator) -> None:
        self.by_type.setdefault(op.type, []).append(op)

    def of(self, desc: OpDesc) -> GradientOf | None:
        """The operator in this block that an operator is the gradient of."""
        arrived = {slot: names for slot, names in desc.inputs.items() if slot.endswith(GRAD) and any(n != EMPTY for n in names)}
        left = {slot: names for slot, names in desc.outputs.items() if slot.endswith(GRAD) and any(n and n != EMPTY for n in names)}
        for op in reversed(self.by_type.get(forward_type(desc.type) or "", ())):
            seeds = _places(arrived, op.write_slots())
            wrt = _places(left, op.read_slots())
            key = op.uid, tuple(n for names in arrived.values() for n in names)
            if seeds is None or wrt is None or not wrt or key in self.used or not _agree(desc, op):
                continue
            self.used.add(key)
            read = tuple(s for s in desc.inputs if s in op.inputs)
            return GradientOf(op.uid, tuple(wrt), tuple(seeds), read, is_read_by_rows(op))
        return None


def _places(found: Mapping[str, Sequence[str]], slots: Mapping[str, Sequence[str]]) -> list[tuple[str, int]] | None:
    """Where the gradients in `found` belong, by slot and place; None where their names are those of other variables."""
    places = []
    for slot, names in found.items():
        own = slots.get(slot.removesuffix(GRAD), ())
        for i, name in enumerate(names):
            if not name or name == EMPTY or slot.removesuffix(GRAD) in SCOPES:
                continue
            of = name.partition(GRAD)[0]
            while of.startswith(_OF_A_LATER_PASS):
                of = of.removeprefix(_OF_A_LATER_PASS)
            # Operators with blocks leave out, at any place, what gets no gradient. What a user gives as a gradient has any name.
            given = GRAD not in name and len(own) == len(names)
            place = i if given or i < len(own) and own[i] == of else own.index(of) if of in own else -1
            if place < 0:
                return None
            places.append((slot.removesuffix(GRAD), place))
    return places


def _agree(desc: OpDesc, op: Operator) -> bool:
    """Whether a gradient operator reads, in the slots of its forward operator, what that reads and writes."""
    own = {**op.outputs, **op.inputs}
    return all(slot.endswith(GRAD) or not names or slot not in own or names == own[slot] for slot, names in desc.inputs.items())
