"""Small graphs that are met again send their gradients back at once: to the same bits, and with all that a tape sees to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch
from polyreme.compiled import graph_recipes
from polyreme.compiled.graph_recipes import GraphRecipe
from polyreme.dialects import nn

F = paddle.nn.functional


@pytest.fixture(autouse=True)
def _no_graph_was_met_before() -> None:
    graph_recipes._recipes.clear()


def recipes() -> int:
    return sum(isinstance(recipe, GraphRecipe) for recipe in graph_recipes._recipes.values())


def leaf(*shape: int, seed: int = 0) -> Any:
    return paddle.to_tensor(np.random.default_rng(seed).normal(size=shape).astype("float32"), stop_gradient=False)


def chain(x: Any, y: Any) -> Any:
    value = x
    for _ in range(4):
        value = value * x + y
    return value.sum()


def used_again(x: Any, y: Any) -> Any:
    a = x * y
    b = a - y
    return (a * b + paddle.tanh(a) / (b * b + 1.0)).mean()


def broadcast(x: Any, y: Any) -> Any:
    return (x[:, :1] * y + x.T.reshape([4, 3])[0] - paddle.exp(y)).sum(axis=0).max()


def made_late(x: Any, y: Any) -> Any:
    """The step that is met first was recorded before the one that is met last."""
    first = x * 2.0
    second = first * y
    third = paddle.sin(first)
    return (third + second).sum()


def products(x: Any, y: Any) -> Any:
    return F.softmax(paddle.matmul(x, y, transpose_y=True)).square().sum()


def a_constant(x: Any, y: Any) -> Any:
    return (x + y).sum()


@pytest.mark.parametrize("function", [chain, used_again, broadcast, made_late, products, a_constant])
def test_gradients_are_the_same_to_the_bit(function: Any) -> None:
    found = []
    for turn in range(4):
        x, y = leaf(4, 3), leaf(4, 3, seed=1)
        function(x, y).backward()
        assert recipes() == (turn > 0), "the second time it is made"
        found.append((x.grad.numpy(), y.grad.numpy()))
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


def test_graphs_of_ops_whose_attributes_are_no_keys_are_not_kept() -> None:
    """An array is no key, so that each call has a plan of its own, and no graph would be met again."""
    for _ in range(4):
        x, y = leaf(4, 3), leaf(3, 4, seed=1)
        (dispatch.call(nn.Transpose, x, perm=np.array([1, 0])) * y).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.numpy().T)
    assert not graph_recipes._recipes


def test_gradients_add_up_and_are_a_leafs_own() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    for _ in range(4):
        a_constant(x, y).backward()
    assert recipes() == 1
    assert x.grad.tolist() == [4.0] * 3
    z = leaf(3, seed=2)
    a_constant(z, y).backward()
    assert z.grad.tolist() == [1.0] * 3
    z.grad.set_value(z.grad * 5)
    x.clear_grad()
    a_constant(x, y).backward()
    assert x.grad.tolist() == [1.0] * 3 and z.grad.tolist() == [5.0] * 3


def test_a_gradient_to_begin_with_is_taken() -> None:
    for scale in (1.0, 2.0, 3.0):
        x, y = leaf(3), leaf(3, seed=1)
        (x * y).backward(paddle.full([3], scale))
        np.testing.assert_allclose(x.grad.numpy(), scale * y.numpy())
    assert recipes() == 1
    x = leaf(3)
    with pytest.raises(AssertionError, match="expected a gradient of shape"):
        (x * x).backward(paddle.ones([2]))


def test_a_graph_is_gone_afterwards_unless_it_is_kept() -> None:
    for _ in range(3):
        x, y = leaf(3), leaf(3, seed=1)
        kept = chain(x, y)
        kept.backward(retain_graph=True)
        kept.backward()
        with pytest.raises(RuntimeError, match="has run already"):
            kept.backward()
    assert recipes() == 1


def test_what_was_changed_in_place_is_an_error() -> None:
    for _ in range(3):
        x, y = leaf(3), leaf(3, seed=1)
        a = x * 1.0
        total = (a * y).sum()
        total.backward()
    a = leaf(3) * 1.0
    total = (a * leaf(3)).sum()
    a.add_(paddle.ones([3]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_hooks_and_gradients_on_the_way_are_seen_to() -> None:
    for turn in range(4):
        x, y = leaf(3), leaf(3, seed=1)
        a = x * y
        total = (a * a).sum()
        if turn == 2:
            a.register_hook(lambda grad: grad * 10)
            a.retain_grads()
        if turn == 3:
            x.register_hook(lambda grad: grad * 3)
        total.backward()
        wanted = 2 * a.numpy() * y.numpy() * {2: 10, 3: 3}.get(turn, 1)
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)
        assert (a.grad is None) == (turn != 2)


def test_one_needs_gradients_and_the_other_does_not() -> None:
    for turn in range(4):
        x, y = leaf(3), leaf(3, seed=1)
        y.stop_gradient = turn % 2 == 0
        (x * y + y).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), y.numpy())
        assert (y.grad is None) == (turn % 2 == 0)


def test_numbers_that_are_not_finite_warn_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    for _ in range(3):
        x = paddle.to_tensor([0.0, 1.0], stop_gradient=False)
        (x / (x * x)).log().sum().backward()
    assert recipes() == 1 and np.isnan(x.grad.numpy()[0]) and not recwarn.list


def test_under_no_grad_nothing_is_recorded() -> None:
    for _ in range(3):
        x, y = leaf(3), leaf(3, seed=1)
        total = chain(x, y)
        with paddle.no_grad():
            total.backward()
        assert x.grad._node is None
    assert recipes() == 1
