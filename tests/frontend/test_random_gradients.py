"""Random functions, eager and compiled: equal values, equal needs of gradients, equal gradients of the first and second order, and none
where there is none.

More of them: `POLYREME_RANDOM_GRADIENTS=1000 pytest tests/frontend/test_random_gradients.py`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import nn
from polyreme.distributed.fleet.utils import recompute

COUNT = int(os.environ.get("POLYREME_RANDOM_GRADIENTS", "12"))


class Rounded(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return paddle.round(x) + y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensor()
        return grad * x, grad * paddle.cos(y)


def without_recording(x: Any, y: Any) -> Any:
    with paddle.no_grad():
        return x * y


def turned(x: Any, y: Any) -> Any:
    left, right = paddle.split(x, [1, 1], axis=1)
    return paddle.concat([right * 2, left], 1) * y


def of_a_half(x: Any, y: Any) -> Any:
    left, _ = paddle.split(x, [1, 1], axis=1)
    return paddle.concat([left, left], 1) * y


def hooked(x: Any, y: Any) -> Any:
    result = x * y
    if not result.stop_gradient:
        result.register_hook(lambda g: g * 2)
    return result


def changed(x: Any, y: Any) -> Any:
    result = x * 1
    result.add_(y)
    return result.multiply_(x)


def with_a_row(x: Any, y: Any) -> Any:
    result = x * 1
    result[0] = y[1] * 2
    return result


def leaf_inside(x: Any, y: Any) -> Any:
    inner = x.detach()
    inner.stop_gradient = y.stop_gradient
    return y + inner * inner


def slope(x: Any, y: Any) -> Any:
    if x.stop_gradient:
        return y * 1
    (grad,) = paddle.grad((x * x * x).sum(), x, create_graph=True)
    return grad * y


def complex_parts(x: Any, y: Any) -> Any:
    w = paddle.complex(x, y) * paddle.complex(y, x)
    return paddle.real(w) + paddle.imag(w * w)


STEPS: list[Callable[..., Any]] = [
    without_recording, turned, of_a_half, hooked, changed, with_a_row, leaf_inside, slope, complex_parts,
    lambda x, y: x + y,
    lambda x, y: x - y * 2,
    lambda x, y: x * y,
    lambda x, y: paddle.sin(x),
    lambda x, y: x.detach() * y,
    lambda x, y: paddle.where(x > 0, x, y),
    lambda x, y: x @ y,
    lambda x, y: x.sum(0) + y,
    lambda x, y: Rounded.apply(x, y),
    lambda x, y: nn.functional.softmax(x),
    lambda x, y: paddle.maximum(x, y),
    lambda x, y: paddle.gather(x, paddle.to_tensor([1, 1])) * y,
    lambda x, y: x.astype("float64").astype("float32") * y,
]  # fmt: skip


def random_function(choose: random.Random, outer: Any, total: Any) -> Callable[..., Any]:
    """A function of three 2x2 tensors; some read `outer`, and some write to `total`."""
    steps = [
        *STEPS,
        lambda x, y: x * outer,
        lambda x, y: recompute(lambda s, t: paddle.tanh(s * t) + outer * s, x, y),
        lambda x, y: (total.add_(x) + 0) * y,
    ]
    plan = [(choose.choice(steps), choose.randrange(3 + k), choose.randrange(3 + k)) for k in range(choose.randint(3, 8))]
    outputs = [choose.randrange(3, 3 + len(plan)) for _ in range(choose.randint(1, 3))]

    def function(*given: Any) -> Any:
        values = list(given)
        for step, first, second in plan:
            # Small and smooth, so that rounding stays what it is.
            values.append(paddle.tanh(step(values[first], values[second]) * 0.3) * 1.7)
        return [values[i] for i in outputs]

    return function


def told(seed: int, compiled: bool) -> list[Any]:
    """Everything that two calls show, as arrays, flags, and None where there is no gradient."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)

    def tensor(stop_gradient: bool) -> Any:
        made = paddle.to_tensor(numbers.standard_normal((2, 2)).astype("float32"))
        made.stop_gradient = stop_gradient
        return made

    outer, total = tensor(seed % 2 == 0), tensor(True)
    function = random_function(choose, outer, total)
    call = paddle.jit.to_static(function) if compiled else function
    stops = [choose.random() < 0.3 for _ in range(3)]
    counts = [choose.random() < 0.6 for _ in range(3)]
    found: list[Any] = []

    def note(tensors: Any) -> None:
        for t in tensors:
            found.extend([None, None] if t is None else [t.numpy(), t.stop_gradient])

    for _ in range(2):
        given = [tensor(stop) for stop in stops]
        results = call(*given)
        note([*results, total])
        chosen = [r for r, counted in zip(results, counts, strict=False) if counted and not r.stop_gradient]
        leaves = [t for t in (*given, outer) if not t.stop_gradient]
        if not chosen or not leaves:
            continue
        loss = sum(((r * r * (i + 1)).sum() for i, r in enumerate(chosen)), paddle.zeros([]))
        first = paddle.grad(loss, leaves, create_graph=True, allow_unused=True)
        note(first)
        again = [g for g in first if g is not None and not g.stop_gradient]
        if again:
            note(paddle.grad(sum(((g * g).sum() for g in again), paddle.zeros([])), leaves, allow_unused=True, retain_graph=True))
        loss.backward(retain_graph=True)
        note(t.grad for t in leaves)
    return found


@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_function_compiled_is_the_eager_one(seed: int) -> None:
    for plain, compiled in zip(told(seed, False), told(seed, True), strict=True):
        if isinstance(plain, np.ndarray):
            np.testing.assert_allclose(compiled, plain, rtol=2e-3, atol=2e-3)
        else:
            assert compiled is plain
