"""The Python of docs/amp.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polyreme as paddle

PAGE = Path(__file__).resolve().parents[1] / "docs" / "amp.md"


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    try:
        exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
    finally:
        paddle.set_flags({"FLAGS_amp_on_cpu": False})
    assert "linear_v2" in capsys.readouterr().out
