"""Cells, optimizers and files of `fluid.dygraph`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid
from tests.fluid.running import PLACE


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("cudnn", [True, False])
def test_a_gru_cell_is_its_equations(cudnn: bool) -> None:
    rng = np.random.default_rng(0)
    with fluid.dygraph.guard(PLACE):
        cell = fluid.dygraph.rnn.GRUCell(4, 3, use_cudnn_impl=cudnn)
        values = [rng.uniform(-1, 1, p.shape) for p in cell.parameters()]
        for parameter, value in zip(cell.parameters(), values, strict=True):
            parameter.set_value(value)
        x, h = rng.uniform(-1, 1, (2, 3)), rng.uniform(-1, 1, (2, 4))
        made = cell(fluid.dygraph.to_variable(x), fluid.dygraph.to_variable(h)).numpy()
    if cudnn:
        w_x, w_h, b_x, b_h = values
        (r, u, c), (r_h, u_h, c_h) = np.split(x @ w_x.T + b_x, 3, 1), np.split(h @ w_h.T + b_h, 3, 1)
        reset, update = _sigmoid(r + r_h), _sigmoid(u + u_h)
        candidate = np.tanh(c + reset * c_h)
    else:
        w_g, w_c, b_g, b_c = values
        reset, update = np.split(_sigmoid(np.hstack([x, h]) @ w_g + b_g), 2, 1)
        candidate = np.tanh(np.hstack([x, reset * h]) @ w_c + b_c)
    np.testing.assert_allclose(made, update * h + (1 - update) * candidate, rtol=1e-12)


@pytest.mark.parametrize("cudnn", [True, False])
def test_an_lstm_cell_is_its_equations(cudnn: bool) -> None:
    rng = np.random.default_rng(0)
    with fluid.dygraph.guard(PLACE):
        cell = fluid.dygraph.rnn.LSTMCell(4, 3, use_cudnn_impl=cudnn, forget_bias=0.5)
        values = [rng.uniform(-1, 1, p.shape) for p in cell.parameters()]
        for parameter, value in zip(cell.parameters(), values, strict=True):
            parameter.set_value(value)
        x, h, c = (rng.uniform(-1, 1, (2, n)) for n in (3, 4, 4))
        hidden, after = (t.numpy() for t in cell(*map(fluid.dygraph.to_variable, (x, h, c))))
        with pytest.raises(ValueError, match=r"input of shape \[batch, 3\]"):
            cell(*map(fluid.dygraph.to_variable, (h, h, c)))
    if cudnn:
        w_x, w_h, b_x, b_h = values
        i, f, j, o = np.split(x @ w_x.T + b_x + h @ w_h.T + b_h, 4, 1)
    else:
        i, j, f, o = np.split(np.hstack([x, h]) @ values[0] + values[1], 4, 1)
        f = f + 0.5
    expected = _sigmoid(f) * c + _sigmoid(i) * np.tanh(j)
    np.testing.assert_allclose(after, expected, rtol=1e-12)
    np.testing.assert_allclose(hidden, _sigmoid(o) * np.tanh(expected), rtol=1e-12)


@pytest.mark.parametrize("make", [lambda p: fluid.optimizer.Adam(0.1, parameter_list=p), lambda p: fluid.optimizer.Momentum(0.1, 0.9, p)])
def test_optimizers_step_in_dygraph_mode(make: Any) -> None:
    with fluid.dygraph.guard():
        paddle.seed(0)
        layer = paddle.nn.Linear(3, 1)
        optimizer = make(layer.parameters())
        x, losses = fluid.dygraph.to_variable(np.ones((2, 3), "float32")), []
        for _ in range(5):
            loss = fluid.layers.mean(fluid.layers.square(layer(x) - 1.0))
            loss.backward()
            optimizer.minimize(loss)
            layer.clear_gradients()
            losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_what_fluid_saves_in_three_files_is_loaded_again(tmp_path: Any) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [3])
        loss = fluid.layers.mean(fluid.layers.fc(x, 2))
        fluid.optimizer.Adam(0.1).minimize(loss)
        executor = fluid.Executor()
        executor.run(startup)
        feed = {"x": np.ones((2, 3), "float32")}
        executor.run(main, feed=feed)
        fluid.save(main, str(tmp_path / "model"))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pdmodel", "model.pdopt", "model.pdparams"]
        # Arrays under the name that the numpy of that time knows them by.
        assert all(b"numpy._core" not in p.read_bytes() for p in tmp_path.iterdir())
        expected = [executor.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(2)]
        fluid.load(main, str(tmp_path / "model"), executor)
        assert [executor.run(main, feed=feed, fetch_list=[loss])[0] for _ in range(2)] == expected
        state = fluid.load_program_state(str(tmp_path / "model"))
        assert set(state) == {v.name for v in main.list_vars() if v.persistable}


def test_sequences_do_not_go_two_ways_by_their_rows() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        words = fluid.layers.data("words", [3], lod_level=1)
        mask = fluid.layers.data("mask", [1], dtype="bool")
        ways = fluid.layers.IfElse(mask)
        for x in (words, fluid.layers.relu(words)):
            with pytest.raises(ValueError, match=f"'{x.name}' holds sequences .lod_level 1."), ways.true_block():
                ways.input(x)
