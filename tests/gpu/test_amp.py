"""Mixed precision on a GPU: losses and weights are those of the CPU, the losses those of float32 within the rounding of half precision, and
a step asks the device for one byte at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from tests.gpu.networks import NETWORKS
from tests.gpu.running import DEVICES

F = paddle.nn.functional
Array = np.ndarray[Any, Any]
# Of losses after some steps: from the CPU, and from training in float32.
ROUNDING = {"float16": (2e-3, 1e-2), "bfloat16": (2e-2, 8e-2)}
# Those of the default run.
FEW = {("mlp", "O1", "float16"), ("mlp", "O2", "bfloat16"), ("lstm cell", "O2", "float16"), ("resnet block", "O1", "bfloat16")}
CASES = [
    pytest.param(name, level, dtype, marks=() if (name, level, dtype) in FEW else pytest.mark.slow)
    for name in NETWORKS
    for level in ("O1", "O2")
    for dtype in ROUNDING
]


@pytest.fixture(autouse=True)
def _as_on_a_gpu() -> Iterator[None]:
    paddle.set_flags({"FLAGS_amp_on_cpu": True})
    yield
    paddle.set_flags({"FLAGS_amp_on_cpu": False})
    paddle.set_device("cpu")


@dataclass
class Run:
    losses: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    downloads: list[int] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)


def train(name: str, device: str, level: str = "O0", dtype: str = "float16", steps: int = 10, overflow: int = -1, mode: str = "") -> Run:
    """Train by Adam with a scale that grows after three steps; in step number `overflow` an input is infinite."""
    paddle.set_device(device)
    paddle.seed(3)
    network, made = NETWORKS[name], Run()
    with paddle.utils.unique_name.guard():
        net = network.make()
    # Its epsilon is as large as gradients are, so that rounding of those that should be zero makes no step.
    adam = paddle.optimizer.Adam(0.01, epsilon=1e-3, parameters=net.parameters())
    on = level != "O0"
    if level == "O2":
        net, adam = paddle.amp.decorate(net, adam, level="O2", dtype=dtype)
    with paddle.amp.auto_cast(enable=on, dtype=dtype):
        scaler = paddle.amp.GradScaler(on and dtype == "float16", init_loss_scaling=256.0, incr_every_n_steps=3)

    def loss_of(x: Any, y: Any) -> Any:
        with paddle.amp.auto_cast(enable=on, level=level if on else "O1", dtype=dtype):
            return F.cross_entropy(net(x), y)

    loss_of = paddle.jit.to_static(loss_of) if mode == "the loss" else loss_of
    for i, (x, y) in enumerate(network.batches(steps, 11)):
        if i == overflow:
            x.reshape(-1)[0] = np.inf
        given = paddle.to_tensor(x), paddle.to_tensor(y)
        loss = loss_of(*given)
        scaler.scale(loss).backward()
        before = paddle.device.cuda.memory_stats()["downloads"] if device != "cpu" else 0
        scaler.step(adam)
        scaler.update()
        adam.clear_grad()
        made.downloads.append(paddle.device.cuda.memory_stats()["downloads"] - before if device != "cpu" else 0)
        made.losses.append(float(loss))
        made.scales.append(float(scaler._scale) if scaler.is_enable() else 1.0)
    made.weights = {k: v.astype("float32").numpy() for k, v in net.state_dict().items()}
    paddle.set_device("cpu")
    return made


@DEVICES
@pytest.mark.parametrize(("name", "level", "dtype"), CASES)
def test_ten_steps_are_those_of_the_cpu_and_near_float32(name: str, level: str, dtype: str, device: str) -> None:
    near, far = ROUNDING[dtype]
    expected, got, exact = train(name, "cpu", level, dtype), train(name, device, level, dtype), train(name, "cpu")
    np.testing.assert_allclose(got.losses, expected.losses, rtol=0, atol=near)
    np.testing.assert_allclose(got.losses, exact.losses, rtol=near * 5 if dtype == "float16" else near, atol=far)
    assert got.losses != exact.losses
    assert got.weights.keys() == expected.weights.keys()
    for key, wanted in expected.weights.items():
        np.testing.assert_allclose(got.weights[key], wanted, rtol=0, atol=4 * near, err_msg=key)
    assert got.scales == expected.scales and (got.scales[-1] > 256 or dtype != "float16")
    assert set(got.downloads) == {1 if dtype == "float16" else 0}


@DEVICES
@pytest.mark.parametrize("mode", ["", "the loss"])
def test_a_step_that_overflows_is_skipped_and_the_scale_shrinks(mode: str, device: str) -> None:
    expected, got = (train("mlp", where, "O1", steps=7, overflow=4, mode=mode) for where in ("cpu", device))
    assert got.scales == expected.scales == [256, 256, 512, 512, 256, 256, 256]
    assert not np.isfinite(got.losses[4]) and np.isfinite(got.losses[5:]).all()
    kept = [i for i in range(7) if i != 4]
    np.testing.assert_allclose(np.array(got.losses)[kept], np.array(expected.losses)[kept], atol=2e-3)
    for key, wanted in expected.weights.items():
        np.testing.assert_allclose(got.weights[key], wanted, atol=5e-3, err_msg=key)
