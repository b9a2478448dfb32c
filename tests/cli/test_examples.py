"""The examples do what they say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.cli import run_command as run
from polyreme.data import digits

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which `polyreme compile examples/lenet.py:LeNet -o lenet.so` was run."""
    folder = tmp_path_factory.mktemp("lenet")
    paddle.seed(8)
    assert run(["compile", f"{ROOT}/examples/lenet.py:LeNet", "-o", str(folder / "lenet.so")]) == 0
    return folder


def same_lenet() -> Any:
    """The network that `lenet` compiled: made by the same class from the same seed."""
    from polyreme.cli.models import load_python

    paddle.seed(8)
    net = load_python(ROOT / "examples" / "lenet.py", "LeNet")
    net.eval()
    return net


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_c_program_prints_what_the_network_computes(lenet: Path) -> None:
    build = [
        "cc",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-std=c99",
        "-I.",
        str(ROOT / "examples" / "lenet.c"),
        "lenet.so",
        "-Wl,-rpath,$ORIGIN",
        "-o",
        "lenet",
    ]
    subprocess.run(build, cwd=lenet, check=True, timeout=120)
    images = digits("test").images[:70]  # more than a batch of the program
    done = subprocess.run(["./lenet"], cwd=lenet, input=images.tobytes(), capture_output=True, timeout=60, check=True)
    printed = np.array([line.split() for line in done.stdout.decode().splitlines()], dtype=np.float32)
    library = paddle.load_compiled(lenet / "lenet.so")
    np.testing.assert_allclose(printed, np.concatenate([library(images[:64]), library(images[64:])]), rtol=1e-6)
    with paddle.no_grad():
        expected = same_lenet()(paddle.to_tensor(images)).numpy()
    np.testing.assert_allclose(printed, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.skipif(shutil.which("ldd") is None, reason="no ldd")
def test_the_library_depends_on_libc_libm_and_the_loader_alone(lenet: Path) -> None:
    listed = subprocess.run(["ldd", "lenet.so"], cwd=lenet, capture_output=True, text=True, check=True, timeout=60).stdout
    names = {line.split()[0].split("/")[-1].split(".")[0] for line in listed.splitlines() if line.strip()}
    assert names <= {"linux-vdso", "libc", "libm", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}, listed


def test_running_the_library_loads_no_llvm(lenet: Path) -> None:
    code = (
        "import sys, numpy, polyreme; lib = polyreme.load_compiled('lenet.so'); print(lib(numpy.zeros((2, 1, 28, 28), 'float32')).shape);"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('llvmlite', 'lark') or m.startswith('polyreme.lowering')]"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=lenet, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "(2, 10)\n", done.stderr


def test_the_mlp_learns_the_digits(capsys: pytest.CaptureFixture[str]) -> None:
    from polyreme.cli.models import load_python

    net = load_python(ROOT / "examples" / "mlp.py", "main")()
    assert net.forward.concrete_programs()
    printed = capsys.readouterr().out
    assert float(printed.split()[-1]) > 0.9, printed
