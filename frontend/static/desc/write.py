"""From a Program to Paddle's bytes. Operators under Paddle's names are written as they are, recorded ops as `spelling.py` says.

What no file can hold, such as a Python function, is an `OperatorError` at the line that made the operator. For printing it is written under
its own name all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.dtypes import dtype as DType
from polyreme.ir.dims import Expr
from polyreme.ir.types import ScalarType, TensorType
from polyreme.loaders import attribute_kinds as kinds
from polyreme.loaders.program_desc import LOD_TENSOR, LOD_TENSOR_ARRAY, STEP_SCOPES, BlockDesc, OpDesc, ProgramDesc, VarDesc
from polyreme.operators.table import LEGACY
from polyreme.static.desc.bodies import has_bodies, with_blocks
from polyreme.static.desc.gradients import EMPTY, compact, spell_gradient
from polyreme.static.desc.spelling import spell
from polyreme.static.desc.startup import spell_fill
from polyreme.static.desc.updates import spell_update
from polyreme.static.desc.versions import WRITTEN
from polyreme.static.desc.words import NUMBERS, Spelled, Words, number_of
from polyreme.static.kinds import Gradient, GradientOf, Host, Nn, Update
from polyreme.static.nested.kinds import BlockKind
from polyreme.static.nested.uses import SCOPES
from polyreme.static.operator import Operator, OperatorError, gradient_type, is_block
from polyreme.static.variable import GRAD, Variable

if TYPE_CHECKING:
    from polyreme.static.program import Block, Program

__all__ = ["describe", "operators_of", "variable_desc"]


def describe(program: Program, strict: bool = True) -> ProgramDesc:
    """The program as Paddle has it. With `strict` an operator that Paddle lacks is an `OperatorError`."""
    return _Writer(with_blocks(program) if has_bodies(program) else program, strict).run()


def operators_of(op: Operator) -> list[OpDesc]:
    """What one operator of a program is there, also where Paddle lacks it: one operator or several, or none for what others say."""
    program = op.block.program
    writer = _Writer(with_blocks(program) if has_bodies(program) else program, strict=False)
    writer.run()
    return writer.written.get(op.uid, [])


class _Writer:
    """The state of writing: what stands for each operator so far, by its `uid`."""

    def __init__(self, program: Program, strict: bool):
        self.program, self.strict = program, strict
        self.said: dict[int, list[Spelled]] = {}
        self.written: dict[int, list[OpDesc]] = {}

    def run(self) -> ProgramDesc:
        desc = ProgramDesc([BlockDesc(b.idx, b.parent_idx, b.forward_block_idx) for b in self.program.blocks], WRITTEN)
        for block, target in zip(self.program.blocks, desc.blocks, strict=True):
            self._write_block(block, target)
        return desc

    def _write_block(self, block: Block, target: BlockDesc) -> None:
        unread = _only_draws(block)
        scopes = {name for op in block.ops for slot, names in op.outputs.items() if slot in SCOPES for name in names}
        for variable in block.vars.values():
            if variable.name not in unread:
                target.variables[variable.name] = variable_desc(variable, variable.name in scopes)
        for op in block.ops:
            if op.output_arg_names and unread.issuperset(op.output_arg_names):
                continue
            words = Words(op, block)
            try:
                self._say(op, words)
            except OperatorError:
                if self.strict:
                    raise
                words = Words(op, block)
                words.said.append(_as_it_is(op))
            for name, kind in words.made.items():
                if name not in target.variables or name in op.output_arg_names:
                    target.variables[name] = _made(name, kind)
            written = [_operator(op, spelled) for spelled in words.said]
            self.written.setdefault(op.uid if op.stands_for is None else op.stands_for, []).extend(written)
            target.ops += written

    def _say(self, op: Operator, words: Words) -> None:
        kind = op.kind
        if isinstance(kind, Gradient):
            self._say_gradient(op, words)
        elif isinstance(kind, Nn):
            if kind.cls.definition.regions:
                raise words.refuse("no operator of Paddle's has such a body; use 'static.nn.while_loop', or the operator 'recurrent'")
            spell(kind.cls, words)
        elif isinstance(kind, Update):
            spell_update(kind.rule, words)
        elif isinstance(kind, Host):
            spell_fill(words)
        elif op.data is not None:
            raise words.refuse("it calls Python functions, which no file can hold")
        else:
            words.said.append(_as_it_is(op))
            if not op.attr_kinds:
                _add_results(op, words)
            plain = op.type == "fill_constant" and not (op.attr_kinds or op.inputs or op.attrs.get("shape"))
            if plain and words.only_beside_larger(words.out):
                # As where a number is recorded: older Paddle has no tensors of rank 0.
                words.said[0].attrs["shape"] = [1]
                words.made[words.out] = TensorType((1,), words.type(words.out).dtype)
        self.said[op.uid] = list(words.said)

    def _say_gradient(self, op: Operator, words: Words) -> None:
        of: GradientOf = op.data
        forward = next((o for b in self.program.blocks for o in b.ops if o.uid == of.uid), None)
        if forward is None or of.uid not in self.said:
            raise words.refuse("what it is the gradient of is no operator in front of it, or a branch or loop by functions")
        said = self.said[of.uid]
        if op.attr_kinds or isinstance(forward.kind, BlockKind):
            words.said.append(_own_gradient(op, forward, said[0]))
            return
        read, written = forward.read_slots(), forward.write_slots()
        seeds = [name for slot in dict.fromkeys(slot for slot, _ in of.seeds) for name in op.inputs[slot + GRAD]]
        arrived = {written[slot][i]: name for (slot, i), name in zip(of.seeds, seeds, strict=True)}
        targets = [name for slot in dict.fromkeys(slot for slot, _ in of.wrt) for name in op.outputs[slot + GRAD]]
        wanted: dict[str, list[str]] = {}
        for (slot, i), name in zip(of.wrt, targets, strict=True):
            wanted.setdefault(read[slot][i], []).append(name)
        earlier = Words(forward, words.block)
        _remember(earlier, said, forward)
        words.made |= earlier.made
        spell_gradient(words, said, arrived, wanted)


def _remember(words: Words, said: Sequence[Spelled], forward: Operator) -> None:
    """The variables on the way that stand for the forward operator were made when it was written."""
    if isinstance(forward.kind, Nn):
        spell(forward.kind.cls, words)


def _as_it_is(op: Operator) -> Spelled:
    # That an array is read when it is written to, Paddle does not say.
    inputs = {slot: names for slot, names in op.inputs.items() if (op.type, slot) != ("write_to_array", "Array")}
    return Spelled(op.type, inputs, dict(op.outputs), {k: v for k, v in op.attrs.items() if v is not None}, dict(op.attr_kinds))


# Results that operators of Paddle must have, and that a program here may leave out, with the slot of a variable of the same type.
_RESULTS = {
    "XShape": "X", "Mask": "X", "Softmax": "Logits", "SavedMean": "Mean", "SavedVariance": "Variance", "Mean": "Scale", "Variance": "Scale",
}  # fmt: skip


def _add_results(op: Operator, words: Words) -> None:
    """Name the results that Paddle keeps for gradients."""
    spelled = words.said[-1]
    for slot in LEGACY[op.type][1].outputs if op.type in LEGACY else ():
        like = op.inputs.get(_RESULTS.get(slot, ""), [])
        if slot not in op.outputs and like:
            spelled.outputs[slot] = [words.seen_shape(like[0]) if slot == "XShape" else words.like(like[0])]
    if op.type == "batch_norm" and "ReserveSpace" not in spelled.outputs:
        # 2.6.2 does not run without a place for what its kernels on GPUs keep.
        spelled.outputs["ReserveSpace"] = [words.like(op.inputs["Mean"][0])]


def _own_gradient(op: Operator, forward: Operator, said: Spelled) -> Spelled:
    """The gradient of an operator that is one of Paddle's: gradients stand where their variables stand in its slots."""
    of: GradientOf = op.data
    if op.slots_kept is not None and (compact(op.slots_kept[0], of.seeds), compact(op.slots_kept[1], of.wrt)) == (op.inputs, op.outputs):
        kept_inputs, kept_outputs = op.slots_kept
        return Spelled(op.type, kept_inputs, kept_outputs, dict(op.attrs), dict(op.attr_kinds))
    inputs = {slot: list(names) for slot, names in op.inputs.items() if not slot.endswith(GRAD)}
    outputs: dict[str, list[str]] = {}
    for places, found, target, own in (
        (of.seeds, op.inputs, inputs, forward.write_slots()),
        (of.wrt, op.outputs, outputs, forward.read_slots()),
    ):
        for slot in dict.fromkeys(slot for slot, _ in places):
            at = [i for s, i in places if s == slot]
            names = [EMPTY] * len(own[slot])
            for i, name in zip(at, found[slot + GRAD], strict=True):
                names[i] = name
            target[slot + GRAD] = names
    if op.attr_kinds:
        # What was read had slots without gradients, too.
        inputs |= {slot: names for slot, names in op.inputs.items() if slot not in inputs}
        outputs |= {slot: names for slot, names in op.outputs.items() if slot not in outputs}
        return Spelled(op.type, inputs, outputs, dict(op.attrs), dict(op.attr_kinds))
    return Spelled(gradient_type(said.type), inputs, outputs, {**said.attrs, **op.attrs}, dict(said.kinds))


def _only_draws(block: Block) -> set[str]:
    """Draws that only dropout reads: Paddle's operator makes them itself."""
    draws = {name for op in block.ops for name in op.inputs.get("Draws", ())}
    others = [op for op in block.ops if not isinstance(op.kind, Gradient)]
    return draws - {n for op in others for slot, names in op.inputs.items() if slot != "Draws" for n in names}


# --- variables


def variable_desc(variable: Variable, is_scopes: bool = False) -> VarDesc:
    """A variable as Paddle has it; `is_scopes` where operators with blocks keep what their runs made."""
    kept: VarDesc | None = variable.desc_kept
    if kept is not None and kept.kind == variable.kind and kept.type is None:
        return replace(kept, name=variable.name, persistable=variable.persistable)
    kind = STEP_SCOPES if is_scopes and variable.kind == LOD_TENSOR else variable.kind
    dims = _dims(variable.type) if variable.has_shape else []
    if variable.is_tensor_array:
        # Elements stand along an axis of their own here.
        kind, dims = LOD_TENSOR_ARRAY, dims[1:]
    return VarDesc(
        name=variable.name,
        kind=kind,
        dtype=NUMBERS[variable.dtype.name],
        dims=dims,
        lod_level=variable.lod_level or 0,
        persistable=variable.persistable,
        need_check_feed=variable.need_check_feed or variable.is_data,
        is_parameter=variable.is_parameter() or kept is not None and kept.is_parameter,
        stop_gradient=bool(variable.stop_gradient),
    )


def _made(name: str, kind: TensorType) -> VarDesc:
    return VarDesc(name=name, kind=LOD_TENSOR, dtype=number_of(kind.dtype), dims=_dims(kind))


def _dims(kind: TensorType) -> list[int]:
    return [-1 if isinstance(d, Expr) else int(d) for d in kind.shape]


# --- operators


def _operator(op: Operator, spelled: Spelled) -> OpDesc:
    attrs = dict(spelled.attrs)
    attrs |= {name: value for name, value in op.attrs.items() if name in kinds.ROLE_KINDS}
    if op.lines and "op_callstack" not in attrs:
        attrs["op_callstack"] = op.attr("op_callstack")
    known = kinds.kinds_of(spelled.type)
    desc = OpDesc(spelled.type, {s: list(n) for s, n in spelled.inputs.items()}, {s: list(n) for s, n in spelled.outputs.items()})
    for name, value in attrs.items():
        kind = spelled.kinds.get(name, known.get(name, -1))
        desc.attrs[name], desc.kinds[name] = _encoded(op, name, value, kind)
    return desc


def _encoded(op: Operator, name: str, value: Any, kind: int) -> tuple[Any, int]:
    """The value of an attribute as the format has it, with its kind: the one that Paddle's operator has, if that is known."""
    plain = _plain(value)
    if kind == -1:
        kind = kinds.kind_of(plain)
    if kind in (kinds.INT, kinds.LONG) and isinstance(plain, str) and plain in NUMBERS:
        plain = NUMBERS[plain]
    if kind in (kinds.FLOAT, kinds.FLOAT64) and isinstance(plain, (bool, int)):
        plain = float(plain)
    if kind in (kinds.INT, kinds.LONG) and isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    if kind in (kinds.INTS, kinds.LONGS, kinds.FLOATS, kinds.STRINGS, kinds.BOOLEANS) and not isinstance(plain, list):
        plain = [plain]
    if kind in (kinds.FLOATS, kinds.FLOAT64S):
        plain = [float(v) for v in plain]
    if kind in (kinds.INTS, kinds.LONGS):
        plain = [int(v) if isinstance(v, bool) else v for v in plain]
    if kind == -1:
        message = f"expected numbers, text or blocks as the attribute '{name}' of '{op.type}' but got {value!r}"
        raise OperatorError(message, op.location, "E0605")
    return plain, kind


def _plain(value: Any) -> Any:
    if is_block(value):
        return value.idx
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, ScalarType):
        return number_of(value)
    if isinstance(value, DType):
        return NUMBERS[value.name]
    return -1 if isinstance(value, Expr) else value
