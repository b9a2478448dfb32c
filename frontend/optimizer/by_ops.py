"""An optimizer's formula applied to tensors: by eager ops on a GPU, in compiled functions and in static programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polyreme import math as xp
from polyreme.math.common import cast_to
from polyreme.math.manipulation import reshape
from polyreme.optimizer.rules import Update
from polyreme.regularizer import WeightDecayRegularizer
from polyreme.tensor import Tensor

__all__ = ["updated"]


def updated(
    update: Update,
    p: Tensor,
    gradient: Tensor,
    rate: Any,
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    decay: WeightDecayRegularizer | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The (master) weight `p` and its state after a step by the formula `update`, all of it in the dtype of `p`. `options` are rounded as
    the rule has it.
    """
    g = cast_to(gradient, p.type.dtype)
    if decay is not None:
        g = g + decay.gradient(p, xp)
    options = {name: float(value) if isinstance(value, np.floating) else value for name, value in options.items()}
    new, changed = update(p, g, rate, dict(state), options, xp)
    # State of one element makes a row of a parameter that is a number.
    return new if new.type.shape == p.type.shape else reshape(new, p.shape), changed
