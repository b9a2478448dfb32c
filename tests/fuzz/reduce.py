"""Making a text that shows a fault small."""

import ast
import time
from collections.abc import Callable

from tests.fuzz.texts import TOKEN


def smallest(text: str, shows: Callable[[str], bool], seconds: float = 15.0) -> str:
    """A part of `text` for which `shows` still holds: no line and no token can be left out, unless the time is up."""
    end = time.monotonic() + seconds
    for split in (lambda t: t.splitlines(keepends=True), TOKEN.findall):
        parts = split(text)
        size = max(1, len(parts) // 2)
        while parts:
            at, found = 0, False
            while at < len(parts) and time.monotonic() < end:
                shorter = parts[:at] + parts[at + size :]
                if shows("".join(shorter)):
                    parts, found = shorter, True
                else:
                    at += size
            if time.monotonic() >= end or (size == 1 and not found):
                break
            size = max(1, size // 2)
        text = "".join(parts)
    return text


def smallest_module(text: str, shows: Callable[[str], bool], seconds: float = 60.0) -> str:
    """A part of a Python module for which `shows` still holds: no statement can be left out, and none stand for the one around it, unless
    the time is up.
    """
    end = time.monotonic() + seconds
    found = True
    while found and time.monotonic() < end:
        found = False
        place = 0
        while time.monotonic() < end:
            shorter = _without(text, place)
            if shorter is None:
                break
            if shorter != text and shows(shorter):
                text, found = shorter, True
            else:
                place += 1
    return text


def _without(text: str, place: int) -> str | None:
    """A module with one thing simpler, the one of that number; None if there are not so many."""
    tree = ast.parse(text)
    count = 0
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if not isinstance(body, list):
                continue
            for i, statement in enumerate(body):
                inner = getattr(statement, "body", None)
                options = [[]]
                if isinstance(inner, list) and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                    options.append(inner)
                for option in options:
                    if count == place:
                        body[i : i + 1] = option
                        if name == "body" and not body:
                            body.append(ast.Pass())
                        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
                    count += 1
    return None
