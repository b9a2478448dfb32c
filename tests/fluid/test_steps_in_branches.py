"""Steps of optimizers in the functions of branches: what is refused there. What they compute is compared in `tests/fluid_api`."""

from __future__ import annotations

import pytest

import polyreme as paddle
from polyreme import fluid
from tests.frontend.static_mode import static_mode

layers = fluid.layers


def _branch(then) -> None:
    yes = layers.less_than(layers.fill_constant([1], "float32", 0.0), layers.fill_constant([1], "float32", 1.0))
    layers.cond(yes, then, lambda: None)


def test_a_loss_of_the_branch_whose_gradient_goes_on_outside_is_refused() -> None:
    outside = layers.fc(layers.data("x", [3]), 2)
    before = len(fluid.default_main_program().global_block().ops)

    def step() -> None:
        fluid.optimizer.SGD(0.1).minimize(layers.mean(outside))

    with pytest.raises(ValueError, match="compute the loss in front of the branch"):
        _branch(step)
    assert fluid.default_main_program().num_blocks == 1
    assert len(fluid.default_main_program().global_block().ops) == before + 3  # what the condition is


def test_optimizers_of_paddle_2_take_no_steps_in_branches() -> None:
    with static_mode():
        loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [2, 3]), 2))
        yes = paddle.full([1], 1.0) > 0.0

        def step() -> None:
            paddle.optimizer.SGD(0.1).minimize(loss)

        with pytest.raises(NotImplementedError, match="outside of branches"):
            paddle.static.nn.cond(yes, step, lambda: None)
