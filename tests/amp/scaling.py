"""Steps of training with a `GradScaler`, which run under Paddle and here: what happens to scales, counts, gradients and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

SETTINGS: dict[str, dict[str, Any]] = {
    "by default": {},
    "grows soon": {"init_loss_scaling": 16.0, "incr_every_n_steps": 2},
    "shrinks late": {"init_loss_scaling": 8.0, "decr_every_n_nan_or_inf": 2, "incr_every_n_steps": 3},
    "ratios of its own": {"init_loss_scaling": 10.0, "incr_ratio": 3.0, "decr_ratio": 0.25, "incr_every_n_steps": 2},
    "fixed": {"init_loss_scaling": 32.0, "use_dynamic_loss_scaling": False},
}
# The factor of each step's gradient: what is not finite is skipped.
FACTORS = [1.0, 2.0, float("inf"), 0.5, float("nan"), float("-inf"), 1.5, 1.0, 0.25, 3.0]
WAYS = ("step", "minimize", "unscale_ first")


def run(
    paddle: Any, settings: dict[str, Any], way: str, optimizer: str = "SGD", dtype: str = "float32", compiled: bool = False
) -> list[list[Any]]:
    """Each step's scale, counts, gradients after the step and parameters."""
    with paddle.amp.auto_cast(dtype="float16"):
        pass
    weights = [paddle.create_parameter([2], dtype, default_initializer=paddle.nn.initializer.Constant(c)) for c in (1.0, -0.5)]
    step = getattr(paddle.optimizer, optimizer)(0.125, parameters=weights)
    scaler = paddle.amp.GradScaler(enable=True, **settings)
    seen: list[list[Any]] = []

    def one(*factors: Any) -> None:
        loss = sum((w * f).sum() for w, f in zip(weights, factors))
        scaled = scaler.scale(loss)
        scaled.backward()
        if way == "minimize":
            scaler.minimize(step, scaled)
        else:
            if way == "unscale_ first":
                scaler.unscale_(step)
            scaler.step(step)
            scaler.update()

    if compiled:
        one = paddle.jit.to_static(one, full_graph=True)
    for number, factor in enumerate(FACTORS):
        # Gradients of one parameter alone are not finite.
        one(*[paddle.to_tensor(np.array([0.5, factor if place == number % 2 else 1.0], dtype)) for place in (0, 1)])
        state = scaler.state_dict()
        gradients = [w.grad.numpy().astype("float64").tolist() for w in weights]
        kept = [w.numpy().astype("float64").tolist() for w in weights]
        seen.append([float(state["scale"][0]), state["incr_count"], state["decr_count"], gradients, kept])
        step.clear_grad()
    return seen
