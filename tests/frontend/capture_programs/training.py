"""Programs that train: whole steps, gradients that are added up, and what changes between steps."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program
from tests.frontend.capture_programs.steps import a_net, gradients, some_steps


@program()
def a_step_of_momentum(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters())

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
def gradients_are_cleared_first(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        optimizer.clear_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    kept = []
    p.watch(optimizer, kept)
    for _ in range(4):
        p.call(step, p.t(4, 3))
        p.note(gradients(net))
        kept.append(net[0].weight.grad)
    p.note(kept)


@program()
def gradients_are_taken_away(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters(), weight_decay=0.01)

    @p.static
    def step(x: Any) -> Any:
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)

    some_steps(p, step, net)
    p.note([q.grad is None for q in net.parameters()])


@program()
def gradients_are_left(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    some_steps(p, step, net)
    net.clear_gradients()
    some_steps(p, step, net)
    net.clear_gradients(set_to_zero=False)
    some_steps(p, step, net)
    net[0].weight.grad = p.t(3, 5)
    some_steps(p, step, net)


@program()
def gradients_add_up_over_three_calls(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.AdamW(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any, last: bool) -> Any:
        loss = net(x).square().mean() / 3
        loss.backward()
        if last:
            optimizer.step()
            optimizer.clear_grad()
        return loss.detach()

    p.watch(net, optimizer)
    for i in range(7):
        p.call(step, p.t(4, 3), i % 3 == 2)
        p.note(gradients(net))


@program()
def backward_twice_in_a_step(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        first = net(x).square().mean()
        first.backward()
        second = net(x * 2).abs().mean()
        second.backward()
        held = net[0].weight.grad
        total = held.abs().sum()
        optimizer.step()
        optimizer.clear_grad()
        return first.detach(), second.detach(), total.detach()

    some_steps(p, step, net)


@program()
def two_steps_in_one(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        losses = []
        for _ in range(2):
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss)
        return losses

    p.watch(optimizer)
    some_steps(p, step, net)


@program()
def adversaries_in_one_step(p: Run) -> None:
    maker, judge = nn.Linear(3, 3), a_net()
    for_maker = paddle.optimizer.Adam(0.05, parameters=maker.parameters())
    for_judge = paddle.optimizer.Momentum(0.05, parameters=judge.parameters())

    @p.static
    def step(x: Any) -> Any:
        made = maker(x)
        lost = F.softplus(-judge(x)).mean() + F.softplus(judge(made.detach())).mean()
        lost.backward()
        for_judge.step()
        for_judge.clear_grad()
        won = F.softplus(-judge(made)).mean()
        won.backward()
        for_maker.step()
        for_maker.clear_grad()
        for_judge.clear_grad()
        return lost, won

    p.watch(for_maker, for_judge)
    some_steps(p, step, maker, judge)


@program()
def some_parameters_are_frozen(p: Run) -> None:
    net = a_net()
    net[0].weight.stop_gradient = True
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net)
    net[0].weight.stop_gradient = False
    some_steps(p, step, net)
    net[2].bias.stop_gradient = True
    some_steps(p, step, net)


@program()
def some_parameters_are_not_reached(p: Run) -> None:
    net, beside = a_net(), nn.Linear(2, 2)
    optimizer = paddle.optimizer.Momentum(0.1, parameters=[*net.parameters(), *beside.parameters()])

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net, beside)
    # Zeros are a gradient, by which a velocity goes on.
    beside(p.t(2, 2)).sum().backward()
    some_steps(p, step, net, beside)


@program()
def buffers_and_random_numbers(p: Run) -> None:
    net = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1D(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)
    p.note(paddle.rand([3]))


@program()
def a_schedule_steps_outside(p: Run) -> None:
    net = a_net()
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.2, 5)
    optimizer = paddle.optimizer.Momentum(schedule, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for _ in range(3):
        some_steps(p, step, net, rows=(4, 4))
        schedule.step()


@program()
def a_schedule_steps_inside(p: Run) -> None:
    net = a_net()
    schedule = paddle.optimizer.lr.LinearWarmup(paddle.optimizer.lr.ExponentialDecay(0.2, 0.5), 3, 0.0, 0.2)
    optimizer = paddle.optimizer.Momentum(schedule, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net, rows=(4,) * 6)


@program(whole=False)
def a_schedule_steps_before_the_optimizer(p: Run) -> None:
    net = a_net()
    schedule = paddle.optimizer.lr.ExponentialDecay(0.2, 0.5)
    optimizer = paddle.optimizer.SGD(schedule, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        schedule.step()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)


@program(whole=False)
def the_rate_is_asked_for(p: Run) -> None:
    net = a_net()
    schedule = paddle.optimizer.lr.ExponentialDecay(0.2, 0.5)
    optimizer = paddle.optimizer.SGD(schedule, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        rate = optimizer.get_lr()
        schedule.step()
        return loss, rate

    some_steps(p, step, net)


@program()
def rates_and_states_are_set_between_calls(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.2, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(optimizer)
    some_steps(p, step, net, rows=(4, 4))
    optimizer.set_lr(0.01)
    kept = {name: t.numpy() for name, t in optimizer.state_dict().items()}
    weights = [q.numpy() for q in net.parameters()]
    some_steps(p, step, net, rows=(4, 4))
    optimizer.set_state_dict(kept)
    for q, values in zip(net.parameters(), weights, strict=True):
        q.set_value(values)
    some_steps(p, step, net, rows=(4, 4))
    optimizer.set_lr_scheduler(paddle.optimizer.lr.ExponentialDecay(0.5, 0.5))
    some_steps(p, step, net, rows=(4, 4))


@program()
def the_net_is_used_in_eager_mode_between(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    compiled = p.static(step)
    p.watch(optimizer)
    for i in range(6):
        p.call(compiled if i % 3 else step, p.t(4, 3))
        p.note(gradients(net))
        if i == 3:
            net(p.t(2, 3)).sum().backward()  # which the next step finds


@program()
def a_function_in_a_function_takes_the_step(p: Run) -> None:
    net = p.static(a_net())
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    def update(loss: Any) -> None:
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        update(loss)
        return loss

    some_steps(p, step, net)


@program(whole=False)
def the_step_is_taken_for_whoever_was_called_before(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def update(loss: Any) -> None:
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

    p.watch(net, optimizer)
    for _ in range(3):
        loss = net(p.t(4, 3)).square().mean()
        p.call(update, loss)
        p.note(gradients(net))


@program()
def only_the_update_is_compiled(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.1))

    @p.static
    def update() -> None:
        optimizer.step()
        optimizer.clear_grad()

    p.watch(net, optimizer)
    for _ in range(3):
        net(p.t(4, 3)).square().mean().backward()
        kept = net[0].weight.grad
        p.call(update)
        p.note([kept, *gradients(net)])
