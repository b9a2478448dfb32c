"""Programs of Python's statements and library: texts, kinds asked for, errors, `match`, `functools`, `itertools`, `operator`."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from tests.frontend.capture_programs.driver import Run, program, three
from tests.frontend.capture_programs.kinds import Box, Pair
from tests.frontend.capture_programs.objects import Base


@program()
def texts_are_formatted(p: Run) -> None:
    @p.static
    def function(x: Any, name: str) -> Any:
        label = f"{name}:{x.ndim:>3}|{tuple(x.shape)!r}" + "%s-%d" % (name, 3) + "{}-{k}".format(1, k=name)  # noqa: UP031, UP032
        return {label.upper(): x * len(label), "joined": ",".join([name, "x"]), "parts": name.split("a")}

    for rows, name in ((2, "bar"), (2, "baz"), (4, "baz")):
        p.call(function, p.g(rows, 3), name)


@program()
def kinds_are_asked_for(p: Run) -> None:
    @p.static
    def function(value: Any) -> Any:
        if isinstance(value, paddle.Tensor):
            return value * 2
        if isinstance(value, (list, tuple)):
            return value[0] * 3
        if isinstance(value, dict) and "x" in value:
            return value["x"] * 4
        return type(value) is Box and value.value * 5

    for value in (p.g(2, 3), [p.g(2, 3)], (p.g(4, 3),), {"x": p.g(2, 3)}, Box(p.g(2, 3)), None):
        p.call(function, value)


@program(whole=False)
def types_that_change_at_one_place(p: Run) -> None:
    held: dict[str, Any] = {"scale": 2}

    @p.static
    def function(x: Any) -> Any:
        scale = held["scale"]
        if scale is None:
            return x
        return x * scale if not isinstance(scale, bool) else x + scale

    for scale in (2, 2.0, True, None, np.float32(2), p.g(3), "no"):
        held["scale"] = scale
        p.call(function, p.t(2, 3))
    held["scale"] = 2
    p.call(function, p.g(4, 3))


@program(whole=False)
def errors_are_raised_and_caught(p: Run) -> None:
    @p.static
    def function(x: Any, kind: int) -> Any:
        try:
            if kind == 1:
                raise ValueError("one")
            if kind == 2:
                return {}["missing"]
            y = x * 2
        except ValueError as error:
            y = x * 3 if str(error) == "one" else x
        except (KeyError, IndexError):
            y = x * 4
        else:
            y = y + 1
        finally:
            x = x + 100
        return y + x

    for rows, kind in ((2, 0), (2, 1), (2, 2), (4, 1)):
        p.call(function, p.g(rows, 3), kind)


@program(whole=False)
def an_error_leaves_what_was_written_before(p: Run) -> None:
    log: list[Any] = []
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        log.append(x.shape[0])
        held.count += 1
        if x.shape[0] == 4:
            raise RuntimeError("four rows")
        return x * held.count

    p.watch(log, held)
    for rows in (2, 4, 2, 4):
        p.call(function, p.g(rows, 3))


@program(whole=False)
def an_error_of_shapes_after_a_write(p: Run) -> None:
    weight = p.t(3)
    log: list[Any] = []

    @p.static
    def function(x: Any, y: Any) -> Any:
        weight.add_(paddle.ones([3]))
        log.append(1)
        return paddle.matmul(x, y) + weight.sum()

    p.watch(weight, log)
    p.call(function, p.t(2, 3), p.t(3, 2))
    p.call(function, p.t(2, 3), p.t(2, 2))
    p.call(function, p.t(4, 3), p.t(3, 2))


@program(whole=False)
def asserts_of_numbers_pass_and_fail(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        assert x.shape[0] == 2, f"expected two rows but got {x.shape[0]}"
        return x * 2

    three(p, function)
    three(p, function)


@program()
def the_walrus_and_chained_comparisons(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if (n := x.shape[0]) > 1 and 0 < n < 3 <= x.shape[1]:
            return x * n
        return x - n

    three(p, function)


@program()
def match_over_structures(p: Run) -> None:
    @p.static
    def function(x: Any, how: Any) -> Any:
        first, *rest = how
        while rest:
            first, *rest = rest
            x = x * first
        return x

    for rows, how in ((2, (1, 2, 3)), (2, (1, 2)), (4, (1, 2, 3))):
        p.call(function, p.g(rows, 3), how)


@program(whole=False)
def a_match_statement(p: Run) -> None:
    @p.static
    def function(x: Any, how: Any) -> Any:
        match how:
            case {"scale": scale}:
                return x * scale
            case [a, b]:
                return x * a + b
            case Pair(left=left):
                return x * left
            case str():
                return x + 1
            case _:
                return x

    for how in ({"scale": 2.0}, [1.0, 2.0], "text", Pair(3.0), None):
        p.call(function, p.g(2, 3), how)
    p.call(function, p.g(4, 3), "text")


@program()
def functools_and_itertools(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        parts = functools.reduce(lambda a, b: a + b, [x, x * 2, x * 3])
        for a, b in itertools.product([1.0, 2.0], repeat=2):
            parts = parts * a + b
        for i, (c, d) in enumerate(itertools.chain([(1, 2)], [(3, 4)])):
            parts = parts + i * c - d
        return operator.mul(parts, 2.0), list(map(lambda v: v + x, [1.0, 2.0]))  # noqa: C417

    three(p, function)


@program(whole=False)
def getters_of_the_operator_module(p: Run) -> None:
    getter = operator.itemgetter("a")
    method = operator.methodcaller("sum", axis=0)

    @p.static
    def function(x: Any) -> Any:
        return getter({"a": x * 2}) + method(x) + operator.attrgetter("T")(x).sum()

    three(p, function)


@program()
def asserts_of_tensors_pass_and_fail(p: Run) -> None:
    log: list[str] = []

    @p.static
    def function(x: Any) -> Any:
        log.append("before")
        y = x * 2
        assert not paddle.isnan(y).any(), "a number is missing"
        log.append("between")
        assert y.sum() > 0 and y.max() < 100
        log.append("after")
        return y

    p.watch(log)
    for values in ([1.0, 2.0], [3.0, 4.0], [float("nan"), 1.0], [-5.0, 1.0], [1000.0, 1.0], [2.0, 3.0, 4.0], [2.0, -3.0, -4.0]):
        x = paddle.to_tensor(values, stop_gradient=False)
        p.call(function, x)


@program()
def tensors_texts_and_sizes_are_printed_in_their_turn(p: Run) -> None:
    log: list[int] = []

    @p.static
    def function(x: Any, name: str) -> Any:
        print("start of", name, x.ndim, end=": ")
        y = x * 2
        print(y)
        y.add_(paddle.ones([3]))
        print("then", y.detach(), [1, 2], None, 0.5, sep=" | ")
        log.append(len(log))
        return y.sum()

    p.watch(log)
    for rows in (2, 2, 4):
        p.call(function, p.t(rows, 3), "net")


@program(whole=False)
def asserts_beside_writes_and_in_branches(p: Run) -> None:
    sums = p.t(3)

    @p.static
    def function(x: Any, limit: float) -> Any:
        sums.add_(x.detach().sum(0))
        assert x.sum() < limit, f"expected less than {limit}"
        if x.mean() > 0:
            assert x.max() < limit
            return x * sums
        return x * 2

    p.watch(sums)
    for limit in (100.0, 100.0, -100.0):
        for rows in (2, 2, 4):
            p.call(function, p.t(rows, 3), limit)


@program()
def a_region_that_is_none(p: Run) -> None:
    held = {"off": True}

    @p.static
    def function(x: Any) -> Any:
        with contextlib.nullcontext(3) if held["off"] else paddle.no_grad() as factor:
            return x * (factor or 1)

    for off in (True, False, True):
        held["off"] = off
        p.call(function, p.g(2, 3))


class _Counting(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("total", paddle.zeros([3]))
        self.kept: list[Any] = []

    def forward(self, x: Any, rows: Any) -> Any:
        self.total.add_(x[0])
        self.kept.append(x * 1)
        y = paddle.gather(self.linear(x) + paddle.rand([3, 3]), rows * 2)
        self.total.scale_(2.0)
        print("read")
        assert (y < 90).all(), "too large"
        self.total.add_(y.sum(0))
        return y


@program()
def an_error_by_a_tensor_comes_in_its_turn(p: Run) -> None:
    net = _Counting()
    p.watch(net)
    static = p.static(net)
    for scale, rows in ((1.0, [0, 1]), (1.0, [0, 7]), (1e4, [1, 1]), (1e4, [1, 2]), (1.0, [1, 0])):
        p.call(static, paddle.full([3, 3], scale), paddle.to_tensor(rows))
        p.note(paddle.rand([1]))
