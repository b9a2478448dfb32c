"""What a new operator writes: it is tried on tensors of its inputs' types, and the types of what comes out are given to its
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polyreme import dispatch, tape
from polyreme.ir.diagnostics import PolyremeError, caller_location, did_you_mean
from polyreme.ir.types import TensorType
from polyreme.operators.table import LEGACY
from polyreme.static.concurrency import kinds as _concurrency  # noqa: F401  (which adds its kinds to the table)
from polyreme.static.contents import made_again
from polyreme.static.emitter import Emitter, ProgramSource, source_tensor
from polyreme.static.guesses import Types, types_by_guess
from polyreme.static.kinds import OperatorKind, Slots, kind_named
from polyreme.static.lod.read_rows import mark_rows
from polyreme.static.lod.travel import LOD, level_name, level_names, level_to_share, level_types, told_levels
from polyreme.static.nested import file as _file  # noqa: F401  (which adds its kinds to the table)
from polyreme.static.nested import kinds as _nested  # noqa: F401  (likewise)
from polyreme.static.nested import lengths as _lengths  # noqa: F401  (likewise)
from polyreme.static.operator import Operator, OperatorError, located
from polyreme.static.variable import Variable, named_variable

if TYPE_CHECKING:
    from polyreme.static.program import Block

__all__ = ["appended", "inferred_types"]


def appended(block: Block, type: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any], attrs: Mapping[str, Any]) -> Operator:
    """An operator as a user spells it; `ValueError` when its variables or attributes are not what the type takes."""
    kind = kind_named(type)
    read = {slot: [v.name for v in _variables(block, slot, given)] for slot, given in inputs.items() if given is not None}
    write = {slot: [v.name for v in _variables(block, slot, given)] for slot, given in outputs.items() if given is not None}
    roles = block.program.role_attributes()
    op = Operator(block, type, kind, read, write, {**_with_defaults(type, block, attrs), **roles})
    types = kind.infer(op)
    if types is None:
        types = inferred_types(op, kind)
    slots = dict.fromkeys([*types, *kind.uncomputed(op)])
    if types and not any(slot in write for slot in types):
        raise OperatorError(
            f"expected variables in an output slot of '{type}', such as '{next(iter(types))}', but got none", op.location, code="E0606"
        )
    unknown = [slot for slot in write if slot not in slots]
    if unknown:
        raise OperatorError(
            f"expected the output slots {', '.join(slots)} of '{type}' but got '{unknown[0]}'{did_you_mean(unknown[0], slots)}",
            op.location,
            code="E0606",
        )
    for slot, names in write.items():
        for place, (name, made) in enumerate(zip(names, types.get(slot, ()), strict=False)):
            variable = block.var_recursive(name)
            variable.set_type(made)
            told = told_levels(op, slot, place, types)
            shared = level_to_share(op, slot, place, made)
            # The level above those of the elements of an array that differ is none of theirs.
            own = shared if told is None else len(told) - (told[:1] != [] and told[0].rank == 3)
            variable.lod_level = max(variable.lod_level, own)
            if told and told[0].rank != 1:
                variable.level_kinds = list(told)
    mark_rows(op)
    return op


def _with_defaults(type: str, block: Block, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with those that `clone` or the program's seed change."""
    given = {name: value for name, value in attrs.items() if value is not None}
    if type in LEGACY:
        entry, spelling = LEGACY[type]
        known = entry.legacy_attributes(spelling)
        if "is_test" in known:
            given.setdefault("is_test", known["is_test"].default)
        if type == "uniform_random":
            given["seed"] = given.get("seed") or block.program.random_seed
    return given


def _variables(block: Block, slot: str, given: Any) -> list[Variable]:
    found = []
    for item in given if isinstance(given, (list, tuple)) else [given]:
        variable = block.var_recursive(item) if isinstance(item, str) else named_variable(item)
        if variable is None:
            raise OperatorError(f"expected variables or their names in '{slot}' but got {item!r}", caller_location())
        found.append(variable)
    return found


def inferred_types(op: Operator, kind: OperatorKind) -> Types:
    """Types of the outputs by slot, from the declared types of the inputs, or with numbers for free sizes where it fits only so."""
    declared = {name: op.block.var_recursive(name).type for names in op.inputs.values() for name in names}
    for slot in kind.level_slots(op):
        for variable in map(op.block.var_recursive, op.inputs.get(slot.removesuffix(LOD), ())):
            levels = variable.level_kinds or level_types(variable.lod_level)
            declared |= {level_name(variable.name, i): level for i, level in enumerate(levels)}
    try:
        return _inferred(op, kind, declared)
    except (PolyremeError, ValueError, TypeError, KeyError) as error:
        found = types_by_guess(lambda types: _inferred(op, kind, types), declared, op.attrs)
        if found is None:
            raise located(error, op) from error
        return found


def _inferred(op: Operator, kind: OperatorKind, types: Mapping[str, TensorType]) -> Types:
    emitter = Emitter(lambda source: emitter.block.add_arg(source.type, source.name))
    emitter.location = op.location
    inputs: Slots = {
        slot: [source_tensor(ProgramSource("variable", name, types[name])) for name in names] for slot, names in op.inputs.items()
    }
    for slot in kind.level_slots(op):
        names = [level for name in op.inputs.get(slot.removesuffix(LOD), ()) for level in level_names(name, types)]
        inputs[slot] = [source_tensor(ProgramSource("variable", name, types[name])) for name in names]
    try:
        with dispatch.trace_into(emitter), tape.recording(False):
            for slot, names in op.inputs.items():
                for i, name in enumerate(names):
                    variable = op.block.var_recursive(name)
                    if variable.block is op.block and (again := made_again(variable)) is not None:
                        inputs[slot][i] = again
            made = kind.apply(op, inputs, {})
    finally:
        emitter.restore()
    return {slot: [t.type for t in tensors] for slot, tensors in made.items()}
