"""Eager convolutions, pooling, normalisations and activations, and their gradients, turn from the reference to compiled kernels, and nobody
sees it in the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import dispatch
from polyreme.compiled import heavy_gradients, heavy_kernels
from polyreme.nn import functional


@pytest.fixture(autouse=True)
def _from_the_first_call(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call is worth compiling, and nothing is compiled yet."""
    monkeypatch.setattr(heavy_kernels, "WORTH_COMPILING", 0)
    monkeypatch.setattr(heavy_kernels, "_kernels", {})
    monkeypatch.setattr(heavy_gradients, "_rules", {})
    dispatch.use_heavy_kernels(heavy_kernels.choose)
    yield
    dispatch.use_heavy_kernels(heavy_kernels.choose)


def random(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return paddle.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


ACTIVATIONS = [
    *(functional.relu, functional.gelu, functional.silu, functional.sigmoid, functional.leaky_relu, functional.softplus),
    *(paddle.tanh, paddle.exp, paddle.erf),
]  # fmt: skip
CASES = {
    "conv": lambda x, w: functional.conv2d(x, w, stride=2, padding=1),
    "conv with bias": lambda x, w: functional.conv2d(x, w, w.sum(axis=[1, 2, 3]), dilation=2),
    "max_pool": lambda x, w: functional.max_pool2d(x, 3, stride=2, padding=1) * w.sum(),
    "avg_pool": lambda x, w: functional.avg_pool2d(x, 2, stride=2, padding=1) * w.sum(),
    "batch_norm": lambda x, w: functional.batch_norm(
        x, w.mean([1, 2, 3])[:3], w.sum([1, 2, 3])[:3] ** 2 + 1.0, w[0, :, 0, 0], w[1, :, 0, 0]
    ),
    "batch_norm in training": lambda x, w: functional.batch_norm(
        x, paddle.zeros([3], x.dtype), paddle.ones([3], x.dtype), w[0, :, 0, 0], w[1, :, 0, 0], True
    ),
    "layer_norm": lambda x, w: functional.layer_norm(x.transpose([0, 2, 3, 1]), 3, w[0, :, 0, 0], w[1, :, 0, 0]),
    "instance_norm": lambda x, w: functional.instance_norm(x, weight=w[0, :, 0, 0]),
    "max_pool apart": lambda x, w: functional.max_pool2d(x, 2, stride=3) * w.sum(),
    "activations": lambda x, w: sum(f(x) for f in ACTIVATIONS) * w.sum(),
    "softmax": lambda x, w: functional.softmax(x, axis=1) * functional.log_softmax(x, axis=0) * w.sum(),
    "conv_transpose": lambda x, w: functional.conv2d_transpose(x, w[:3], stride=2),
    "avg_pool inclusive": lambda x, w: functional.avg_pool2d(x, 3, stride=1, padding=1, exclusive=False) * w.mean(),
}


def results(case: str, batch: int, dtype: str) -> list[Any]:
    """The value and both gradients."""
    x, w = random(batch, 3, 9, 8, dtype=dtype), random(4, 3, 3, 3, seed=1, dtype=dtype)
    x.stop_gradient = w.stop_gradient = False
    y = CASES[case](x, w)
    (y * random(*y.shape, seed=2, dtype=dtype)).sum().backward()
    return [y.numpy(), x.grad.numpy(), w.grad.numpy()]


# The gradient of a pooling whose windows overlap is computed by loops.
@pytest.mark.usefixtures("cliffs_are_allowed")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_compiled_kernels_agree_with_the_reference(case: str, dtype: str) -> None:
    for batch in (2, 5, 1):
        found = results(case, batch, dtype)
        dispatch.use_heavy_kernels(None)
        expected = results(case, batch, dtype)
        dispatch.use_heavy_kernels(heavy_kernels.choose)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-4 if dtype == "float32" else 1e-10)
    assert any(k.executable is not None for k in heavy_kernels._kernels.values())


def used_rules() -> list[Any]:
    return [rule for rule, _ in heavy_gradients._rules.values() if rule.executable is not None]


def test_a_rule_is_one_kernel_for_what_is_asked_for() -> None:
    x, w = random(2, 3, 9, 8), random(4, 3, 3, 3, seed=1)
    w.stop_gradient = False
    functional.max_pool2d(functional.conv2d(x, w), 2).sum().backward()
    assert {rule.name: list(rule.wanted) for rule in used_rules()} == {
        "nn_conv_gradient": [False, True, False],
        "nn_max_pool_gradient": [True],
    }
    assert x.grad is None and w.grad.shape == w.shape


def test_gradients_that_are_differentiated_again_are_taken_step_by_step() -> None:
    x = random(2, 3, 9, 8)
    x.stop_gradient = False
    (first,) = paddle.grad(functional.sigmoid(x).sum(), [x], create_graph=True)
    assert not used_rules()
    (second,) = paddle.grad(first.sum(), [x])
    s = 1 / (1 + np.exp(-x.numpy().astype(np.float64)))
    np.testing.assert_allclose(second.numpy(), s * (1 - s) * (1 - 2 * s), rtol=1e-4, atol=1e-6)


def test_one_kernel_serves_every_batch_size() -> None:
    for batch in (1, 2, 3):
        results("conv", batch, "float32")
    names = [k.name for k in heavy_kernels._kernels.values()]
    assert len(names) == len(set(names)), names


def test_small_work_stays_with_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_kernels, "WORTH_COMPILING", 10_000)
    dispatch.use_heavy_kernels(heavy_kernels.choose)
    x, w = random(1, 1, 6, 6), random(1, 1, 3, 3)
    for count in range(1, 60):
        functional.conv2d(x, w)
        (kernel,) = heavy_kernels._kernels.values()
        # 16 results of 9 multiplications each.
        assert (kernel.executable is not None) == (count * 144 >= 10_000)


def test_an_empty_batch_is_computed_too() -> None:
    assert functional.conv2d(random(0, 3, 9, 8), random(4, 3, 3, 3)).shape == [0, 4, 7, 6]


@pytest.mark.parametrize(("pool", "numpy"), [(functional.avg_pool2d, np.mean), (functional.max_pool2d, np.max)])
def test_windows_may_be_as_large_as_the_image(pool: Any, numpy: Any) -> None:
    x = random(3, 6, 4, 4)
    found = paddle.jit.to_static(lambda x: pool(x, 4, stride=1), full_graph=True)(x)
    np.testing.assert_allclose(found.numpy(), numpy(x.numpy(), axis=(2, 3), keepdims=True), rtol=1e-5, atol=1e-6)
