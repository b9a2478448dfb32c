"""Steps of training in which a tensor decides, a position is wrong, a hook runs or Python looks at values."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from polyreme import nn
from tests.frontend.capture_programs.driver import Run, program
from tests.frontend.capture_programs.steps import a_net, gradients, some_steps
from tests.frontend.capture_programs.training_optimizers import Trainer


@program(whole=False)
def a_hook_is_registered_between_calls(p: Run) -> None:
    net = a_net()
    seen: list[Any] = []

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    some_steps(p, step, net)
    handle = net[0].weight.register_hook(lambda grad: seen.append(1) or grad * 2)
    some_steps(p, step, net)
    handle.remove()
    some_steps(p, step, net)
    p.note(seen)


@program(whole=False)
def a_step_that_fails_at_its_positions(p: Run) -> None:
    table, net = nn.Embedding(4, 3), a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=[*table.parameters(), *net.parameters()])

    @p.static
    def step(x: Any) -> Any:
        loss = net(table(x)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(table, net)
    for positions in ([0, 1, 2], [3, 0, 1], [4, 0, 0], [1, 1, 1]):
        p.call(step, paddle.to_tensor(positions))
        p.note(gradients(table, net))


@program(whole=False)
def a_step_that_asserts(p: Run) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1D(4), nn.Linear(4, 2))
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        assert loss < 100, "the loss is too large"
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(net)
    for scale in (1.0, 1.0, 1e6, 1.0):
        p.call(step, p.t(4, 3) * scale + scale)
        p.note(gradients(net))


@program(whole=False)
def a_tensor_decides_about_the_step(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        if loss < 1.0:
            optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net, rows=(4,) * 5)


@program(whole=False)
def a_tensor_decides_what_is_reached(p: Run) -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = paddle.optimizer.Momentum(0.1, parameters=[*one.parameters(), *other.parameters()])

    @p.static
    def step(x: Any) -> Any:
        y = one(x) if x.sum() > 0 else other(x)
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, one, other, rows=(4,) * 5)


@program()
def a_tensor_decides_inside_of_the_net(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        y = net(x)
        y = y * 2 if y.sum() > 0 else y.square()
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net, rows=(4,) * 5)


@program(whole=False)
def values_are_looked_at(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    losses: list[float] = []

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        return loss

    p.watch(losses, optimizer)
    some_steps(p, step, net)


@program()
def a_step_that_keeps_things(p: Run) -> None:
    trainer = Trainer(net := a_net(), None)
    trainer.optimizer = paddle.optimizer.RMSProp(0.01, parameters=net.parameters())
    step = p.static(trainer.step)
    p.watch(trainer)
    for rows in (4, 4, 5):
        p.call(step, p.t(rows, 3))
        p.note([trainer.last, *gradients(net)])


@program(whole=False)
def a_step_with_an_error_of_its_own(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any, fails: bool) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        if fails:
            raise ValueError("no step is taken")
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(net, optimizer)
    for fails in (False, True, False, True):
        p.call(step, p.t(4, 3), fails)
        p.note(gradients(net))
