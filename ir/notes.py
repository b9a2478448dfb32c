"""Notes that say where the values came from that an op was given."""

from __future__ import annotations

from collections.abc import Iterable

from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import Diagnostic, Location

# More operands than this say less, not more.
MOST_NOTES = 4


def operand_notes(values: Iterable[Value], source: str | None = None, filename: str = "") -> list[Diagnostic]:
    """What type each value has, at the place of the op or the function that defines it; `source` is the text of places in `filename`."""
    found = list(dict.fromkeys(values))[:MOST_NOTES]
    return [_note(v, f"{value_name(v)} is {v.type}", source, filename) for v in found]


def definition_note(value: Value, source: str | None = None, filename: str = "") -> list[Diagnostic]:
    """Where the value is defined, if that is known."""
    return [_note(value, f"{value_name(value)} is defined here", source, filename)] if place_of(value) else []


def value_name(value: Value) -> str:
    return f"%{value.name}" if value.name else "an operand"


def place_of(value: Value) -> Location:
    """The place of the op that has the value as a result, or whose region has it as an argument."""
    owner = value.owner
    at = owner if isinstance(owner, Op) else owner.parent_op
    return at.location if at is not None else Location()


def _note(value: Value, message: str, source: str | None, filename: str) -> Diagnostic:
    place = place_of(value)
    return Diagnostic(message, place, source=source if place.file == filename else None)
