"""Programs that train by several optimizers, with options that change, by groups, and by optimizers of one's own."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from polyreme import nn
from polyreme.optimizer import Optimizer
from tests.frontend.capture_programs.driver import Run, program
from tests.frontend.capture_programs.steps import a_net, some_steps


class Trainer:
    """What a step finds by its attributes."""

    def __init__(self, net: Any, optimizer: Any):
        self.net, self.optimizer, self.steps = net, optimizer, 0

    def step(self, x: Any) -> Any:
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        self.last = loss
        return loss


@program()
def another_optimizer_takes_over(p: Run) -> None:
    trainer = Trainer(net := a_net(), paddle.optimizer.Adam(0.2, parameters=[]))
    step = p.static(trainer.step)
    p.watch(trainer)
    for made in (paddle.optimizer.Adam, paddle.optimizer.SGD, paddle.optimizer.Adam):
        trainer.optimizer = made(0.1, parameters=net.parameters())
        some_steps(p, step, net, rows=(4, 4))
    trainer.optimizer = paddle.optimizer.SGD(0.1, parameters=net[0].parameters())
    some_steps(p, step, net, rows=(4, 4))
    trainer.net = nn.Linear(3, 3)
    some_steps(p, step, net, rows=(4, 4))


@program()
def options_are_changed_between_calls(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.1))

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net, rows=(4, 4))
    optimizer._grad_clip = None
    some_steps(p, step, net, rows=(4, 4))
    net[0].weight.optimize_attr["learning_rate"] = 3.0
    some_steps(p, step, net, rows=(4, 4))
    net[0].weight.regularizer = paddle.regularizer.L1Decay(0.1)
    some_steps(p, step, net, rows=(4, 4))
    optimizer._grad_clip = nn.ClipGradByValue(0.01)
    some_steps(p, step, net, rows=(4, 4))
    net[2].weight.need_clip = False
    some_steps(p, step, net, rows=(4, 4))


@program()
def groups_of_parameters(p: Run) -> None:
    net = a_net()
    groups = [
        {"params": net[0].parameters(), "learning_rate": 0.1, "weight_decay": 0.1},
        {"params": net[2].parameters(), "weight_decay": 0.01, "beta1": 0.5},
    ]
    optimizer = paddle.optimizer.Adam(0.1, parameters=groups, grad_clip=nn.ClipGradByNorm(0.1))

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net)


@program()
def minimize_inside(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adamax(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.minimize(loss)
        net.clear_gradients()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net)


class SignDescent(Optimizer):
    """An optimizer of one's own, by the names that Paddle's has."""

    def __init__(self, rate: Any, parameters: Any, beta: float = 0.9, **options: Any):
        super().__init__(rate, parameters, **options)
        self.beta = beta

    def _create_accumulators(self, block: Any, parameters: Any) -> None:
        for parameter in parameters:
            self._add_accumulator("mean", parameter)

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> None:
        parameter, gradient = param_and_grad
        mean = self._get_accumulator("mean", parameter)
        rate = self._create_param_lr(param_and_grad)
        new = mean * self.beta + gradient * (1 - self.beta)
        mean.set_value(new)
        parameter.set_value(parameter - rate * paddle.sign(new))


@program()
def an_optimizer_of_ones_own(p: Run) -> None:
    net = a_net()
    schedule = paddle.optimizer.lr.ExponentialDecay(0.1, 0.5)
    optimizer = SignDescent(schedule, net.parameters(), grad_clip=nn.ClipGradByNorm(1.0), weight_decay=0.01)

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net)
    schedule.step()
    optimizer.beta = 0.5
    some_steps(p, step, net)


class Counted(paddle.optimizer.Adam):
    """One of Paddle's with a step of one's own around it."""

    def step(self) -> None:
        self.steps = getattr(self, "steps", 0) + 1
        super().step()


@program(whole=False)
def a_step_around_the_step(p: Run) -> None:
    net = a_net()
    optimizer = Counted(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net)


class Halved(paddle.optimizer.Adam):
    """One of which a part is another."""

    def _rate_factor(self, parameter: Any, group: Any) -> float:
        self.asked = getattr(self, "asked", 0) + 1
        return super()._rate_factor(parameter, group) / (2 if self.asked < 12 else 1)


@program(whole=False)
def an_optimizer_with_a_part_of_ones_own(p: Run) -> None:
    net = a_net()
    optimizer = Halved(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net)


@program(whole=False)
def rows_of_a_table_from_before(p: Run) -> None:
    table = nn.Embedding(6, 3, sparse=True)
    optimizer = paddle.optimizer.SGD(0.1, parameters=table.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = table(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss.detach()

    p.watch(table)
    for eager in (False, True, False, True):
        if eager:
            table(paddle.to_tensor([0, 2])).sum().backward()
        p.call(step, paddle.to_tensor([1, 2, 1]))
        table.clear_gradients(set_to_zero=False)
