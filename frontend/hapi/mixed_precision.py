"""What `Model.prepare(amp_configs=…)` says about mixed precision."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from polyreme.amp import GradScaler, auto_cast, decorate
from polyreme.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm
from polyreme.nn.layer import Layer
from polyreme.optimizer import Optimizer

__all__ = ["MixedPrecision", "mixed_precision"]

_LISTS = ("custom_white_list", "custom_black_list")
_SCALER = ("init_loss_scaling", "incr_ratio", "decr_ratio", "incr_every_n_steps", "decr_every_n_nan_or_inf", "use_dynamic_loss_scaling")


class MixedPrecision:
    """The region that a network runs in, and the scaler of its loss, which is made at the first step."""

    def __init__(self, level: str, lists: dict[str, Any], scaling: dict[str, Any]):
        self.level, self.lists, self.scaling = level, lists, scaling
        self._scaler: GradScaler | None = None

    def region(self) -> AbstractContextManager[None]:
        return auto_cast(level=self.level, **self.lists)

    @property
    def scaler(self) -> GradScaler:
        if self._scaler is None:
            self._scaler = GradScaler(**self.scaling)
        return self._scaler


def mixed_precision(given: Any, network: Layer, optimizer: Optimizer | None) -> MixedPrecision | None:
    """What a level, or a dict of a level, lists and a scaler's settings, asks for; None at "O0". At O2 the network and the optimizer are
    decorated.
    """
    settings = {"level": given} if isinstance(given, str) else dict(given or {"level": "O0"})
    level = settings.pop("level", "O1")
    if level not in ("O0", "O1", "O2"):
        raise ValueError(f"The level of amp_configs should be 'O0', 'O1' or 'O2', but got {level!r}.")
    if level == "O0":
        return None
    for key in settings:
        if key == "use_fp16_guard":
            raise ValueError("'use_fp16_guard' is supported in static graph mode only.")
        if key not in _LISTS + _SCALER:
            raise ValueError(f"expected the keys of amp_configs to be 'level', {', '.join(map(repr, _LISTS + _SCALER))} but got {key!r}")
    clip = getattr(optimizer, "_grad_clip", None)
    if level == "O2" and clip is not None and not isinstance(clip, (ClipGradByGlobalNorm, ClipGradByNorm)):
        raise AssertionError("Only ClipGradByNorm and ClipGradByGlobalNorm are supported in amp training with level=O2 currently.")
    if level == "O2":
        decorate(network, optimizer, level="O2")
    return MixedPrecision(
        level, {k: v for k, v in settings.items() if k in _LISTS}, {k: v for k, v in settings.items() if k in _SCALER}
    )
