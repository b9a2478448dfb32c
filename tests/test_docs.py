"""The pages name things that exist: files, what is defined in them, facts of machines."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from polyreme.lowering.kernels.schedule import kinds_within
from polyreme.lowering.kernels.way import Way
from polyreme.lowering.machines.cores import Core, Rates
from polyreme.lowering.machines.targets import GpuTarget
from polyreme.lowering.pipeline import BUILDERS, WAYS

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "dialects", "docs", "editors", "examples", "frontend", "ir", "lowering", "runtime", "tests")
# Written by programs (`docs/ops`) or about errors of users' files (`docs/errors`), and checked by tests of their own.
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md"), *(DOCS / "kernels").glob("*.md")])
PATH = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)(?::(\w+))?`")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def defined(path: Path) -> frozenset[str]:
    """The names that a module has at its top level."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_in_backticks_exist_and_define_what_is_named(page: Path) -> None:
    missing = []
    for path, symbol in PATH.findall(page.read_text(encoding="utf-8")):
        target = ROOT / path
        if "NAME" in path:  # any file of the kind
            continue
        if not target.exists():
            missing.append(f"{path}: no such file")
        elif symbol and symbol not in defined(target):
            missing.append(f"{path}: no '{symbol}' in it")
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_headings_that_exist(page: Path) -> None:
    broken = []
    for path, heading in re.findall(r"\]\((?!http)([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
        target = (page.parent / path) if path else page
        if target.suffix == ".md" and heading not in headings(target):
            broken.append(f"{path}#{heading}")
    assert broken == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of its headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_facts_of_a_target_are_fields_of_it(page: Path) -> None:
    named = set(re.findall(r"`Target\.(\w+)`", page.read_text(encoding="utf-8")))
    assert {fact for fact in named if not hasattr(GpuTarget, fact)} == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "kernels"], ids=name)
def test_constants_of_a_kernel_page_are_in_the_files_that_it_names(page: Path) -> None:
    """`NAME` alone is a constant of one of the page's files."""
    text = page.read_text(encoding="utf-8")
    files = [ROOT / path for path, _ in PATH.findall(text) if path.endswith(".py")]
    known = set().union(*(defined(path) for path in files)) if files else set()
    constants = {word for word in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", text) if not word.startswith("POLYREME_")}
    assert constants - known == set()


def test_the_walk_through_the_architecture_runs() -> None:
    """Its code as a reader would type it, whose assertions say what each level of the example holds."""
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    assert code.count("assert ") >= 5
    exec(compile(code, "architecture.md", "exec"), {"__name__": "architecture"})
    stops = re.findall(r"^(\d+)\. \*\*", page, re.MULTILINE)
    assert stops == [str(i + 1) for i in range(len(stops))] and 6 <= len(stops) <= 12


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("page", ["convolutions", "general"])
def test_tables_list_builders_in_the_order_in_which_they_are_asked(page: str) -> None:
    order = [build.__name__ for build in BUILDERS]
    lines = (DOCS / "kernels" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    listed = [name for line in lines if line.startswith("|") for name in re.findall(r"\b(build_\w+)`", line)]
    assert len(listed) > 2 and listed == sorted(listed, key=order.index)


def test_every_builder_of_convolutions_is_listed() -> None:
    page = (DOCS / "kernels" / "convolutions.md").read_text(encoding="utf-8")
    home = lambda build: getattr(build, "write", build).__module__
    of_convolutions = {build.__name__ for build in BUILDERS if ".kernels.conv." in home(build)}
    assert len(of_convolutions) > 3 and of_convolutions <= set(re.findall(r"`(build_\w+)`", page))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_page_lists_the_fields_of_each_schedule(way: Way) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent.name == "kernels")
    for kind in kinds_within(way.schedule):
        (table,) = re.findall(rf"^\| `{kind.kind}` \| says \|\n\| --- \| --- \|\n((?:\|.*\n)+)", pages, re.MULTILINE)
        listed = [name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])]
        assert sorted(listed) == sorted(field.name for field in fields(kind)), kind.kind


def test_the_page_on_machines_lists_the_facts_of_a_row_and_its_example_runs() -> None:
    page = (DOCS / "add_a_machine.md").read_text(encoding="utf-8")
    for head, row in (("| fact |", Core), ("| rate |", Rates)):
        rows = page[page.index(head) :].split("\n\n")[0].splitlines()[2:]
        listed = [name for line in rows for name in re.findall(r"`(\w+)`", line.split("|")[1])]
        assert sorted(listed) == sorted(field.name for field in fields(row) if field.name != "name")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(code, "add_a_machine.md", "exec"), {"__name__": "add_a_machine"})
