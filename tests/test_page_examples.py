"""The examples of Paddle's pages on layers, and on programs of `fluid`, run with only the import changed, and pass the checks on what the
pages say.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import polyreme as paddle
from polyreme import fluid

FOLDER = Path(__file__).parent / "fixtures" / "page_examples"
# These start several processes, or expect to be one of several.
SPAWNING, LAUNCHED = "layer_dataparallel_linear.py", "layer_dataparallel_pylayer_no_sync.py"
LONG = ("fluid_trainer.py",)
EXAMPLES = sorted(p.name for p in FOLDER.glob("*.py") if p.name not in (SPAWNING, LAUNCHED))


def with_our_import(text: str) -> str:
    """The script with `paddle` imported from here; nothing else is changed."""
    text = re.sub(r"^import paddle(?=\s|$)", "import polyreme as paddle", text, flags=re.M)
    return re.sub(r"^(import|from) paddle(?=[. ])", r"\1 polyreme", text, flags=re.M)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in EXAMPLES])
def test_an_example_runs_and_passes_its_checks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = with_our_import((FOLDER / name).read_text(encoding="utf-8"))
    assert "import paddle" not in text
    monkeypatch.chdir(tmp_path)  # some save files
    state = paddle.get_rng_state()
    try:
        programs = fluid.program_guard(fluid.Program(), fluid.Program())
        with paddle.utils.unique_name.guard(), programs, fluid.scope_guard(fluid.Scope()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an example asks for float16 on a CPU
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
    finally:
        paddle.set_rng_state(state)


def test_every_page_is_here() -> None:
    of_fluid = [name for name in EXAMPLES if name.startswith("fluid_")]
    assert (len(EXAMPLES) - len(of_fluid) + 2, len(of_fluid)) == (76, 28)


def _run(command: list[str], folder: Path) -> None:
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, check=False, env={**os.environ, "PYTHONPATH": root}
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.mpi
def test_data_parallel_training_by_spawn_runs(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(with_our_import((FOLDER / SPAWNING).read_text(encoding="utf-8")), encoding="utf-8")
    _run([sys.executable, str(script)], tmp_path)


@pytest.mark.mpi
def test_data_parallel_training_by_launch_runs(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(with_our_import((FOLDER / LAUNCHED).read_text(encoding="utf-8")), encoding="utf-8")
    _run([sys.executable, "-m", "polyreme.distributed.launch", "--nproc_per_node", "2", str(script)], tmp_path)
