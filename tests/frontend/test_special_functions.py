"""Functions of the gamma and Bessel families, `erfinv`, running products and extremes, medians of free sizes: values, edges, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.static import InputSpec

INF, NAN = math.inf, math.nan


def test_values_are_those_of_the_standard_library() -> None:
    x = np.array([0.1, 0.5, 1, 1.5, 2, 3, 10, 100.5, -0.5, -1.5, -2.3, 1e20])
    np.testing.assert_allclose(paddle.lgamma(paddle.to_tensor(x)).numpy(), [math.lgamma(v) for v in x], rtol=1e-13, atol=1e-14)
    y = np.linspace(-0.999999, 0.999999, 101)
    np.testing.assert_allclose([math.erf(v) for v in paddle.erfinv(paddle.to_tensor(y)).numpy()], y, atol=1e-15)
    z = np.linspace(-40, 40, 33)
    np.testing.assert_allclose(paddle.i0(paddle.to_tensor(z)).numpy(), np.i0(z), rtol=1e-13)
    psi = paddle.polygamma(paddle.to_tensor(np.array([1.0, 0.5, 3.0])), 1).numpy()
    np.testing.assert_allclose(psi, [math.pi**2 / 6, math.pi**2 / 2, math.pi**2 / 6 - 1.25], rtol=1e-14)


# What Paddle 3.3.1 gives at the edges.
EDGES: list[tuple[Callable[..., Any], list[float], list[float]]] = [
    (paddle.lgamma, [0, -1, -INF, INF], [INF, INF, INF, INF]),
    (paddle.digamma, [0, -1, INF, -INF], [-INF, NAN, INF, NAN]),
    (lambda x: paddle.polygamma(x, 1), [0, -1, -0.5], [INF, INF, 8.934802200544679]),
    (paddle.erfinv, [1, -1, 0], [INF, -INF, 0]),
    (lambda x: paddle.heaviside(x, paddle.full_like(x, 5)), [NAN, -1, 0, 2], [0, 0, 5, 1]),
    (lambda x: paddle.cummax(x)[0], [1, NAN, 3], [1, NAN, NAN]),
    (lambda x: paddle.cummax(x)[1], [2, 2, 1, NAN, 1, NAN], [0, 1, 1, 3, 3, 5]),
    (lambda x: paddle.logcumsumexp(x), [-INF, -INF, 800, 800], [-INF, -INF, 800, 800 + math.log(2)]),
    (lambda x: paddle.searchsorted(paddle.to_tensor(np.array([1.0, 2, 2, 3])), x), [2, 0, 4, NAN], [1, 0, 4, 4]),
]


@pytest.mark.parametrize("function, x, wanted", EDGES)
def test_edges_are_those_of_paddle(function: Callable[..., Any], x: list[float], wanted: list[float]) -> None:
    tensor = paddle.to_tensor(np.array(x, "float64"))
    for call in (function, paddle.jit.to_static(function)):
        np.testing.assert_allclose(call(tensor).numpy().astype("float64"), wanted, rtol=1e-12)


def test_shifts_by_all_bits_and_more_leave_what_paddle_leaves() -> None:
    x, by = (paddle.to_tensor(np.array(v, "int32")) for v in ([1, -9, 5, 7, -1], [31, 32, 33, -1, 40]))
    assert paddle.bitwise_left_shift(x, by).tolist() == [-(2**31), 0, 0, 0, 0]
    assert paddle.bitwise_right_shift(x, by).tolist() == [0, -1, 0, 0, -1]
    assert paddle.bitwise_right_shift(x, by, False).tolist() == [0, 0, 0, 0, 0]
    assert paddle.bitwise_right_shift(paddle.to_tensor([-8, 8]), paddle.to_tensor([1, 0]), False).tolist() == [2**63 - 4, 8]


SMOOTH: list[Callable[..., Any]] = [
    paddle.lgamma, paddle.digamma, lambda x: paddle.erfinv(x / 9), paddle.i0e, paddle.i1, lambda x: paddle.renorm(x, 2.0, 0, 1.0),
    lambda x: paddle.cumprod(x, 1), lambda x: paddle.cummax(x, 1)[0], lambda x: paddle.cummin(x, 0)[0], lambda x: paddle.logcumsumexp(x, 0),
]  # fmt: skip


@pytest.mark.parametrize("function", SMOOTH)
def test_gradients_are_differences(function: Callable[..., Any]) -> None:
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((3, 4)), stop_gradient=False)
    weight = paddle.to_tensor(np.random.default_rng(1).standard_normal((3, 4)))
    (function(x) * weight).sum().backward()
    step, found = 1e-6, np.zeros((3, 4))
    for place in np.ndindex(3, 4):
        moved = np.zeros((3, 4))
        moved[place] = step
        high, low = (float((function(paddle.to_tensor(x.numpy() + d)) * weight).sum()) for d in (moved, -moved))
        found[place] = (high - low) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), found, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "function", [lambda x: paddle.median(x, -1), lambda x: paddle.nanmedian(x, -1), paddle.nanmedian, lambda x: paddle.median(x, 0, True)]
)
def test_medians_of_free_sizes_are_those_of_known_ones(function: Callable[..., Any]) -> None:
    rows = np.array([[1, NAN, 3, 2, 7], [NAN] * 5, [4, 3, 2, 1, 0], [NAN, 1, NAN, 2, NAN]], "float32")
    compiled = paddle.jit.to_static(function, input_spec=[InputSpec([None, None], "float32")])
    for x in (rows, rows[:, :4], rows[2:3, :1], rows[2:3]):
        np.testing.assert_array_equal(compiled(paddle.to_tensor(x)).numpy(), function(paddle.to_tensor(x)).numpy())
    assert len(compiled.concrete_programs()) == 1
