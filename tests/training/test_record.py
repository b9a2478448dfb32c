"""What was recorded is what Paddle 3.3.1 gives."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.api.peer import ROOT, python
from tests.training.record import recorded
from tests.training.test_losses import compare as compare_losses
from tests.training.test_optimizers import compare as compare_steps
from tests.training.test_programs import compare


@pytest.mark.peer
def test_paddle_gives_what_was_recorded(tmp_path: Path) -> None:
    command = python()
    if command is None:
        pytest.skip("needs Paddle 3.3.1")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOG_minloglevel": "3"}
    subprocess.run([command, "-m", "tests.training.record", str(tmp_path)], cwd=ROOT, env=environment, check=True, capture_output=True)
    for file in ("programs.npz", "optimizers.npz"):
        made, kept = recorded(file, tmp_path), recorded(file)
        assert made.keys() == kept.keys()
        for name, arrays in kept.items():
            compare(made[name], arrays) if file == "programs.npz" else compare_steps(name, made[name], arrays)
    made, kept = recorded("losses.npz", tmp_path), recorded("losses.npz")
    for name, arrays in kept.items():
        compare_losses(list(made[name]["losses"]), arrays["losses"])
