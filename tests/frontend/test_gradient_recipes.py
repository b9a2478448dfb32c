"""Gradient rules as lists of numpy calls: the same bits as the rules themselves, wherever they are used."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch
from polyreme.dialects import nn

F = paddle.nn.functional
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub, row": lambda x, y: x - y[0],
    "mul, column": lambda x, y: x * y[:, :1],
    "div": lambda x, y: x / (y * y + 1.0),
    "pow": lambda x, y: (x * x + 1.0) ** y,
    "maximum": lambda x, y: paddle.maximum(x, y),
    "where": lambda x, y: paddle.where(x > y, x, y * 2.0),
    "exp, log": lambda x, y: paddle.log(paddle.exp(x) + paddle.exp(y)),
    "matmul": lambda x, y: paddle.matmul(x, y, transpose_y=True),
    "mean, var": lambda x, y: x.mean(axis=1) + y.var(axis=0)[:3],
    "reshape, transpose": lambda x, y: (x.reshape([4, 3]).transpose([1, 0]) * y),
    "slice, concat": lambda x, y: paddle.concat([x[1:, :2], y[:2, ::2]], axis=1),
    "softmax, gather": lambda x, y: F.softmax(x)[paddle.to_tensor([2, 0])] * y[1],
    "max": lambda x, y: x.max(axis=1) * y.min(),
    "0-d": lambda x, y: x[0, 0] * y[1, 1] / x.sum(),
    "used twice": lambda x, y: x * x + x * y + y,
}


def gradients(function: Callable[[Any, Any], Any], dtype: str, frozen: bool = False) -> list[Any]:
    """Of a weighted sum of the results; `frozen`: of the first operand alone."""
    rng = np.random.default_rng(3)
    x, y = (paddle.to_tensor(rng.standard_normal((3, 4)).astype(dtype), stop_gradient=False) for _ in range(2))
    y.stop_gradient = frozen
    made = function(x, y)
    weights = paddle.to_tensor(rng.standard_normal(made.shape).astype(dtype))
    (made * weights).sum().backward()
    return [None if t.grad is None else t.grad.numpy() for t in (x, y)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_recipe_gives_the_bits_of_the_rule(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for frozen in (False, True):
        by_recipe = gradients(FUNCTIONS[name], dtype, frozen)
        with monkeypatch.context() as patch:
            patch.setattr(dispatch.CallPlan, "gradients", lambda *_: None)
            by_rule = gradients(FUNCTIONS[name], dtype, frozen)
        for got, expected in zip(by_recipe, by_rule, strict=True):
            assert (got is None) == (expected is None)
            if got is not None:
                np.testing.assert_array_equal(got, expected)
                assert got.dtype == expected.dtype and got.shape == expected.shape


def test_recipes_are_made_once_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    make = dispatch.make_recipe
    monkeypatch.setattr(dispatch, "make_recipe", lambda cls, *rest: made.append(cls) or make(cls, *rest))
    dispatch._plans_of[paddle.CPUPlace()].clear()
    for _ in range(3):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        (x * x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
    assert made.count(nn.Mul) == 1
    recipe = make(nn.Mul, [x.type, x.type], {}, (True, False), dispatch.CallPlan(paddle.CPUPlace(), nn.Mul, (x, x), {})._kernels)
    assert recipe is not None and len(recipe.steps) == 1, "the gradient that nobody asked for is left out"


def test_overflow_in_a_gradient_is_silent() -> None:
    x = paddle.to_tensor(np.float32([1e38, 2.0]), stop_gradient=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * x * x + x).sum().backward()
    assert np.isinf(x.grad.numpy()[0]) and x.grad.numpy()[1] == 13.0


def test_a_hook_and_a_second_gradient_get_tensors() -> None:
    seen: list[Any] = []
    x = paddle.to_tensor([3.0], stop_gradient=False)
    y = x * x
    y.register_hook(lambda g: seen.append(g) or g * 2)
    (y * 1.5).backward()
    assert isinstance(seen[0], paddle.Tensor) and seen[0].numpy() == [1.5] and x.grad.numpy() == [18.0]
    x.clear_grad()
    (first,) = paddle.grad(x * x * x, x, create_graph=True)
    (second,) = paddle.grad(first, x)
    assert isinstance(second, paddle.Tensor) and first.numpy() == [27.0] and second.numpy() == [18.0]


def test_a_hook_that_gives_another_shape_is_told_of() -> None:
    x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    y = x * 3.0
    y.register_hook(lambda g: paddle.ones([3]))
    with pytest.raises(ValueError, match="shape"):
        (y * y).sum().backward()
