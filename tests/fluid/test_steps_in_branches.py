"""Steps of optimizers in branches: what their gradients go back to, and what is refused. More is compared in `tests/fluid_api`."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme import fluid
from tests.frontend.static_mode import static_mode

layers = fluid.layers
# The losses that Paddle 1.8.5 gives.
WANTED = [2.6000001430511475, 0.7491715550422668, 0.21766763925552368, 0.06500224024057388]


def _steps(build) -> list[np.ndarray]:
    """The loss of three runs in which the branch that `build` makes takes a step, and of one in which it does not."""
    x, k = fluid.data("x", [None, 4]), layers.data("k", [1], append_batch_size=False)
    y = layers.fc(x, 3, param_attr=fluid.initializer.Constant(0.1))
    loss = layers.reduce_mean(layers.square(y))
    build(k > layers.fill_constant([1], "float32", 0.0), lambda: fluid.optimizer.SGD(0.01).minimize(layers.reduce_mean(layers.square(y))))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    rows = np.arange(8).reshape(2, 4).astype("float32")
    return [exe.run(feed={"x": rows, "k": np.array([k], "float32")}, fetch_list=[loss])[0] for k in (1, 1, 1, -1)]


def _by_cond(pred, step) -> None:
    def then():
        step()
        return layers.fill_constant([1], "float32", 1.0)

    layers.cond(pred, then, lambda: layers.fill_constant([1], "float32", 2.0))


def _by_switch(pred, step) -> None:
    with layers.Switch() as switch:
        with switch.case(pred):
            step()


@pytest.mark.parametrize("build", [_by_cond, _by_switch])
def test_gradients_of_a_loss_in_a_branch_go_on_to_what_is_in_front_of_it(build) -> None:
    np.testing.assert_allclose(np.ravel(_steps(build)), WANTED, rtol=1e-6)


def test_gradients_in_a_loop_end_in_its_block() -> None:
    y = layers.fc(fluid.data("x", [2, 4]), 3)
    i, n = (layers.fill_constant([1], "int64", v) for v in (0, 2))
    again = layers.less_than(i, n)
    with layers.While(again).block():
        fluid.optimizer.SGD(0.01).minimize(layers.reduce_mean(y))
        layers.increment(i)
        layers.less_than(i, n, cond=again)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    with pytest.raises(RuntimeError, match="expected gradients in the block of a 'while' to end in it"):
        exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[y])


def test_optimizers_of_paddle_2_take_no_steps_in_branches() -> None:
    with static_mode():
        loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [2, 3]), 2))
        yes = paddle.full([1], 1.0) > 0.0

        def step() -> None:
            paddle.optimizer.SGD(0.1).minimize(loss)

        with pytest.raises(NotImplementedError, match="outside of branches"):
            paddle.static.nn.cond(yes, step, lambda: None)
