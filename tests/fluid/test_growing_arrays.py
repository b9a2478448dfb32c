"""Gradients through a `While` whose block lets tensor arrays grow are those of the same loop in dygraph mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid

layers = fluid.layers
X = (np.arange(6).reshape(2, 3) / 5 - 0.3).astype("float32")
W = (np.arange(9).reshape(3, 3) / 10 - 0.4).astype("float32")


def _number(value: int) -> Any:
    made = layers.fill_constant([1], "int64", value)
    made.stop_gradient = True
    return made


def _values(build: Callable[[Any], tuple[Any, Any]]) -> list[Any]:
    """The loss, the gradients of the weight and of x, and how many elements there are."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        x = layers.data(name="x", shape=[3], dtype="float32")
        x.stop_gradient = False
        loss, array = build(x)
        fluid.backward.append_backward(loss)
        length = layers.array_length(array)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        fluid.global_scope().find_var("w").get_tensor().set(W, fluid.CPUPlace())
        made: list[Any] = exe.run(main, feed={"x": X}, fetch_list=[loss, "w@GRAD", "x@GRAD", length])
        return made


def _step(state: Any) -> Any:
    return layers.fc(state, 3, act="tanh", param_attr=fluid.ParamAttr(name="w"), bias_attr=False)


def _check(found: list[Any], eager: Callable[[Any, Any], tuple[Any, int]]) -> None:
    x, w = paddle.to_tensor(X, stop_gradient=False), paddle.to_tensor(W, stop_gradient=False)
    loss, count = eager(x, w)
    gradients = paddle.grad([loss], [w, x])
    for got, expected in zip(found, [loss, *gradients], strict=False):
        np.testing.assert_allclose(got.reshape(-1), expected.numpy().reshape(-1), rtol=1e-5, atol=1e-6)
    assert found[3].tolist() == [count]


@pytest.mark.parametrize("written_ahead", [False, True])
def test_elements_that_are_read_and_written_again(written_ahead: bool) -> None:
    def build(x: Any) -> tuple[Any, Any]:
        i, n = _number(0), _number(3)
        states = layers.array_write(layers.scale(x, 1.0), i=i)
        if written_ahead:  # the loop writes over it
            layers.array_write(layers.scale(x, 3.0), i=_number(1), array=states)
        cells = layers.array_write(layers.scale(x, 0.5), i=_number(0))
        going = layers.less_than(i, n)
        loop = layers.While(going)
        with loop.block():
            made = _step(layers.array_read(states, i)) + layers.array_read(cells, i)
            layers.increment(i)
            layers.array_write(made, i=i, array=states)
            layers.array_write(layers.sigmoid(made), i=i, array=cells)
            layers.less_than(i, n, cond=going)
        return layers.mean(layers.array_read(states, n) * layers.array_read(cells, _number(2))), states

    def eager(x: Any, w: Any) -> tuple[Any, int]:
        states, cells = [x], [x * 0.5]
        for i in range(3):
            states.append(paddle.tanh(states[i] @ w) + cells[i])
            cells.append(paddle.nn.functional.sigmoid(states[-1]))
        return (states[3] * cells[2]).mean(), 4

    _check(_values(build), eager)


def test_how_often_the_loop_runs_may_depend_on_elements() -> None:
    def build(x: Any) -> tuple[Any, Any]:
        i, n, limit = _number(0), _number(9), layers.fill_constant([1], "float32", 0.1)
        states = layers.array_write(layers.scale(x, 1.0), i=i)
        going = layers.less_than(i, n)
        loop = layers.While(going)
        with loop.block():
            made = _step(layers.array_read(states, i))
            layers.increment(i)
            layers.array_write(made, i=i, array=states)
            size = layers.reduce_sum(layers.abs(layers.array_read(states, i)))
            layers.logical_and(layers.less_than(i, n), layers.greater_than(size, limit), out=going)
        return layers.mean(layers.array_read(states, i) + layers.array_read(states, _number(1))), states

    def eager(x: Any, w: Any) -> tuple[Any, int]:
        states = [x]
        while len(states) < 10 and (len(states) == 1 or float(states[-1].abs().sum()) > 0.1):
            states.append(paddle.tanh(states[-1] @ w))
        assert 2 < len(states) < 10
        return (states[-1] + states[1]).mean(), len(states)

    _check(_values(build), eager)


def test_an_element_of_another_shape_is_an_error() -> None:
    def build(x: Any) -> tuple[Any, Any]:
        i, n = _number(0), _number(3)
        states = layers.array_write(layers.scale(x, 1.0), i=i)
        going = layers.less_than(i, n)
        loop = layers.While(going)
        with loop.block():
            made = _step(layers.array_read(states, i))
            layers.increment(i)
            layers.array_write(layers.reduce_sum(made, dim=1, keep_dim=True), i=i, array=states)
            layers.less_than(i, n, cond=going)
        return layers.mean(layers.array_read(states, n)), states

    with pytest.raises(ValueError, match="elements of one dtype and shape in a tensor array"):
        _values(build)


def _written_in_the_loop(x: Any) -> tuple[Any, Any]:
    """An array that is empty before the loop, which writes element `i` in round `i`: 2x + 1, 4x + 3, ..."""
    i, n = _number(0), _number(4)
    states, made = layers.array_write(layers.scale(x, 1.0), i=i), layers.create_array("float32")
    going = layers.less_than(i, n)
    loop = layers.While(going)
    with loop.block():
        state = layers.scale(layers.array_read(states, i), 2.0, bias=1.0)
        layers.array_write(state, i=i, array=made)
        layers.increment(i)
        layers.array_write(state, i=i, array=states)
        layers.less_than(i, n, cond=going)
    return made, layers.array_read(made, _number(1)) + layers.array_read(made, _number(3))


@pytest.mark.parametrize("form", ["as built", "clone", "bytes", "inference model", "jit.load"])
def test_elements_that_only_the_loop_writes_all_stay(form: str, tmp_path: Any) -> None:
    main, startup = fluid.Program(), fluid.Program()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        x = layers.data(name="x", shape=[3], dtype="float32")
        made, total = _written_in_the_loop(x)
        fetched: list[Any] = [total, layers.array_length(made)]
        program = main
        if form == "clone":
            program = main.clone(for_test=True)
        elif form == "bytes":
            program, fetched = fluid.Program.parse_from_string(main.desc.serialize_to_string()), [v.name for v in fetched]
        elif form == "inference model":
            fluid.io.save_inference_model(str(tmp_path), ["x"], fetched, exe)
            program, _, fetched = fluid.io.load_inference_model(str(tmp_path), exe)
        elif form == "jit.load":
            paddle.static.save_inference_model(str(tmp_path / "model"), [x], fetched, exe, program=main)
            found = [value.numpy() for value in paddle.jit.load(str(tmp_path / "model"))(paddle.to_tensor(X))]
        if form != "jit.load":
            found = exe.run(program, feed={"x": X}, fetch_list=fetched)
    np.testing.assert_allclose(found[0], (4 * X + 3) + (16 * X + 15), rtol=1e-6)
    assert found[1].tolist() == [4]


def test_elements_that_only_the_loop_writes_have_gradients() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.data(name="x", shape=[3], dtype="float32")
        x.stop_gradient = False
        made, total = _written_in_the_loop(x)
        (gradient,) = fluid.gradients(layers.reduce_sum(total), x)
        (found,) = fluid.Executor(fluid.CPUPlace()).run(main, feed={"x": X}, fetch_list=[gradient])
    np.testing.assert_allclose(found, np.full((2, 3), 20.0), rtol=1e-6)
