"""`GradScaler`: scales, counts and parameters of steps that were recorded from Paddle 3.3.1 (`record.py`), and its manners."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from tests.amp import scaling
from tests.amp.record import SCALERS


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("way", scaling.WAYS)
@pytest.mark.parametrize("settings", scaling.SETTINGS)
def test_steps_are_those_of_paddle(settings: str, way: str) -> None:
    expected = json.loads(SCALERS.read_text())[f"{settings}, {way}"]
    seen = scaling.run(paddle, scaling.SETTINGS[settings], way)
    for step, (factor, found, wanted) in enumerate(zip(scaling.FACTORS, seen, expected, strict=True)):
        assert found[:3] == wanted[:3], (step, "scale and counts")
        assert found[4] == wanted[4], (step, "parameters")
        if math.isfinite(factor):  # what is left in gradients that were not finite depends on the device, in Paddle
            assert found[3] == wanted[3], (step, "gradients")


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ("grows soon", "step"),
        *[pytest.param(settings, way, marks=pytest.mark.slow) for settings in scaling.SETTINGS for way in scaling.WAYS],
    ],
)
def test_compiled_steps_are_those_of_eager_mode(settings: str, way: str) -> None:
    for optimizer in ("SGD", "Adam"):
        eager, compiled = (scaling.run(paddle, scaling.SETTINGS[settings], way, optimizer, compiled=compiled) for compiled in (False, True))
        for step, (wanted, found) in enumerate(zip(eager, compiled, strict=True)):
            assert found[:3] == wanted[:3], (step, "scale and counts")
            assert np.allclose(found[4], wanted[4], rtol=1e-6), (step, "parameters")
            assert np.allclose(found[3], wanted[3], equal_nan=True), (step, "gradients")


@pytest.mark.usefixtures("on_cpu")
def test_a_compiled_step_is_one_program_while_the_scale_moves() -> None:
    net = paddle.nn.Linear(2, 1)
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=4.0, incr_every_n_steps=1)

    @paddle.jit.to_static(full_graph=True)
    def step(x: Any) -> Any:
        with paddle.amp.auto_cast():
            loss = net(x).astype("float32").square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        return loss

    scales = []
    for factor in (1.0, 1.0, math.inf, 1.0):
        step(paddle.full([3, 2], factor))
        scales.append(float(scaler.state_dict()["scale"][0]))
    assert scales == [8.0, 16.0, 8.0, 16.0]
    assert len(step.programs()) == 1


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("optimizer", ["Momentum", "Adam", "AdamW", "Lamb"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_step_that_is_not_finite_leaves_parameters_alone(optimizer: str, dtype: str) -> None:
    seen = scaling.run(paddle, {"init_loss_scaling": 64.0}, "step", optimizer, dtype)
    kept = [step[4] for step in seen]
    assert seen[0][0] == 64.0 and seen[2][0] == 32.0
    for step, factor in enumerate(scaling.FACTORS[1:], 1):
        assert (kept[step] == kept[step - 1]) is (not math.isfinite(factor)), step


@pytest.mark.usefixtures("on_cpu")
def test_gradients_may_be_clipped_after_unscale() -> None:
    with paddle.amp.auto_cast():
        pass
    w = paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(0.0))
    sgd = paddle.optimizer.SGD(1.0, parameters=[w], grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024.0)
    scaler.scale((w * paddle.to_tensor([3.0, 4.0])).sum()).backward()
    scaler.unscale_(sgd)
    assert w.grad.tolist() == [3.0, 4.0]
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(sgd)
    scaler.step(sgd)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(sgd)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(sgd)
    scaler.update()
    assert np.allclose(w.numpy(), [-0.6, -0.8])


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("way", ["step", "unscale_ first", "unscale_ and step by turns"])
def test_of_several_optimizers_each_steps_by_its_own_gradients(way: str) -> None:
    with paddle.amp.auto_cast():
        pass
    first, second = (paddle.create_parameter([2], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)) for _ in range(2))
    steps = [paddle.optimizer.SGD(0.5, parameters=[w]) for w in (first, second)]
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=1)
    for scale, bad in ((4.0, first), (2.0, second), (4.0, None)):
        kept = [w.numpy() for w in (first, second)]
        factors = [paddle.to_tensor([1.0, math.inf if w is bad else 1.0]) for w in (first, second)]
        scaler.scale((first * factors[0]).sum() + (second * factors[1]).sum()).backward()
        if way == "unscale_ first":
            for step in steps:
                scaler.unscale_(step)
        for step in steps:
            if way == "unscale_ and step by turns":
                scaler.unscale_(step)
            scaler.step(step)
            step.clear_grad()
        scaler.update()
        for w, before in zip((first, second), kept, strict=True):
            assert np.array_equal(w.numpy(), before if w is bad else before - 0.5), (scale, w is first)
        assert scaler.state_dict()["scale"].tolist() == [scale]


@pytest.mark.usefixtures("on_cpu")
def test_the_state_goes_from_one_scaler_to_another() -> None:
    with paddle.amp.auto_cast():
        pass
    first = paddle.amp.GradScaler(init_loss_scaling=8.0, incr_every_n_steps=3)
    first._incr_count = 2
    state = first.state_dict()
    assert state["scale"].tolist() == [8.0] and state["scale"].dtype == np.float32 and state["use_dynamic_loss_scaling"] is True
    second = paddle.amp.GradScaler()
    second.load_state_dict(state)
    assert second.state_dict() == state and second.get_incr_every_n_steps() == 3 and second.get_init_loss_scaling() == 8.0
    third = copy.deepcopy(second)
    third.set_init_loss_scaling(4.0)
    assert second.scale(paddle.to_tensor(1.0)).item() == 8.0 and third.scale(paddle.to_tensor(1.0)).item() == 4.0
    with pytest.raises(RuntimeError, match="state dict is empty"):
        second.load_state_dict({})


@pytest.mark.usefixtures("on_cpu")
def test_settings_are_set_and_got() -> None:
    scaler = paddle.amp.AmpScaler()
    assert scaler.is_enable() and scaler.is_use_dynamic_loss_scaling() and scaler.get_init_loss_scaling() == 2.0**15
    for name, value in (("incr_ratio", 3.0), ("decr_ratio", 0.1), ("incr_every_n_steps", 7), ("decr_every_n_nan_or_inf", 5)):
        getattr(scaler, f"set_{name}")(value)
        assert getattr(scaler, f"get_{name}")() == value
    with pytest.raises(AssertionError, match="new_incr_ratio must be > 1.0"):
        scaler.set_incr_ratio(1.0)
    with pytest.raises(AssertionError, match="new_decr_ratio must be < 1.0"):
        scaler.set_decr_ratio(1.0)
    with pytest.raises(AssertionError, match="incr_ratio must be > 1.0"):
        paddle.amp.GradScaler(incr_ratio=0.5)
    with pytest.raises(TypeError, match="expected a Tensor"):
        loss: Any = 1.0
        scaler.scale(loss)


@pytest.mark.usefixtures("on_cpu")
def test_a_dynamic_scale_is_none_for_bfloat16() -> None:
    with paddle.amp.auto_cast(dtype="bfloat16"):
        scaler = paddle.amp.GradScaler()
        with pytest.warns(UserWarning, match="not recommended to use dynamic loss scaling for bfloat16"):
            assert scaler.scale(paddle.to_tensor(2.0)).item() == 2.0
    assert not scaler.is_enable() and scaler.state_dict() == {}


def test_on_a_cpu_a_scaler_warns_and_is_off() -> None:
    with pytest.warns(UserWarning, match="AmpScaler can only be enabled"):
        scaler = paddle.amp.GradScaler()
    layer = paddle.nn.Linear(1, 1, weight_attr=paddle.nn.initializer.Constant(1.0), bias_attr=False)
    sgd = paddle.optimizer.SGD(0.25, parameters=layer.parameters())
    loss = layer(paddle.ones([1, 1])).sum()
    scaled = scaler.scale(loss)
    assert not scaler.is_enable() and scaled is loss and scaler.state_dict() == {}
    scaled.backward()
    scaler.minimize(sgd, scaled)
    assert layer.weight.item() == 0.75
    scaler.step(sgd)
    scaler.update()
    assert layer.weight.item() == 0.5
