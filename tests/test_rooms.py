"""The rooms and who may import whom: arrows point one way, and nobody reaches past `polyreme` by a bare folder name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyreme.dialects import DIALECTS

ROOT = Path(__file__).resolve().parents[1]

# Each room with those it may import. `runtime` stands alone: it runs artifacts where no compiler is installed.
MAY_IMPORT = {
    "frontend": {"lowering", "dialects", "ir", "runtime"},
    "lowering": {"dialects", "ir"},
    "dialects": {"ir"},
    "ir": set(),
    "runtime": set(),
}
# Linking meets the runtime: it plans the arena, writes manifests, keeps objects and measured choices in the cache, and puts the native
# parts into libraries. What the system allows programs on this machine is asked by who runs them.
EXCEPTIONS = {
    (f"lowering/{name}.py", "runtime")
    for name in (
        "machines/targets",
        "schedule/arena",
        "link/artifact",
        "link/objects",
        "link/tune",
        "link/c_interface",
        "link/manifest",
        "link/gpu",
    )
}
# The folders of `lowering`, each of which may import those in front of it; `kernels` and `emit` have folders of their own.
LOWERING = ("machines", "analysis", "transforms", "decompose", "gradients", "kernels", "schedule", "emit", "link", "pipeline", "debug")
MOST_FILES = 25
# The compiler's libraries, which a room that must run without them may not name, not even inside a function.
COMPILER_ONLY = {"runtime": {"llvmlite", "lark"}, "ir": {"llvmlite"}, "dialects": {"llvmlite", "lark"}}


def files_of(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that `path` imports anywhere, with its line; `from a import b` counts as both a and a.b."""
    for part in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(part, ast.Import):
            yield from ((alias.name, part.lineno) for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            base = "." * part.level + (part.module or "")
            yield base, part.lineno
            yield from ((f"{base}.{alias.name}", part.lineno) for alias in part.names)


def room_of(module: str) -> str | None:
    """The room that an import reaches: `polyreme.X` is a room of that name, or else in the front end."""
    top, _, rest = module.partition(".")
    if top != "polyreme" or not rest:
        return None
    first = rest.split(".")[0]
    return first if first in MAY_IMPORT else "frontend"


def faults(room: str) -> list[str]:
    found = []
    for path in files_of(room):
        name = path.relative_to(ROOT).as_posix()
        for module, line in imported(path):
            reached = room_of(module)
            if module.startswith(".") or module.split(".")[0] in MAY_IMPORT:
                found.append(f"{name}:{line}: expected an absolute import from polyreme but got '{module}'")
            if reached and reached != room and reached not in MAY_IMPORT[room] and (name, reached) not in EXCEPTIONS:
                found.append(f"{name}:{line}: '{room}' may not import '{module}'")
            if module.split(".")[0] in COMPILER_ONLY.get(room, ()):
                found.append(f"{name}:{line}: '{room}' may not import '{module}'")
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_arrows_between_rooms_point_one_way(room: str) -> None:
    assert files_of(room), f"the room '{room}' has no files"
    assert not faults(room), "\n".join(faults(room))


def lowering_faults() -> list[str]:
    """Imports of a folder of `lowering` by one in front of it."""
    found = []
    for path in files_of("lowering"):
        parts = path.relative_to(ROOT / "lowering").parts
        own = parts[0].removesuffix(".py")
        for module, line in imported(path):
            reached = module.split(".")[2:3]
            if (
                module.startswith("polyreme.lowering.")
                and reached[0] in LOWERING
                and own in LOWERING
                and LOWERING.index(reached[0]) > LOWERING.index(own)
            ):
                found.append(f"{'/'.join(parts)}:{line}: '{own}' may not import '{module}'")
    return found


def test_arrows_between_the_folders_of_lowering_point_one_way() -> None:
    assert {p.name.removesuffix(".py") for p in (ROOT / "lowering").iterdir() if not p.name.startswith("__")} == set(LOWERING)
    assert not lowering_faults(), "\n".join(lowering_faults())


def test_an_arrow_that_runs_back_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lowering" / "machines").mkdir(parents=True)
    (tmp_path / "lowering" / "machines" / "targets.py").write_text("from polyreme.lowering.kernels.gemm import contract\n")
    monkeypatch.setattr("tests.test_rooms.ROOT", tmp_path)
    assert lowering_faults() == [
        "machines/targets.py:1: 'machines' may not import 'polyreme.lowering.kernels.gemm'",
        "machines/targets.py:1: 'machines' may not import 'polyreme.lowering.kernels.gemm.contract'",
    ]


@pytest.mark.parametrize("room", ["ir", "lowering", "runtime"])
def test_no_two_classes_of_a_room_have_one_name(room: str) -> None:
    homes: dict[str, list[str]] = {}
    for path in files_of(room):
        for part in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(part, ast.ClassDef):
                homes.setdefault(part.name, []).append(path.relative_to(ROOT).as_posix())
    assert not {name: files for name, files in homes.items() if len(files) > 1}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_folders_are_small(room: str) -> None:
    for folder in {path.parent for path in files_of(room)}:
        assert len(list(folder.glob("*.py"))) <= MOST_FILES, folder


def test_dialects_do_not_import_each_other() -> None:
    """They may share files that declare no ops."""
    dialects = set(DIALECTS)
    for path in files_of("dialects"):
        own = path.relative_to(ROOT / "dialects").parts[0].removesuffix(".py")
        for module, line in imported(path):
            parts = module.split(".")
            if parts[:2] == ["polyreme", "dialects"] and len(parts) > 2 and parts[2] in dialects:
                assert parts[2] == own, f"{path.name}:{line}: '{own}' imports the dialect '{parts[2]}'"


def test_llvmlite_is_imported_inside_functions_only() -> None:
    """So that importing any module stays cheap, and a library runs where LLVM is missing."""
    for room in MAY_IMPORT:
        for path in files_of(room):
            for part in ast.parse(path.read_text(encoding="utf-8")).body:
                names = [a.name for a in part.names] if isinstance(part, ast.Import) else []
                names += [part.module or ""] if isinstance(part, ast.ImportFrom) else []
                assert not any(n.split(".")[0] == "llvmlite" for n in names), f"{path}:{part.lineno}"


@pytest.mark.parametrize("module, room", [("polyreme.ir.core", "ir"), ("polyreme.jit", "frontend"), ("polyreme", None), ("numpy", None)])
def test_an_import_belongs_to_a_room(module: str, room: str | None) -> None:
    assert room_of(module) == room


def test_a_forbidden_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "threads.py").write_text("import numpy\nfrom polyreme.lowering import pipeline\nfrom ir import core\n")
    monkeypatch.setattr("tests.test_rooms.ROOT", tmp_path)
    assert [line.split(": ")[0] for line in faults("runtime")] == [
        "runtime/threads.py:2",
        "runtime/threads.py:2",
        "runtime/threads.py:3",
        "runtime/threads.py:3",
    ]
