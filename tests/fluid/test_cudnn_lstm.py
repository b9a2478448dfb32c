"""`fluid.layers.lstm`, which Paddle 1.8.5 has for GPUs only: against the equations in float64, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme import fluid
from tests.fluid.running import run, start

Array = np.ndarray[Any, Any]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _sweep(x: Array, h: Array, c: Array, weights: list[Array], backwards: bool) -> tuple[Array, Array, Array]:
    wide, narrow, *biases = weights
    outputs = [h] * len(x)
    for t in reversed(range(len(x))) if backwards else range(len(x)):
        i, f, g, o = np.split(x[t] @ wide.T + h @ narrow.T + sum(biases), 4, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        outputs[t] = h = _sigmoid(o) * np.tanh(c)
    return np.stack(outputs), h, c


def _lstm(x: Array, h: Array, c: Array, flat: Array, layers: int, directions: int) -> list[Array]:
    """What cuDNN computes of its weights, which stand layer by layer, and behind them all biases."""
    size, start, parts = h.shape[2], 0, []
    for i in range(layers * directions):
        for columns in (x.shape[2] if i < directions else size * directions, size):
            parts.append(flat[start : start + 4 * size * columns].reshape(4 * size, columns))
            start += 4 * size * columns
    biases = flat[start:].reshape(layers * directions, 2, 4 * size)
    last_h, last_c = [], []
    for layer in range(layers):
        made = []
        for direction in range(directions):
            i = layer * directions + direction
            outputs, hidden, cell = _sweep(x, h[i], c[i], [*parts[2 * i : 2 * i + 2], *biases[i]], direction == 1)
            made.append(outputs)
            last_h.append(hidden)
            last_c.append(cell)
        x = np.concatenate(made, axis=2)
    return [x, np.stack(last_h), np.stack(last_c)]


@pytest.mark.parametrize(("steps", "batch", "layers", "both"), [(5, 2, 1, False), (1, 3, 2, True), (4, 1, 2, False), (3, 2, 1, True)])
def test_layers_and_directions_give_what_the_equations_say(steps: int, batch: int, layers: int, both: bool) -> None:
    directions, draws = 2 if both else 1, np.random.RandomState(0)
    count, size = layers * directions, 3
    x, h, c = (fluid.data(n, s) for n, s in (("x", [None, batch, 4]), ("h", [count, batch, size]), ("c", [count, batch, size])))
    x.stop_gradient = h.stop_gradient = False
    made = fluid.layers.lstm(x, h, c, 9, size, layers, is_bidirec=both, default_initializer=fluid.initializer.Uniform(-0.7, 0.7, seed=4))
    assert list(made[0].shape) == [-1, batch, size * directions] and list(made[1].shape) == [count, batch, size]
    (parameter,) = fluid.default_main_program().all_parameters()
    loss = fluid.layers.reduce_sum(fluid.layers.square(made[0])) + fluid.layers.reduce_sum(made[2])
    gradients = fluid.gradients(loss, [x, h, parameter])
    start()
    feed = {
        "x": draws.randn(steps, batch, 4), "h": draws.randn(count, batch, size), "c": draws.randn(count, batch, size)
    }  # fmt: skip
    found = run([*made, *gradients], {name: value.astype("float32") for name, value in feed.items()})
    flat = np.array(fluid.global_scope().find_var(parameter.name).get_tensor()).astype("float64")
    expected = _lstm(feed["x"], feed["h"], feed["c"], flat, layers, directions)
    for got, wanted in zip(found[:3], expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)

    def objective(given: dict[str, Array], flat: Array) -> float:
        outputs, _, cells = _lstm(given["x"], given["h"], given["c"], flat, layers, directions)
        return float((outputs**2).sum() + cells.sum())

    # Derivatives along one direction for each of what is asked.
    for name, got in zip(("x", "h", "weight"), found[3:], strict=True):
        way = draws.randn(*got.shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = flat + step * way if name == "weight" else flat
            ends.append(objective({**feed, **({} if name == "weight" else {name: feed[name] + step * way})}, moved))
        np.testing.assert_allclose((got * way).sum(), (ends[0] - ends[1]) / 2e-5, rtol=1e-3, atol=1e-3)


def test_states_of_another_number_of_layers_are_an_error() -> None:
    x, h = fluid.data("x", [None, 2, 4]), fluid.data("h", [1, 2, 3])
    with pytest.raises(ValueError, match=r"states \[2, batch, hidden\]"):
        fluid.layers.lstm(x, h, h, 9, 3, 2)


def test_dropout_is_between_layers_in_training_alone() -> None:
    x, h = fluid.data("x", [None, 2, 4]), fluid.data("h", [2, 2, 3])
    weights = fluid.initializer.Uniform(-0.7, 0.7, seed=4)
    trained, tested, plain = (
        fluid.layers.lstm(x, h, h, 9, 3, 2, share, is_test=test, default_initializer=weights)[0]
        for share, test in ((0.9, False), (0.9, True), (0.0, False))
    )
    start()
    found = run([trained, tested, plain], {"x": np.ones((3, 2, 4), "float32"), "h": np.zeros((2, 2, 3), "float32")})
    np.testing.assert_allclose(found[1], found[2])
    assert abs(found[0] - found[2]).max() > 1e-3
