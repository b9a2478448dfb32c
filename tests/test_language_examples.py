"""`examples/lenet.*`: one compiled LeNet used from C, C++, Rust and Go, built as their comments say, prints the same scores. `pytest -m
toolchain`, each where its compiler is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command

ROOT = Path(__file__).parents[1]
COMPILERS = {"c": "cc", "cpp": "c++", "rs": "rustc", "go": "go"}


def commands(source: Path) -> list[str]:
    """The command lines at the head of a source file."""
    lines = []
    for line in source.read_text().splitlines():
        found = re.match(r"(?://!?| \*)\s+((?:polyreme|cc|c\+\+|rustc|CGO_CFLAGS=.*|\./lenet) .*)", line)
        lines += [found[1]] if found else []
    assert len(lines) == 3, lines
    return lines


@pytest.mark.toolchain
@pytest.mark.parametrize("language", COMPILERS)
def test_each_language_prints_the_same_scores(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which(COMPILERS[language]) is None:
        pytest.skip(f"{COMPILERS[language]} is not installed")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    images = paddle.data.digits("test").images[:70]
    images.tofile(tmp_path / "images.f32")
    compile_it, build, run = commands(ROOT / "examples" / f"lenet.{language}")
    monkeypatch.chdir(tmp_path)
    for command in (compile_it, "polyreme compile examples/lenet.py:LeNet -o beside.so"):
        paddle.seed(0)  # the same weights in both
        assert run_command(command.split()[1:]) == 0
    for command in (build, run):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = np.array([line.split() for line in done.stdout.splitlines()], np.float64)
    expected = paddle.load_compiled("beside.so")(images)
    assert found.shape == (70, 10)
    assert np.abs(found - np.asarray(expected)).max() < 1e-6 * np.abs(expected).max()
