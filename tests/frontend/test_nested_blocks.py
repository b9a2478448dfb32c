"""Operators with a block of their own, built by hand with `create_block`, `rollback` and `append_op`: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import static
from polyreme.ir.diagnostics import PolyremeError
from tests.frontend.static_mode import static_mode


@pytest.fixture
def programs() -> Any:
    with static_mode() as both:
        yield both


def constant(block: Any, name: str, value: float, dtype: str = "int64", shape: tuple[int, ...] = (1,)) -> Any:
    made = block.create_var(name=name, shape=shape, dtype=dtype, stop_gradient=True)
    block.append_op(type="fill_constant", outputs={"Out": [made]}, attrs={"shape": list(shape), "value": value, "dtype": dtype})
    return made


def counted_loop(main: Any, rounds: int, fill: Any, **slots: Any) -> Any:
    """A `while` whose block `fill` writes the middle of, run `rounds` times."""
    block = main.current_block()
    constant(block, "i", 0.0)
    constant(block, "n", float(rounds))
    block.create_var(name="again", shape=[1], dtype="bool", stop_gradient=True)
    block.append_op(type="less_than", inputs={"X": ["i"], "Y": ["n"]}, outputs={"Out": ["again"]})
    inner = main.create_block()
    fill(inner)
    inner.append_op(type="increment", inputs={"X": ["i"]}, outputs={"Out": ["i"]}, attrs={"step": 1.0})
    inner.append_op(type="less_than", inputs={"X": ["i"], "Y": ["n"]}, outputs={"Out": ["again"]})
    main.rollback()
    scopes = block.create_var(name="scopes")
    outputs = {"Out": slots.get("writes", []), "StepScopes": [scopes]}
    inputs = {"X": slots.get("reads", []), "Condition": ["again"]}
    return block.append_op(type="while", inputs=inputs, outputs=outputs, attrs={"sub_block": inner, "is_test": False})


def parameter(name: str, values: Any) -> Any:
    start = paddle.nn.initializer.Assign(np.asarray(values, np.float32))
    return static.create_parameter(list(np.shape(values)), "float32", name=name, default_initializer=start)


@pytest.mark.parametrize("slots", [{}, {"reads": ["x", "w", "i", "n", "y"], "writes": ["y", "i", "again"]}], ids=["no names", "all names"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_a_loop_writes_variables_around_it(programs: Any, rounds: int, slots: Any) -> None:
    main, startup = programs
    x = static.data("x", [2, 3], "float32")
    x.stop_gradient = False
    w = parameter("w", [0.5, -0.25, 2.0])
    block = main.global_block()
    y = block.create_var(name="y", shape=[2, 3], dtype="float32")
    block.append_op(type="assign", inputs={"X": [x]}, outputs={"Out": [y]})

    def fill(inner: Any) -> None:
        t = inner.create_var(name="t", shape=[2, 3], dtype="float32")
        inner.append_op(type="elementwise_mul", inputs={"X": [y], "Y": [w]}, outputs={"Out": [t]}, attrs={"axis": -1})
        inner.append_op(type="elementwise_add", inputs={"X": [t], "Y": [x]}, outputs={"Out": ["y"]})

    counted_loop(main, rounds, fill, **slots)
    loss = paddle.mean(y)
    gradients = static.gradients(loss, [x, w])
    executor = static.Executor()
    executor.run(startup)
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    factor = np.array([0.5, -0.25, 2.0])
    wanted = data * sum(factor**k for k in range(rounds + 1))
    d_factor = sum(k * factor ** (k - 1) for k in range(1, rounds + 1)) + np.zeros(3)
    for program in (main, main.clone()):
        found, d_x, d_w = executor.run(program, {"x": data}, [y.name, *(g.name for g in gradients)])
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        np.testing.assert_allclose(d_x, sum(factor**k for k in range(rounds + 1)) / 6 + np.zeros((2, 3)), rtol=1e-6)
        np.testing.assert_allclose(d_w, (data * d_factor).sum(0) / 6, rtol=1e-5)


def test_a_loop_over_parameters_trains(programs: Any) -> None:
    main, startup = programs
    x = static.data("x", [None, 2], "float32")
    w = parameter("w", [[0.5, 0.1], [-0.2, 0.3]])
    block = main.global_block()
    h = block.create_var(name="h", shape=[-1, 2], dtype="float32")
    block.append_op(type="assign", inputs={"X": [x]}, outputs={"Out": [h]})

    def fill(inner: Any) -> None:
        inner.create_var(name="t", shape=[-1, 2], dtype="float32")
        inner.append_op(type="mul", inputs={"X": [h], "Y": [w]}, outputs={"Out": ["t"]})
        inner.append_op(type="tanh", inputs={"X": ["t"]}, outputs={"Out": [h]})

    counted_loop(main, 2, fill)
    loss = paddle.mean(h * h)
    paddle.optimizer.SGD(0.5).minimize(loss)
    executor = static.Executor()
    executor.run(startup)
    data = np.random.RandomState(0).randn(4, 2).astype(np.float32)
    weight = np.array([[0.5, 0.1], [-0.2, 0.3]])
    for _ in range(3):
        first = np.tanh(data @ weight)
        second = np.tanh(first @ weight)
        (found,) = executor.run(main, {"x": data}, [loss])
        np.testing.assert_allclose(found, np.mean(second**2), rtol=1e-5)
        d_second = 2 * second / second.size * (1 - second**2)
        d_first = d_second @ weight.T * (1 - first**2)
        weight = weight - 0.5 * (first.T @ d_second + data.T @ d_first)
    np.testing.assert_allclose(static.global_scope().find_var("w").get_tensor().numpy(), weight, rtol=1e-5)


@pytest.mark.parametrize("scalar", [True, False])
def test_a_block_runs_if_its_condition_holds(programs: Any, scalar: bool) -> None:
    main, startup = programs
    x = static.data("x", [None, 2], "float32")
    x.stop_gradient = False
    block = main.global_block()
    y = block.create_var(name="y", shape=[-1, 2], dtype="float32")
    block.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [y]}, attrs={"scale": 3.0})
    if scalar:
        condition = paddle.sum(x) > 0
    else:
        condition = paddle.masked_select(x, x > 2)
    inner = main.create_block()
    inner.append_op(type="square", inputs={"X": [x]}, outputs={"Out": [y]})
    main.rollback()
    block.append_op(
        type="conditional_block", inputs={"Cond": [condition], "Input": [x]}, outputs={"Out": [y], "Scope": []},
        attrs={"sub_block": inner, "is_scalar_condition": scalar},
    )  # fmt: skip
    gradients = static.gradients(paddle.sum(y), [x])
    executor = static.Executor()
    for data in (np.array([[1.0, 5.0]], np.float32), np.array([[1.0, -5.0]], np.float32)):
        taken = data.sum() > 0 if scalar else (data > 2).any()
        found, d_x = executor.run(main, {"x": data}, [y, *gradients])
        np.testing.assert_array_equal(found, data**2 if taken else 3 * data)
        np.testing.assert_array_equal(d_x, 2 * data if taken else np.full_like(data, 3))


def test_a_branch_in_a_loop_writes_two_blocks_up(programs: Any) -> None:
    main, startup = programs
    block = main.global_block()
    total = constant(block, "total", 1.0, "float32")
    total.stop_gradient = False
    w = parameter("w", [2.0])

    def fill(inner: Any) -> None:
        inner.create_var(name="even", shape=[1], dtype="bool", stop_gradient=True)
        inner.create_var(name="rest", shape=[1], dtype="int64", stop_gradient=True)
        constant(inner, "two", 2.0)
        constant(inner, "zero", 0.0)
        inner.append_op(type="elementwise_mod", inputs={"X": ["i"], "Y": ["two"]}, outputs={"Out": ["rest"]})
        inner.append_op(type="equal", inputs={"X": ["rest"], "Y": ["zero"]}, outputs={"Out": ["even"]})
        innermost = main.create_block()
        innermost.append_op(type="elementwise_mul", inputs={"X": ["total"], "Y": [w]}, outputs={"Out": ["total"]})
        main.rollback()
        inner.append_op(
            type="conditional_block", inputs={"Cond": ["even"], "Input": []}, outputs={"Out": ["total"], "Scope": []},
            attrs={"sub_block": innermost, "is_scalar_condition": True},
        )  # fmt: skip

    counted_loop(main, 5, fill)
    gradients = static.gradients(block.var("total"), [w])
    executor = static.Executor()
    executor.run(startup)
    assert main.num_blocks == 3
    found, d_w = executor.run(main, fetch_list=["total", gradients[0].name])
    assert (found.tolist(), d_w.tolist()) == ([8.0], [12.0])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_block_runs_once_for_each_row(programs: Any, reverse: bool) -> None:
    main, startup = programs
    x, start = static.data("x", [4, None, 2], "float32"), static.data("start", [None, 2], "float32")
    x.stop_gradient = start.stop_gradient = False
    w = parameter("w", [0.5, -2.0])
    block = main.global_block()
    out = block.create_var(name="h", shape=[4, -1, 2], dtype="float32")
    inner = main.create_block()
    row = inner.create_var(name="x", shape=[-1, 2], dtype="float32")
    before = inner.create_var(name="before", shape=[-1, 2], dtype="float32")
    inner.create_var(name="t", shape=[-1, 2], dtype="float32")
    inner.create_var(name="h", shape=[-1, 2], dtype="float32")
    inner.append_op(type="elementwise_mul", inputs={"X": [before], "Y": [w]}, outputs={"Out": ["t"]}, attrs={"axis": -1})
    inner.append_op(type="elementwise_add", inputs={"X": ["t"], "Y": [row]}, outputs={"Out": ["h"]})
    main.rollback()
    block.append_op(
        type="recurrent", inputs={"inputs": ["x"], "initial_states": ["start"], "parameters": ["w"]},
        outputs={"outputs": ["h"], "step_scopes": [block.create_var(name="scopes")]},
        attrs={"sub_block": inner, "ex_states": ["before"], "states": ["h"], "reverse": reverse, "has_states": True, "is_train": True},
    )  # fmt: skip
    gradients = static.gradients(paddle.sum(out * out), [x, start, w])
    executor = static.Executor()
    executor.run(startup)
    data = np.random.RandomState(1).randn(4, 3, 2).astype(np.float32)
    first = np.ones((3, 2), np.float32)
    factor = np.array([0.5, -2.0])
    rows: dict[int, Any] = {}
    state: Any = first
    order = list(reversed(range(4))) if reverse else list(range(4))
    for t in order:
        state = rows[t] = state * factor + data[t]
    found, *slopes = executor.run(main, {"x": data, "start": first}, [out, *gradients])
    np.testing.assert_allclose(found, np.stack([rows[t] for t in range(4)]), rtol=1e-5)
    d_x, d_state, d_factor = np.zeros_like(data), np.zeros((3, 2)), np.zeros(2)
    for place in reversed(range(4)):
        t = order[place]
        d_state = d_state + 2 * rows[t]
        d_x[t] = d_state
        d_factor += (d_state * (rows[order[place - 1]] if place else first)).sum(0)
        d_state = d_state * factor
    for slope, wanted in zip(slopes, (d_x, d_state, d_factor), strict=True):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4)


def test_pruning_keeps_what_blocks_need(programs: Any) -> None:
    main, _ = programs
    block = main.global_block()
    constant(block, "y", 1.0, "float32")
    constant(block, "other", 1.0, "float32")
    constant(block, "step", 2.0, "float32")
    counted_loop(main, 3, lambda inner: inner.append_op(type="sum", inputs={"X": ["y", "step"]}, outputs={"Out": ["y"]}))
    pruned = main.prune([block.var("y")])
    assert [op.type for op in pruned.global_block().ops] == ["fill_constant"] * 4 + ["less_than", "while"]
    assert static.Executor().run(pruned, fetch_list=["y"])[0].tolist() == [7.0]


def test_wrong_blocks_are_refused(programs: Any) -> None:
    main, _ = programs
    block = main.global_block()
    constant(block, "c", 1.0, "bool")
    constant(block, "number", 1.0, "float32")
    inner = main.create_block()
    constant(inner, "t", 1.0, "float32")
    main.rollback()
    for inputs, attrs, message in (
        ({"X": [], "Condition": ["c"]}, {"sub_block": inner}, "to write its condition 'c' but no operator of it does"),
        ({"X": [], "Condition": ["number"]}, {"sub_block": inner}, "expected a bool as the condition of 'while' but 'number' is float32"),
        ({"X": [], "Condition": []}, {"sub_block": inner}, "expected one variable in 'Condition' of 'while' but got 0"),
        ({"X": [], "Condition": ["c"]}, {}, "expected another block as the attribute 'sub_block' of 'while'"),
        ({"Y": [], "Condition": ["c"]}, {"sub_block": inner}, "expected the input slots Condition, X of 'while' but got 'Y'"),
        ({"X": [], "Condition": ["c"]}, {"sub_block": inner, "depth": 1}, "'while' has no attribute 'depth'"),
    ):
        with pytest.raises(PolyremeError, match=message) as caught:
            block.append_op(type="while", inputs=inputs, outputs={"Out": []}, attrs=attrs)
        assert isinstance(caught.value, ValueError) and __file__ in str(caught.value.diagnostics[0].location)
