"""What the command line says of an error, and `polyreme explain`."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import polyreme
from polyreme.cli import run_command as run
from polyreme.cli.reports import coloured, error_text, warning_text, with_hint
from polyreme.ir.diagnostics import Diagnostic, Location, PolyremeError
from polyreme.ir.error_codes import ERROR_CODES, GROUPS
from polyreme.runtime.errors import CallError

SOURCE = "func @main(%x: tensor<4xf32>) {\n  %y = nn.expp %x\n  return\n}\n"
ERROR = PolyremeError(
    Diagnostic("the dialect 'nn' has no op 'nn.expp'", Location("net.tir", 2, 8, 15), (Diagnostic("a note"),), SOURCE, "E0105"),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_add_nothing_to_the_text() -> None:
    text = with_hint(error_text(ERROR))
    assert coloured(text).plain == text
    assert text.splitlines() == [
        "net.tir:2:8: error[E0105]: the dialect 'nn' has no op 'nn.expp'",
        "      %y = nn.expp %x",
        "           ^^^^^^^",
        "note: a note",
        "see: polyreme explain E0105",
    ]


def test_severity_code_and_carets_are_coloured() -> None:
    text = coloured(error_text(ERROR))
    styles = {text.plain[span.start : span.end].strip(): str(span.style) for span in text.spans}
    assert styles["error[E0105]:"] == "bold red" and styles["^^^^^^^"] == "bold green" and styles["note:"] == "bold cyan"


@pytest.mark.parametrize("no_color, escaped", [(None, True), ("1", False)])
def test_a_terminal_gets_colours_unless_no_color_is_set(no_color: str | None, escaped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stderr", shown := Terminal())
    assert run(["opt", "none.tir", "--passes", "csee"]) == 1
    assert ("\x1b[" in shown.getvalue() and "31m" in shown.getvalue()) == escaped
    assert "error[E0401]" in shown.getvalue() and "did you mean 'cse'?" in shown.getvalue()


def test_what_is_no_terminal_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["opt", "none.tir", "--passes", "csee"]) == 1
    assert "\x1b" not in (shown := capsys.readouterr().err)
    assert shown.splitlines()[-1] == "see: polyreme explain E0401"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write to")
def test_a_cache_that_takes_nothing_is_one_line_however_many_processes_compile(tmp_path: Path) -> None:
    program = (
        "import polyreme as paddle\n"
        "Net = paddle.nn.Sequential(*(part for n in range(8, 20) for part in (paddle.nn.Linear(n, n + 1), paddle.nn.Softmax())))\n"
    )
    (tmp_path / "net.py").write_text(program)
    command = [sys.executable, "-m", "polyreme", "compile", "net.py:Net", "-o", "net.so", "--input", "x=f32[4,8]"]
    env = {**os.environ, "POLYREME_CACHE": "/proc/polyreme", "POLYREME_JOBS": "2"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    told, made = done.stderr.splitlines()
    assert told == (
        "warning: the cache folder '/proc/polyreme' is unusable, compiled code is not kept on disk: "
        "[Errno 2] No such file or directory: '/proc/polyreme'"
    )
    assert made.startswith("net.so and net.h")


def test_a_warning_of_the_users_code_keeps_its_place() -> None:
    assert warning_text(UserWarning("odd"), UserWarning, "/home/me/net.py", 3, "x = 1").startswith("/home/me/net.py:3: UserWarning: odd")
    assert warning_text(UserWarning("odd"), UserWarning, polyreme.__file__, 3) == "warning: odd\n"


def test_usage_errors_have_a_code_and_exit_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["opt", "--passs", "cse"]) == 2
    assert "error[E0001]: " in (shown := capsys.readouterr().err) and "--passes" in shown


def test_errors_of_the_runtime_show_their_code() -> None:
    assert error_text(CallError("expected one input")) == "error[E0803]: expected one input"
    assert "error: there is no file" in error_text(FileNotFoundError("there is no file 'x'"))


def test_explain_prints_pages_and_lists_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "E0301", "e0103"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# E0301: ") and "\n# E0103: " in shown and "## Fix" in shown
    assert run(["explain"]) == 0
    shown = capsys.readouterr().out
    assert all(code in shown for code in ERROR_CODES) and all(group in shown for group in GROUPS.values())


def test_an_unknown_code_is_an_error_with_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "E0302x"]) == 1
    assert "error[E0010]" in (shown := capsys.readouterr().err) and "did you mean 'E0302'?" in shown


def test_a_value_that_is_no_choice_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "net.py:Net", "--level", "tensr"]) == 2
    assert "did you mean 'tensor'?" in capsys.readouterr().err


def test_what_the_api_refuses_is_shown_at_the_users_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(
        "import polyreme as paddle\n\n\nclass Net(paddle.nn.Layer):\n    def forward(self, x):\n        return x.sum(axis=7)\n"
    )
    assert run(["inspect", f"{tmp_path}/net.py:Net", "--input", "x=f32[2,4]"]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert re.match(rf"{re.escape(str(tmp_path))}/net.py:6:16: error\[E03\d\d\]: ", shown[0])
    assert shown[1:3] == ["            return x.sum(axis=7)", "                   " + "^" * 13]


def test_what_the_users_own_code_raises_is_no_fault_of_the_api(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text("import polyreme as paddle\n\n\ndef net(x):\n    raise ValueError('mine')\n")
    assert run(["inspect", f"{tmp_path}/net.py:net", "--input", "x=f32[2,4]"]) == 1
    shown = capsys.readouterr().err
    assert "net.py:5:5: error: ValueError: mine (--debug shows" in shown and "E03" not in shown
