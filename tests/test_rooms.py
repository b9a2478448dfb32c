"""The rooms and who may import whom: arrows point one way, and nobody reaches past `polyreme` by a bare folder name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from polyreme.dialects import DIALECTS
from tests.sources import ROOT, sources

# Each room with those it may import. `runtime` stands alone: it runs artifacts where no compiler is installed.
MAY_IMPORT = {
    "frontend": {"lowering", "dialects", "ir", "runtime"},
    "lowering": {"dialects", "ir"},
    "dialects": {"ir"},
    "ir": set(),
    "runtime": set(),
}
# Linking meets the runtime in one file: artifacts are what both know.
EXCEPTIONS = {("lowering/link/runtime.py", "runtime")}
# The folders of `lowering`, each of which may import those in front of it; `kernels` and `emit` have folders of their own.
LOWERING = ("machines", "analysis", "transforms", "decompose", "gradients", "kernels", "schedule", "emit", "link", "pipeline", "debug")
MOST_FILES = 25
# The compiler's libraries, which a room that must run without them may not name, not even inside a function.
COMPILER_ONLY = {"runtime": {"llvmlite", "lark"}, "ir": {"llvmlite"}, "dialects": {"llvmlite", "lark"}}


def room_of(module: str) -> str | None:
    """The room that an import reaches: `polyreme.X` is a room of that name, or else in the front end."""
    top, _, rest = module.partition(".")
    if top != "polyreme" or not rest:
        return None
    first = rest.split(".")[0]
    return first if first in MAY_IMPORT else "frontend"


def faults(room: str, root: Path = ROOT) -> list[str]:
    found = []
    for source in sources(room, root):
        for seen in source.imports:
            place, module, reached = f"{source.name}:{seen.line}", seen.module, room_of(seen.module)
            if module.startswith(".") or module.split(".")[0] in MAY_IMPORT:
                found.append(f"{place}: expected an absolute import from polyreme but got '{module}'")
            if reached and reached != room and reached not in MAY_IMPORT[room] and (source.name, reached) not in EXCEPTIONS:
                found.append(f"{place}: '{room}' may not import '{module}'")
            if module.split(".")[0] in COMPILER_ONLY.get(room, ()):
                found.append(f"{place}: '{room}' may not import '{module}'")
    return found


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_arrows_between_rooms_point_one_way(room: str) -> None:
    assert sources(room), f"the room '{room}' has no files"
    assert not faults(room), "\n".join(faults(room))


def lowering_faults(root: Path = ROOT) -> list[str]:
    """Imports of a folder of `lowering` by one in front of it."""
    found = []
    for source in sources("lowering", root):
        own = source.name.split("/")[1].removesuffix(".py")
        for seen in source.imports:
            reached = seen.module.removeprefix("polyreme.lowering.").split(".")[0]
            inside = seen.module.startswith("polyreme.lowering.") and reached in LOWERING and own in LOWERING
            if inside and LOWERING.index(reached) > LOWERING.index(own):
                found.append(f"{source.name}:{seen.line}: '{own}' may not import '{seen.module}'")
    return found


def test_arrows_between_the_folders_of_lowering_point_one_way() -> None:
    assert {p.name.removesuffix(".py") for p in (ROOT / "lowering").iterdir() if not p.name.startswith("__")} == set(LOWERING)
    assert not lowering_faults(), "\n".join(lowering_faults())


def test_an_arrow_that_runs_back_is_found(tmp_path: Path) -> None:
    (tmp_path / "lowering" / "machines").mkdir(parents=True)
    (tmp_path / "lowering" / "machines" / "targets.py").write_text("from polyreme.lowering.kernels.gemm import contract\n")
    assert lowering_faults(tmp_path) == [
        "lowering/machines/targets.py:1: 'machines' may not import 'polyreme.lowering.kernels.gemm'",
        "lowering/machines/targets.py:1: 'machines' may not import 'polyreme.lowering.kernels.gemm.contract'",
    ]


def circles(room: str, root: Path = ROOT) -> list[list[str]]:
    """The sets of files of a room that import each other, be it inside of functions: strongly connected parts, after Tarjan (1972)."""
    files = {_module(source.name): source for source in sources(room, root)}
    reached = {name: {i.module for i in file.imports if i.module in files and not i.for_types} - {name} for name, file in files.items()}
    # `from a import b` counts as both a and a.b: of these the file that it reaches.
    for name, modules in reached.items():
        reached[name] = modules - {m.rpartition(".")[0] for m in modules}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        path.append(name)
        for other in sorted(reached[name]):
            if other not in number:
                visit(other)
            if other in path:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == number[name]:
            part = [path.pop()]
            while part[-1] != name:
                part.append(path.pop())
            if len(part) > 1:
                found.append(sorted(files[m].name for m in part))

    for name in files:
        if name not in number:
            visit(name)
    return found


def _module(file: str) -> str:
    """`polyreme.a.b` for `frontend/a/b.py` and `polyreme.ir.b` for `ir/b.py`."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(["polyreme", *(parts[1:] if parts[0] == "frontend" else parts)])


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_files_import_each_other(room: str) -> None:
    assert not circles(room)


def test_files_that_import_each_other_are_found(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "__init__.py").write_text("")
    (tmp_path / "ir" / "a.py").write_text("from polyreme.ir.b import f\n")
    (tmp_path / "ir" / "b.py").write_text("def f():\n    from polyreme.ir import c\n")
    (tmp_path / "ir" / "c.py").write_text("from polyreme.ir.a import f\nfrom polyreme.ir.d import g\n")
    (tmp_path / "ir" / "d.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from polyreme.ir.a import f\n")
    assert circles("ir", tmp_path) == [["ir/a.py", "ir/b.py", "ir/c.py"]]


# Names that Paddle gives to two classes, and a block that three of its models have each in a form of its own.
PADDLES_OWN = {"Digits", "InvertedResidual", "LRScheduler", "Parameter"}


@pytest.mark.parametrize("room", ["ir", "lowering", "runtime", "frontend"])
def test_no_two_classes_of_a_room_have_one_name(room: str) -> None:
    """Dialects are left out: `nn.Reshape` and `tensor.Reshape` are called by their dialect. So is `fluid`, Paddle's API before it had the
    names of today: `fluid.optimizer.Optimizer`.
    """
    homes: dict[str, list[str]] = {}
    for source in sources(room):
        for name in source.classes if not source.name.startswith("frontend/fluid/") else ():
            homes.setdefault(name, []).append(source.name)
    assert not {name: files for name, files in homes.items() if len(files) > 1 and name not in PADDLES_OWN}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_folders_are_small(room: str) -> None:
    files = Counter(source.name.rpartition("/")[0] for source in sources(room))
    assert not {folder: count for folder, count in files.items() if count > MOST_FILES}


def test_dialects_do_not_import_each_other() -> None:
    """They may share files that declare no ops."""
    dialects = set(DIALECTS)
    for source in sources("dialects"):
        own = source.name.split("/")[1].removesuffix(".py")
        for seen in source.imports:
            parts = seen.module.split(".")
            if parts[:2] == ["polyreme", "dialects"] and len(parts) > 2 and parts[2] in dialects:
                assert parts[2] == own, f"{source.name}:{seen.line}: '{own}' imports the dialect '{parts[2]}'"


def test_llvmlite_is_imported_inside_functions_only() -> None:
    """So that importing any module stays cheap, and a library runs where LLVM is missing."""
    for room in MAY_IMPORT:
        for source in sources(room):
            for seen in source.imports:
                assert not (seen.runs and seen.module.split(".")[0] == "llvmlite"), f"{source.name}:{seen.line}"


@pytest.mark.parametrize("module, room", [("polyreme.ir.core", "ir"), ("polyreme.jit", "frontend"), ("polyreme", None), ("numpy", None)])
def test_an_import_belongs_to_a_room(module: str, room: str | None) -> None:
    assert room_of(module) == room


def test_a_forbidden_import_is_found(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "threads.py").write_text("import numpy\nfrom polyreme.lowering import pipeline\nfrom ir import core\n")
    assert [line.split(": ")[0] for line in faults("runtime", tmp_path)] == [
        "runtime/threads.py:2",
        "runtime/threads.py:2",
        "runtime/threads.py:3",
        "runtime/threads.py:3",
    ]


def test_imports_that_run_are_told_from_those_that_wait(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "core.py").write_text(
        "import a\nif TYPE_CHECKING:\n    import b\nelse:\n    import c\ntry:\n    import d\nexcept ImportError:\n    import e\n"
        "class C:\n    import f\n    def g(self):\n        with x:\n            from h import i\n"
    )
    (source,) = sources("ir", tmp_path)
    assert [(seen.module, seen.runs) for seen in source.imports] == [
        *(("a", True), ("b", False), ("c", True), ("d", True), ("e", True), ("f", True)),
        *(("h", False), ("h.i", False)),
    ]
    assert source.classes == ("C",)
