"""`--quiet`, which leaves results and errors, and the line about compilations that take long."""

from __future__ import annotations

import io
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from polyreme.cli import progress as progress_module
from polyreme.cli import run_command
from polyreme.cli.progress import ERASE, Progress, progress
from polyreme.ir import config
from polyreme.ir.timing import timed

TEXT = """
func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> attributes {arg_names = ["x"], result_names = ["y"]} {
  %y = nn.relu %x : tensor<Nx4xf32>
  return %y
}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own that holds `quiet.tir`, and `net.py`, which warns."""
    for name in ("POLYREME_DEBUG", "POLYREME_DUMP", "POLYREME_OVERRIDE", "POLYREME_PROGRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("quiet.tir").write_text(TEXT)
    Path("net.py").write_text(
        "import warnings\n\nimport polyreme as paddle\n\nwarnings.warn('old')\n\n\nclass Net(paddle.nn.ReLU):\n"
        "    input_spec = [paddle.static.InputSpec([None, 4], 'float32', 'x')]\n"
    )


@pytest.fixture
def polyreme(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in this process: (exit code, output, errors)."""

    def call(line: str) -> tuple[int, str, str]:
        code = run_command(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# --- quiet


@pytest.mark.parametrize(
    "line", ["compile quiet.tir -o net.so {}", "{} compile quiet.tir -o net.so", "{} cache limit 1GB", "cache clear {}"]
)
@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_commands_that_write_say_nothing(line: str, option: str, polyreme: Any) -> None:
    code, out, err = polyreme(line.format(""))
    assert code == 0 and out + err
    assert polyreme(line.format(option)) == (0, "", "")


def test_results_are_printed_all_the_same(polyreme: Any) -> None:
    code, out, err = polyreme("inspect -q quiet.tir")
    assert (code, out, err) == (0, polyreme("inspect quiet.tir")[1], "") and "nn.relu" in out
    code, out, err = polyreme("bisect -q quiet.tir")
    assert (code, out, err) == (0, "all results are within their bounds\n", "")


def test_errors_are_printed_all_the_same(polyreme: Any) -> None:
    code, out, err = polyreme("inspect -q none.tir")
    assert code == 1 and out == "" and "there is no file 'none.tir'" in err
    assert polyreme("inspect -q")[0] == 2


def test_warnings_are_left_out_and_only_while_the_command_runs(polyreme: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert polyreme("inspect -q net.py:Net")[0] == 0
        assert [str(w.message) for w in caught] == []
        assert polyreme("inspect net.py:Net")[0] == 0
        assert [str(w.message) for w in caught] == ["old"]


# --- progress


class Clock:
    """Seconds that go on when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress_module, "clock", made)
    return made


def drawn(columns: int = 80) -> tuple[Clock, io.StringIO, Progress]:
    clock, stream = Clock(), io.StringIO()
    return clock, stream, Progress("compiling net.so", stream, columns, clock)


def test_short_compilations_draw_nothing() -> None:
    clock, stream, line = drawn()
    for step in ("fuse", "llvm"):
        clock.now += 0.9
        line.step(step)
    line.clear()
    assert stream.getvalue() == ""


def test_long_ones_say_what_they_are_at_and_leave_nothing() -> None:
    clock, stream, line = drawn()
    clock.now += 2.5
    line.step("fuse")
    clock.now += 0.05
    line.step("sink-reshapes")  # too soon after the last one
    clock.now += 5
    line.step("llvm")
    line.clear()
    assert stream.getvalue().split(ERASE) == ["", "compiling net.so: fuse (2 s)", "compiling net.so: machine code (8 s)", ""]


@pytest.mark.parametrize("columns", [1, 2, 10, 30])
def test_the_line_fits_into_a_narrow_terminal(columns: int) -> None:
    clock, stream, line = drawn(columns)
    clock.now += 3
    line.step("fuse")
    (text,) = stream.getvalue().split(ERASE)[1:]
    assert len(text) < max(columns, 2) and (columns > 28 or text.endswith("…"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def compile_slowly(clock: Clock, monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> str:
    """What a compilation of three seconds shows on `stream` as standard error."""
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("net.so"):
        clock.now += 3
        with timed("fuse"):
            pass
    with timed("after"):
        pass
    return stream.getvalue()


def test_steps_of_the_compiler_are_shown_on_a_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert compile_slowly(clock, monkeypatch, Terminal()) == f"{ERASE}compiling net.so: fuse (3 s){ERASE}"


@pytest.mark.parametrize(
    "settings",
    [{"POLYREME_PROGRESS": "0"}, {"TERM": "dumb"}, {"POLYREME_DEBUG": "1"}],
    ids=["switched off", "a terminal that cannot erase", "with more to read"],
)
def test_nothing_is_shown_where_it_would_disturb(settings: dict[str, str], clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert ERASE not in compile_slowly(clock, monkeypatch, Terminal())


def test_nothing_is_shown_without_a_terminal_or_with_quiet(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile_slowly(clock, monkeypatch, io.StringIO()) == ""
    monkeypatch.setattr(progress_module, "is_quiet", lambda: True)
    assert compile_slowly(clock, monkeypatch, Terminal()) == ""


def test_the_line_is_removed_when_a_compilation_fails(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(KeyboardInterrupt), progress("net.so"):
        clock.now += 3
        with timed("fuse"):
            raise KeyboardInterrupt
    assert stream.getvalue().endswith(ERASE)


def test_a_command_shows_the_steps_of_its_compilation(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, polyreme: Any
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("POLYREME_JOBS", "1")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_module, "PATIENCE", 0.0)
    monkeypatch.setattr(progress_module, "BETWEEN", 0.0)
    with config.uncached():
        assert run_command(["compile", "quiet.tir", "-o", "shown.so"]) == 0
    steps = stream.getvalue().split(ERASE)
    for step in ("nn-to-tensor", "planning kernels, op 1 of 2", "writing LLVM IR", "machine code"):
        assert f"compiling shown.so: {step} (0 s)" in steps
    assert steps[-1].startswith("shown.so and shown.h: ")
