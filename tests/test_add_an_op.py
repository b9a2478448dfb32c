"""The example of `docs/add_an_op.md`, put where the page says, in a copy of the sources: it passes lint, types and tests."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "add_an_op.md").read_text(encoding="utf-8")
# A line that ends in a file's name, and the code below it.
PLACED = re.compile(r"^[^\n]*: `([\w./]+\.py)`\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROOMS = ("ir", "dialects", "lowering", "runtime")
TESTS = ("test_nn_reference.py", "test_accuracy.py", "test_op_examples.py", "test_gradient_rules.py", "test_nn_to_tensor.py")


def place(code: str, file: Path) -> None:
    """Add the code to a file, in place of a function of the same name if there is one, and what it imports."""
    text = file.read_text(encoding="utf-8")
    names = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    for old in [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name in names]:
        lines = text.splitlines(keepends=True)
        text = "".join([*lines[: old.lineno - 1], *lines[old.end_lineno :]])
    if "gradients" in file.parts:
        text = text.replace("from polyreme.dialects.nn import (\n", "from polyreme.dialects.nn import (\n    Softsign,\n", 1)
    file.write_text(f"{text}\n\n{code}", encoding="utf-8")


def run(*arguments: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "MYPYPATH": str(folder), "POLYREME_CACHE": "off"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A copy of the sources with the example in it, and the files that it changed."""
    folder = tmp_path_factory.mktemp("with_softsign")
    without = shutil.ignore_patterns("__pycache__", "fixtures", "golden")
    shutil.copytree(ROOT / "frontend", folder / "polyreme", ignore=without)
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / "polyreme" / room, ignore=without)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=without)
    shutil.copy(ROOT / "pyproject.toml", folder)
    files = []
    for name, code in PLACED.findall(PAGE):
        inside = name.removeprefix("frontend/") if name.startswith("frontend/") else name
        files.append(folder / (name if name.startswith("tests/") else f"polyreme/{inside}"))
        place(code, files[-1])
    assert len(files) == 6, "expected the page to have code for six files"
    # What people do by hand: an import that nobody needs any more goes, and new ones stand in order.
    changed = [str(file) for file in files if file.name != "__init__.py"]
    run("-m", "ruff", "check", "-q", "--fix", "--select", "F401,I", *changed, folder=folder)
    init = folder / "polyreme" / "dialects" / "nn" / "__init__.py"
    *lines, last = init.read_text(encoding="utf-8").rstrip().splitlines()
    assert last == "from polyreme.dialects.nn.activation import Softsign"
    joined = "\n".join(lines).rstrip() + "\n"
    joined = re.sub(r"(nn\.activation import .*Softplus)", r"\1, Softsign", joined)
    init.write_text(joined.replace('    "Softplus",', '    "Softplus",\n    "Softsign",'), encoding="utf-8")
    return folder, files


def test_the_example_passes_lint(changed: tuple[Path, list[Path]]) -> None:
    folder, files = changed
    run("-m", "ruff", "check", "-q", *map(str, files), folder=folder)


def test_the_example_passes_the_tests_that_its_row_brings(changed: tuple[Path, list[Path]]) -> None:
    folder, _ = changed
    files = [str(next((folder / "tests").rglob(name))) for name in TESTS]
    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "softsign", *files, folder=folder)
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None and int(passed[1]) >= 8, told


def test_the_function_of_the_page_computes_and_differentiates(changed: tuple[Path, list[Path]]) -> None:
    folder, _ = changed
    code = """
import polyreme as paddle
assert paddle.__file__.startswith(FOLDER)
x = paddle.to_tensor([-1.0, 0.0, 3.0], stop_gradient=False)
y = paddle.nn.functional.softsign(x)
y.sum().backward()
assert y.numpy().tolist() == [-0.5, 0.0, 0.75] and x.grad.numpy().tolist() == [0.25, 1.0, 0.0625]
spec = [paddle.static.InputSpec([None], "float32", "x")]
fast = paddle.jit.to_static(paddle.nn.functional.softsign, input_spec=spec)
assert fast(x.detach()).numpy().tolist() == [-0.5, 0.0, 0.75]
assert "nn.softsign" in paddle.inspect(paddle.nn.functional.softsign, spec).nn
"""
    run("-c", f"FOLDER = {str(folder)!r}\n{code}", folder=folder)


@pytest.mark.slow
def test_the_example_passes_the_type_checker(changed: tuple[Path, list[Path]]) -> None:
    folder, _ = changed
    run("-m", "mypy", "-p", "polyreme", folder=folder)
