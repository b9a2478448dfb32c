"""Odd files, readers that go away, streams that are closed: what a command line meets, and answers in a line."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command
from polyreme.runtime.files import write_atomically

TEXT = """
func @main(%x: tensor<Nx4xf32>) -> tensor<Nx4xf32> attributes {arg_names = ["x"], result_names = ["y"]} {
  %y = nn.relu %x : tensor<Nx4xf32>
  return %y
}
"""
ODD = """
import polyreme as paddle


class Empty(paddle.nn.Layer):
    pass


class Texts(paddle.nn.Layer):
    input_spec = "x"
"""
COMMAND = [sys.executable, "-m", "polyreme"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs in a folder of its own that holds `odd.tir` and the folder `folder.tir`."""
    monkeypatch.chdir(tmp_path)
    Path("odd.tir").write_text(TEXT)
    Path("folder.tir").mkdir()
    Path("odd.py").write_text(ODD)


@pytest.fixture
def polyreme(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line in this process: (exit code, output, errors)."""

    def call(line: str) -> tuple[int, str, str]:
        code = run_command(shlex.split(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# --- what is no file


@pytest.fixture
def device(tmp_path: Path) -> Any:
    """A pipe with a name, which stands for /dev/null here: something that is written into and may not be replaced."""
    path = tmp_path / "device"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, held
    os.close(held)


def test_a_library_is_written_into_a_device_and_does_not_take_its_place(device: Any, polyreme: Any) -> None:
    path, held = device
    code, out, err = polyreme(f"compile odd.tir -o '{path}'")
    assert (code, out, err) == (0, "", "")
    assert stat.S_ISFIFO(path.stat().st_mode) and os.read(held, 4) == b"\x7fELF"
    assert sorted(p.name for p in path.parent.iterdir()) == ["device", "folder.tir", "odd.py", "odd.tir"]


def test_saved_objects_are_written_into_a_device_likewise(device: Any) -> None:
    path, held = device
    paddle.save({"x": paddle.to_tensor([1.0])}, str(path))
    assert stat.S_ISFIFO(path.stat().st_mode) and os.read(held, 1) == b"\x80"


def test_a_link_to_a_file_is_replaced_as_files_are(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "old").write_bytes(b"old")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").read_bytes() == b"new"


# --- wrong values


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("inspect folder.tir", 1, "expected a file but 'folder.tir' is a folder"),
        ("opt folder.tir", 1, "expected a file but 'folder.tir' is a folder"),
        ("reduce folder.tir --passes cse", 1, "expected a file but 'folder.tir' is a folder"),
        ("run odd.tir --input x=folder.tir", 1, "error: Is a directory: 'folder.tir'"),
        ("compile odd.tir -o ''", 2, "expected the name of a file but got ''"),
        ("bench odd.tir --seconds nan", 2, "expected a number of seconds that ends but got nan"),
        ("bench odd.tir --seconds inf", 2, "expected a number of seconds that ends but got inf"),
        ("bisect odd.tir --size -4", 2, "-4 is not in the range x>=0"),
        ("reduce odd.tir --passes cse --seed -4", 2, "-4 is not in the range x>=0"),
        ("inspect odd.py:Texts", 1, "expected input_spec to be a list of InputSpec but got str"),
        ("inspect odd.py:Empty", 1, "give one, such as [InputSpec([None, 10], 'float32', 'x')]"),
        ("opt", 2, "Missing argument 'FILE'"),
    ],
)
def test_values_that_mean_nothing_are_refused(line: str, code: int, message: str, polyreme: Any) -> None:
    got, out, err = polyreme(line)
    assert got == code and out == "" and message in err


@pytest.mark.parametrize("line", ["inspect json.py:Net", "inspect numpy.py:Net", "opt odd.tir --load click.py"])
def test_a_file_that_would_stand_in_for_a_library_is_refused(line: str, polyreme: Any) -> None:
    (name,) = [word.partition(".")[0] for word in line.split() if ".py" in word]
    before = sys.modules.get(name)
    Path(f"{name}.py").write_text(ODD)
    code, out, err = polyreme(line)
    assert code == 1 and out == "" and f"'{name}.py' is called like the module '{name}', which others import; rename it" in err
    assert sys.modules.get(name) is before and str(Path.cwd()) not in sys.path


# --- streams


def test_what_a_model_prints_is_not_among_the_results(polyreme: Any) -> None:
    Path("loud.py").write_text(
        "import polyreme as paddle\n\nprint('loaded')\n\n\nclass Net(paddle.nn.Layer):\n"
        "    input_spec = [paddle.static.InputSpec([2, 4], 'float32', 'x')]\n\n    def __init__(self):\n"
        "        super().__init__()\n        print('made')\n\n    def forward(self, x):\n        print('traced')\n        return x * 2\n"
    )
    code, out, err = polyreme("inspect loud.py:Net")
    assert code == 0 and out.startswith("module {") and err == "loaded\nmade\ntraced\n"


def test_a_reader_that_goes_away_ends_a_list_without_a_word() -> None:
    run = subprocess.Popen([*COMMAND, "opt", "--list-ops"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout is not None and run.stderr is not None
    assert run.stdout.readline().startswith(b"builtin.module")
    run.stdout.close()
    errors = run.stderr.read()
    assert (run.wait(timeout=60), errors) == (0, b"")
    run.stderr.close()


def test_streams_that_are_closed_take_and_give_nothing() -> None:
    np.save("x.npy", np.zeros((1, 4), "float32"))
    line = shlex.join([*COMMAND, "run", "odd.tir", "--input", "x.npy"])
    done = subprocess.run(f"{line} >&- <&-", shell=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == b""


def test_an_interrupt_is_a_word_and_an_exit_code(polyreme: Any) -> None:
    Path("stop.py").write_text("raise KeyboardInterrupt\n")
    assert polyreme("inspect stop.py:Net") == (130, "", "interrupted\n")
