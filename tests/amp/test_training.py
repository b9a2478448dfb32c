"""Training in mixed precision: the losses of float32, within the rounding of half precision."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from examples.digits import LeNet, batches

F = paddle.nn.functional


def losses(steps: int, compiled: bool = False, level: str = "O0", dtype: str = "float16", width: int = 6, batch: int = 64) -> list[float]:
    """Of the digits example."""
    paddle.seed(2026)
    net = LeNet(width)
    adam = paddle.optimizer.Adam(learning_rate=1e-3, parameters=net.parameters())
    if level == "O2":
        paddle.amp.decorate(net, adam, level="O2", dtype=dtype)
    model = paddle.jit.to_static(net) if compiled else net
    found = []
    with paddle.amp.auto_cast(enable=level != "O0", dtype=dtype):
        scaler = paddle.amp.GradScaler(level != "O0" and dtype == "float16", init_loss_scaling=1024.0)
    for images, labels in batches(steps, batch, 0, 1):
        with paddle.amp.auto_cast(enable=level != "O0", level=level, dtype=dtype):
            loss = F.cross_entropy(model(paddle.to_tensor(images)), paddle.to_tensor(labels))
        scaler.scale(loss).backward()
        scaler.step(adam)
        scaler.update()
        adam.clear_grad()
        found.append(float(loss))
    return found


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_200_steps_of_the_digits_keep_the_losses_of_float32(compiled: bool) -> None:
    exact = losses(200, compiled)
    for level in ("O1", "O2"):
        for dtype, near, far in (("float16", 0.005, 0.01), ("bfloat16", 0.02, 0.05)):
            found = losses(200, compiled, level, dtype)
            apart = np.abs(np.array(found) - exact)
            assert apart[:20].max() < near and apart.max() < far, (level, dtype)
            assert found[-1] < 0.35


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(("level", "dtype"), [("O1", "float16"), ("O2", "bfloat16")])
def test_some_steps_keep_the_losses_of_float32(level: str, dtype: str) -> None:
    exact, found = losses(4, width=2, batch=8), losses(4, level=level, dtype=dtype, width=2, batch=8)
    assert found != exact and np.abs(np.array(found) - exact).max() < (0.002 if dtype == "float16" else 0.02)


def model_losses(configs: Any, dtype: Any = None) -> list[float]:
    layer = paddle.nn.Linear(2, 1, weight_attr=paddle.nn.initializer.Constant(0.5))
    model = paddle.Model(layer)
    sgd = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    model.prepare(sgd, paddle.nn.MSELoss(), amp_configs=configs)
    x, y = paddle.to_tensor([[1.0, 1.0], [2.0, 0.0]]), paddle.to_tensor([[0.0], [1.0]])
    found = [float(model.train_batch([x], [y])[0]) for _ in range(2)]
    assert dtype is None or layer.weight.dtype == dtype
    model.eval_batch([x], [y])
    assert model.predict_batch([x])[0].shape == (2, 1)
    return found


def test_a_model_of_hapi_on_a_cpu_has_the_losses_of_float32() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model_losses("O1") == pytest.approx([0.5, 0.29], abs=1e-6)


@pytest.mark.usefixtures("on_cpu")
def test_a_model_of_hapi_trains_in_mixed_precision() -> None:
    for configs, dtype in (
        ({"level": "O1", "init_loss_scaling": 128.0}, paddle.float32),
        ({"level": "O2", "init_loss_scaling": 128.0}, paddle.float16),
        ({"level": "O1", "custom_black_list": ["linear_v2"], "init_loss_scaling": 128.0}, paddle.float32),
        ({"init_loss_scaling": 4.0, "use_dynamic_loss_scaling": False}, paddle.float32),
    ):
        assert model_losses(configs, dtype) == pytest.approx([0.5, 0.29], abs=2e-3)
    assert model_losses("O1") == [0.5, 0.5]  # the first scale, 65536, is too large for this loss: the step is skipped
    with pytest.raises(ValueError, match="static graph mode only"):
        model_losses({"use_fp16_guard": True})
    with pytest.raises(ValueError, match="'nonsense'"):
        model_losses({"nonsense": True})


def test_an_emulated_gpu_casts_without_a_flag() -> None:
    paddle.set_device("gpu-emulated")
    try:
        assert paddle.amp.is_float16_supported() and paddle.amp.is_bfloat16_supported()
        layer = paddle.nn.Linear(2, 2, weight_attr=paddle.nn.initializer.Constant(0.5))
        adam = paddle.optimizer.Adam(0.1, parameters=layer.parameters())
        paddle.amp.decorate(layer, adam, level="O2")
        scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with paddle.amp.auto_cast(level="O2"):
                y = layer(paddle.to_tensor([[1.0, 3.0]]))
        assert y.dtype == paddle.float16 and y.tolist() == [[2.0, 2.0]]
        scaler.scale(y.sum()).backward()
        assert layer.weight.grad.dtype == paddle.float16 and layer.weight.grad.tolist() == [[8.0, 8.0], [24.0, 24.0]]
        scaler.step(adam)
        scaler.update()
        assert np.allclose(layer.weight.numpy(), 0.4, atol=1e-3)
    finally:
        paddle.set_device("cpu")


@pytest.mark.usefixtures("on_cpu")
def test_an_emulated_gpu_trains_in_half_precision_as_a_cpu_does() -> None:
    def losses(device: str) -> list[float]:
        paddle.set_device(device)
        rng = np.random.default_rng(0)
        net = paddle.nn.Sequential(paddle.nn.Linear(4, 8), paddle.nn.LayerNorm(8), paddle.nn.Linear(8, 3))
        for weight in net.parameters():
            weight.set_value(rng.standard_normal(weight.shape, "float32") * 0.5)
        adam = paddle.optimizer.AdamW(0.01, parameters=net.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
        net, adam = paddle.amp.decorate(net, adam, level="O2")
        scaler = paddle.amp.GradScaler(init_loss_scaling=128.0)
        found = []
        for _ in range(3):
            x, labels = paddle.to_tensor(rng.random((5, 4), "float32")), paddle.to_tensor(rng.integers(0, 3, 5))
            with paddle.amp.auto_cast(level="O2"):
                loss = paddle.nn.functional.cross_entropy(net(x), labels)
            scaler.scale(loss).backward()
            scaler.step(adam)
            scaler.update()
            adam.clear_grad()
            found.append(loss.item())
        return found

    try:
        on_gpu = losses("gpu-emulated")
    finally:
        paddle.set_device("cpu")
    np.testing.assert_allclose(on_gpu, losses("cpu"), atol=4e-3)
