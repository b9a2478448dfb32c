"""numpy's random state as values that files have, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["numpy_state", "plain_state"]


def plain_state(state: Any) -> list[Any]:
    """What `np.random.get_state` gave, as a list of a text, an array and numbers."""
    return [state[0], np.array(state[1]), *state[2:]]


def numpy_state(plain: Any) -> tuple[Any, ...]:
    """What `np.random.set_state` takes."""
    return (plain[0], np.asarray(plain[1], np.uint32), *plain[2:])
