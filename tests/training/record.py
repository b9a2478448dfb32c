"""`python -m tests.training.record [FOLDER]`, by a Python that has Paddle 3.3.1: writes anew what programs and optimizers give there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.api.outcome import Leaf, read, save
from tests.training.losses import NETS, losses
from tests.training.optimizers import CASES, trained
from tests.training.programs import PROGRAMS
from tests.training.programs.driver import Compile, Log, Program

HERE = Path(__file__).parent
SEED = 33


def run(paddle: Any, program: Program, compiled: Compile = lambda function: function) -> dict[str, Any]:
    """What a program noted, under one module."""
    paddle.seed(SEED)
    log = Log()
    with paddle.utils.unique_name.guard():
        program(paddle, compiled, log)
    return log.arrays()


def recorded(file: str, folder: Path = HERE) -> dict[str, dict[str, Any]]:
    """By name, the arrays that Paddle gave."""
    return {name: {what: leaf.values for what, leaf in tree.items()} for name, (_, tree) in read(folder / file).items()}


def record(path: Path, found: dict[str, dict[str, Any]]) -> None:
    save(path, {name: (0, {what: Leaf(str(v.dtype), v, None) for what, v in arrays.items()}) for name, arrays in found.items()})


def main() -> None:
    import paddle

    assert paddle.__version__ == "3.3.1", paddle.__version__
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    record(folder / "programs.npz", {name: run(paddle, program) for name, program in PROGRAMS.items()})
    record(folder / "optimizers.npz", {name: trained(paddle, name) for name in CASES})
    record(folder / "losses.npz", {name: {"losses": np.array(losses(paddle, name))} for name in NETS})


if __name__ == "__main__":
    main()
