"""Schedules as values: what is chosen for a root before its kernels are written, as text that is read back.

    gemm<sizes = 64x256x512, tile = 8x3, lanes = 16, packed = tiles<panels = packed, rows = 32>>

A schedule is a frozen dataclass. Its fields are numbers, words, flags, tuples of numbers (`8x3`), other schedules, and tuples of these
(`[…, …]`). It prints the fields that differ from their defaults, by name; a flag that is set is its name alone. `parse_schedule` reads what
is printed, with the fields in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from polyreme.ir.diagnostics import PolyremeError, did_you_mean
from polyreme.ir.python.records import dataclass

_KIND = re.compile(r"\s*([a-z_][a-z0-9_]*)\s*(?:<(.*)>)?\s*", re.DOTALL)
_OPEN, _CLOSE = "<[(", ">])"


class ScheduleError(PolyremeError):
    """Text that is no schedule, or a schedule that does not fit its root."""

    code = "E0413"


@dataclass(frozen=True)
class Schedule:
    """What is chosen for a root, or for a part of it. Subclasses name their `kind`: `class Tiles(Schedule, kind="tiles")`."""

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        cls.kind = kind

    def __str__(self) -> str:
        said = [text for field in fields(self) for text in _said(field, getattr(self, field.name))]
        return f"{self.kind}<{', '.join(said)}>" if said else self.kind


def _said(field: Field[Any], value: Any) -> Iterator[str]:
    """A field as text, if it says something."""
    if field.default is not MISSING and value == field.default:
        return
    yield field.name if value is True else f"{field.name} = {_spelled(value)}"


def _spelled(value: Any) -> str:
    if isinstance(value, tuple):
        is_list = any(isinstance(item, Schedule) for item in value)
        return f"[{', '.join(map(str, value))}]" if is_list else "x".join(map(str, value))
    return str(value)


def parse_schedule(text: str, kinds: Iterable[type[Schedule]]) -> Schedule:
    """The schedule that `text` says, one of these kinds; `ScheduleError` says what is wrong."""
    known = {kind.kind: kind for kind in kinds}
    found = _KIND.fullmatch(text)
    if found is None or not _is_closed(text):
        raise ScheduleError(f"expected a schedule such as 'gemm<tile = 8x3, lanes = 16>' but got '{text.strip()}'")
    name, inside = found[1], found[2] or ""
    if name not in known:
        raise ScheduleError(f"expected a schedule of a kind known here ({', '.join(known)}) but got '{name}'{did_you_mean(name, known)}")
    return known[name](**_named(known[name], inside))


def _named(kind: Any, inside: str) -> dict[str, Any]:
    """The fields by name."""
    declared, given = _types_of(kind), {}
    for item in _split(inside):
        name, equals, value = (part.strip() for part in item.partition("="))
        if name not in declared:
            raise ScheduleError(
                f"expected a field of '{kind.kind}' ({', '.join(declared)}) but got '{name}'{did_you_mean(name, declared)}"
            )
        if name in given:
            raise ScheduleError(f"expected each field of '{kind.kind}' once but got '{name}' twice")
        given[name] = _value(declared[name], value if equals else None, f"'{name}' of '{kind.kind}'")
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in given]
    if missing:
        raise ScheduleError(f"expected '{kind.kind}' to say {' and '.join(missing)} but got '{kind.kind}<{inside.strip()}>'")
    return given


@cache
def _types_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}


def _value(wanted: Any, text: str | None, what: str) -> Any:
    """A field's value of this type; no text stands behind the name of a flag."""
    choices = [t for t in (get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)) if t is not NoneType]
    if choices == [bool]:
        if text is not None:
            raise ScheduleError(f"expected {what} to stand alone, or not at all, but got '{text}'")
        return True
    if text is None:
        raise ScheduleError(f"expected a value for {what}")
    if choices == [int] and re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if choices == [float] and re.fullmatch(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?", text):
        return float(text)
    if choices == [str] and text:
        return text
    if get_origin(choices[0]) is tuple:
        return _tuple(get_args(choices[0]), text, what)
    if all(isinstance(c, type) and issubclass(c, Schedule) for c in choices):
        return parse_schedule(text, choices)
    raise ScheduleError(f"expected {what} to be {_words_for(choices)} but got '{text}'")


def _tuple(items: tuple[Any, ...], text: str, what: str) -> tuple[Any, ...]:
    """Numbers with an `x` between, or schedules in brackets."""
    if items[0] is int:
        numbers = text.split("x")
        if not all(re.fullmatch(r"[0-9]+", n) for n in numbers) or (items[-1] is not Ellipsis and len(items) != len(numbers)):
            raise ScheduleError(f"expected {what} to be {_numbers(items)} but got '{text}'")
        return tuple(map(int, numbers))
    if not (text.startswith("[") and text.endswith("]")):
        raise ScheduleError(f"expected {what} to be schedules in brackets but got '{text}'")
    kinds = get_args(items[0]) if get_origin(items[0]) in (Union, UnionType) else (items[0],)
    return tuple(parse_schedule(part, kinds) for part in _split(text[1:-1]))


def _numbers(items: tuple[Any, ...]) -> str:
    return "numbers such as 8x3" if items[-1] is Ellipsis else f"{len(items)} numbers such as {'x'.join('8' * len(items))}"


def _words_for(choices: list[Any]) -> str:
    """What a field takes, for a message."""
    names = {int: "a whole number", float: "a number", str: "a word"}
    return " or ".join(names.get(c, f"'{getattr(c, 'kind', c)}<…>'") for c in choices)


def _split(text: str) -> list[str]:
    """The parts of a list at its outermost commas."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in _OPEN) - (c in _CLOSE)
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _is_closed(text: str) -> bool:
    """Whether each bracket that opens is closed."""
    depth = 0
    for c in text:
        depth += (c in _OPEN) - (c in _CLOSE)
        if depth < 0:
            return False
    return depth == 0


def kinds_within(kind: Any) -> list[type[Schedule]]:
    """A kind of schedule and those of its fields, each once."""
    found: list[type[Schedule]] = []
    todo = [kind]
    while todo:
        one = todo.pop(0)
        if isinstance(one, type) and issubclass(one, Schedule):
            if one not in found:
                found.append(one)
                todo += [t for name, t in get_type_hints(one).items() if name != "kind"]
        else:
            todo += get_args(one)
    return found
