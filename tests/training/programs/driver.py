"""What programs that train are registered with, note into, and are fed by.

A program is a function of the module, of what compiles (`jit.to_static`, or nothing) and of a `Log`; it notes losses, rates and whatever
else a user would look at, and in the end its parameters. What Paddle 3.3.1 noted is in `programs.npz`; `python -m tests.training.record`,
run by a Python that has Paddle, writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Compile = Callable[[Any], Any]
Program = Callable[[Any, Compile, "Log"], None]
PROGRAMS: dict[str, Program] = {}


class Log:
    """What a program noted, by name and in order."""

    def __init__(self) -> None:
        self.notes: dict[str, list[Any]] = {}

    def __call__(self, **values: Any) -> None:
        for name, value in values.items():
            held = value.astype("float32").numpy() if hasattr(value, "numpy") and "float" in str(value.dtype) else value
            held = held.numpy() if hasattr(held, "numpy") else held
            self.notes.setdefault(name, []).append(np.array(held))

    def parameters(self, *nets: Any, but: str = "nothing") -> None:
        """All that a net holds, buffers too; without what is named `but`."""
        for number, net in enumerate(nets):
            for name, held in net.state_dict().items():
                if but not in name:
                    self(**{f"net{number}.{name}": held.detach()})

    def arrays(self) -> dict[str, Any]:
        """Each name's notes in one array: they have one shape."""
        return {name: np.stack(values) for name, values in self.notes.items()}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def images(count: int, batch: int = 8) -> list[tuple[Any, Any]]:
    """Batches of small images with a class each, which can be learned."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(count):
        labels = rng.integers(0, 3, batch)
        found.append(((rng.normal(size=(batch, 1, 6, 6)) + labels[:, None, None, None]).astype("float32"), labels))
    return found


def rows(count: int, batch: int = 8, width: int = 4) -> list[tuple[Any, Any]]:
    """Batches of rows, with a target each."""
    rng = np.random.default_rng(6)
    weight = rng.normal(size=(width, 1))
    found = []
    for _ in range(count):
        x = rng.normal(size=(batch, width))
        found.append((x.astype("float32"), np.tanh(x @ weight).astype("float32")))
    return found


def perceptron(paddle: Any, width: int = 4, outputs: int = 1, hidden: int = 8) -> Any:
    nn = paddle.nn
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def convolutional(paddle: Any) -> Any:
    nn = paddle.nn
    # A bias in front of a norm has a gradient of rounding alone, of which Adam would make whole steps.
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, padding=1, bias_attr=False), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(36, 3),
    )  # fmt: skip
