"""Products over long axes are as exact compiled as libraries of linear algebra are: sums of parts, not one chain, whose error grows with
every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.lowering.kernels.microkernel import PART

# Relative to the largest result. One chain of 4,096 positive products has an error of 3e-6.
EXACT = 6e-7
Array = np.ndarray[Any, Any]


def _numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def _error(found: Array, exact: Array) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize(("m", "k", "n"), [(1, 4096, 48), (5, 4096 + PART // 2 + 3, 33), (24, 4096, 40)])
def test_a_product_of_two_arguments(m: int, k: int, n: int) -> None:
    a, b = _numbers(m, k), _numbers(k, n, seed=1)
    product = paddle.jit.to_static(paddle.matmul)
    assert _error(product(paddle.to_tensor(a), paddle.to_tensor(b)).numpy(), a.astype(float) @ b.astype(float)) < EXACT


@pytest.mark.parametrize("rows", [1, 40])
def test_a_product_by_known_weights(rows: int, tmp_path: Any) -> None:
    layer = paddle.nn.Linear(4096, 32, bias_attr=False)
    layer.weight.set_value(paddle.to_tensor(_numbers(4096, 32)))
    layer.eval()
    x = _numbers(rows, 4096, seed=1)
    paddle.compile(layer, str(tmp_path / "layer.so"), input_spec=[paddle.static.InputSpec([rows, 4096], "float32", "x")])
    found = paddle.load_compiled(str(tmp_path / "layer.so"))(x)
    assert _error(np.asarray(found), x.astype(float) @ layer.weight.numpy().astype(float)) < EXACT


def test_a_product_of_a_size_that_is_known_at_the_call() -> None:
    spec = [paddle.static.InputSpec([3, None], "float32", "a"), paddle.static.InputSpec([None, 20], "float32", "b")]
    product = paddle.jit.to_static(lambda a, b: paddle.matmul(a, b), input_spec=spec)
    for k in (1, PART - 1, PART, PART + 1, 4099):
        a, b = _numbers(3, k), _numbers(k, 20, seed=1)
        assert _error(product(paddle.to_tensor(a), paddle.to_tensor(b)).numpy(), a.astype(float) @ b.astype(float)) < EXACT


@pytest.mark.parametrize(("channels", "window"), [(512, 3), (2048, 1)])
def test_a_convolution_of_many_channels(channels: int, window: int) -> None:
    x, w = _numbers(1, channels, 4, 4), _numbers(16, channels, window, window, seed=1)
    convolve = paddle.jit.to_static(lambda x, w: paddle.nn.functional.conv2d(x, w, padding=window // 2))
    edge = window // 2
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))
    exact = np.einsum("nchwij,ocij->nohw", windows, w.astype(float), optimize=True)
    assert _error(convolve(paddle.to_tensor(x), paddle.to_tensor(w)).numpy(), exact) < EXACT
