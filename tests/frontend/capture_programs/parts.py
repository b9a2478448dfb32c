"""Programs that run in parts: what ops saw of tensors when they were called, whatever becomes of these before the ops run."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program

SIZE = 80  # so large that what is computed is worth a program


@program(whole=False)
def an_average_of_weights(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)
    average = p.t(SIZE, SIZE)

    @p.static
    def function() -> None:
        with paddle.no_grad():
            average.scale_(0.5)
            average.add_(0.5 * layer.weight)
        time.perf_counter()

    p.watch(layer, average)
    for _ in range(4):
        layer.weight.set_value(p.t(SIZE, SIZE))
        p.call(function)


@program(whole=False)
def predictions_between_steps(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())

    @p.static
    def function(x: Any) -> Any:
        with paddle.no_grad():
            return layer(x).mean().item()

    for _ in range(4):
        p.call(function, p.t(SIZE, SIZE))
        layer(p.t(SIZE, SIZE)).mean().backward()
        optimizer.step()
        optimizer.clear_grad()


@program(whole=False)
def one_use_of_a_weight_without_gradients(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any) -> Any:
        time.perf_counter()
        with paddle.no_grad():
            target = layer(x)
        return layer(x) * target

    p.watch(layer)
    for _ in range(4):
        layer.weight.set_value(p.t(SIZE, SIZE) / SIZE)
        p.call(function, p.g(SIZE, SIZE))


@program(whole=False)
def a_weight_is_moved_and_used_at_two_batch_sizes(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any) -> Any:
        time.perf_counter()
        with paddle.no_grad():
            layer.weight.add_(paddle.full([SIZE, SIZE], 0.01))
        return layer(x)

    p.watch(layer)
    for rows in (64, 64, 64, 32, 64):
        p.call(function, p.t(rows, SIZE) / SIZE)


@program(whole=False)
def a_layer_is_frozen_for_one_call(p: Run) -> None:
    generator, judge = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    @p.static
    def function(z: Any) -> Any:
        for parameter in judge.parameters():
            parameter.stop_gradient = True
        loss = judge(generator(z)).mean()
        for parameter in judge.parameters():
            parameter.stop_gradient = False
        return loss

    p.watch(generator, judge)
    for _ in range(4):
        p.call(function, p.t(SIZE, SIZE))


@program(whole=False)
def tensors_are_frozen_and_let_go_between_ops(p: Run) -> None:
    layer, other = nn.Linear(SIZE, SIZE), p.t(SIZE, SIZE)

    @p.static
    def function(x: Any, kind: str) -> Any:
        time.perf_counter()
        if kind == "an argument thaws":
            x.stop_gradient = True
            y = layer(x)
            x.stop_gradient = False
        elif kind == "an argument freezes":
            y = layer(x * 1)
            x.stop_gradient = True
        elif kind == "a weight freezes between two uses":
            y = layer(x)
            layer.weight.stop_gradient = True
            y = y + layer(x)
            layer.weight.stop_gradient = False
        elif kind == "a result freezes":
            h = x * 2
            h.stop_gradient = True
            y = h * x
            h.stop_gradient = False
            y = y + h * 3
        elif kind == "a result freezes after its use":
            h = x * 2
            y = h * 3
            h.stop_gradient = True
        elif kind == "another tensor thaws":
            other.stop_gradient = False
            y = x * other
            other.stop_gradient = True
        elif kind == "another tensor thaws after its use":
            y = x * other
            other.stop_gradient = False
        else:
            y = x * 0.5
            y.stop_gradient = True
        return y

    p.watch(layer, other)
    for kind in (
        "an argument thaws", "an argument freezes", "a weight freezes between two uses", "a result freezes",
        "a result freezes after its use", "another tensor thaws",
        "another tensor thaws after its use", "what comes back freezes",
    ):  # fmt: skip
        other.stop_gradient = True
        for _ in range(3):
            p.call(function, p.g(SIZE, SIZE), kind)


@program(whole=False)
def the_result_of_another_call_freezes_after_its_use(p: Run) -> None:
    @p.static
    def function(y: Any) -> Any:
        x = y * 0.5
        y.stop_gradient = True
        return x

    x = p.g(SIZE, SIZE)
    p.watch(x)
    for _ in range(3):
        p.call(function, x * 2)


@program(whole=False)
def leaves_that_are_made_inside(p: Run) -> None:
    first, second = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any, kind: str) -> Any:
        h = first(x)
        if kind == "detach":
            z = h.detach()
        elif kind == "to_tensor":
            z = paddle.to_tensor(h)
        elif kind == "a view of what is detached":
            z = h.detach().reshape([-1, SIZE])
        elif kind == "Tensor":
            z = paddle.Tensor(h)
        else:
            with paddle.no_grad():
                z = first(x)
        z.stop_gradient = False
        second(z).sum().backward()
        if kind == "detach":
            h.backward(z.grad)
        return z.grad, first.weight.grad, second.weight.grad, z.is_leaf

    for kind in ("detach", "to_tensor", "a view of what is detached", "Tensor", "under no_grad"):
        for _ in range(3):
            p.call(function, p.t(SIZE, SIZE), kind)
            for parameter in (*first.parameters(), *second.parameters()):
                parameter.clear_grad()


@program(whole=False)
def a_detached_result_is_all_that_stays(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)
    kept: list[Any] = []

    @p.static
    def function(x: Any) -> Any:
        h = layer(x)
        kept.append(h.detach())
        kept.append(h[0].detach())
        time.perf_counter()
        return (h * h).mean()

    p.watch(layer, kept)
    for _ in range(3):
        p.call(function, p.g(SIZE, SIZE))


@program(whole=False)
def other_threads_compute_with_what_is_gathered(p: Run) -> None:
    layer = nn.Linear(SIZE, SIZE)

    @p.static
    def function(x: Any) -> Any:
        h = x * 2
        with ThreadPoolExecutor(4) as workers:
            parts = list(workers.map(lambda i: (layer(h[i]) * h[i]).sum() * i, range(8)))
        total = paddle.stack(parts).sum() + h.sum()
        logged: list[float] = []
        # The sum of now: `total` is another one by the time that the thread asks.
        logger = threading.Thread(target=lambda now: logged.append(float((now * 2).detach())), args=(total,))
        logger.start()
        for _ in range(20):
            total = total * 0.9 + h.mean()
        logger.join()
        return total + logged[0]

    p.watch(layer)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(6):
            p.call(function, p.g(8, SIZE))
    finally:
        sys.setswitchinterval(interval)


def _named(error: Exception) -> str:
    return "changed in place" if "modified by an inplace operation" in str(error) else f"{type(error).__name__}: {error}"


@program(whole=False)
def writes_that_gradients_of_ops_before_do_not_survive(p: Run) -> None:
    held = p.t(SIZE)

    @p.static
    def function(x: Any, kind: str) -> Any:
        h = x * 2
        time.perf_counter()
        if kind == "a square":
            y = h * h
            h.add_(paddle.ones([1]))
        elif kind == "a sum, which needs none of it":
            y = h + 1
            h.add_(paddle.ones([1]))
        elif kind == "a view":
            y = h * h
            h[0].scale_(float(y.sum()))
        elif kind == "what a view is of":
            v = h[0]
            y = v * v
            h.scale_(3.0)
        elif kind == "a part":
            y = h * h
            h[1] = 2.0
        elif kind == "what is detached":
            y = h * h
            h.detach().scale_(3.0)
        elif kind == "another operand":
            g = x.detach().clone()
            y = h * g
            g.scale_(3.0)
        elif kind == "a tensor outside":
            y = h * held
            held.scale_(0.9)
        elif kind == "a write with what was computed":
            y = h * h
            h.add_(y)
        elif kind == "writes that need what they write over":
            h.exp_()
            h.tanh_()
            y = h.multiply_(h * 2) + 1
        else:
            y = paddle.exp(h)
            h.scale_(3.0)
        return y.sum() + h.mean()

    def around(x: Any, kind: str) -> Any:
        try:
            function(x, kind).backward()
        except RuntimeError as error:
            return _named(error)
        return x.grad

    p.watch(held)
    for kind in (
        "a square", "a sum, which needs none of it", "a view", "what a view is of", "a part", "what is detached", "another operand",
        "a tensor outside",
        "a write with what was computed", "writes that need what they write over", "an exponential, which needs the result",
    ):  # fmt: skip
        for _ in range(3):
            p.call(around, p.g(SIZE, SIZE), kind)


@program
def a_part_is_multiplied_by_what_needs_gradients(p: Run) -> None:
    factor = p.g(SIZE)

    @p.static
    def function(x: Any, kind: str) -> Any:
        h = x if kind.startswith("a leaf") else x * 2
        if kind == "made between":
            time.perf_counter()
            h = h * 1.0
        time.perf_counter()
        if kind == "a part of it is scaled before":
            y = h[0] * 0.5
        else:
            y = factor * 0.5
        v = h[-1]
        v.multiply_(factor)
        v.multiply_(factor)
        if kind == "a look after it":
            time.perf_counter()
        h[1].multiply_(factor)
        return (v * 3).sum() + y.sum() + h.mean()

    def around(x: Any, kind: str) -> Any:
        try:
            function(x, kind).backward()
        except RuntimeError as error:
            return _named(error)
        return x.grad

    p.watch(factor)
    for kind in ("a result", "made between", "a leaf", "a look after it", "a part of it is scaled before"):
        for size in (SIZE, SIZE, SIZE, SIZE + 1):
            p.call(around, p.g(size, SIZE), kind)


@program(whole=False)
def zeros_with_either_sign(p: Run) -> None:
    zero = [0.0]

    @p.static
    def function(x: Any) -> Any:
        result = x / zero[0]
        float(x[0, 0])
        return result

    x = p.t(SIZE, SIZE)
    for zero[0] in (0.0, 0.0, -0.0, -0.0, 0.0, -0.0):
        p.call(function, x)


@program(whole=False)
def threads_call_a_new_function_at_once(p: Run) -> None:
    layer = nn.Linear(3, 3)
    counts = {"calls": 0}
    p.watch(layer, counts)

    @p.static
    def function(x: Any) -> Any:
        counts["calls"] += 1
        return layer(x)

    x = p.t(2, 3)
    together = threading.Barrier(2)

    def run() -> None:
        together.wait()
        function(x)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p.note(counts)
    for _ in range(3):
        p.call(function, x)


@program(whole=False)
def adversaries_in_a_step_in_parts(p: Run) -> None:
    maker, judge = nn.Linear(80, 80), nn.Linear(80, 80)
    for_maker = paddle.optimizer.SGD(0.1, parameters=maker.parameters())
    for_judge = paddle.optimizer.SGD(0.1, parameters=judge.parameters())

    @p.static
    def step(x: Any) -> Any:
        made = maker(x)
        lost = F.softplus(-judge(x)).mean() + F.softplus(judge(made.detach())).mean()
        lost.backward()
        for_judge.step()
        for_judge.clear_grad()
        won = F.softplus(-judge(made)).mean()
        won.backward()
        for_maker.step()
        for_maker.clear_grad()
        for_judge.clear_grad()
        return lost.item(), won.item()

    p.watch(maker, judge)
    for _ in range(4):
        p.call(step, p.t(80, 80))
