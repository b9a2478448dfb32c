"""Locations, diagnostics and the exceptions that carry them.

A diagnostic is a value: tests compare it, the command line prints it with the source line and a caret under the span.
Messages are lower case, put op names in single quotes, say `expected … but got …` and end without a full stop.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable
from dataclasses import field, replace
from itertools import islice
from types import FrameType
from typing import Any, ClassVar

from polyreme.ir.python.records import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source (`file`, 1-based `line` and `column`; 0 when unknown), or a Layer path of a loaded model.

    `name` is what the user calls the thing there: a variable, or a Layer's path such as `features.0`.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    end_column: int = 0
    name: str = ""

    def __str__(self) -> str:
        place = ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])
        return place or self.name or "unknown"

    def __bool__(self) -> bool:
        return bool(self.file or self.name)


UNKNOWN = Location()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault. `source` overrides the file's own text, for text that never was a file; `code` is a key of `error_codes.ERROR_CODES`."""

    message: str
    location: Location = UNKNOWN
    notes: tuple[Diagnostic, ...] = ()
    source: str | None = field(default=None, compare=False, repr=False)
    code: str = ""

    def render(self, severity: str = "error") -> str:
        """The message after its place, then the line with carets under the span, then the notes."""
        # Without a place and a code the exception's own name is severity enough.
        kind = f"{severity}[{self.code}]: " if self.code else f"{severity}: " if self.location or severity != "error" else ""
        where = f"{self.location}: {kind}" if self.location else kind
        lines = [f"{where}{self.message}", *self._excerpt()]
        return "\n".join(lines + [note.render("note") for note in self.notes])

    def _excerpt(self) -> list[str]:
        loc = self.location
        if not loc.line:
            return []
        if self.source is not None:
            rows = self.source.splitlines()
            text = rows[loc.line - 1] if loc.line <= len(rows) else ""
        else:
            text = _source_line(loc.file, loc.line)
        if not text.strip():
            return []
        if not loc.column:
            return ["    " + text.strip()]
        width = max(1, min(loc.end_column or loc.column + 1, len(text) + 1) - loc.column)
        # Tabs are kept in the indent of the caret line, so that both lines are drawn alike.
        indent = "".join(c if c == "\t" else " " for c in text[: loc.column - 1])
        return ["    " + text, "    " + indent + "^" * width]


def _source_line(file: str, line: int) -> str:
    """A line of a source file, or of a cell or `exec` that put its text into `linecache`; empty when there is none."""
    # A file may have been edited, or be another one of that name by now.
    linecache.checkcache(file)
    # linecache would look for files of relative names on `sys.path`, and find others that are called alike.
    return linecache.getline(file, line).rstrip("\n") if file in linecache.cache or os.path.isfile(file) else ""


class PolyremeError(Exception):
    """Base of every error that is the user's to mend; `diagnostics` holds all the faults found.

    A class whose name says the kind of mistake gives its `code`; elsewhere the place that raises does. Diagnostics that have a code keep
    it.
    """

    code: ClassVar[str] = ""

    def __init__(self, message: str | Diagnostic | Iterable[Diagnostic], location: Location = UNKNOWN, code: str = ""):
        if isinstance(message, str):
            message = Diagnostic(message, location)
        code = code or self.code
        found = (message,) if isinstance(message, Diagnostic) else tuple(message)
        self.diagnostics = tuple(d if d.code else replace(d, code=code) for d in found)
        super().__init__("\n".join(d.render() for d in self.diagnostics))

    @property
    def message(self) -> str:
        """What happened, without places and codes, for an error that says it in its own words."""
        return "; ".join(d.message for d in self.diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        # Between processes an error travels as its diagnostics: its text is made from them again.
        return type(self), (self.diagnostics,)


class ParseError(PolyremeError):
    """Text that is no module."""

    code = "E0101"


class VerifyError(PolyremeError):
    """A module that breaks an invariant of `verify.py`."""


class InferError(PolyremeError, ValueError):
    """Operands or attributes that an op does not take."""

    code = "E0301"


class PassError(PolyremeError):
    """A pass that failed or was asked for by a wrong name or option."""

    code = "E0403"


class ConversionError(PassError):
    """An op that no rule of a conversion could take over the border."""

    code = "E0406"


def check(condition: bool, message: str, code: str = "E0301") -> None:
    """Raise `InferError(message)` unless `condition` holds; for use in an op's `infer`. Without a code it is about shapes that must fit."""
    if not condition:
        raise InferError(message, code=code)


def check_type(condition: bool, message: str) -> None:
    """`check` for what is said about dtypes and kinds of types."""
    check(condition, message, "E0302")


def check_attr(condition: bool, message: str) -> None:
    """`check` for what is said about the value of an attribute."""
    check(condition, message, "E0303")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` when a known name is close, else an empty string."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


# Files under these prefixes are nobody's to mend, such as the command line's library: a location skips their frames like our own.
_HIDDEN_PREFIXES: list[str] = ["<frozen"]
# So are Python's own, among which packages are installed that may well be the user's.
_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED = tuple(f"{_STANDARD_LIBRARY}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


# What was found of modules and their files: locations are asked for at each op.
_answers: dict[tuple[str, str], bool] = {}
MOST_ANSWERS = 4096


def hide_frames_under(prefix: str) -> None:
    """Skip files whose name starts with `prefix` when looking for the user's own line."""
    _HIDDEN_PREFIXES.append(prefix)
    _answers.clear()


def is_users_frame(frame: FrameType) -> bool:
    """Whether the code of a frame is the user's, not the framework's or numpy's."""
    key = frame.f_globals.get("__name__") or "", frame.f_code.co_filename
    answer = _answers.get(key)
    if answer is None:
        if len(_answers) >= MOST_ANSWERS:
            _answers.clear()
        answer = _answers[key] = _is_users(*key)
    return answer


def _is_users(module: str, file: str) -> bool:
    if module.partition(".")[0] in ("polyreme", "numpy"):
        return False
    if file.startswith(_STANDARD_LIBRARY):
        return file.startswith(_INSTALLED)
    # Compiled modules have frames too, of sources that are not there.
    return not file.startswith(tuple(_HIDDEN_PREFIXES)) and not file.endswith(".pyx")


def caller_location(name: str = "") -> Location:
    """The innermost line of the running Python stack that belongs to the user."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users_frame(frame):
        frame = frame.f_back
    return Location(name=name) if frame is None else _location(frame, frame.f_lasti, frame.f_lineno, name)


def _location(frame: FrameType, instruction: int, line: int, name: str = "") -> Location:
    """The place of an instruction of a frame: its line, and the span in it of the expression that is being computed."""
    file = frame.f_code.co_filename
    start, end_line, column, end = next(islice(frame.f_code.co_positions(), instruction // 2, None), (None,) * 4)
    if start != line or column is None or end is None:
        return Location(file, line, name=name)
    text = _source_line(file, line)
    if end_line != start:
        end = len(text.encode())
    if not text.isascii():
        # Python counts bytes; people and carets count characters.
        column, end = (len(text.encode()[:n].decode(errors="replace")) for n in (column, end))
    return Location(file, line, column + 1, end + 1, name)


def caller_lines(most: int) -> tuple[tuple[str, int, str], ...]:
    """The innermost lines of the running Python stack that belong to the user, at most so many, each as file, number and function; the
    line that calls comes before the one that is called.
    """
    found: list[tuple[str, int, str]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < most:
        if is_users_frame(frame):
            found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found[::-1])


def raised_location(error: BaseException) -> Location:
    """The innermost line of the user's that an exception came through."""
    found = Location()
    step = error.__traceback__
    while step is not None:
        if is_users_frame(step.tb_frame):
            found = _location(step.tb_frame, step.tb_lasti, step.tb_lineno)
        step = step.tb_next
    return found
