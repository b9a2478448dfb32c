"""`decorate`: which parameters are cast, what optimizers keep of them, and what is saved."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import polyreme as paddle

nn = paddle.nn
OPTIMIZERS = [
    "SGD", "Momentum", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSProp", "Lamb", "NAdam", "RAdam", "ASGD", "Rprop"
]  # fmt: skip


def a_net() -> Any:
    return nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.Flatten(), nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 2))


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_on_a_cpu_models_and_optimizers_are_given_back(level: str) -> None:
    models = [nn.Linear(2, 1), a_net()]
    steps = [paddle.optimizer.SGD(0.1, parameters=m.parameters()) for m in models]
    a, b = paddle.amp.decorate(models=models, optimizers=steps, level=level, dtype="bfloat16", master_weight=True)
    assert a is models and b is steps
    assert paddle.amp.decorate(models=models[0], level=level) is models[0]
    assert {p.dtype for m in models for p in m.parameters()} == {paddle.float32}


@pytest.mark.usefixtures("on_cpu")
def test_o2_casts_all_but_norms() -> None:
    net = a_net()
    sgd = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    a, b = paddle.amp.decorate(net, sgd, level="O2")
    assert a is net and b is sgd
    dtypes = {name: p.dtype.name for name, p in net.named_parameters()}
    assert {name[0] for name, dtype in dtypes.items() if dtype == "float32"} == {"1", "4"}
    assert {dtypes[f"{i}.{part}"] for i in (0, 3, 5) for part in ("weight", "bias")} == {"float16"}
    assert net[1]._mean.dtype == paddle.float32
    assert sgd._multi_precision
    net = paddle.amp.amp_decorate(models=a_net(), level="O2", dtype="bfloat16")
    dtypes = {name: p.dtype.name for name, p in net.named_parameters()}
    assert {name[0] for name, dtype in dtypes.items() if dtype == "float32"} == {"1"}
    same = paddle.amp.decorate(models=[net], level="O1")
    assert same[0] is net


@pytest.mark.usefixtures("on_cpu")
def test_layers_may_be_left_out() -> None:
    net = a_net()
    paddle.amp.decorate(net, level="O2", excluded_layers=[net[3], nn.Conv2D])
    assert [net[i].weight.dtype.name for i in (0, 3, 5)] == ["float32", "float32", "float16"]
    with pytest.raises(TypeError, match="excluded_layers"):
        paddle.amp.decorate(a_net(), level="O2", excluded_layers="conv")


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_master_weights_are_stepped_as_float32_parameters(name: str) -> None:
    draw = np.random.default_rng(0)
    start, gradients = draw.normal(size=6).astype("float32"), draw.normal(size=(12, 6)).astype("float32")
    start = start.astype("float16").astype("float32")
    gradients = gradients.astype("float16").astype("float32")
    found = []
    for half in (False, True):
        layer = nn.Layer()
        layer.weight = layer.create_parameter([6], default_initializer=nn.initializer.Assign(start))
        step = getattr(paddle.optimizer, name)(learning_rate=0.01, parameters=layer.parameters())
        if half:
            paddle.amp.decorate(layer, step, level="O2")
        for gradient in gradients:
            (layer.weight * paddle.to_tensor(gradient).astype(layer.weight.dtype)).sum().backward()
            assert layer.weight.grad.dtype == layer.weight.dtype
            step.step()
            step.clear_grad()
        found.append((layer.weight, step))
    (exact, _), (weight, step) = found
    master = step.state_dict()["master_weights"][weight.name]
    assert weight.dtype == paddle.float16 and master.dtype == paddle.float32
    assert np.array_equal(master.numpy(), exact.numpy())
    assert np.array_equal(weight.numpy(), exact.numpy().astype("float16"))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "Lamb", "NAdam", "RAdam"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_without_master_weights_the_state_is_float32_all_the_same(name: str, dtype: str) -> None:
    layer = nn.Linear(3, 1)
    step = getattr(paddle.optimizer, name)(learning_rate=0.01, parameters=layer.parameters())
    paddle.amp.decorate(layer, step, level="O2", dtype=dtype, master_weight=False)
    before = layer.weight.astype("float32").numpy()
    for _ in range(5):
        layer(paddle.ones([2, 3], dtype)).sum().backward()
        step.step()
        step.clear_grad()
    after = layer.weight.astype("float32").numpy()
    assert "master_weights" not in step.state_dict()
    assert {t.dtype for t in step.state_dict().values()} == {paddle.float32}
    assert layer.weight.dtype.name == dtype and np.isfinite(after).all() and (after < before).all()


@pytest.mark.usefixtures("on_cpu")
def test_gradients_of_parameters_may_be_float32() -> None:
    layer = nn.Linear(2, 2)
    sgd = paddle.optimizer.SGD(0.5, parameters=layer.parameters())
    paddle.amp.decorate(layer, sgd, level="O2", master_grad=True)
    with paddle.amp.auto_cast(level="O2"):
        loss = layer(paddle.ones([1, 2])).sum()
    loss.backward()
    loss = layer(paddle.ones([1, 2], "float16")).sum()
    loss.backward()
    assert layer.weight.dtype == paddle.float16 and layer.weight.grad.dtype == paddle.float32
    assert layer.weight.grad.tolist() == [[2.0, 2.0]] * 2
    sgd.step()


@pytest.mark.usefixtures("on_cpu")
def test_files_may_have_another_dtype(tmp_path: Any) -> None:
    layer = paddle.amp.decorate(nn.Linear(2, 2), level="O2", save_dtype="float32")
    state = layer.state_dict()
    assert {t.dtype for t in state.values()} == {paddle.float32} and layer.weight.dtype == paddle.float16
    assert [t.name for t in state.values()] == [layer.weight.name, layer.bias.name]
    paddle.save(state, str(tmp_path / "net.pdparams"))
    layer.set_state_dict(paddle.load(str(tmp_path / "net.pdparams")))
    assert layer.weight.dtype == paddle.float16


@pytest.mark.usefixtures("on_cpu")
def test_a_decorated_model_is_copied_and_its_training_resumed() -> None:
    paddle.seed(5)
    net = nn.Linear(3, 2)
    adam = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    paddle.amp.decorate(net, adam, level="O2")

    def step(net: Any, adam: Any) -> None:
        with paddle.amp.auto_cast(level="O2"):
            loss = (net(paddle.ones([1, 3])) ** 2).sum()
        loss.backward()
        adam.step()
        adam.clear_grad()

    step(net, adam)
    other = copy.deepcopy(net)
    assert {p.dtype for p in other.parameters()} == {paddle.float16}
    kept = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    state = adam.state_dict()
    state = {name: t.numpy() for name, t in state.items() if name != "master_weights"} | {
        "master_weights": {name: t.numpy() for name, t in state["master_weights"].items()}
    }
    step(net, adam)
    expected = net.weight.numpy()
    net.set_state_dict(kept)
    adam.set_state_dict(state)
    step(net, adam)
    assert np.array_equal(net.weight.numpy(), expected)
    assert not np.array_equal(other.weight.numpy(), expected)


@pytest.mark.usefixtures("on_cpu")
def test_mistakes_of_decorate_are_errors() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="level should be O1 or O2"):
        paddle.amp.decorate(net, level="O0")
    with pytest.raises(ValueError, match="dtype only support"):
        paddle.amp.decorate(net, level="O2", dtype="float64")
    with pytest.raises(ValueError, match="save_dtype"):
        paddle.amp.decorate(net, level="O2", save_dtype="int8")
    with pytest.raises(TypeError, match="expected models to be a paddle.nn.Layer"):
        paddle.amp.decorate(paddle.nn.functional.relu, level="O2")
    with pytest.raises(TypeError, match="expected optimizers to be"):
        paddle.amp.decorate(net, [net], level="O2")
    with pytest.raises(RuntimeError, match="decorate it first"):
        paddle.amp.decorate(paddle.DataParallel(net), level="O2")
    assert net.weight.dtype == paddle.float32


def the_net() -> Any:
    paddle.seed(4)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.usefixtures("on_cpu")
def test_a_static_program_trains_a_decorated_net() -> None:
    rng = np.random.default_rng(2)
    batches = [(rng.normal(size=(6, 4)).astype("float32"), rng.integers(0, 3, (6, 1))) for _ in range(4)]
    net, adam = the_net(), None
    net, adam = paddle.amp.decorate(net, paddle.optimizer.AdamW(0.05, parameters=net.parameters()), level="O2", dtype="bfloat16")
    wanted = []
    for x, y in batches:
        with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
            loss = nn.functional.cross_entropy(net(paddle.to_tensor(x)), paddle.to_tensor(y))
        loss.backward()
        adam.step()
        adam.clear_grad()
        wanted.append(float(loss))
    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x, y = paddle.static.data("x", [None, 4]), paddle.static.data("y", [None, 1], "int64")
            net = the_net()
            net, adam = paddle.amp.decorate(net, paddle.optimizer.AdamW(0.05, parameters=net.parameters()), level="O2", dtype="bfloat16")
            with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
                loss = nn.functional.cross_entropy(net(x), y)
            adam.minimize(loss)
            with pytest.raises(ValueError, match=r"expected '.*' to become float64 before it is used"):
                net.to(dtype="float64")
        assert {p.dtype.name for p in (*net[0].parameters(), *net[3].parameters())} == {"bfloat16"}
        assert {p.dtype.name for p in net[1].parameters()} == {"float32"}
        executor = paddle.static.Executor()
        executor.run(startup)
        found = [float(executor.run(main, feed={"x": a, "y": b}, fetch_list=[loss])[0]) for a, b in batches]
    finally:
        paddle.disable_static()
    assert found == pytest.approx(wanted, abs=0.02)
