"""Programs as protobuf's own text, which Paddle prints and protobuf reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from polyreme.loaders.program_desc import (
    ATTRIBUTE_NAMES,
    FIELDS,
    LISTS,
    LOD_TENSOR,
    LOD_TENSOR_ARRAY,
    SELECTED_ROWS,
    BlockDesc,
    OpDesc,
    ProgramDesc,
    VarDesc,
)

__all__ = ["text_of_block", "text_of_operator", "text_of_program", "text_of_variable", "type_name"]

# The names of the numbers in the format.
_KINDS = (
    "INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS FLOAT64S VAR VARS FLOAT64 SCALAR SCALARS".split()
)
_TYPES = {
    0: "BOOL", 1: "INT16", 2: "INT32", 3: "INT64", 4: "FP16", 5: "FP32", 6: "FP64", 7: "LOD_TENSOR", 8: "SELECTED_ROWS",
    9: "FEED_MINIBATCH", 10: "FETCH_LIST", 11: "STEP_SCOPES", 12: "LOD_RANK_TABLE", 13: "LOD_TENSOR_ARRAY", 14: "PLACE_LIST", 15: "READER",
    17: "RAW", 18: "TUPLE", 19: "SIZE_T", 20: "UINT8", 21: "INT8", 22: "BF16", 23: "COMPLEX64", 24: "COMPLEX128", 25: "STRING",
    26: "STRINGS", 27: "VOCAB", 28: "FEED_LIST", 29: "PSTRING",
}  # fmt: skip
Details = Callable[[int, str], list[str]]


def text_of_program(program: ProgramDesc, details: Details = lambda block, name: []) -> str:
    """All of a program. `details` gives more lines of a variable, by its block's number and its name."""
    blocks = [_field("blocks", list(_block(block, details))) for block in program.blocks]
    return "".join([*blocks, _field("version", [f"version: {program.version}"])])


def text_of_block(block: BlockDesc, details: Details = lambda block, name: []) -> str:
    """One block."""
    return "".join(line + "\n" for line in _block(block, details))


def text_of_operator(op: OpDesc) -> str:
    """One operator."""
    return "".join(line + "\n" for line in _operator(op))


def text_of_variable(variable: VarDesc) -> str:
    """One variable."""
    return "".join(line + "\n" for line in _variable(variable))


def type_name(kind: int) -> str:
    """What a kind of variables is called."""
    return _TYPES.get(kind, str(kind))


def _field(name: str, lines: list[str]) -> str:
    return "".join(line + "\n" for line in _message(name, lines))


def _message(name: str, lines: list[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def _block(block: BlockDesc, details: Details) -> Iterator[str]:
    yield f"idx: {block.idx}"
    yield f"parent_idx: {block.parent_idx}"
    for variable in block.variables.values():
        yield from _message("vars", [*_variable(variable), *details(block.idx, variable.name)])
    for op in block.ops:
        yield from _message("ops", list(_operator(op)))
    if block.forward_block_idx != -1:
        yield f"forward_block_idx: {block.forward_block_idx}"


def _variable(variable: VarDesc) -> Iterator[str]:
    yield f"name: {_quoted(variable.name)}"
    lines = [f"type: {_TYPES.get(variable.kind, variable.kind)}"]
    if variable.kind in (LOD_TENSOR, LOD_TENSOR_ARRAY, SELECTED_ROWS):
        tensor = [f"data_type: {_TYPES.get(variable.dtype, variable.dtype)}", *(f"dims: {d}" for d in variable.dims)]
        if variable.kind == SELECTED_ROWS:
            lines += _message("selected_rows", tensor)
        else:
            level = [f"lod_level: {variable.lod_level}"] if variable.lod_level else []
            name = "lod_tensor" if variable.kind == LOD_TENSOR else "tensor_array"
            lines += _message(name, [*_message("tensor", tensor), *level])
    yield from _message("type", lines)
    for name in ("persistable", "need_check_feed", "is_parameter", "stop_gradient"):
        if getattr(variable, name):
            yield f"{name}: true"


def _operator(op: OpDesc) -> Iterator[str]:
    for field, slots in (("inputs", op.inputs), ("outputs", op.outputs)):
        for slot, names in slots.items():
            yield from _message(field, [f"parameter: {_quoted(slot)}", *(f"arguments: {_quoted(n)}" for n in names)])
    yield f"type: {_quoted(op.type)}"
    for name, value in op.attrs.items():
        kind = op.kinds[name]
        known = 0 <= kind < len(_KINDS)
        lines = [f"name: {_quoted(name)}", f"type: {_KINDS[kind] if known else kind}"]
        if known:
            field = ATTRIBUTE_NAMES[FIELDS[kind]]
            lines += [f"{field}: {_value(field, item)}" for item in (value if kind in LISTS else [value])]
        yield from _message("attrs", lines)
    if op.is_target:
        yield "is_target: true"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _value(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return _flag(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return repr(float(np.float32(value))) if field in ("f", "floats") else repr(value)
    return str(value)


def _quoted(text: str) -> str:
    """Text in double quotes, bytes that are no plain characters by their octal numbers."""
    names = {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", ord('"'): '\\"', ord("'"): "\\'", ord("\\"): "\\\\"}
    return '"' + "".join(names.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'
