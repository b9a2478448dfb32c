"""Paddle's own form of a program, the protobuf message `ProgramDesc`: what `.pdmodel` files and `Program.serialize_to_string` hold.

Reading checks every length; a `LoaderError` names the offset and the field. Fields are written in the order of their numbers, as protobuf
does, and whatever was read is written again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from polyreme.dtypes import DTYPES, PROTOBUF_DTYPES
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType
from polyreme.loaders import attribute_kinds as kinds
from polyreme.loaders.errors import LoaderError
from polyreme.loaders.reader import Cursor, fields, floats, message, number, numbers

__all__ = ["BlockDesc", "OpDesc", "ProgramDesc", "VarDesc", "read_program", "write_program"]

# Kinds of variables.
LOD_TENSOR, SELECTED_ROWS, FEED_MINIBATCH, FETCH_LIST, STEP_SCOPES, LOD_TENSOR_ARRAY, READER, RAW = 7, 8, 9, 10, 11, 13, 15, 17
MAX_NAME = 4096
MAX_TEXT = 1 << 20
MAX_RANK = 9
MAX_OPERATORS = 200_000
MAX_BLOCKS = 10_000


@dataclass
class VarDesc:
    """A variable: its kind by Paddle's number, and for tensors its dtype and sizes (-1 where free). `other` has the bytes of what the type
    of a reader or tuple holds.
    """

    name: str = ""
    kind: int = -1
    dtype: int = -1
    dims: list[int] = field(default_factory=list)
    lod_level: int = 0
    persistable: bool = False
    need_check_feed: bool = False
    is_parameter: bool = False
    stop_gradient: bool = False
    other: tuple[int, bytes] | None = None

    @property
    def type(self) -> TensorType | None:
        """The type of a dense tensor."""
        if self.kind != LOD_TENSOR or self.dtype not in PROTOBUF_DTYPES:
            return None
        return TensorType(tuple(self.dims), DTYPES[PROTOBUF_DTYPES[self.dtype]].scalar)


@dataclass
class OpDesc:
    """An operator: variables by slot, attributes as plain values with their kinds (blocks by number); `at` is its offset in the file."""

    type: str = ""
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    is_target: bool = False
    at: int = field(default=0, compare=False)

    @property
    def has_block(self) -> bool:
        """Whether an attribute names a block."""
        return any(kind in (kinds.BLOCK, kinds.BLOCKS) for kind in self.kinds.values())


@dataclass
class BlockDesc:
    """A block's variables and operators."""

    idx: int = 0
    parent_idx: int = -1
    forward_block_idx: int = -1
    variables: dict[str, VarDesc] = field(default_factory=dict)
    ops: list[OpDesc] = field(default_factory=list)


@dataclass
class ProgramDesc:
    """Blocks, of which number 0 is what runs; operators of it run the others. `op_versions` has the bytes of the map of that name."""

    blocks: list[BlockDesc] = field(default_factory=list)
    version: int = 0
    op_versions: bytes = b""

    def serialize_to_string(self) -> bytes:
        """Its bytes."""
        return write_program(self)

    def parameters(self) -> list[str]:
        """Names of the variables that are in the file of parameters."""
        return [v.name for v in self.blocks[0].variables.values() if v.persistable and v.kind not in (FEED_MINIBATCH, FETCH_LIST, RAW)]


# --- reading


def read_program(data: bytes | memoryview, file: str = "the program") -> ProgramDesc:
    """The program in the bytes; a `LoaderError` names the offset and the field."""
    cursor = Cursor(memoryview(data), file, what="ProgramDesc")
    program = ProgramDesc()
    count = 0
    for number_, value, at in fields(cursor, {1: "blocks", 4: "version", 5: "op_version_map"}):
        part = message(value, cursor, "a part of the program")
        if number_ == 4:
            for _, version, _ in fields(part, {1: "version"}):
                program.version = number(version, part, "the version")
        elif number_ == 5:
            program.op_versions = bytes(part.take(part.left))
        else:
            if len(program.blocks) >= MAX_BLOCKS:
                cursor.fail(f"expected at most {MAX_BLOCKS} blocks", at)
            program.blocks.append(_read_block(part, len(program.blocks)))
            count += len(program.blocks[-1].ops) + len(program.blocks[-1].variables)
            if count > MAX_OPERATORS:
                cursor.fail(f"expected at most {MAX_OPERATORS} operators and variables", at)
    if not program.blocks:
        cursor.fail("expected a program with a block")
    return program


def _read_block(block: Cursor, place: int) -> BlockDesc:
    made = BlockDesc(idx=place)
    names = {1: "idx", 2: "parent_idx", 3: "vars", 4: "ops", 5: "forward_block_idx"}
    for number_, value, at in fields(block, names):
        if number_ in (1, 2, 5):
            held = number(value, block, names[number_])
            if not -1 <= held <= MAX_BLOCKS or number_ == 1 and held != place:
                block.fail(f"expected {place if number_ == 1 else 'the number of a block'} but got {held}", at)
            setattr(made, names[number_], held)
            continue
        part = message(value, block, "a variable or an operator")
        if number_ == 3:
            variable = _read_variable(part)
            if variable.name in made.variables:
                block.fail(f"the variable '{variable.name}' is declared twice", at)
            made.variables[variable.name] = variable
        else:
            made.ops.append(_read_op(part))
        if len(made.ops) + len(made.variables) > MAX_OPERATORS:
            block.fail(f"expected at most {MAX_OPERATORS} operators and variables")
    return made


def _text(value: int | Cursor, owner: Cursor, what: str, most: int = MAX_NAME) -> str:
    part = message(value, owner, what)
    if part.left > most:
        part.fail(f"expected at most {most} bytes of text but got {part.left}")
    return part.text()


_FLAGS = {3: "persistable", 4: "need_check_feed", 5: "is_parameter", 6: "stop_gradient"}


def _read_variable(var: Cursor) -> VarDesc:
    made = VarDesc()
    for number_, value, _ in fields(var, {1: "name", 2: "type", **_FLAGS}):
        if number_ == 1:
            made.name = _text(value, var, "the name")
        elif number_ == 2:
            _read_type(message(value, var, "the type"), made)
        else:
            setattr(made, _FLAGS[number_], bool(number(value, var, "a flag")))
    return made


def _read_type(part: Cursor, made: VarDesc) -> None:
    names = {1: "type", 2: "selected_rows", 3: "lod_tensor", 4: "tensor_array", 5: "reader", 7: "tuple"}
    for number_, value, _ in fields(part, names):
        if number_ == 1:
            made.kind = number(value, part, "the kind")
            continue
        holder = message(value, part, "a tensor")
        if number_ in (5, 7):
            made.other = number_, bytes(holder.take(holder.left))
        elif number_ == 2:
            _read_tensor(holder, made)
        else:
            for key, item, _ in fields(holder, {1: "tensor", 2: "lod_level"}):
                if key == 1:
                    _read_tensor(message(item, holder, "a tensor's description"), made)
                else:
                    made.lod_level = number(item, holder, "the LoD level")


def _read_tensor(desc: Cursor, made: VarDesc) -> None:
    for key, item, _ in fields(desc, {1: "data_type", 2: "dims"}):
        if key == 1:
            made.dtype = number(item, desc, "the data type")
        else:
            made.dims += numbers(item, desc, "sizes")
        if len(made.dims) > MAX_RANK:
            desc.fail(f"expected at most {MAX_RANK} sizes")
    # A product with a free size is negative too: the sizes [-1, 4] flattened are [-4].
    made.dims = [max(d, -1) for d in made.dims]


def _read_op(op: Cursor) -> OpDesc:
    made = OpDesc(at=op.at)
    for number_, value, _ in fields(op, {1: "inputs", 2: "outputs", 3: "type", 4: "attrs", 5: "is_target"}):
        if number_ == 3:
            made.type = _text(value, op, "the type")
        elif number_ == 5:
            made.is_target = bool(number(value, op, "a flag"))
        elif number_ == 4:
            _read_attribute(message(value, op, "an attribute"), made)
        else:
            part = message(value, op, "a slot")
            slot, names = "", []
            for key, item, _ in fields(part, {1: "parameter", 2: "arguments"}):
                text = _text(item, part, "a name")
                if key == 1:
                    slot = text
                else:
                    names.append(text)
            (made.inputs if number_ == 1 else made.outputs)[slot] = names
    return made


ATTRIBUTE_NAMES = {
    1: "name", 2: "type", 3: "i", 4: "f", 5: "s", 6: "ints", 7: "floats", 8: "strings", 10: "b", 11: "bools", 12: "block_idx", 13: "l",
    14: "blocks_idx",
    15: "longs", 16: "float64s", 17: "var_name", 18: "vars_name", 19: "float64", 20: "scalar", 21: "scalars",
}  # fmt: skip
# The field that holds the value of an attribute of each kind.
FIELDS = {
    kinds.INT: 3, kinds.FLOAT: 4, kinds.STRING: 5, kinds.INTS: 6, kinds.FLOATS: 7, kinds.STRINGS: 8, kinds.BOOLEAN: 10, kinds.BOOLEANS: 11,
    kinds.BLOCK: 12, kinds.LONG: 13, kinds.BLOCKS: 14, kinds.LONGS: 15, kinds.FLOAT64S: 16, kinds.VAR: 17, kinds.VARS: 18,
    kinds.FLOAT64: 19, 16: 20, 17: 21,
}  # fmt: skip
LISTS = {3, 4, 5, 7, 10, 11, 12, 14, 17}


def _read_attribute(part: Cursor, op: OpDesc) -> None:
    name, kind = "", -1
    single: Any = None
    found: list[Any] = []
    held: set[int] = set()  # the fields with a value
    for number_, value, _ in fields(part, ATTRIBUTE_NAMES):
        key = ATTRIBUTE_NAMES[number_]
        if number_ > 2:
            held.add(number_)
        if key == "name":
            name = _text(value, part, "the name")
        elif key == "type":
            kind = number(value, part, "the kind")
        elif key in ("i", "l", "block_idx"):
            single = number(value, part, key)
        elif key == "b":
            single = bool(number(value, part, key))
        elif key in ("f", "float64"):
            single = _one(floats(value, part, key, 4 if key == "f" else 8), part)
        elif key in ("s", "var_name"):
            single = _text(value, part, key, MAX_TEXT)
        elif key in ("ints", "longs", "blocks_idx"):
            found += numbers(value, part, key)
        elif key == "bools":
            found += [bool(v) for v in numbers(value, part, key)]
        elif key in ("scalar", "scalars"):
            found.append(_scalar(message(value, part, key)))
            single = found[0]
        elif key in ("floats", "float64s"):
            found += floats(value, part, key, 4 if key == "floats" else 8)
        else:
            found.append(_text(value, part, key, MAX_TEXT))
    if kind not in FIELDS:
        part.fail(f"expected an attribute '{name}' of a known kind but got {kind}")
    if not held <= {FIELDS[kind]} or not held and kind not in LISTS:
        got = ", ".join(ATTRIBUTE_NAMES[n] for n in sorted(held)) or "none"
        part.fail(f"expected a value of the attribute '{name}' in '{ATTRIBUTE_NAMES[FIELDS[kind]]}', as its kind says, but got {got}")
    op.kinds[name] = kind
    op.attrs[name] = found if kind in LISTS else single


def _scalar(part: Cursor) -> Any:
    """A number that says which of its fields holds it: a bool, a whole number or a double."""
    kind, held = 0, {1: 0, 2: 0, 3: 0.0}
    for number_, value, _ in fields(part, {1: "type", 2: "b", 3: "i", 4: "r"}):
        if number_ == 1:
            kind = number(value, part, "the kind")
        elif number_ == 4:
            held[3] = _one(floats(value, part, "r", 8), part)
        else:
            held[number_ - 1] = number(value, part, "a number")
    if kind not in held:
        part.fail(f"expected a real number but got one of kind {kind}")
    return bool(held[kind]) if kind == 1 else held[kind]


def _one(values: list[float], part: Cursor) -> float:
    if len(values) != 1:
        part.fail(f"expected one number but got {len(values)}")
    return values[0]


# --- writing


def write_program(program: ProgramDesc) -> bytes:
    """The bytes of a program. A value that its attribute's kind cannot hold is a `LoaderError`."""
    parts = [_bytes(1, _block(block)) for block in program.blocks]
    parts.append(_bytes(4, _number(1, program.version)))
    if program.op_versions:
        parts.append(_bytes(5, program.op_versions))
    return b"".join(parts)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _number(field_: int, value: int) -> bytes:
    return _varint(field_ << 3) + _varint(int(value))


def _bytes(field_: int, value: bytes) -> bytes:
    return _varint(field_ << 3 | 2) + _varint(len(value)) + value


def _string(field_: int, value: str) -> bytes:
    return _bytes(field_, value.encode("utf-8"))


def _block(block: BlockDesc) -> bytes:
    parts = [_number(1, block.idx), _number(2, block.parent_idx)]
    parts += [_bytes(3, _variable(v)) for v in block.variables.values()]
    parts += [_bytes(4, _operator(op)) for op in block.ops]
    parts.append(_number(5, block.forward_block_idx))
    return b"".join(parts)


def _variable(variable: VarDesc) -> bytes:
    parts = [_string(1, variable.name), _bytes(2, _type(variable))]
    parts += [_number(field_, 1) for field_, name in _FLAGS.items() if getattr(variable, name)]
    return b"".join(parts)


def _type(variable: VarDesc) -> bytes:
    made = _number(1, variable.kind)
    if variable.other is not None:
        return made + _bytes(*variable.other)
    if variable.kind not in (LOD_TENSOR, LOD_TENSOR_ARRAY, SELECTED_ROWS):
        return made
    tensor = _number(1, variable.dtype) + b"".join(_number(2, d) for d in variable.dims)
    if variable.kind == SELECTED_ROWS:
        return made + _bytes(2, tensor)
    return made + _bytes(3 if variable.kind == LOD_TENSOR else 4, _bytes(1, tensor) + _number(2, variable.lod_level))


def _operator(op: OpDesc) -> bytes:
    parts = [_bytes(1, _slot(*slot)) for slot in op.inputs.items()]
    parts += [_bytes(2, _slot(*slot)) for slot in op.outputs.items()]
    parts.append(_string(3, op.type))
    parts += [_bytes(4, _attribute(op, name, value)) for name, value in op.attrs.items()]
    if op.is_target:
        parts.append(_number(5, 1))
    return b"".join(parts)


def _slot(name: str, arguments: Iterable[str]) -> bytes:
    return _string(1, name) + b"".join(_string(2, argument) for argument in arguments)


def _attribute(op: OpDesc, name: str, value: Any) -> bytes:
    kind = op.kinds[name]
    head = _string(1, name) + _number(2, kind)
    values = value if kind in LISTS else [value]
    try:
        return head + b"".join(_value(FIELDS[kind], item) for item in values)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
        raise LoaderError(f"the attribute '{name}' of '{op.type}': expected a value of kind {kind} but got {value!r}") from None


def _value(field_: int, value: Any) -> bytes:
    key = ATTRIBUTE_NAMES[field_]
    if key in ("s", "strings", "var_name", "vars_name"):
        return _string(field_, value)
    if key in ("f", "floats"):
        return _varint(field_ << 3 | 5) + struct.pack("<f", value)
    if key in ("float64", "float64s"):
        return _varint(field_ << 3 | 1) + struct.pack("<d", value)
    if key in ("scalar", "scalars"):
        kind = 1 if isinstance(value, bool) else 2 if isinstance(value, int) else 3
        held = _varint(4 << 3 | 1) + struct.pack("<d", value) if kind == 3 else _number(kind + 1, value)
        return _bytes(field_, _number(1, kind) + held)
    if not isinstance(value, int):
        raise TypeError
    bits = 32 if key in ("i", "ints", "block_idx", "blocks_idx") else 64
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError
    return _number(field_, value)
