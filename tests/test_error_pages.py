"""Error codes: each has a page whose example says what the page says, each is used, and nothing of ours is raised without one."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path

import pytest

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.error_codes import ERROR_CODES, GROUPS, page
from polyreme.runtime.errors import RuntimeFault
from tests.error_examples import FOLDER, output_of, read_page, with_printed

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {"frontend": "polyreme", **{room: f"polyreme.{room}" for room in ("ir", "dialects", "lowering", "runtime")}}
PAGES = sorted(FOLDER.glob("E*.md"))
CODE = re.compile(r"E\d{4}")
# Packages of extras that an example needs to get as far as its fault.
NEEDED = {"E0707": "onnx"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_example_of_a_page_prints_what_the_page_says(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if path.stem in NEEDED:
        pytest.importorskip(NEEDED[path.stem])
    example = read_page(path)
    printed = output_of(example, tmp_path)
    assert f"error[{path.stem}]: " in printed, f"expected the example to provoke {path.stem} but it printed\n{printed}"
    if request.config.getoption("--update-golden"):
        path.write_text(with_printed(example, printed), encoding="utf-8")
        example = read_page(path)
    assert example.printed == printed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_title_of_the_table_and_says_what_why_and_how_to_mend_it(path: Path) -> None:
    example = read_page(path)
    assert example.title == ERROR_CODES[path.stem]
    assert example.sections == ["What", "Why", "Fix"]
    assert len(example.text) < 4000


def test_every_code_has_a_page_and_a_group() -> None:
    assert [path.stem for path in PAGES] == sorted(ERROR_CODES)
    assert {code[:3] for code in ERROR_CODES} == set(GROUPS)
    assert all(page(code).startswith(f"# {code}: ") for code in ERROR_CODES)


def test_a_code_may_be_given_in_short_and_an_unknown_one_names_the_nearest() -> None:
    assert page("301") == page("e0301") == page("E0301")
    with pytest.raises(PolyremeError, match=r"error\[E0010\]: .* but got 'E0391'; did you mean 'E"):
        page("E0391")


# --- the source


@functools.cache
def sources() -> list[tuple[Path, ast.Module]]:
    """Every file of the package, with its syntax tree."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def module_of(path: Path) -> str:
    room, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([ROOMS[room], *(rest[:-1] if rest[-1] == "__init__" else rest)])


def error_classes(tree: ast.Module, module: str) -> dict[str, type]:
    """The error classes of ours by the names that a file has for them, wherever in it they are imported."""
    places: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("polyreme"):
            places |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            places[node.name] = (module, node.name)
    known = ("Error", "Fault", "Mpi")
    found = {}
    for name, (home, original) in places.items():
        if original.endswith(known):
            value = getattr(importlib.import_module(home), original, None)
            if isinstance(value, type) and issubclass(value, (PolyremeError, RuntimeFault)):
                found[name] = value
    return found


def test_every_error_of_ours_is_made_with_a_code() -> None:
    made, without = 0, []
    for path, tree in sources():
        if not any(word in path.read_text(encoding="utf-8") for word in ("Error(", "Fault(", "Mpi(")):
            continue
        classes = error_classes(tree, module_of(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes:
                made += 1
                given = any(k.arg == "code" for k in node.keywords) or len(node.args) > 2
                # Made of diagnostics that have codes: each is one of the calls looked at, or noted by `fault` with its code.
                again = node.args and isinstance(node.args[0], ast.GeneratorExp)
                if not (classes[node.func.id].code or given or again):
                    without.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert made > 400
    assert not without, f"errors without a code: {', '.join(without)}"


def test_every_code_in_the_source_is_in_the_table_and_every_one_of_the_table_is_used() -> None:
    used: dict[str, str] = {}
    for path, tree in sources():
        if path.name != "error_codes.py":
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                    used.setdefault(node.value, f"{path.relative_to(ROOT)}:{node.lineno}")
    used.setdefault("E0010", "error_codes.py, which raises it")
    unknown = [f"{code} ({place})" for code, place in used.items() if code not in ERROR_CODES]
    assert not unknown, f"codes that no table knows: {', '.join(unknown)}"
    unused = [code for code in ERROR_CODES if code not in used]
    assert not unused, f"codes that nothing raises: {', '.join(unused)}"
