"""What an entry of the table of Paddle's operators is, and how one is declared.

An entry is a function under `@operator`, written with the functions of our own API. Its parameters before the `*` are the operands in PIR's
order, those after it the attributes, by PIR's names; annotations say of what kinds they are (`arguments.py`). `legacy` has the operator's
names in ProgramDesc files and `append_op`, with the slots there, and the attributes that have other names there:

    @operator("concat", legacy=spelled("concat", {"X": "x", "AxisTensor": "axis"}))
    def concat(x: list[Tensor], axis: Number = 0) -> Tensor:
        return math.concat(x, int(axis))
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from polyreme.ir.core import Op
from polyreme.ir.diagnostics import did_you_mean
from polyreme.ir.python.records import dataclass
from polyreme.operators.arguments import UnsupportedError, converted

__all__ = [
    "LEGACY",
    "NN_NAMES",
    "PIR",
    "REQUIRED",
    "Legacy",
    "LegacyAttribute",
    "PaddleOperator",
    "OperatorParameter",
    "operator",
    "spelled",
]

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class OperatorParameter:
    """An operand or attribute of an operator: its name in PIR, its kind, and what it is where a program leaves it out."""

    name: str
    kind: str
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True)
class Legacy:
    """How an operator reads under one or several of its older names.

    `inputs` says which parameter a slot feeds; where several feed one, the last that is given counts, and before an attribute of that name.
    `outputs` are the slots of the results in order. Those behind the last result are what Paddle keeps for gradients, which nobody computes
    here.
    """

    names: tuple[str, ...]
    inputs: Mapping[str, str]
    outputs: tuple[str, ...]
    attributes: Mapping[str, str]  # parameters by attribute, where the two have different names
    defaults: Mapping[str, Any]  # by attribute, where they differ from the parameter's
    types: Mapping[str, str]  # by attribute, where a ProgramDesc has another type than the usual one for the parameter's kind
    off: Mapping[str, Any]  # attributes without a parameter, by the value with which they change nothing
    ignored: frozenset[str]  # attributes without a parameter that never change what is computed
    without: frozenset[str]  # parameters that are no attributes under this name: slots alone feed them, or nothing does
    constant: frozenset[str]  # slots of numbers for which Paddle's gradient operator has no gradient


@dataclass(frozen=True)
class LegacyAttribute:
    """An attribute as a ProgramDesc has it: `type` is the name of an `AttrType`, `default` is `REQUIRED` where a program must have it."""

    name: str
    parameter: OperatorParameter
    type: str
    default: Any


# The `AttrType` that attributes of a kind usually have.
_TYPES = {
    "int": "INT", "float": "FLOAT", "bool": "BOOLEAN", "str": "STRING", "Sizes": "INTS", "Sizes | None": "INTS", "FedSizes": "INTS",
    "Extents": "INTS", "Extents | None": "INTS", "Numbers": "FLOATS",
    "Numbers | None": "FLOATS", "Number": "FLOAT", "Scalar": "FLOAT", "Scalar | None": "FLOAT", "ScalarType | None": "INT",
    "Any": "SCALARS",
}  # fmt: skip


@dataclass(frozen=True)
class PaddleOperator:
    """One operator: its names in PIR and before, its parameters, and the function that says what it does."""

    names: tuple[str, ...]
    legacy: tuple[Legacy, ...]
    function: Callable[..., Any]
    operands: tuple[OperatorParameter, ...]
    attributes: tuple[OperatorParameter, ...]
    renamed: Mapping[str, str]  # parameters by attribute of PIR, where the two have different names
    misdeclared: bool  # whether PIR files declare a wrong type for its result, such as the rank of images for volumes

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.names[0] if self.names else self.legacy[0].names[0]

    @cached_property
    def parameters(self) -> dict[str, OperatorParameter]:
        """Operands and attributes by name."""
        return {p.name: p for p in (*self.operands, *self.attributes)}

    def legacy_attributes(self, spelling: Legacy) -> dict[str, LegacyAttribute]:
        """The attributes under an older name, by what they are called there. A size that PIR has as an operand may be one."""
        own, renamed = self.parameters, set(spelling.attributes.values())
        names = {name: name for name, p in own.items() if "Tensor" not in p.kind and name not in renamed | spelling.without}
        names |= spelling.attributes
        found = {}
        for theirs, ours in names.items():
            type, default = spelling.types.get(theirs, _TYPES[own[ours].kind]), spelling.defaults.get(theirs, own[ours].default)
            if default is REQUIRED and type.endswith("S") and ours in spelling.inputs.values():
                default = ()  # a tensor may have it instead
            found[theirs] = LegacyAttribute(theirs, own[ours], type, default)
        return found

    def apply(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """The results, a tensor, a list of tensors or None each, of arguments by parameter.

        An argument that is None is left out. One that is unknown, or of another kind, is an `UnsupportedError`.
        """
        parameters = self.parameters
        bound: dict[str, Any] = {}
        for name, value in arguments.items():
            if name not in parameters:
                if is_meaningless(name, value):
                    continue
                raise UnsupportedError(
                    f"expected no attribute '{name}' of '{self.name}' but got {reprlib.repr(value)}{did_you_mean(name, parameters)}"
                )
            if value is not None:
                bound[name] = converted(value, parameters[name].kind, name)
        missing = [p.name for p in parameters.values() if p.required and p.name not in bound]
        if missing:
            raise UnsupportedError(f"expected '{min(missing)}' for '{self.name}' but the program leaves it out")
        made = self.function(**bound)
        return made if isinstance(made, tuple) else (made,)


# Operators by their names in PIR; by their older names, with how they read there.
PIR: dict[str, PaddleOperator] = {}
LEGACY: dict[str, tuple[PaddleOperator, Legacy]] = {}
# The older name of the operator that an op of `nn` is when static mode records it.
NN_NAMES: dict[type[Op], str] = {}


def spelled(
    names: str,
    inputs: Mapping[str, str] | None = None,
    outputs: str = "Out",
    *,
    attributes: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    types: Mapping[str, str] | None = None,
    off: Mapping[str, Any] | None = None,
    ignored: str = "",
    without: str = "",
    constant: str = "",
) -> Legacy:
    """How an operator reads under older names; names and slots of outputs are separated by spaces, and one input is the slot `X` of `x`."""
    return Legacy(
        tuple(names.split()),
        {"X": "x"} if inputs is None else inputs,
        tuple(outputs.split()),
        attributes or {},
        defaults or {},
        types or {},
        off or {},
        frozenset(ignored.split()),
        frozenset(without.split()),
        frozenset(constant.split()),
    )


def _parameters(function: Callable[..., Any]) -> tuple[tuple[OperatorParameter, ...], tuple[OperatorParameter, ...]]:
    """The parameters that may be given by position and by name, and those by name alone: of hundreds of functions, for which
    `inspect.signature` takes ten times as long.
    """
    code, annotations, empty = function.__code__, function.__annotations__, inspect.Parameter.empty
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    defaults = dict(zip(names[count - len(given) : count], given, strict=True)) | (function.__kwdefaults__ or {})
    found = tuple(OperatorParameter(name, str(annotations.get(name, empty)), defaults.get(name, empty)) for name in names)
    return found[code.co_posonlyargcount : count], found[count:]


def operator(
    *names: str,
    legacy: Legacy | Sequence[Legacy] = (),
    nn: type[Op] | None = None,
    renamed: Mapping[str, str] | None = None,
    misdeclared: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a function as what an operator does: one called `names` in PIR, and in older programs as `legacy` says.

    `nn` is the op that static mode records as this operator. `renamed` are PIR's attributes whose names are none for parameters.
    """
    spellings = (legacy,) if isinstance(legacy, Legacy) else tuple(legacy)

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters, keywords = _parameters(function)
        entry = PaddleOperator(
            names,
            spellings,
            function,
            parameters,
            keywords,
            renamed or {},
            misdeclared,
        )
        for name in names:
            _add(PIR, name, entry)
        for spelling in spellings:
            for name in spelling.names:
                _add(LEGACY, name, (entry, spelling))
        if nn is not None:
            _add(NN_NAMES, nn, spellings[0].names[0])
        return function

    return declare


def _add(table: dict[Any, Any], name: Any, entry: Any) -> None:
    if name in table:
        raise ValueError(f"the operator '{name}' is declared twice")
    table[name] = entry


# Attributes that say where, by which library or for whom an operator runs, never what it computes.
_HINTS = {
    "struct_name", "place", "place_type", "stop_gradient", "persistable", "with_quant_attr", "num_threads", "is_test", "workspace_size_MB",
    "exhaustive_search", "mkldnn_data_type", "dst_place_type", "Scale_in", "Scale_out", "skip_quant", "enable_int8", "seed", "force_cpu",
    "numeric_stable_mode", "infer_flags", "is_distributed", "remote_prefetch", "is_sparse", "sparse", "execution_stream",
    "scale_x", "scale_y", "scale_out", "Scale_x", "Scale_y", "Scale_weights", "Scale_in_eltwise", "fuse_alpha", "fuse_beta",
    "fuse_brelu_threshold", "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", "trainer_id",
    "scheduling_priority", "event_to_record", "events_to_wait", "force_record_event", "manual_schedule",
}  # fmt: skip
_HINT_PREFIXES = ("op_", "use_", "__")
# Options with the values at which they are off.
_OFF = {
    "head_number": 1, "overwrite": True, "in_dtype": -1, "out_dtype": -1, "entry": "none", "entry_config": "none", "table_class": "none",
}  # fmt: skip


def is_meaningless(name: str, value: Any) -> bool:
    """Whether an attribute that an operator does not know may be passed over: a hint, or an option that is off."""
    if name in _HINTS or name.startswith(_HINT_PREFIXES) or name in _OFF and value == _OFF[name]:
        return True
    return value is None or value is False or (isinstance(value, (int, float, str, list, tuple)) and not value)
