"""What the programs that train share."""

from __future__ import annotations

from typing import Any

from polyreme import nn
from tests.frontend.capture_programs.driver import Run


def a_net(width: int = 5) -> Any:
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def gradients(*layers: Any) -> list[Any]:
    return [p.grad for layer in layers for p in layer.parameters()]


def some_steps(p: Run, step: Any, *layers: Any, rows: tuple[int, ...] = (4, 4, 4, 6)) -> None:
    """Call, and compare what is left in parameters and their gradients."""
    p.watch(*layers)
    for count in rows:
        p.call(step, p.t(count, 3))
        p.note(gradients(*layers))
