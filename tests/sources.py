"""What the files of the rooms import and define: each file is read and parsed once, however many tests ask."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Import:
    """`from a import b` is two of these, `a` and `a.b`, since `b` may be a module. `runs` tells an import that is executed when its file is
    imported from one that waits in a function or that only type checkers read; `for_types` tells the latter."""

    module: str
    line: int
    runs: bool
    for_types: bool = False


@dataclass(frozen=True)
class Source:
    """A file: its path below the root, such as `lowering/link/tune.py`, its imports everywhere in it, and the classes at its top level."""

    name: str
    imports: tuple[Import, ...]
    classes: tuple[str, ...]


def sources(room: str, root: Path = ROOT) -> tuple[Source, ...]:
    return tuple(_parsed(path, root) for path in sorted((root / room).rglob("*.py")))


@cache
def _parsed(path: Path, root: Path) -> Source:
    # Trees are freed by reference counts as soon as they are read; looking for cycles in them takes most of the time of parsing.
    enabled = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = tuple(part.name for part in tree.body if isinstance(part, ast.ClassDef))
        return Source(path.relative_to(root).as_posix(), tuple(_imports(tree.body, True, False)), classes)
    finally:
        if enabled:
            gc.enable()


def _imports(body: list[ast.stmt], runs: bool, for_types: bool) -> Iterator[Import]:
    for part in body:
        if isinstance(part, ast.Import):
            yield from (Import(alias.name, part.lineno, runs, for_types) for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            base = "." * part.level + (part.module or "")
            yield from (Import(name, part.lineno, runs, for_types) for name in (base, *(f"{base}.{alias.name}" for alias in part.names)))
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _imports(part.body, False, for_types)
        elif isinstance(part, ast.If):
            checked = _for_type_checkers(part.test)
            yield from _imports(part.body, runs and not checked, for_types or checked)
            yield from _imports(part.orelse, runs, for_types)
        else:
            for field in ("body", "handlers", "cases", "orelse", "finalbody"):
                yield from _imports(getattr(part, field, []), runs, for_types)


def _for_type_checkers(test: ast.expr) -> bool:
    return (test.id if isinstance(test, ast.Name) else getattr(test, "attr", "")) == "TYPE_CHECKING"
