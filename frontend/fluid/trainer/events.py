"""What a `Trainer` tells its event handler: that an epoch or a step begins or has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["BeginEpochEvent", "BeginStepEvent", "EndEpochEvent", "EndStepEvent"]


class BeginEpochEvent(Shown):
    """The epoch of number `epoch` begins."""

    def __init__(self, epoch_id: int):
        self.epoch = epoch_id

    def _shown(self) -> dict[str, Any]:
        return {"epoch": self.epoch}


class EndEpochEvent(Shown):
    """The epoch of number `epoch` has ended."""

    def __init__(self, epoch_id: int):
        self.epoch = epoch_id

    def _shown(self) -> dict[str, Any]:
        return {"epoch": self.epoch}


class BeginStepEvent(Shown):
    """The step of number `step` of an epoch begins. A handler that sets `fetch_metrics` to False gets no metrics of it."""

    def __init__(self, epoch_id: int, step_id: int):
        self.epoch = epoch_id
        self.step = step_id
        self.fetch_metrics = True

    def _shown(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "step": self.step}


class EndStepEvent(Shown):
    """A step has ended. `metrics` are the values of what `train_func` returned, in that order, as arrays."""

    def __init__(self, epoch_id: int, step_id: int, metrics: Sequence[Any]):
        self.epoch = epoch_id
        self.step = step_id
        self.metrics = metrics

    def _shown(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "step": self.step, "metrics": self.metrics}


__dir__ = listed(__name__)
