"""Checkpoints of a `Trainer`: what a training that was cut off goes on from.

One has all persistable variables (parameters, running means, the state of optimizers and decays), which step was the last, and the state of
the random generator.
"""

from __future__ import annotations

import os
from typing import Any

from polyreme import random
from polyreme.fluid import io
from polyreme.fluid.framework import Program
from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["CheckpointConfig", "Checkpoints"]

_EPOCH, _STEP, _RANDOM = "epoch_id", "step_id", "random_state"


class CheckpointConfig(Shown):
    """When a `Trainer` writes checkpoints: at every `step_interval`-th step, from step 0 on, of every `epoch_interval`-th epoch, into
    `checkpoint_dir`, by default the current folder. The last `max_num_checkpoints` are kept.
    """

    def __init__(
        self, checkpoint_dir: str | None = None, max_num_checkpoints: int = 3, epoch_interval: int = 1, step_interval: int = 10
    ):
        counts = {"max_num_checkpoints": max_num_checkpoints, "epoch_interval": epoch_interval, "step_interval": step_interval}
        for name, value in counts.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"expected {name} of at least 1 but got {value!r}")
        self.checkpoint_dir = os.getcwd() if checkpoint_dir is None else checkpoint_dir
        self.max_num_checkpoints = max_num_checkpoints
        self.epoch_interval = epoch_interval
        self.step_interval = step_interval

    def _shown(self) -> dict[str, Any]:
        return dict(vars(self))


class Checkpoints:
    """The checkpoints of a program that is trained."""

    def __init__(self, config: CheckpointConfig, program: Program, executor: Any):
        if program.schedules:
            raise NotImplementedError(
                "expected a learning rate that is part of the program but got a scheduler of paddle.optimizer.lr, which checkpoints do not "
                "have; use a decay of fluid.layers, or no checkpoint_config"
            )
        self.config, self.program, self.executor = config, program, executor
        self.folder = str(config.checkpoint_dir)

    def load(self) -> tuple[int, int] | None:
        """Go back to the last checkpoint that is whole: its epoch and step, None when there is none."""
        if io.get_latest_checkpoint_serial(self.folder) < 0:
            return None
        names = (_EPOCH, _STEP, _RANDOM)
        found: dict[str, Any] = io.load_checkpoint(self.executor, self.folder, None, self.program, trainer_args=names)
        random.set_rng_state([found[_RANDOM]])
        return int(found[_EPOCH]), int(found[_STEP])

    def save(self, epoch: int, step: int) -> None:
        """Write one if this step is one of those."""
        if epoch % self.config.epoch_interval or step % self.config.step_interval:
            return
        numbers = {_EPOCH: epoch, _STEP: step, _RANDOM: random.get_rng_state()[0]}
        io.save_checkpoint(self.executor, self.folder, self.config.max_num_checkpoints, 0, self.program, 0, numbers)

    def clean(self) -> None:
        """Delete them: training has ended, and nothing is left to go on with."""
        io.clean_checkpoint(self.folder)


__dir__ = listed(__name__)
