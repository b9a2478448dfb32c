"""A whole step of training inside of a `to_static` function: the numbers of eager mode, in the parameters that there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.jit.capture.trace import TraceError


def a_training(optimizer: str, clips: bool, schedules: bool) -> tuple[Any, Any, Any]:
    paddle.seed(1)
    net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 3))
    rate = paddle.optimizer.lr.StepDecay(0.05, 2, 0.5) if schedules else 0.05
    clip = paddle.nn.ClipGradByGlobalNorm(0.5) if clips else None
    made = getattr(paddle.optimizer, optimizer)(learning_rate=rate, parameters=net.parameters(), grad_clip=clip)

    def step(x: Any, labels: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        made.step()
        made.clear_grad()
        return loss

    return net, step, rate


@pytest.mark.parametrize(
    ("optimizer", "clips", "schedules"),
    [
        ("Momentum", True, True),
        *[
            pytest.param(optimizer, clips, schedules, marks=pytest.mark.slow)
            for optimizer in ("SGD", "Momentum", "Adam", "AdamW")
            for clips in (False, True)
            for schedules in (False, True)
        ],
    ],
)
def test_steps_of_a_function_are_those_of_eager_mode(optimizer: str, clips: bool, schedules: bool) -> None:
    draw = np.random.default_rng(0)
    batches = [(draw.normal(size=(6, 4)).astype("float32"), draw.integers(0, 3, 6)) for _ in range(5)]
    found, programs = [], []
    for compiled in (False, True):
        net, step, rate = a_training(optimizer, clips, schedules)
        function: Any = paddle.jit.to_static(step) if compiled else step
        parameters = list(net.parameters())
        losses = []
        for x, labels in batches:
            losses.append(float(function(paddle.to_tensor(x), paddle.to_tensor(labels))))
            if schedules:
                rate.step()
            if compiled:
                programs.append(len(function.programs()))
        assert all(a is b for a, b in zip(parameters, net.parameters(), strict=True))
        assert all(p.grad is None or not p.grad.numpy().any() for p in parameters)
        found.append((losses, [p.numpy() for p in parameters]))
    (exact, weights), (losses, made) = found
    assert losses == pytest.approx(exact, rel=1e-5)
    for a, b in zip(weights, made, strict=True):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-6)
    assert programs[-1] == programs[-2] == programs[-3]  # later steps run the code of earlier ones


def test_a_step_is_no_single_program_yet() -> None:
    _, step, _ = a_training("SGD", False, False)
    with pytest.raises(TraceError, match="'Tensor.backward' is used"):
        paddle.jit.to_static(step, full_graph=True)(paddle.rand([6, 4]), paddle.to_tensor([0, 1, 2, 0, 1, 2]))
