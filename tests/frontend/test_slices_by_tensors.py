"""Slices that tensors bound, in functions that are compiled whole: as in eager mode, gradients included."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from polyreme.jit.traced import TraceError

IMAGE = np.arange(15, dtype="float32").reshape(5, 3)
PLACES = (-9, -1, 0, 2, 5, 7)


def written(x: Any, i: Any) -> Any:
    y = x * 1
    y[:i] = 7.0
    return y


def scaled(x: Any, i: Any) -> Any:
    y = x * 1
    y[i:] *= 3.0
    return y


def summed(x: Any, n: Any) -> Any:
    total = x[0] * 0
    for i in range(n):
        total = total + x[i : i + 2].sum(0)
    return total


def chosen(x: Any, n: Any) -> Any:
    y = x[:n] if x.sum() > 0 else x[n:]
    return y * 2


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "to": (lambda x, n: x[:n] * 2, [(n,) for n in PLACES]),
    "from": (lambda x, n: x[n:] * 2, [(n,) for n in PLACES]),
    "a window": (lambda x, n: x[n : n + 2] * 2, [(n,) for n in PLACES]),
    "both ends": (lambda x, i, j: x[i:j, 1] * 2, list(itertools.product((-6, -2, 0, 1, 3, 6), (-7, -1, 0, 2, 5, 9)))),
    "the second axis": (lambda x, n: x[:, n:] * 2, [(n,) for n in (-1, 0, 2)]),
    "steps": (lambda x, n: x[n::2] * 2, [(n,) for n in PLACES]),
    "with a new axis": (lambda x, n: x[None, :n] * 2, [(n,) for n in (0, 2, 5)]),
    "slice": (lambda x, n: paddle.slice(x, [0], [n], [n + 1]) * 2, [(n,) for n in (0, 2, 4)]),
    "slice by a tensor of places": (lambda x, n: paddle.slice(x, [0, 1], n, n + 2) * 2, [(np.array(n),) for n in ([1, 0], [4, 1], [0, 0])]),
    "written": (written, [(n,) for n in (0, 2, 5, -1)]),
    "scaled": (scaled, [(n,) for n in (0, 2, 5, -1)]),
    "in a loop": (summed, [(n,) for n in (0, 2, 4)]),
    "in a branch": (chosen, [(n,) for n in (0, 2, 5)]),
}


@pytest.mark.parametrize("full_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_slices_that_tensors_bound_are_as_in_eager_mode(name: str, full_graph: bool) -> None:
    function, cases = FUNCTIONS[name]
    compiled = paddle.jit.to_static(function, full_graph=full_graph)
    for places in cases:
        results = []
        for run in (function, compiled):
            x = paddle.to_tensor(IMAGE, stop_gradient=False)
            made = run(x, *(paddle.to_tensor(np.asarray(n)) for n in places))
            (made * made).sum().backward()
            results.append((made.numpy(), x.grad.numpy()))
        for expected, found in zip(*results, strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=str(places))


@pytest.mark.parametrize("part_is_written", [False, True])
def test_a_write_beside_such_a_part_is_refused(part_is_written: bool) -> None:
    def function(x: Any, n: Any) -> Any:
        y = x * 1
        part = y[:n]
        (part if part_is_written else y).zero_()
        return y if part_is_written else part

    with pytest.raises(TraceError, match="a tensor is written to that is another one, or shares contents with it"):
        paddle.jit.to_static(function, full_graph=True)(paddle.ones([3]), paddle.to_tensor(2))
    assert paddle.jit.to_static(function)(paddle.ones([3]), paddle.to_tensor(2)).tolist() == ([0, 0, 1] if part_is_written else [0, 0])


@pytest.mark.parametrize("full_graph", [True, False])
def test_tensors_bound_slices_that_go_backwards(full_graph: bool) -> None:
    function = paddle.jit.to_static(lambda x, n: x[n::-1], full_graph=full_graph)
    assert function(paddle.arange(3), paddle.to_tensor(1)).tolist() == [1, 0]
    assert function(paddle.arange(3), paddle.to_tensor(-1)).tolist() == [2, 1, 0]


def test_a_condition_on_a_number_of_elements_that_values_select_names_the_way_out() -> None:
    def function(x: Any) -> Any:
        y = x[x > 0]
        if y.shape[0] > 1:
            return y.sum()
        return y.sum() * 0

    with pytest.raises(
        PolyremeError,
        match=r"how many there are is known when the program runs: ask for it as a tensor, such as `paddle.shape\(y\)\[0\] > 1`",
    ):
        paddle.jit.to_static(function, full_graph=True)(paddle.ones([3]))

    def asked(x: Any) -> Any:
        y = x[x > 0]
        if paddle.shape(y)[0] > 1:
            return y.sum()
        return y.sum() * 0

    compiled = paddle.jit.to_static(asked, full_graph=True)
    assert [compiled(paddle.to_tensor(v)).item() for v in ([1.0, 2.0], [1.0, -1.0], [-1.0, -1.0])] == [3, 0, 0]
