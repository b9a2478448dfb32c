"""Recomputed segments: the numbers of the segment itself, eager and compiled, and what they do not keep."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.distributed.fleet.utils import recompute
from polyreme.incubate.distributed.fleet import recompute_sequential
from polyreme.jit.traced import TraceError
from polyreme.lowering.gradients.autodiff import forward_half


def row(seed: int = 0) -> Any:
    tensor = paddle.to_tensor(np.random.default_rng(seed).standard_normal((2, 3)).astype("float32"))
    tensor.stop_gradient = False
    return tensor


class Dropped(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return nn.functional.dropout(paddle.tanh(self.linear(x) * scale), 0.5), x.shape


def numbers(call: Any, net: Any) -> list[Any]:
    """What comes of a call: the value, gradients, and the numbers drawn next."""
    paddle.seed(1)
    net.clear_gradients()
    x = row()
    y, shape = call(x)
    assert shape == [2, 3] and not y.stop_gradient
    (y * y).sum().backward()
    return [y.numpy(), x.grad.numpy(), *(p.grad.numpy() for p in net.parameters()), paddle.rand([3]).numpy()]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recomputed_segment_gives_the_numbers_of_the_segment(compiled: bool, reentrant: bool) -> None:
    paddle.seed(3)
    net = Dropped()

    def call(x: Any) -> Any:
        return recompute(net, x, scale=2.0, use_reentrant=reentrant)

    found = numbers(paddle.jit.to_static(call) if compiled else call, net)
    for actual, expected in zip(found, numbers(lambda x: net(x, scale=2.0), net), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("only_new_garbage")
def test_what_a_segment_makes_is_not_kept_for_gradients() -> None:
    made: list[Any] = []

    def segment(x: Any) -> Any:
        hidden = paddle.exp(x)
        made.append(weakref.ref(hidden))
        return paddle.tanh(hidden)

    x = row()
    plain = segment(x)
    gc.collect()
    # The plain segment's exp is an operand that its tanh keeps.
    assert made[0]() is not None and not plain.stop_gradient
    kept = recompute(segment, x)
    gc.collect()
    assert made[1]() is None
    kept.sum().backward()
    assert len(made) == 3
    np.testing.assert_allclose(x.grad.numpy(), (1 - np.tanh(np.exp(x.numpy())) ** 2) * np.exp(x.numpy()), rtol=1e-4)


def test_the_forward_half_of_a_recomputed_segment_keeps_no_residual() -> None:
    def segment(x: Any) -> Any:
        return paddle.tanh(paddle.exp(x))

    halves = []
    for call in (segment, lambda x: recompute(segment, x)):
        function = paddle.jit.to_static(call)
        function(row())
        halves.append(forward_half(function.concrete_programs()[0].func, (0,)))
    assert len(halves[0].residuals) == 2 and not halves[0].saved
    assert not halves[1].residuals and halves[1].saved == (0,)


def nested(given: Any, factor: Any) -> Any:
    a, (b, c) = given["a"], given["rest"]
    return [a * b * factor, {"c": c * 2, "n": 3}]


@pytest.mark.parametrize("compiled", [False, True])
def test_tensors_may_be_nested_given_twice_or_come_from_outside(compiled: bool) -> None:
    outside = row(5) * 2

    def call(x: Any, y: Any) -> Any:
        h = x * 3
        first, rest = recompute(lambda given, factor: nested(given, factor + h), {"a": x, "rest": (x, y.detach())}, factor=outside)
        assert rest["n"] == 3 and rest["c"].stop_gradient
        return first

    x, y = row(), row(1)
    expected_outside = (x.numpy() ** 2)[...]
    (paddle.jit.to_static(call) if compiled else call)(x, y).sum().backward()
    xs, os = x.numpy().astype("float64"), outside.numpy().astype("float64")
    np.testing.assert_allclose(x.grad.numpy(), 2 * xs * os + 9 * xs**2, rtol=1e-4, atol=1e-5)
    assert y.grad is None
    (to_outside,) = paddle.grad(call(x, y).sum(), outside)
    np.testing.assert_allclose(to_outside.numpy(), expected_outside, rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_recomputed_segments_have_gradients_of_gradients(compiled: bool) -> None:
    w = row(2)

    def call(x: Any) -> Any:
        return recompute(lambda a, b: a * a * b * w, x, x)

    x = row()
    y = (paddle.jit.to_static(call) if compiled else call)(x)
    (first,) = paddle.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(first.numpy(), 3 * x.numpy() ** 2 * w.numpy(), rtol=1e-5)
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.numpy() * w.numpy(), rtol=1e-5)
    np.testing.assert_allclose(w.grad.numpy(), 3 * x.numpy() ** 2, rtol=1e-5)


def test_hooks_of_weights_and_inputs_are_called_once() -> None:
    linear = nn.Linear(3, 3)
    calls: list[str] = []
    linear.weight.register_hook(lambda g: calls.append("weight"))
    x = row()
    x.register_hook(lambda g: calls.append("x"))
    recompute(linear, x).sum().backward()
    assert sorted(calls) == ["weight", "x"]


def test_a_segment_can_go_backward_twice_and_not_after_a_change() -> None:
    x = row()
    y = recompute(lambda a: a * a, x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * x.numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.sum().backward()
    h = x * 1
    y = recompute(lambda a: a * a, h)
    h.add_(paddle.ones([2, 3]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_chain_is_recomputed_in_segments() -> None:
    paddle.seed(2)
    chain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2))
    found = []
    for call in (chain, lambda x: recompute_sequential({"segments": 2}, chain, x), lambda x: recompute_sequential({}, list(chain), x)):
        paddle.seed(7)
        chain.clear_gradients()
        x = row()
        call(x).sum().backward()
        found.append([x.grad.numpy(), *(p.grad.numpy() for p in chain.parameters())])
    for other in found[1:]:
        for actual, expected in zip(other, found[0], strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="expected from 1 to 4 segments"):
        recompute_sequential({"segments": 5}, chain, row())


def test_without_gradients_a_segment_runs_as_it_is() -> None:
    with paddle.no_grad():
        assert recompute(lambda a: a * 2, row()).stop_gradient
    assert recompute(lambda a: a * 2, row().detach()).stop_gradient
    assert recompute(lambda a: 3, row()) == 3


def test_a_segment_that_writes_to_a_tensor_is_refused_in_a_compiled_function() -> None:
    norm = nn.BatchNorm1D(3)
    function = paddle.jit.to_static(lambda x: recompute(norm, x), full_graph=True)
    with pytest.raises(TraceError):
        function(row())
