"""Optimizers of one's own: subclasses that override the methods of Paddle's `Optimizer`. The numbers are those that Paddle 3.3.1 gives."""

from __future__ import annotations

import numpy as np
import pytest

import polyreme as paddle
from polyreme.utils import unique_name


@pytest.fixture(autouse=True)
def _names_start_anew():
    with unique_name.guard():
        yield


class Heavy(paddle.optimizer.Optimizer):
    """Momentum, written with accumulators; `calls` says what was called."""

    def __init__(self, learning_rate=0.1, momentum=0.9, **options):
        super().__init__(learning_rate=learning_rate, **options)
        self.momentum, self.calls = momentum, []

    def _create_accumulators(self, block, parameters):
        if isinstance(parameters, dict):
            parameters = self._update_param_group(parameters)
        self.calls.append(["create", *(p.name for p in parameters)])
        for parameter in parameters:
            self._add_accumulator("velocity", parameter)
            self._add_accumulator("steps", parameter, fill_value=2, shape=[1], dtype="int64")

    def _append_optimize_op(self, block, param_and_grad):
        if isinstance(param_and_grad, dict):
            self.momentum = param_and_grad.get("momentum", self.momentum)
            param_and_grad = self._update_param_group(param_and_grad)
        parameter, gradient = param_and_grad
        self.calls.append(["append", parameter.name])
        velocity, steps = self._get_accumulator("velocity", parameter), self._get_accumulator("steps", parameter)
        rate = self._create_param_lr(param_and_grad)
        assert rate.shape == [] and rate.dtype == paddle.float32
        velocity.set_value(self.momentum * velocity + gradient)
        steps.add_(paddle.ones([1], "int64"))
        parameter.set_value(parameter - rate * velocity)

    def _finish_update(self, block, parameters_and_grads):
        self.calls.append(["finish", type(parameters_and_grads).__name__])


def net():
    made = paddle.nn.Linear(2, 1, weight_attr=paddle.nn.initializer.Constant(1.0))
    made.bias.optimize_attr["learning_rate"] = 0.5
    return made


def two_steps(model, optimizer):
    for _ in range(2):
        model(paddle.to_tensor([[3.0, -2.0]])).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    return [*model.weight.flatten().tolist(), *model.bias.tolist()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.12999999523162842, 1.5800000429153442, -0.14499999582767487]),
        ({"weight_decay": 0.5}, [0.002499997615814209, 1.4275000095367432, -0.14374999701976776]),
        ({"grad_clip": 0.1}, [0.9758705496788025, 1.0160863399505615, -0.014499999582767487]),
        ({"learning_rate": "stepped"}, [-0.7400000095367432, 2.1599998474121094, -0.28999999165534973]),
    ],
    ids=["plain", "decay", "clipped", "scheduled"],
)
def test_steps_are_those_of_paddle(options, expected):
    if "grad_clip" in options:
        options = {"grad_clip": paddle.nn.ClipGradByNorm(options["grad_clip"])}
    if "learning_rate" in options:
        options = {"learning_rate": paddle.optimizer.lr.StepDecay(0.2, 1)}
    model = net()
    optimizer = Heavy(parameters=model.parameters(), **options)
    np.testing.assert_allclose(two_steps(model, optimizer), expected, rtol=1e-6)
    one = [["create", "linear_0.w_0", "linear_0.b_0"], ["append", "linear_0.w_0"], ["append", "linear_0.b_0"], ["finish", "list"]]
    assert optimizer.calls == one * 2


def test_accumulators_are_a_part_of_the_state():
    model = net()
    optimizer = Heavy(parameters=model.parameters(), name="mine")
    two_steps(model, optimizer)
    state = {name: tensor.clone() for name, tensor in optimizer.state_dict().items()}
    assert sorted(state) == [
        "linear_0.b_0_mine_steps_0",
        "linear_0.b_0_mine_velocity_0",
        "linear_0.w_0_mine_steps_0",
        "linear_0.w_0_mine_velocity_0",
    ]
    assert state["linear_0.w_0_mine_steps_0"].tolist() == [4] and state["linear_0.w_0_mine_steps_0"].dtype == paddle.int64
    with unique_name.guard():
        twin = net()
        resumed = Heavy(parameters=twin.parameters(), name="mine")
        twin.set_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
        resumed.set_state_dict(state)
        found = two_steps(twin, resumed)
    assert found == two_steps(model, optimizer)


def test_groups_are_handed_on_as_dicts():
    model = net()
    optimizer = Heavy(parameters=[{"params": [model.weight], "learning_rate": 0.1}, {"params": [model.bias], "momentum": 0.5}])
    model(paddle.to_tensor([[3.0, -2.0]])).sum().backward()
    optimizer.step()
    assert optimizer.calls[:3] == [["create", "linear_0.w_0"], ["append", "linear_0.w_0"], ["finish", "dict"]]
    assert optimizer.momentum == 0.5
    np.testing.assert_allclose(model.weight.flatten().numpy(), [1 - 0.01 * 3, 1 + 0.01 * 2], rtol=1e-6)
    np.testing.assert_allclose(model.bias.numpy(), [-0.1], rtol=1e-6)


def test_an_optimizer_of_paddle_may_be_extended():
    class Doubled(paddle.optimizer.SGD):
        def _append_optimize_op(self, block, param_and_grad):
            return super()._append_optimize_op(block, (param_and_grad[0], param_and_grad[1] * 2))

    model = net()
    model(paddle.to_tensor([[3.0, -2.0]])).sum().backward()
    Doubled(0.1, parameters=model.parameters(), weight_decay=0.5).step()
    np.testing.assert_allclose(model.weight.flatten().numpy(), [1 - 0.1 * (6 + 0.5), 1 - 0.1 * (-4 + 0.5)], rtol=1e-6)


def test_mistakes_are_told():
    model = net()
    model(paddle.ones([1, 2])).sum().backward()
    with pytest.raises(NotImplementedError, match="cannot be used directly as an optimizer"):
        paddle.optimizer.Optimizer(0.1, parameters=model.parameters()).step()
    with pytest.raises(Exception, match="Accumulator velocity does not exist for parameter linear_0.w_0"):
        Heavy(parameters=model.parameters())._get_accumulator("velocity", model.weight)
