"""Weights of compiled functions are packed when they change: never later, and not more often."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.compiled.inspection import inspect
from polyreme.jit.weights import WeightedFunction
from polyreme.static import InputSpec


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(4, 32, 3)
        self.out = nn.Linear(32 * 36, 20)

    def forward(self, x: Any) -> Any:
        return self.out(paddle.nn.functional.relu(self.conv(x)).flatten(1))


def images(count: int = 2) -> Any:
    return paddle.to_tensor(np.random.default_rng(0).standard_normal((count, 4, 8, 8)).astype("float32"))


def pair() -> tuple[Any, Any]:
    """A compiled Layer, and a plain one with the same parameters."""
    plain = Net()
    compiled = Net()
    compiled.conv, compiled.out = plain.conv, plain.out
    return paddle.jit.to_static(compiled), plain


def assert_same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def functions(net: Any) -> list[WeightedFunction]:
    """What a compiled Layer runs: for inference, and the forward halves of training."""
    programs = net.forward.programs()
    found = [f for p in programs for f in (*p._inference.values(), *(h.forward for h in p._training.values()))]
    assert all(isinstance(f, WeightedFunction) for f in found)
    return found


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """For each run of a `prepare`, which weights it packed."""
    seen: list[list[int]] = []
    original = WeightedFunction._pack

    def counted(self: WeightedFunction, weights: Any, current: Any) -> Any:
        made = original(self, weights, current)
        seen.append([k for k, w in enumerate(weights) if current is None or w is not current.weights[k]])
        return made

    monkeypatch.setattr(WeightedFunction, "_pack", counted)
    return seen


def by_optimizer(net: Any, folder: Path) -> None:
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    net(images()).sum().backward()
    optimizer.step()


def by_state_dict(net: Any, folder: Path) -> None:
    net.set_state_dict({name: value * 2 for name, value in net.state_dict().items()})


def by_file(net: Any, folder: Path) -> None:
    paddle.save({name: value + 1 for name, value in net.state_dict().items()}, str(folder / "net.pdparams"))
    net.set_state_dict(paddle.load(str(folder / "net.pdparams")))


def by_set_value(net: Any, folder: Path) -> None:
    net.out.weight.set_value(np.full(net.out.weight.shape, 0.5, "float32"))


def in_place(net: Any, folder: Path) -> None:
    with paddle.no_grad():
        net.conv.weight.scale_(3.0)


def by_item(net: Any, folder: Path) -> None:
    with paddle.no_grad():
        net.out.weight[:, 3] = 7.0


def by_another_parameter(net: Any, folder: Path) -> None:
    net.out.weight = net.out.create_parameter(net.out.weight.shape)


CHANGES = [by_optimizer, by_state_dict, by_file, by_set_value, in_place, by_item, by_another_parameter]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_change_of_weights_is_seen_by_the_next_call(change: Callable[[Any, Path], None], recorded: bool, tmp_path: Path) -> None:
    net, plain = pair()
    with paddle.set_grad_enabled(recorded):
        first = net(images())
        assert_same(first, plain(images()))
        with paddle.set_grad_enabled(True):
            change(plain, tmp_path)
        second = net(images())
        assert_same(second, plain(images()))
    assert not np.allclose(first.numpy(), second.numpy())


@pytest.mark.parametrize("recorded", [False, True])
def test_weights_are_packed_once_while_they_stay(recorded: bool, packings: list[list[int]]) -> None:
    net, _ = pair()
    with paddle.set_grad_enabled(recorded):
        for _ in range(5):
            net(images(32))
    assert len(packings) == 1
    assert functions(net)[0].prepare is not None


def test_only_the_weight_that_changed_is_packed_again(packings: list[list[int]]) -> None:
    net, plain = pair()
    with paddle.no_grad():
        net(images())
        (function,) = functions(net)
        before = function._current
        plain.out.weight.set_value(plain.out.weight + 1)
        assert_same(net(images()), plain(images()))
    after = function._current
    assert before is not None and after is not None
    assert len(packings) == 2 and len(packings[1]) == 1
    same = {name for name in before.packed if after.packed[name] is before.packed[name]}
    assert same == {"conv.weight_packed"} and set(before.packed) == {"conv.weight_packed", "out.weight_packed"}


def test_training_gives_the_same_weights_as_eagerly() -> None:
    paddle.seed(3)
    plain = Net()
    net = paddle.jit.to_static(copy.deepcopy(plain))
    for model in (plain, net):
        optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
        for _ in range(5):
            (model(images(16)) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()
            with paddle.no_grad():
                model(images(1))
    for a, b in zip(plain.parameters(), net.parameters(), strict=True):
        assert_same(a, b)


def test_each_call_sees_weights_as_they_are_when_other_threads_call_too() -> None:
    net, plain = pair()
    x = images(1)
    choices = [np.full(plain.out.weight.shape, v, "float32") for v in (0.25, -0.5)]
    with paddle.no_grad():
        expected = []
        for choice in choices:
            plain.out.weight.set_value(choice)
            expected.append(net(x).numpy())
    wrong: list[Any] = []
    stop = threading.Event()

    def call() -> None:
        with paddle.no_grad():
            while not stop.is_set():
                y = net(x).numpy()
                if not any(np.allclose(y, e, rtol=1e-5, atol=1e-6) for e in expected):
                    wrong.append(y)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with paddle.no_grad():
            for i in range(200):
                plain.out.weight.set_value(choices[i % 2])
                np.testing.assert_allclose(net(x).numpy(), expected[i % 2], rtol=1e-5, atol=1e-6)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_layer_is_looked_at_again_after_any_change_of_its_parts() -> None:
    net = paddle.jit.to_static(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
    x = paddle.ones([3, 4])
    with paddle.no_grad():
        net.eval()
        evaluated = net(x)
        assert_same(net(x), evaluated)
        net[1].training = True
        assert (net(x).numpy() == 0).any()
        net.eval()
        assert_same(net(x), evaluated)
        net[0]._parameters["bias"] = net[0].create_parameter([4], default_initializer=nn.initializer.Constant(5.0))
        assert_same(net(x), evaluated + 5)
        net[0].bias = None
        assert_same(net(x), evaluated)
        net[1] = nn.Linear(4, 2)
        assert net(x).shape == [3, 2]


def test_inspect_shows_what_prepares_the_weights() -> None:
    shown = inspect(nn.Linear(32, 32), [InputSpec([4, 32], "float32", "x")])
    assert "func @prepare(" in shown.kernel and '"packed"' in shown.kernel
    assert "define void @" in shown.llvm
