"""Programs that look before they divide: what a branch or loop did not use has no gradient, however steep it is."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from tests.frontend.capture_programs.driver import Run, program


def filled(value: float) -> Any:
    made = paddle.full([2], value)
    made.stop_gradient = False
    return made


@program(whole=False)
def a_length_is_looked_at_before_it_divides(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        length = paddle.sqrt((x * x).sum())
        return x / length if length > 1e-6 else x * 3

    for value in (1.0, 0.0, -2.0):
        p.call(function, filled(value))


@program(whole=False)
def a_choice_among_steep_functions(p: Run) -> None:
    @p.static
    def function(x: Any, k: Any) -> Any:
        root, log, inverse = paddle.sqrt(x), paddle.log(x), 1 / x
        if k < 0:
            y = root * x
        elif k < 1:
            y = log + x
        elif k < 2:
            y = inverse * x * x
        else:
            y = x * 5
        return y * 2

    for k in (-1.0, 0.5, 1.5, 3.0):
        for value in (0.0, 1.0):
            p.call(function, filled(value), paddle.to_tensor(k))


@program(whole=False)
def cond_chooses_beside_a_logarithm(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        log = paddle.log(x)
        return paddle.static.nn.cond((x > 0).all(), lambda: log * 2 + x, lambda: x * 3)

    for value in (1.0, 0.0, -2.0):
        p.call(function, filled(value))


@program(whole=False)
def an_early_return_before_a_root(p: Run) -> None:
    @p.static
    def function(x: Any, w: Any) -> Any:
        total = (x * w).sum()
        root = total**0.5
        if total <= 0:
            return x * w
        return x * root

    for value in (1.0, 0.0, -1.0):
        p.call(function, filled(value), filled(1.0))


@program(whole=False)
def what_is_infinite_and_not_used(p: Run) -> None:
    @p.static
    def function(x: Any, w: Any) -> Any:
        scaled = x * w
        return scaled + x if x.sum() > 0 else x * 2

    for value in (-1.0, -2.0, 1.0):
        p.call(function, filled(value), paddle.to_tensor([float("inf"), float("nan")]))


@program(whole=False)
def loops_beside_and_with_a_root(p: Run) -> None:
    @p.static
    def beside(x: Any, n: Any) -> Any:
        root = paddle.sqrt(x)
        h = x * 1
        i = 0
        while i < n:
            h = h * root
            i += 1
        return h

    @p.static
    def inside(x: Any, n: Any) -> Any:
        h = x * 1
        i = 0
        while i < n:
            length, inverse = paddle.sqrt((h * h).sum()), 1.0 / h
            h = h / length + inverse * 0.1 if length > 1e-6 else h * 2
            i += 1
        return h

    for n in (0, 2):
        for value in (0.0, 1.0):
            p.call(beside, filled(value), paddle.to_tensor(n))
            p.call(inside, filled(value), paddle.to_tensor(n))


@program(whole=False)
def a_loop_hands_on_what_its_last_round_does_not_need(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        a, y = x * 1, x * 2
        i = 0
        while i < n:
            y = a * 2 + y * 0.5
            a = paddle.sqrt(a - 1)
            i += 1
        return y

    for n in (1, 2):
        for value in (1.0, 2.0):
            p.call(function, filled(value), paddle.to_tensor(n))


@program(whole=False)
def second_gradients_of_what_is_not_used(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        length = paddle.sqrt((x * x).sum())
        return x / length if length > 1e-6 else x**3

    def twice(x: Any) -> Any:
        y = function(x)
        (first,) = paddle.grad(y.sum(), x, create_graph=True)
        (second,) = paddle.grad((first * first).sum(), x)
        return y, first, second

    for value in (1.0, 0.0, 2.0):
        p.call(twice, filled(value))


@program(whole=False)
def gradients_taken_inside_of_what_is_not_used(p: Run) -> None:
    @p.static
    def function(x: Any, n: Any) -> Any:
        length, root = paddle.sqrt((x * x).sum()), paddle.sqrt(x)
        y = x / length if length > 1e-6 else x * 3
        i = 0
        while i < n:
            y = y * root
            i += 1
        (first,) = paddle.grad(y.sum() * 2, x)
        return first

    for n in (0, 1):
        for value in (1.0, 0.0):
            p.call(function, filled(value), paddle.to_tensor(n))
