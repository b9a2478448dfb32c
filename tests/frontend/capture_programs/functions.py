"""Programs of functions: partials, callables in tables, arguments of every kind, comprehensions, closures, generators, recursion."""

from __future__ import annotations

import functools
from typing import Any

import polyreme as paddle
from tests.frontend.capture_programs.driver import Run, program, three
from tests.frontend.capture_programs.objects import Base, Concrete, Derived


def raised(x: Any, n: int) -> Any:
    return x if n == 1 else x * raised(x, n - 1)


def leaves(nest: Any) -> list[Any]:
    return [leaf for part in nest for leaf in leaves(part)] if isinstance(nest, (list, tuple)) else [nest]


class Raising:
    def raised(self, x: Any) -> Any:
        return raised(x, 2) + 1


@program()
def a_partial_outside_and_inside(p: Run) -> None:
    def scaled(x: Any, scale: float, *, bias: float = 0.0) -> Any:
        return x * scale + bias

    twice = functools.partial(scaled, scale=2.0)

    @p.static
    def function(x: Any) -> Any:
        return twice(x, bias=1.0) + functools.partial(scaled, x)(3.0)

    three(p, function)


@program(whole=False)
def a_partial_is_replaced(p: Run) -> None:
    held = {"act": functools.partial(paddle.clip, min=0.0)}

    @p.static
    def function(x: Any) -> Any:
        return held["act"](x)

    three(p, function)
    held["act"] = functools.partial(paddle.clip, min=0.5)
    three(p, function)
    held["act"].keywords["min"] = -0.5
    three(p, function)


@program()
def a_partial_itself_is_compiled(p: Run) -> None:
    def scaled(x: Any, scale: float) -> Any:
        return x * scale

    three(p, p.static(functools.partial(scaled, scale=2.0)))


@program()
def a_partial_method(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        step = held.step
        return step(x)

    p.watch(held)
    p.call(function, p.g(2, 3))
    held.count = 0
    p.call(function, p.g(2, 3))
    held.count = 0
    p.call(function, p.g(4, 3))


@program()
def callables_in_a_table(p: Run) -> None:
    table = {"relu": paddle.nn.functional.relu, "twice": lambda x: x * 2, "tanh": paddle.tanh}
    names = ["relu", "twice"]

    @p.static
    def function(x: Any) -> Any:
        for name in names:
            x = table[name](x)
        return x

    three(p, function)
    names[1] = "tanh"
    three(p, function)
    table["tanh"] = paddle.exp
    three(p, function)


@program()
def functions_given_as_arguments(p: Run) -> None:
    @p.static
    def function(x: Any, act: Any) -> Any:
        return act(x) + 1

    p.call(function, p.g(2, 3), paddle.tanh)
    p.call(function, p.g(2, 3), paddle.exp)
    p.call(function, p.g(4, 3), paddle.tanh)


@program()
def any_number_of_arguments(p: Run) -> None:
    @p.static
    def function(*args: Any, **kwargs: Any) -> Any:
        total = args[0]
        for value in args[1:]:
            total = total + value
        for name, value in kwargs.items():
            total = total * value if name.startswith("scale") else total - value
        return total

    p.call(function, p.g(2, 3), p.g(3))
    p.call(function, p.g(2, 3), p.g(3), 2.0, scale=3.0)
    p.call(function, p.g(4, 3), shift=p.g(3), scale_b=p.g(3))


@program()
def keyword_only_and_positional_only(p: Run) -> None:
    @p.static
    def function(x: Any, /, y: Any = 1.0, *, scale: Any, flag: bool = False) -> Any:
        return (x + y) * scale if flag else x * scale

    p.call(function, p.g(2, 3), scale=2.0)
    p.call(function, p.g(2, 3), p.g(3), scale=p.g(3), flag=True)
    p.call(function, p.g(4, 3), scale=2, flag=True)


@program()
def wrong_arguments_are_an_error_each_time(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        return x + y

    p.call(function, p.g(2, 3))
    p.call(function, p.g(2, 3), p.g(3))
    p.call(function, p.g(2, 3), y=p.g(3), z=1)
    p.call(function, p.g(4, 3), p.g(3))


@program()
def comprehensions_of_every_kind(p: Run) -> None:
    weights = [1.0, 2.0, 3.0]

    @p.static
    def function(x: Any) -> Any:
        parts = [x * w for w in weights if w != 2.0]
        named = {f"p{i}": part + 1 for i, part in enumerate(parts)}
        sizes = {size + 1 for size in x.shape}
        total = sum(p * w for p, w in zip(parts, weights, strict=False))
        return named, len(sizes), total, [[a + b for a in parts] for b in parts][0][1]

    three(p, function)
    weights[0] = 4.0
    three(p, function)


@program()
def nested_functions_and_lambdas(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        scale = 2.0

        def outer(y: Any) -> Any:
            def inner(z: Any) -> Any:
                return z * scale + y

            return inner

        return outer(x)(x + 1) + (lambda a, b=3.0: a * b)(x)

    three(p, function)


@program(whole=False)
def a_nested_function_sets_what_is_around(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        total = x

        def add(value: Any) -> None:
            nonlocal total
            total = total + value

        for i in range(3):
            add(i * 1.0)
        return total

    three(p, function)


@program(whole=False)
def a_closure_is_returned(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        return lambda z: z + y

    for rows in (2, 2, 4):
        p.note(p.call(function, p.t(rows, 3))(p.t(rows, 3)))


@program(whole=False)
def a_generator_is_returned(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return (x * i for i in range(3))

    for rows in (2, 2, 4):
        p.note(list(p.call(function, p.t(rows, 3))))


@program(whole=False)
def a_generator_function_itself(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        for i in range(3):
            yield x * i

    for rows in (2, 2, 4):
        p.note(list(p.call(function, p.t(rows, 3))))


@program()
def recursion_over_numbers_and_nests(p: Run) -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    def flat_sum(nest: Any) -> Any:
        return sum(map(flat_sum, nest)) if isinstance(nest, (list, tuple)) else nest.sum()

    @p.static
    def function(x: Any, depth: int) -> Any:
        return power(x, depth) + flat_sum([x, (x, [x * 2])])

    for rows, depth in ((2, 2), (2, 3), (4, 3)):
        p.call(function, p.g(rows, 3), depth)


@program()
def defaults_of_the_function_itself_are_given_anew(p: Run) -> None:
    def positional(x: Any, scale: float = 2.0) -> Any:
        return x * scale

    def by_keyword(x: Any, *, scale: float = 2.0) -> Any:
        return x * scale

    first, second = p.static(positional), p.static(by_keyword)
    for scale in (2.0, 3.0, 4.0):
        positional.__defaults__ = (scale,)
        by_keyword.__kwdefaults__ = {"scale": scale}
        p.call(first, p.g(2))
        p.call(second, p.g(2))


@program()
def recursion_of_functions_of_a_module(p: Run) -> None:
    held = Raising()

    def function(x: Any, depth: int) -> Any:
        return raised(x, depth) + sum(leaves([x, (x, [x * 2])])) + held.raised(x)

    for compiled in (p.static(function), p.static(raised)):
        for rows, depth in ((2, 2), (2, 3), (4, 3)):
            p.call(compiled, p.g(rows, 3), depth)


@program()
def a_method_of_a_plain_object_is_compiled(p: Run) -> None:
    held = Derived()
    step = p.static(held.step)
    p.watch(held)
    for rows in (2, 2, 4):
        held.count = 0
        p.call(step, p.g(rows, 3))


@program()
def a_callable_object_is_compiled(p: Run) -> None:
    held = Concrete()
    three(p, p.static(held))


@program(whole=False)
def a_keyword_has_the_name_of_a_positional_parameter(p: Run) -> None:
    calls: list[int] = []

    @p.static
    def function(x: Any, b: float = 1.0, /, **more: float) -> Any:
        calls.append(1)
        return x * b + sum(more.values())

    p.watch(calls)
    for rows in (2, 2, 3):
        p.call(function, p.g(rows, 3), b=3.0)
    p.call(function, p.g(2, 3), 2.0, c=1.0)
    p.call(function, b=1.0)


@program()
def a_class_method_of_a_layer(p: Run) -> None:
    class Scaled(paddle.nn.Layer):
        scale = 2.0

        @classmethod
        def scaled(cls, x: Any) -> Any:
            return x * cls.scale

    function = p.static(Scaled.scaled)
    three(p, function)
    Scaled.scale = 3.0
    three(p, function)
