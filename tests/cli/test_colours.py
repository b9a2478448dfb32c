"""Colours in printed IR: only where a person reads it, and taking them out gives the text back."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.style import Style

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.cli import group
from polyreme.cli.colours import LANGUAGES, SCHEME, color_system, coloured
from polyreme.compiled.inspection import Inspection, as_target
from polyreme.ir.syntax.tokens import NAMES
from polyreme.ir.text import parse_module

ROOT = Path(__file__).resolve().parents[2]
CODES = re.compile(r"\x1b\[[0-9;]*m")
TEXT = """module {
  func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> {
    %y = nn.softmax %x {axis = 0} : tensor<Nx4xf32>
    return %y
  }
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.tir"
    path.write_text(TEXT)
    return path


def test_the_scheme_has_a_style_for_every_kind_of_token() -> None:
    assert SCHEME.keys() == set(NAMES)
    assert {token.name for tables in LANGUAGES.values() for table in tables.values() for token in table} <= SCHEME.keys()
    for style in SCHEME.values():
        Style.parse(style)


def test_tokens_get_their_colours() -> None:
    text = coloured(TEXT)
    assert "\x1b[1;34mnn.softmax\x1b[0m" in text and "\x1b[36m%y\x1b[0m" in text and "\x1b[1;35mreturn\x1b[0m" in text
    assert "\x1b[33mN\x1b[0m" in text and "\x1b[32mf32\x1b[0m" in text


@pytest.mark.parametrize("language, target, sign", [
    ("ir", "x86-64", "\x1b[1;34mkernel."), ("llvm", "x86-64", "\x1b[1;35mdefine\x1b[0m"), ("asm", "x86-64", "\x1b[1;34m\tret"),
    ("ptx", "cuda:sm_80", "\x1b[1;35m.visible"),
])  # fmt: skip
def test_colours_change_no_character_of_any_level(language: str, target: str, sign: str) -> None:
    text = Inspection(parse_module(TEXT), as_target(target)).level("kernel" if language == "ir" else language)
    painted = coloured(text, language)
    assert CODES.sub("", painted) == text
    assert sign in painted
    assert len(CODES.findall(painted)) > 100


def test_a_pipe_gets_plain_text_unless_it_asks(file: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(group, ["opt", str(file)]).output == TEXT
    assert runner.invoke(group, ["opt", str(file), "--color", "never"]).output == TEXT
    painted = runner.invoke(group, ["opt", str(file), "--color", "always"], color=True).output
    assert painted != TEXT and CODES.sub("", painted) == TEXT
    inspected = runner.invoke(group, ["inspect", str(file), "--level", "llvm", "--color", "always"], color=True).output
    assert "\x1b[1;35mdefine\x1b[0m" in inspected


def test_what_goes_to_a_file_is_plain(file: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(group, ["opt", str(file), "--color", "always", "-o", str(tmp_path / "y.tir")]).exit_code == 0
    assert (tmp_path / "y.tir").read_text() == TEXT


def test_wrong_choices_are_usage_errors(file: Path) -> None:
    assert CliRunner().invoke(group, ["opt", str(file), "--color", "yes"]).exit_code == 2


def on_a_terminal(*args: str, **environment: str) -> str:
    """What a command prints on a terminal."""
    main, side = pty.openpty()
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | {"TERM": "xterm", **environment}
    process = subprocess.Popen([sys.executable, "-m", "polyreme", *args], stdout=side, stderr=side, stdin=side, env=settings)
    os.close(side)
    parts = []
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    os.close(main)
    assert process.wait(60) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_terminal_gets_colours_unless_they_are_refused(file: Path) -> None:
    painted = on_a_terminal("opt", str(file))
    assert painted != TEXT and CODES.sub("", painted) == TEXT
    assert on_a_terminal("opt", str(file), NO_COLOR="1") == TEXT
    assert on_a_terminal("opt", str(file), TERM="dumb") == TEXT
    assert on_a_terminal("opt", str(file), "--color", "never") == TEXT


def test_always_means_always_and_never_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert color_system("always") is not None and color_system("never") is None and color_system("auto") is None


def test_a_page_is_laid_out_on_a_terminal() -> None:
    shown = CODES.sub("", on_a_terminal("opt", "--list-ops", "nn.exp"))
    assert "e to the power of each element." in shown and "nn.exp %x" in shown and "```" not in shown and "| ---" not in shown
