"""Operators of a static program: a type, named variables in and out by slot, and attributes. `kinds.py` says how a type is applied."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.ir.diagnostics import Diagnostic, InferError, Location, PolyremeError, caller_lines, caller_location, did_you_mean
from polyreme.loaders.attribute_kinds import BLOCK, BLOCKS, AttrType, defaults_of, kind_of, kinds_of
from polyreme.loaders.program_text import text_of_operator
from polyreme.static.variable import check_flags
from polyreme.utils.shown import Shown

if TYPE_CHECKING:
    from polyreme.static.kinds import OperatorKind
    from polyreme.static.program import Block

__all__ = ["AttrType", "OpRole", "Operator", "OperatorError", "RunError", "forward_type", "gradient_type", "is_block", "located"]

_numbers = itertools.count()

CALLSTACK = "op_callstack"
# So many of the user's lines are kept of each operator, the innermost ones.
MOST_LINES = 8


class OperatorError(PolyremeError, ValueError):
    """Inputs, outputs or attributes that an operator does not take."""

    code = "E0605"


class RunError(PolyremeError, RuntimeError):
    """A program that cannot run as it stands: something has no value."""

    code = "E0609"


class OpRole(Shown):
    """What an operator is for. `Loss` marks, in addition, the operators that make a loss and its gradient."""

    Forward = 0x0000
    Backward = 0x0001
    Optimize = 0x0002
    LRSched = 0x0010
    Loss = 0x0100


ROLE_NAMES = {"op_role", "op_role_var", "op_namescope", "op_device"}


# The gradient operators whose names Paddle does not make of those of their forward operators.
_GRADIENT_TYPES = {"cross_entropy2": "cross_entropy_grad2"}
_FORWARD_TYPES = {theirs: own for own, theirs in _GRADIENT_TYPES.items()}


def gradient_type(type: str) -> str:
    """What the gradient operator of a type is called."""
    return _GRADIENT_TYPES.get(type, f"{type}_grad")


def forward_type(type: str) -> str | None:
    """The type whose gradient operator is called so; None for what is no gradient's name."""
    return _FORWARD_TYPES.get(type) or (type.removesuffix("_grad") if type.endswith("_grad") else None)


class Operator:
    """One step of a block. Made by `Block.append_op` and its relatives, and by functions in static mode.

    `uid` tells operators apart across copies of a program: a gradient operator knows by it whose gradient it is. `data` is what its kind
    needs besides attributes and is no number or text: an initializer, a Python function.
    """

    def __init__(
        self,
        block: Block,
        type: str,
        kind: OperatorKind,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Any],
        data: Any = None,
        location: Location | None = None,
    ):
        self.block = block
        self.type = type
        self.kind = kind
        self.inputs = {slot: list(names) for slot, names in inputs.items()}
        self.outputs = {slot: list(names) for slot, names in outputs.items()}
        self.attrs = dict(attrs)
        self.data = data
        self.lines: tuple[tuple[str, int, str], ...] = ()  # of the user, by which it was made
        if location is None:
            location, self.lines = caller_location(), caller_lines(MOST_LINES)
        self.location = location
        self.uid = next(_numbers)
        self.stands_for: int | None = None  # the branch or loop by functions that it is written for
        self.slots_kept: Any = None  # of a gradient operator from there, its slots as they are there
        self.attr_kinds: dict[str, int] = {}  # of an operator from Paddle's bytes, the kinds that its attributes have there

    def copy_into(self, block: Block) -> Operator:
        """The same operator in a block of another program, whose blocks its attributes name."""
        attrs = {name: _in_program(value, block.program) for name, value in self.attrs.items()}
        copy = Operator(block, self.type, self.kind, self.inputs, self.outputs, attrs, self.data, self.location)
        copy.uid = self.uid
        copy.lines = self.lines
        copy.slots_kept = self.slots_kept
        copy.attr_kinds = dict(self.attr_kinds)
        return copy

    # --- arguments

    @property
    def desc(self) -> Any:
        """What it is, by methods, as programs of Paddle 1 ask: `op.desc.type()`."""
        from polyreme.static.desc.views import OperatorView

        return OperatorView(self)

    def input(self, name: str) -> list[str]:
        """The names in an input slot."""
        return list(self._slot(self.inputs, name, "input", self.kind.input_slots(self)))

    def output(self, name: str) -> list[str]:
        """The names in an output slot."""
        return list(self._slot(self.outputs, name, "output", self.kind.uncomputed(self)))

    def _slot(self, slots: dict[str, list[str]], name: str, what: str, known: Collection[str]) -> list[str]:
        if name not in slots and name in known:
            return []
        if name not in slots:
            raise OperatorError(
                f"expected one of the {what}s {', '.join(slots) or '(none)'} of '{self.type}' but got '{name}'{did_you_mean(name, slots)}",
                self.location,
                code="E0606",
            )
        return slots[name]

    @property
    def input_names(self) -> list[str]:
        return list(self.inputs)

    @property
    def output_names(self) -> list[str]:
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        return [name for names in self.inputs.values() for name in names]

    @property
    def output_arg_names(self) -> list[str]:
        return [name for names in self.outputs.values() for name in names]

    def read_slots(self) -> Mapping[str, list[str]]:
        """What it reads by slot: the inputs, and of an operator that runs a block what the block reads besides."""
        return self.kind.reads(self)

    def write_slots(self) -> Mapping[str, list[str]]:
        """What it writes by slot, likewise."""
        return self.kind.writes(self)

    def read_names(self) -> list[str]:
        """All names that it reads."""
        return [name for names in self.read_slots().values() for name in names]

    def written_names(self) -> list[str]:
        """All names that it writes."""
        return [name for names in self.write_slots().values() for name in names]

    def rename_input(self, old_name: str, new_name: str) -> None:
        """Read `new_name` wherever the operator reads `old_name`."""
        self._rename(self.inputs, old_name, new_name)

    def rename_output(self, old_name: str, new_name: str) -> None:
        """Write `new_name` wherever the operator writes `old_name`."""
        self._rename(self.outputs, old_name, new_name)

    _rename_input, _rename_output = rename_input, rename_output

    def _rename(self, slots: dict[str, list[str]], old: str, new: str) -> None:
        for names in slots.values():
            names[:] = [new if name == old else name for name in names]
        self.block.program.touch()

    # --- attributes

    @property
    def attr_names(self) -> list[str]:
        """The names of all attributes, those that the program leaves to their defaults among them."""
        return list(self.all_attrs())

    def _has_lines(self) -> bool:
        return bool(self.lines) and CALLSTACK not in self.attrs

    def _callstack(self) -> list[str]:
        """The user's lines as Paddle notes them, the one that made the operator last: the place, and below it the text."""
        found = []
        for file, line, function in self.lines:
            text = linecache.getline(file, line).strip()
            found += [f'  File "{file}", line {line}, in {function}', *([f"    {text}"] if text else ())]
        return found

    def has_attr(self, name: str) -> bool:
        """Whether it has an attribute, be it one that the program leaves to its default."""
        return name in self.attrs or name in defaults_of(self.type) or name == CALLSTACK and self._has_lines()

    def attr(self, name: str) -> Any:
        """The value of an attribute, Paddle's default where the program leaves it out; `ValueError` when there is none of that name."""
        if name == CALLSTACK and self._has_lines():
            return self._callstack()
        if name not in self.attrs and name in defaults_of(self.type):
            return copy(defaults_of(self.type)[name])
        if name not in self.attrs:
            raise OperatorError(
                f"expected one of the attributes {', '.join(self.attrs)} of '{self.type}' but got '{name}'{did_you_mean(name, self.attrs)}",
                self.location,
                code="E0606",
            )
        return self.attrs[name]

    def attr_type(self, name: str) -> AttrType:
        """Of which kind an attribute is: that of Paddle's operator, or that of the value where Paddle has no such operator or attribute."""
        value = self.attr(name)
        kind = self.attr_kinds.get(name, kinds_of(self.type).get(name, -1))
        if is_block(value):
            kind = BLOCK
        elif isinstance(value, (list, tuple)) and value and all(is_block(item) for item in value):
            kind = BLOCKS
        if kind == -1:
            plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            kind = kind_of(list(plain) if isinstance(plain, tuple) else plain)
        if kind == -1:
            message = f"expected numbers, text or blocks as the attribute '{name}' of '{self.type}' but got {value!r}"
            raise OperatorError(message, self.location)
        return AttrType(kind)

    def set_attr(self, name: str, val: Any) -> None:
        """Set an attribute. One that is there keeps its type: another one is a `ValueError`."""
        if isinstance(val, np.generic):
            val = val.item()
        if name in self.attrs:
            old = self.attrs[name]
            fits = isinstance(val, type(old)) and isinstance(val, bool) == isinstance(old, bool)
            if isinstance(old, float) and isinstance(val, int) and not isinstance(val, bool):
                val, fits = float(val), True
            if isinstance(old, (list, tuple)) and isinstance(val, (list, tuple)):
                val, fits = type(old)(val), True
            if old is not None and not fits:
                raise OperatorError(f"expected '{name}' of '{self.type}' to be {type(old).__name__} but got {val!r}", self.location)
        elif name not in self.kind.attributes(self) and name not in ROLE_NAMES:
            raise OperatorError(
                f"'{self.type}' has no attribute '{name}'{did_you_mean(name, [*self.attrs, *self.kind.attributes(self)])}",
                self.location,
                code="E0606",
            )
        self.attrs[name] = val
        self.block.program.touch()

    _set_attr = set_attr

    def all_attrs(self) -> dict[str, Any]:
        """All attributes by name, with the defaults of those that the program leaves out."""
        found = {**copy(defaults_of(self.type)), **self.attrs}
        return found | {CALLSTACK: self._callstack()} if self._has_lines() else found

    def block_attr(self, name: str) -> int:
        """The index of the block that an attribute names."""
        value = self.attr(name)
        index = getattr(value, "idx", value)
        if not isinstance(index, int) or isinstance(index, bool):
            raise OperatorError(f"expected '{name}' of '{self.type}' to name a block but got {value!r}", self.location)
        return index

    _block_attr_id = block_attr

    def _block_attr(self, name: str) -> Block:
        """The block that an attribute names."""
        return self.block.program.block(self.block_attr(name))

    @property
    def idx(self) -> int:
        """Its place in the block."""
        return next(i for i, op in enumerate(self.block.ops) if op is self)

    # --- text

    def to_string(self, throw_on_error: bool = False) -> str:
        """Its `OpDesc` as protobuf's text, as Paddle prints it; of a recorded op that is several operators there, all of them. `str` of an
        operator is shorter.
        """
        check_flags(throw_on_error, False)
        return "".join(map(text_of_operator, self.block.program._printed_operators(self)))

    def __repr__(self) -> str:
        """`{Out=['y']} = relu(inputs={X=['x']}, op_role = 0)`, slots and attributes in the order of their names."""
        inputs, outputs = (", ".join(f"{s}={names}" for s, names in sorted(slots.items())) for slots in (self.inputs, self.outputs))
        shown = [f"{name} = {_shown(value)}" for name, value in sorted(self.attrs.items()) if name != CALLSTACK]
        call = f"{self.type}({', '.join([f'inputs={{{inputs}}}', *shown])})"
        return f"{{{outputs}}} = {call}" if outputs else call

    __str__ = __repr__


def _shown(value: Any) -> Any:
    """The value of an attribute as Paddle prints it: a dtype is a number there, a block its index."""
    if is_block(value):
        return f"block[{value.idx}]"
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list) and value and all(map(is_block, value)):
        return f"blocks{[block.idx for block in value]}"
    return value


def is_block(value: Any) -> bool:
    """Whether an attribute's value is a block."""
    return hasattr(value, "forward_block_idx")


def _in_program(value: Any, program: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(map(is_block, value)):
        return [_in_program(item, program) for item in value]
    return program.block(value.idx) if is_block(value) else value


def located(error: Exception, op: Operator) -> PolyremeError:
    """The error as one of the operator's, at the line that made it, with notes on where its inputs were made."""
    if isinstance(error, PolyremeError) and error.diagnostics[0].location:
        return error
    message = error.diagnostics[0].message if isinstance(error, PolyremeError) else f"'{op.type}' {type(error).__name__}: {error}"
    found = [op.block._find_var_recursive(name) for name in dict.fromkeys(op.input_arg_names)]
    notes = [Diagnostic(f"'{v.name}' is {v.type if v.has_shape else 'without a shape'}", v.location) for v in found if v is not None]
    kind = InferError if isinstance(error, InferError) else OperatorError
    code = error.diagnostics[0].code if isinstance(error, PolyremeError) else ""
    return kind(Diagnostic(message, op.location, tuple(n for n in notes if n.location)), code=code)
