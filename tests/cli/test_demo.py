"""The demo: the main job, from data to a library, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LEVELS = ("nn.tir", "tensor.tir", "kernel.tir", "llvm.ll", "asm.s")


def demo(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "POLYREME_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "polyreme", "demo", "-o", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment, stdin=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_demo_reaches_its_accuracy_and_the_three_agree(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^ +(eager|compiled|library) +(0\.\d+ +\S+)", done.stdout, re.MULTILINE))
    assert set(rows) == {"eager", "compiled", "library"}
    for row in rows.values():
        accuracy, difference = map(float, row.split())
        assert accuracy >= 0.97 and difference <= 1e-5
    for level in LEVELS:
        assert (tmp_path / f"lenet.{level}").stat().st_size > 0 and f"lenet.{level}" in done.stdout
    assert (tmp_path / "lenet.so").exists() and (tmp_path / "lenet.h").exists()
    assert "\x1b" not in done.stdout, "quiet when the output is no terminal"


@pytest.mark.slow
def test_a_demo_that_misses_its_accuracy_fails(tmp_path: Path) -> None:
    done = demo(tmp_path, "--epochs", "1")
    assert done.returncode == 1
    assert "expected an accuracy of 0.97 or more" in done.stderr
