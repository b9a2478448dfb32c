"""Of which kind the attributes of Paddle's operators are in ProgramDesc files, which tell a float from a whole number, and 32 bits from 64.

The numbers are those of the format. `attribute_kinds.txt` has an operator a line: of each attribute the letter of its kind and its name,
and the value that Paddle gives it where a program leaves it out.
"""

from __future__ import annotations

import json
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "BLOCK", "BLOCKS", "BOOLEAN", "BOOLEANS", "FLOAT", "FLOAT64", "FLOAT64S", "FLOATS", "INT", "INTS", "LONG", "LONGS", "ROLE_KINDS",
    "STRING", "STRINGS", "VAR", "VARS", "AttrType", "defaults_of", "kind_of", "kinds_of",
]  # fmt: skip

INT, FLOAT, STRING, INTS, FLOATS, STRINGS, BOOLEAN, BOOLEANS, BLOCK, LONG, BLOCKS, LONGS, FLOAT64S, VAR, VARS, FLOAT64 = range(16)


class AttrType(Enum):
    """What `Operator.attr_type` gives, under the names and numbers of the format."""

    INT, FLOAT, STRING, INTS, FLOATS, STRINGS, BOOL, BOOLS, BLOCK, LONG, BLOCKS, LONGS, FLOAT64S, VAR, VARS, FLOAT64 = range(16)

    def __int__(self) -> int:
        return int(self.value)


_LETTERS = "ifsIFSbBklKLDvVd"
# Those that every operator may have.
ROLE_KINDS = {
    "op_role": INT, "op_role_var": STRINGS, "op_namescope": STRING, "op_callstack": STRINGS, "op_device": STRING,
    "with_quant_attr": BOOLEAN,
}  # fmt: skip


@cache
def _table() -> dict[str, dict[str, tuple[int, Any]]]:
    found: dict[str, dict[str, tuple[int, Any]]] = {}
    for line in (Path(__file__).parent / "attribute_kinds.txt").read_text().splitlines():
        name, *words = line.split()
        kinds = found[name] = {}
        for word in words:
            attribute, equals, default = word[2:].partition("=")
            kinds[attribute] = _LETTERS.index(word[0]), json.loads(default) if equals else None
    return found


def kinds_of(type: str) -> dict[str, int]:
    """The kinds of an operator's attributes by name; of a gradient operator those of its forward operator. Empty where it is unknown."""
    return {**{name: kind for name, (kind, _) in _known(type).items()}, **ROLE_KINDS}


def defaults_of(type: str) -> dict[str, Any]:
    """What Paddle gives the attributes that a program leaves out, of a gradient operator those of its forward operator."""
    return {name: default for name, (_, default) in _known(type).items() if default is not None}


def _known(type: str) -> dict[str, tuple[int, Any]]:
    table = _table()
    while type not in table and type.endswith("_grad"):
        type = type.removesuffix("_grad")
    return table.get(type, {})


def kind_of(value: Any) -> int:
    """The kind of an attribute that no Paddle operator has told us."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INT if -(1 << 31) <= value < 1 << 31 else LONG
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, str):
        return STRING
    if isinstance(value, list):
        inside = {kind_of(item) for item in value}
        lists = {
            BOOLEAN: BOOLEANS, INT: INTS, LONG: LONGS, FLOAT: FLOATS,
            STRING: STRINGS,
        }  # fmt: skip
        if inside <= {INT, LONG} and inside:
            return LONGS if LONG in inside else INTS
        if inside <= {INT, FLOAT} and inside:
            return FLOATS
        return lists[inside.pop()] if len(inside) == 1 and inside <= set(lists) else INTS if not inside else -1
    return -1
