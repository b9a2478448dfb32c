"""Programs that ask for gradients at a result that other results of a compiled call are computed from."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program

SIZE = 80  # so large that what is computed is worth a program
WAYS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {}


def _way(function: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any], Any]:
    WAYS[function.__name__] = function
    return function


@_way
def hooks(x: Any, h: Any, k: Any, y: Any) -> Any:
    seen: list[Any] = []
    h.register_hook(seen.append)
    k.register_hook(lambda g: g * 3)
    (h.mean() * y).backward()
    return seen


@_way
def a_hook_on_what_was_used_before(x: Any, h: Any, k: Any, y: Any) -> Any:
    total = (h * 3).mean() + (k * h).mean() * y
    h.register_hook(lambda g: g * 2)
    (total + (h * h).mean()).backward()
    return total


@_way
def a_hook_on_what_waits_to_be_used(x: Any, h: Any, k: Any, y: Any) -> Any:
    size = float(k.mean())
    squares = h * h
    h.register_hook(lambda g: g * 2)
    (squares.mean() + size * y).backward()


@_way
def hooks_on_all(x: Any, h: Any, k: Any, y: Any) -> Any:
    seen: list[Any] = []
    for made in (y, k, h):
        made.register_hook(lambda g: seen.append(g.sum()) or g * 2)  # type: ignore[func-returns-value]
    (y + k.mean()).backward()
    return seen


@_way
def a_hook_that_is_removed(x: Any, h: Any, k: Any, y: Any) -> Any:
    h.register_hook(lambda g: g * 100).remove()
    y.backward()


@_way
def retained(x: Any, h: Any, k: Any, y: Any) -> Any:
    h.retain_grads()
    k.retain_grads()
    y.backward(retain_graph=True)
    y.backward()
    return h.grad, k.grad


@_way
def gradients_at_both(x: Any, h: Any, k: Any, y: Any) -> Any:
    return paddle.grad(y, [h, k])


@_way
def gradients_of_the_second_order(x: Any, h: Any, k: Any, y: Any) -> Any:
    (g,) = paddle.grad(y, h, create_graph=True)
    (g * g).sum().backward()
    return g


@_way
def gradients_past_one(x: Any, h: Any, k: Any, y: Any) -> Any:
    return paddle.grad(y, x, no_grad_vars=[k], allow_unused=True)


@_way
def a_gradient_of_a_part_only(x: Any, h: Any, k: Any, y: Any) -> Any:
    return paddle.grad((h * h).sum(), h, retain_graph=True), paddle.grad(y, k)


@_way
def a_write_before_a_hook(x: Any, h: Any, k: Any, y: Any) -> Any:
    x.detach().scale_(2.0)
    h.register_hook(lambda g: g * 2)
    try:
        y.backward()
    except RuntimeError as error:
        return type(error).__name__
    return None


def _asked(p: Run, parts: bool) -> None:
    layer = nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any) -> Any:
        if parts:
            time.perf_counter()
        h = F.relu(layer(x) * x)
        k = F.tanh(h)
        return h, k, (k * h).mean()

    def around(x: Any, way: str) -> Any:
        return WAYS[way](x, *function(x)), x.grad, layer.weight.grad, layer.bias.grad

    p.watch(layer)
    for way in WAYS:
        for _ in range(3):
            p.call(around, p.g(SIZE, SIZE), way)
            for parameter in layer.parameters():
                parameter.clear_grad()


@program()
def gradients_at_results_of_a_whole_program(p: Run) -> None:
    _asked(p, False)


@program(whole=False)
def gradients_at_results_of_parts(p: Run) -> None:
    _asked(p, True)


@program(whole=False)
def gradients_at_intermediates_inside(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any, way: str) -> Any:
        h = F.relu(layer(x) * x)
        k = F.tanh(h)
        return WAYS[way](x, h, k, (k * h).mean()), x.grad, layer.weight.grad

    p.watch(layer)
    for way in WAYS:
        for _ in range(3):
            p.call(function, p.g(SIZE, SIZE), way)
            for parameter in layer.parameters():
                parameter.clear_grad()


@program(whole=False)
def steps_of_an_inner_loop(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any) -> Any:
        weight = layer.weight
        for _ in range(3):
            loss = F.linear(x, weight).square().mean()
            (g,) = paddle.grad(loss, weight, create_graph=True)
            weight = weight - 0.1 * g
        return F.linear(x, weight).mean()

    p.watch(layer)
    for _ in range(3):
        p.call(function, p.t(SIZE, SIZE))


@program()
def a_state_that_is_written_and_gradients_at_a_result(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)
    norm = nn.BatchNorm1D(SIZE)
    count = p.t(1)

    @p.static
    def function(x: Any) -> Any:
        h = norm(layer(x))
        count.add_(paddle.ones([1]))
        return h, F.dropout(h * count, 0.3).mean()

    def around(x: Any) -> Any:
        h, y = function(x)
        (g,) = paddle.grad(y + h.mean(), h, retain_graph=True)
        y.backward()
        return g

    p.watch(layer, norm, count)
    for _ in range(3):
        p.call(around, p.g(SIZE, SIZE))


@program()
def gradients_at_results_of_branches_sizes_and_draws(p: Run) -> None:
    @p.static
    def function(x: Any, kind: str) -> Any:
        h = paddle.tanh(x * 2)
        if kind == "sizes":
            flat = h.reshape([-1])
            y = (flat * flat).sum() / x.shape[0]
        elif kind == "branches":
            k = h * 3 if h.sum() > 0 else h * h
            n = paddle.zeros([])
            while n < 2.0:
                k = k * h
                n = n + 1
            y = k.sum()
        elif kind == "a count that is known later":
            m = paddle.masked_select(h, h > 0.1)
            y = (m * m).sum()
        elif kind == "draws":
            y = (F.dropout(h, 0.5) * h).mean()
        else:
            y = (h.detach() * x).sum()
        return h, h.argmax(), h, y

    def around(x: Any, kind: str) -> Any:
        seen: list[Any] = []
        h, _, same, y = function(x, kind)
        same.register_hook(lambda g: seen.append(g.mean()) or g * 2)  # type: ignore[func-returns-value]
        gradients = paddle.grad(y, h, retain_graph=True, allow_unused=True)
        (h.mean() * y).backward()
        return gradients, seen, x.grad

    for kind in ("sizes", "branches", "a count that is known later", "draws", "none"):
        for rows in (3, 4, 5, 3):
            p.call(around, p.g(rows, 3), kind)
