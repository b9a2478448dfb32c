"""Norms of matrices by their singular values: values, first and second gradients, and compiled as eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle

NORMS = pytest.mark.parametrize("p", [2, -2, "nuc"])
SHAPES = pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3, 3), (1, 3), (2, 3, 2)], ids=str)
STEP = 1e-5


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def norm_and_gradient(x: Any, p: Any) -> tuple[Any, Any, Any]:
    x = paddle.to_tensor(x, stop_gradient=False)
    y = paddle.norm(x, p, [-2, -1]).sum()
    return x, y, paddle.grad(y, x, create_graph=True)[0]


def differences(f: Any, x: Any) -> Any:
    made = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = STEP
        made[place] = (f(x + step) - f(x - step)) / (2 * STEP)
    return made


@NORMS
@SHAPES
def test_first_and_second_gradients_agree_with_differences(shape: tuple[int, ...], p: Any) -> None:
    values, weights = drawn(shape), drawn(shape, 1)
    x, y, gradient = norm_and_gradient(values, p)
    np.testing.assert_allclose(float(y), np.linalg.norm(values, p, (-2, -1)).sum(), rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), differences(lambda x: float(norm_and_gradient(x, p)[1]), values), rtol=1e-6, atol=1e-8)
    (second,) = paddle.grad((gradient * paddle.to_tensor(weights)).sum(), x)
    np.testing.assert_allclose(
        second.numpy(), differences(lambda x: (norm_and_gradient(x, p)[2].numpy() * weights).sum(), values), rtol=1e-6, atol=1e-7
    )


@NORMS
@pytest.mark.parametrize("axes", [[0, 1], [2, 0], [-1, 1]], ids=str)
def test_compiled_gives_what_eager_gives(axes: list[int], p: Any) -> None:
    function = lambda x: paddle.norm(x * 2, p, axes, keepdim=True) + 1
    found = []
    for run in (function, paddle.jit.to_static(function)):
        x = paddle.to_tensor(drawn((2, 3, 4)).astype("float32"), stop_gradient=False)
        y = run(x)
        y.sum().backward()
        found.append((y.numpy(), x.grad.numpy()))
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6)


@NORMS
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_has_none_and_the_others_of_the_batch_have_theirs(value: float, p: Any) -> None:
    x = drawn((2, 3, 4))
    x[0, 1, 2] = value
    first, second = paddle.norm(paddle.to_tensor(x), p, [1, 2]).numpy()
    assert np.isnan(first)
    np.testing.assert_allclose(second, np.linalg.norm(x[1], p), rtol=1e-12)
