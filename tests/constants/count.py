"""Counting: names in capitals that a module gives numbers at its top level, or tuples, tables and records of numbers.

A table of functions is none of these, whatever numbers its functions have; nor are names by number, as of types by their bits, also where
a comprehension makes them of numbers; nor is a type, such as one of three elements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def constants_in(text: str) -> list[str]:
    """The names of a module's numeric constants: also of tuples, tables and records of numbers, each name once."""
    found: list[str] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        if names and all(name.lstrip("_").isupper() for name in names) and _is_of_numbers(value):
            found += names
    return found


def _is_of_numbers(node: ast.AST) -> bool:
    """Whether a value is a number, computed of numbers, or has one as an element."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, (ast.Lambda, ast.Compare, ast.JoinedStr)):
        return False
    if isinstance(node, ast.Dict):
        if any(map(_has_function, node.values)):
            return False
        return any(map(_is_of_numbers, node.values))
    if isinstance(node, ast.Subscript):
        return _is_of_numbers(node.value)
    if isinstance(node, ast.DictComp):
        return _is_of_numbers(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Type"):
        return False
    return any(map(_is_of_numbers, ast.iter_child_nodes(node)))


def _has_function(node: ast.AST) -> bool:
    """Whether a value is, or holds, a function that is written there or made of another one."""
    return any(isinstance(inner, ast.Lambda) or (isinstance(inner, ast.Call) and _is_partial(inner.func)) for inner in ast.walk(node))


def _is_partial(func: ast.AST) -> bool:
    return isinstance(func, ast.Name) and func.id == "partial"


def by_file() -> Iterator[tuple[str, list[str]]]:
    """Each file of `lowering/` outside of `machines/` that has some, with their names."""
    for path in sorted((ROOT / "lowering").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("lowering/machines/") and (names := constants_in(path.read_text(encoding="utf-8"))):
            yield name, names
