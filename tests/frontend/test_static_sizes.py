"""Sizes that programs compute by operators, such as `paddle.shape(x)[0]`, where functions want numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
import polyreme.fluid as fluid
from polyreme import static
from polyreme.ir.diagnostics import PolyremeError
from tests.frontend.static_mode import static_mode

X = np.arange(24, dtype="float32").reshape(2, 4, 3)
L = fluid.layers


@pytest.fixture(autouse=True)
def programs() -> Iterator[Any]:
    with static_mode() as both:
        yield both


def run(*fetched: Any, **feed: Any) -> list[Any]:
    return static.Executor().run(feed=feed, fetch_list=list(fetched))


def test_sizes_of_a_shape_are_sizes_of_other_tensors() -> None:
    x = static.data("x", [None, None, 3])
    rows, sizes = paddle.shape(x)[0], paddle.shape(x)
    flat = paddle.reshape(x, [sizes[0] * sizes[1], 3])
    made = [
        paddle.reshape(flat, [rows, -1]), paddle.reshape(flat, sizes), paddle.zeros([rows, 7]), paddle.tile(paddle.ones([1, 3]), [rows, 1]),
        paddle.arange(0, rows), x[:, :, :rows], paddle.slice(x, [0], [0], [rows - 1]), paddle.full([rows * 2], 1.0),
    ]  # fmt: skip
    for batch in (2, 3):
        shapes = [list(a.shape) for a in run(*made, x=np.zeros((batch, 4, 3), "float32"))]
        width = min(batch, 3)
        assert shapes == [[batch, 12], [batch, 4, 3], [batch, 7], [batch, 3], [batch], [batch, 4, width], [batch - 1, 4, 3], [2 * batch]]


def test_an_input_of_which_only_a_size_is_used_need_not_be_read() -> None:
    x = static.data("x", [None, 4, 3])
    (made,) = run(paddle.zeros([paddle.shape(x)[0], 5]), x=X)
    assert made.shape == (2, 5)


def test_a_size_that_is_written_over_counts_as_it_was_where_it_is_used() -> None:
    n = paddle.full([1], 2, "int64")
    before = paddle.ones([n])
    paddle.assign(paddle.full([1], 3, "int64"), n)
    between = paddle.ones([n])
    paddle.increment(n, 1)
    assert [len(a) for a in run(before, between, paddle.ones([n]))] == [2, 3, 4]


def test_bodies_compute_sizes_of_sizes_from_outside() -> None:
    x, flag = static.data("x", [None, 12]), static.data("flag", [1], "bool")
    x.stop_gradient = False
    rows, count = paddle.shape(x)[0], paddle.zeros([1], "int64")

    def inner() -> Any:
        return static.nn.cond(paddle.sum(x) > 0, lambda: x.reshape([rows * 6, 2]), lambda: x.reshape([rows * 2 + rows, -1]))

    def body(count: Any, y: Any) -> Any:
        return [count + 1, paddle.reshape(paddle.reshape(y, [rows * 3, 4]) * 2, [rows, 12])]

    made = [
        static.nn.cond(flag, lambda: x.reshape([rows * 6, 2]), lambda: paddle.reshape(x * 2, [rows * 3, 4])),
        static.nn.cond(flag, inner, lambda: x.reshape([rows, 12])),
        static.nn.cond(flag, lambda: paddle.ones([rows + 1]), lambda: paddle.zeros([rows * 2])),
        static.nn.while_loop(lambda count, y: count < 3, body, [count, x])[1],
    ]
    (grad,) = static.gradients([paddle.sum(made[0]) + paddle.sum(made[3])], [x])
    for batch, taken, shape, factor in ((2, True, (12, 2), 1), (3, False, (9, 4), 2)):
        fed = np.arange(1.0, batch * 12 + 1, dtype="float32").reshape(batch, 12)
        first, nested, ones, last, slope = run(*made, grad, x=fed, flag=np.array([taken]))
        np.testing.assert_array_equal(first, (fed * factor).reshape(shape))
        np.testing.assert_array_equal(nested, fed.reshape(12, 2) if taken else fed)
        np.testing.assert_array_equal(ones, np.ones(batch + 1) if taken else np.zeros(batch * 2))
        np.testing.assert_array_equal(last, fed * 8)
        np.testing.assert_array_equal(slope, np.full((batch, 12), factor + 8.0))


def test_bodies_use_sizes_from_outside_unless_they_write_them() -> None:
    x = static.data("x", [None, 4, 3])
    rows = paddle.shape(x)[0]
    chosen = static.nn.cond(paddle.sum(x) > 0, lambda: paddle.ones([rows, 2]), lambda: paddle.zeros([rows, 2]))
    assert run(chosen, x=X)[0].tolist() == [[1, 1], [1, 1]]
    size = paddle.full([1], 2, "int64")

    def body(i: Any, total: Any) -> Any:
        total = total + paddle.sum(paddle.ones([size]))
        paddle.assign(size + 1, size)
        return [i + 1, total]

    with pytest.raises(PolyremeError, match="to keep its value in the body of a branch or loop that uses it as a size"):
        static.nn.while_loop(lambda i, total: i < 3, body, [paddle.zeros([1], "int64"), paddle.zeros([])])


def test_a_size_that_a_loop_changes_is_one_in_operators_alone() -> None:
    def body(i: Any, total: Any) -> Any:
        return [i + 1, total + paddle.sum(paddle.ones([i]))]

    with pytest.raises(PolyremeError, match="expected a tensor with values"):
        static.nn.while_loop(lambda i, total: i < 4, body, [paddle.full([1], 1, "int64"), paddle.zeros([])])
    n, limit, total = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3), L.fill_constant([1], "float32", 0.0)
    going = L.less_than(n, limit)
    with L.While(going).block():
        L.assign(total + L.reduce_sum(L.fill_constant([n + 1], "float32", 1.0)), total)
        L.increment(n)
        L.less_than(n, limit, cond=going)
    assert static.Executor().run(feed={}, fetch_list=[total])[0].tolist() == [1 + 2 + 3]


def test_a_size_that_follows_from_values_is_refused() -> None:
    x = static.data("x", [None, 4, 3])
    with pytest.raises(PolyremeError, match="which it has only while the program runs"):
        paddle.ones([paddle.cast(paddle.sum(x), "int64"), 2])


def test_fluid_takes_variables_in_place_of_attributes() -> None:
    x = L.data("x", [4, 3])
    sizes = L.shape(x)
    rows, one = L.slice(sizes, [0], [0], [1]), L.fill_constant([1], "int32", 1)
    made = [
        L.reshape(x, [rows, -1]), L.reshape(x, sizes), L.expand(x, [1, rows, 1]), L.expand(L.ones([1, 1, 1], "float32"), sizes),
        L.slice(x, [0, 1], [0, one], [rows, 3]), L.slice(x, [1], rows, L.fill_constant([1], "int32", 3)), L.unsqueeze(x, one),
        L.split(x, 2, dim=one)[1], L.fill_constant([rows, 2], "float32", 2.0),
    ]  # fmt: skip
    # The shapes and sums of Paddle 1.8.5.
    expected = [((2, 12), 276), ((2, 4, 3), 276), ((2, 8, 3), 552), ((2, 4, 3), 24), ((2, 2, 3), 138), ((2, 1, 3), 78), ((2, 1, 4, 3), 276)]
    expected += [((2, 2, 3), 174), ((2, 2), 8)]
    assert [(a.shape, a.sum()) for a in run(*made, x=X)] == expected


def test_what_a_branch_gives_may_be_wanted_for_its_sizes_alone() -> None:
    x, flag = static.data("x", [None, 12]), static.data("flag", [1], "bool")
    x.stop_gradient = False

    def inner() -> Any:
        return static.nn.cond(paddle.sum(x) > 0, lambda: x.reshape([-1, 2]), lambda: x.reshape([-1, 6]))

    chosen = static.nn.cond(flag, lambda: paddle.concat([inner()] * 2), lambda: paddle.reshape(x * 2, [-1, 4]))
    (grad,) = static.gradients([paddle.sum(chosen)], [x])
    for batch, taken, shape, factor in ((2, True, [24, 2], 2), (3, False, [9, 4], 2)):
        fed = {"x": np.ones((batch, 12), "float32"), "flag": np.array([taken])}
        assert run(paddle.shape(chosen), **fed)[0].tolist() == shape
        assert len(run(paddle.ones([chosen.shape[0]]), **fed)[0]) == shape[0]
        np.testing.assert_array_equal(run(grad, **fed)[0], np.full((batch, 12), factor))
