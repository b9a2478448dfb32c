"""What docs/quantization.md shows is true: its Python runs, its commands print what it says, up to the digits of measured numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from polyreme.cli import run_command

PAGE = Path(__file__).resolve().parents[1] / "docs" / "quantization.md"
MODEL = """
import polyreme as paddle
from polyreme import nn

paddle.seed(4)
net = nn.Sequential(nn.Conv2D(1, 4, 3, stride=2), nn.ReLU(), nn.Conv2D(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(484, 10))
net.input_spec = [paddle.static.InputSpec([None, 1, 28, 28], "float32", "image")]
net.eval()
"""
NUMBER = re.compile(r"-?\d[\d.,]*(e-?\d+)?")


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
    assert "3 layers in eight bits, 0 in floats" in capsys.readouterr().out
    assert (tmp_path / "small.so").exists() and (tmp_path / "converted.polyreme").exists()


def test_the_session_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small_net.py").write_text(MODEL)
    np.save("images.npy", np.random.default_rng(0).standard_normal((24, 1, 28, 28)).astype("float32"))
    page = PAGE.read_text(encoding="utf-8")
    sessions = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(sessions) == 2
    for shown in sessions:
        command = shown.splitlines()[0].removeprefix("$ polyreme ").replace('"', "")
        assert run_command(command.split()) == 0
        printed = capsys.readouterr().out
        if request.config.getoption("--update-golden"):
            now = f"{shown.splitlines()[0]}\n{printed}"
            page, shown = page.replace(shown, now), now
            PAGE.write_text(page, encoding="utf-8")
        words = [[NUMBER.sub("#", word) for word in text.split()] for text in (printed, "\n".join(shown.splitlines()[1:]))]
        assert words[0] == words[1], "`pytest tests/test_quantization_page.py --update-golden` shows what is printed now"
