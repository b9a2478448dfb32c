"""`paddle.incubate.checkpoint`: a training in one file, from which it goes on bit for bit."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from polyreme.io.random_state import numpy_state, plain_state
from polyreme.names import listed
from polyreme.nn.layer import Layer
from polyreme.optimizer.optimizer import Optimizer
from polyreme.random import get_rng_state, set_rng_state
from polyreme.serialization import SaveError, load, save
from polyreme.utils.shown import Shown

__all__ = ["Checkpoint"]

_KIND = "polyreme training 1"


class Checkpoint(Shown):
    """What a training needs to go on as if it had not ended: its parts, random states, and what the user says of how far it is.

    Parts are named as one likes, and have `state_dict()` and `set_state_dict(…)` or `load_state_dict(…)`: Layers, optimizers (with their
    schedules and master weights), a `GradScaler`, a `DataLoader` (where its pass stands), metrics and objects of one's own. Random states
    are those of `paddle.seed`, of NumPy and of Python.

    Args:
        path: the file, which is replaced as a whole: whenever the program ends, the last checkpoint that was written is there.
        parts: the objects by name.
    """

    def __init__(self, path: str | os.PathLike[str], **parts: Any):
        self.path = os.fspath(path)
        self.parts = parts
        for name, part in parts.items():
            if not callable(getattr(part, "state_dict", None)) or _setter(part) is None:
                raise TypeError(f"expected '{name}' to have state_dict() and set_state_dict() but got a {type(part).__name__}")

    def save(self, **progress: Any) -> None:
        """Write all parts, random states and `progress`, numbers and texts that `load` gives back."""
        content = {
            "kind": _KIND,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "parameters": {name: _parameters(part) for name, part in self.parts.items()},
            "random": {"paddle": get_rng_state()[0], "numpy": plain_state(np.random.get_state()), "python": _listed(random.getstate())},
            "progress": progress,
        }
        save(content, self.path)

    def load(self) -> dict[str, Any] | None:
        """Give the parts and random states what they were when `save` was called. Returns its `progress`, None if there is no file.

        Raises `SaveError` for a file that is none of `save`, or of other parts: with other names, or other parameters by their names.
        """
        if not os.path.exists(self.path):
            return None
        content = load(self.path, return_numpy=True)
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise SaveError(f"expected a file of Checkpoint.save but '{self.path}' is another one")
        if set(content["parts"]) != set(self.parts):
            raise SaveError(f"expected the parts {sorted(self.parts)} in '{self.path}' but got {sorted(content['parts'])}")
        for name, part in self.parts.items():
            known, saved = _parameters(part), content["parameters"][name]
            if known != saved:
                strange = sorted(set(known) ^ set(saved)) or known
                raise SaveError(
                    f"expected '{name}' to have the parameters that '{self.path}' was saved with but these are of one of both: "
                    f"{', '.join(strange[:4])}; make networks and optimizers in the same order, before anything else"
                )
        for name, part in self.parts.items():
            setter = _setter(part)
            assert setter is not None
            setter(content["parts"][name])
        states = content["random"]
        set_rng_state([states["paddle"]])
        np.random.set_state(numpy_state(states["numpy"]))
        version, words, ahead = states["python"]
        random.setstate((version, tuple(words), ahead))
        progress: dict[str, Any] = content["progress"]
        return progress


def _setter(part: Any) -> Any:
    return getattr(part, "set_state_dict", None) or getattr(part, "load_state_dict", None)


def _parameters(part: Any) -> list[str]:
    """By which names a part keeps what it has for parameters."""
    if isinstance(part, Layer):
        return list(part.state_dict())
    return [parameter.name for parameter in part._parameter_list] if isinstance(part, Optimizer) else []


def _listed(state: Any) -> list[Any]:
    return [state[0], list(state[1]), state[2]]


__dir__ = listed(__name__)
