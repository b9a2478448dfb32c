"""Notes that say where the values came from that an op was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import Diagnostic, Location

# More operands than this say less, not more.
MOST_NOTES = 4


def place_of(value: Value) -> Location:
    """The place of the op that has the value as a result, or whose region has it as an argument."""
    owner = value.owner
    at = owner if isinstance(owner, Op) else owner.parent_op
    return at.location if at is not None else Location()


def operand_notes(values: Iterable[Value], source: str | None = None, place: Callable[[Value], Location] = place_of) -> list[Diagnostic]:
    """What type each value has, and where it is defined; `source` is the text of these places if it is in no file."""
    found = list(dict.fromkeys(values))[:MOST_NOTES]
    return [_note(f"{_name(v)} is {v.type}", source, place(v)) for v in found]


def definition_note(value: Value) -> list[Diagnostic]:
    """Where the value is defined, if that is known."""
    place = place_of(value)
    return [Diagnostic(f"{_name(value)} is defined here", place)] if place else []


def _note(message: str, source: str | None, place: Location) -> Diagnostic:
    return Diagnostic(f"{message}, defined here" if place else message, place, source=source)


def _name(value: Value) -> str:
    return f"%{value.name}" if value.name else "an operand"
