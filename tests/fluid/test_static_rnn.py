"""Recurrent nets of a known number of steps."""

from __future__ import annotations

import numpy as np

from polyreme import fluid
from tests.fluid.running import run, start

layers = fluid.layers


def test_a_state_that_is_given_out_twice_has_its_gradient_once() -> None:
    x = layers.data("x", [3, 2, 4], append_batch_size=False)
    weight = layers.create_parameter([8, 4], "float32", name="w", default_initializer=fluid.initializer.Constant(0.2))
    first = layers.fill_constant([2, 4], "float32", 0.1)
    gradients = []
    for more in (False, True):
        rnn = layers.StaticRNN()
        with rnn.step():
            row, before = rnn.step_input(x), rnn.memory(init=first)
            state = layers.tanh(layers.matmul(layers.concat([row, before], 1), weight))
            rnn.update_memory(before, state)
            if more:
                rnn.step_output(state)
            rnn.step_output(state)
        made = rnn()
        gradients += fluid.gradients(layers.mean(layers.square(made[-1] if more else made)), [weight])
    start()
    once, twice = run(gradients, {"x": np.linspace(-1, 1, 24, dtype="float32").reshape(3, 2, 4)})
    assert np.abs(once).max() > 1e-3
    np.testing.assert_allclose(twice, once, rtol=1e-6)
