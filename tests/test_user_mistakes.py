"""The page of typical mistakes: each script is run as a user runs it, and prints what the page says, at the user's own line."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "user_mistakes.md"
PARTS = re.compile(
    r"^## (\d+)\. (.*?)\n.*?^`(\S+)`:\n\n```\w+\n(.*?)^```\n\n```console\n\$ (.*?)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Mistake:
    number: int
    title: str
    file: str
    source: str
    command: str
    printed: str


MISTAKES = [Mistake(int(number), *rest) for number, *rest in PARTS.findall(PAGE.read_text(encoding="utf-8"))]


def run(mistake: Mistake, folder: Path) -> str:
    """Everything on standard error."""
    (folder / mistake.file).write_text(mistake.source, encoding="utf-8")
    program, *arguments = shlex.split(mistake.command)
    start = [sys.executable] if program == "python" else [sys.executable, "-m", program]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"}
    done = subprocess.run([*start, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr.replace(f"{folder}/", "")


def message(errors: str) -> str:
    """The error behind Python's traceback, from the exception's name on."""
    if not errors.startswith("Traceback"):
        return errors
    lines = errors.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if i and not line.startswith((" ", "Traceback", "\n")))
    last = [i for i, line in enumerate(lines) if line.startswith("Traceback")][-1]
    return message("".join(lines[last:])) if last else "".join(lines[first:])


def without_reason(printed: str) -> str:
    """Why a GPU is not there differs from machine to machine: no driver, no package."""
    return re.sub(r"(it cannot be used: ).*", r"\1…", printed)


def test_the_page_lists_ten_mistakes_at_least() -> None:
    assert [m.number for m in MISTAKES] == list(range(1, len(MISTAKES) + 1))
    assert len(MISTAKES) >= 10 and PAGE.read_text().count("\n## ") == len(MISTAKES)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: re.sub(r"\W+", "-", m.title))
def test_a_mistake_prints_what_the_page_says(mistake: Mistake, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    errors = run(mistake, tmp_path)
    printed = message(errors)
    if request.config.getoption("--update-golden"):
        text = PAGE.read_text(encoding="utf-8")
        at = text.index("```text\n", text.index(f"\n## {mistake.number}. ")) + len("```text\n")
        PAGE.write_text(text[:at] + printed + text[text.index("```\n", at) :], encoding="utf-8")
    else:
        assert without_reason(printed) == without_reason(mistake.printed)
    assert "expected" in printed and ("got" in printed or " but " in printed)
    assert re.search(rf'{re.escape(mistake.file)}(:\d+|", line \d+)', errors) or "--passes" in mistake.command
    assert re.search(r"error\[E\d{4}\]: ", printed)
