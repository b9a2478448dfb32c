"""Comments say what and why, in two sentences at most; what was measured stands in `benchmarks/results`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("ir", "dialects", "lowering", "runtime", "frontend")
SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*])")
MEASURED = re.compile(
    r"\d ?(?:%|µs|us|ns|ms|GFLOP/s|GB/s)(?!\w)|\d times (?:as (?:fast|long)|faster|slower)|\bmeasured\b|\d of the (?:time|speed)",
    re.IGNORECASE,
)


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Each block of comment lines as one text, with the line it begins on."""
    block: list[str] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.lstrip().startswith("#"):
            block.append(line.strip()[1:].strip())
        elif block:
            yield number - len(block), " ".join(block)
            block = []


@pytest.mark.parametrize("room", ROOMS)
def test_comments_are_short_and_hold_no_measurements(room: str) -> None:
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        for line, text in comments(path):
            if len(SENTENCE.split(text)) > 2:
                found.append(f"{path.relative_to(ROOT)}:{line}: more than two sentences: {text}")
            if MEASURED.search(text):
                found.append(f"{path.relative_to(ROOT)}:{line}: a measurement: {text}")
    assert found == []


@pytest.mark.parametrize(
    "text", ["takes 35 µs", "1.2 times as fast on Zen 4", "measured in a quiet hour", "saves 8 %", "runs at 84 GFLOP/s", "0.9 of the time"]
)
def test_measurements_are_recognised(text: str) -> None:
    assert MEASURED.search(text)
    assert not MEASURED.search("At most 16 rows, 160 KiB of them; what takes many times as long is left out, a third of L2.")


def test_blocks_of_comments_are_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("x = 1\n# One. Two.\n# Three.\ny = 2\n    # Four.\n")
    assert list(comments(file)) == [(2, "One. Two. Three."), (5, "Four.")]
