"""Two hundred steps keep the losses that Paddle 3.3.1 has, as far as rounding lets them: eagerly, compiled, by a static Program; and in
mixed precision as far as that rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from tests.training.losses import NETS, STEPS, losses, static_losses
from tests.training.record import recorded

# How far losses may be apart: in the first twenty steps, and in all. Rounding grows from step to step.
NEAR, FAR = 5e-6, 2e-3
OF_BFLOAT16 = 0.03, 0.06


@pytest.fixture(scope="module")
def wanted() -> Any:
    return {name: arrays["losses"] for name, arrays in recorded("losses.npz").items()}


@pytest.fixture
def on_cpu() -> Iterator[None]:
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    yield
    paddle.set_flags({"FLAGS_amp_on_cpu": False})


def compiled(function: Any) -> Any:
    return paddle.jit.to_static(function, full_graph=True)


def compare(found: list[float], wanted: Any, near: float = NEAR, far: float = FAR) -> None:
    apart = np.abs(np.array(found) - wanted[: len(found)])
    assert apart[:20].max() < near and apart.max() < far, (apart[:20].max(), apart.max())


@pytest.mark.parametrize("name", NETS)
def test_the_first_steps_have_the_losses_of_paddle(name: str, wanted: Any) -> None:
    compare(losses(paddle, name, 6), wanted[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_two_hundred_steps_keep_the_losses_of_paddle(name: str, wanted: Any) -> None:
    assert len(wanted[name]) == STEPS
    compare(losses(paddle, name), wanted[name])
    compare(losses(paddle, name, compiled=compiled), wanted[name])
    compare(static_losses(paddle, name), wanted[name])


@pytest.mark.slow
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("name", NETS)
def test_two_hundred_steps_in_mixed_precision_keep_the_losses_of_paddle(name: str, level: str, wanted: Any) -> None:
    ways = [lambda: losses(paddle, name, level=level), lambda: losses(paddle, name, compiled=compiled, level=level)]
    for way in (*ways, lambda: static_losses(paddle, name, level=level)):
        found = way()
        assert found != list(wanted[name])
        compare(found, wanted[name], *OF_BFLOAT16)
