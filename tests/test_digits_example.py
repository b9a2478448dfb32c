"""`examples/digits.py`: the same seed gives the same losses through every door."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "digits.py"
SMALL = ("--width", "2", "--batch", "8", "--steps", "3")


def losses(*options: str) -> list[float]:
    """The loss of every step that the script prints."""
    run = subprocess.run([sys.executable, str(SCRIPT), *SMALL, *options], capture_output=True, text=True, timeout=240, env=os.environ)
    assert run.returncode == 0, run.stderr[-2000:]
    found = [float(value) for value in re.findall(r"loss (\S+)", run.stdout)]
    assert len(found) == 3, run.stdout
    return found


@pytest.fixture(scope="module")
def expected() -> list[float]:
    found = losses("--mode", "dygraph")
    assert len(set(found)) == 3  # it does learn
    return found


@pytest.mark.parametrize("mode", ["to_static", "static"])
def test_every_mode_has_the_losses_of_dygraph(mode: str, expected: list[float]) -> None:
    assert losses("--mode", mode) == pytest.approx(expected, rel=1e-5)


# Each of the other modes compiles as many kernels again; their parts are tested one by one in tests/gpu.
@pytest.mark.parametrize(
    "mode", [pytest.param("dygraph", marks=pytest.mark.slow), "to_static", pytest.param("static", marks=pytest.mark.slow)]
)
def test_an_emulated_gpu_has_the_losses_of_the_cpu(mode: str, expected: list[float]) -> None:
    assert losses("--mode", mode, "--device", "gpu-emulated") == pytest.approx(expected, rel=1e-5)


@pytest.mark.mpi
@pytest.mark.parametrize("mode", ["dygraph", "to_static", "static"])
def test_two_ranks_have_the_losses_of_one(mode: str, expected: list[float]) -> None:
    pytest.importorskip("mpi4py")
    assert losses("--mode", mode, "--ranks", "2") == pytest.approx(expected, rel=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["dygraph", "to_static", "static"])
def test_a_gpu_has_the_losses_of_the_cpu(mode: str, expected: list[float]) -> None:
    assert losses("--mode", mode, "--device", "gpu") == pytest.approx(expected, rel=1e-4)
