"""Programs that train: whole steps, gradients that are added up, several optimizers, and all that changes between steps."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from polyreme.optimizer import Optimizer
from tests.frontend.capture_programs.driver import Run, program


def a_net(width: int = 5) -> Any:
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def gradients(*layers: Any) -> list[Any]:
    return [p.grad for layer in layers for p in layer.parameters()]


def some_steps(p: Run, step: Any, *layers: Any, rows: tuple[int, ...] = (4, 4, 4, 6)) -> None:
    """Call, and compare what is left in parameters and their gradients."""
    p.watch(*layers)
    for count in rows:
        p.call(step, p.t(count, 3))
        p.note(gradients(*layers))


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
def a_gradient_penalty(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.001, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        x = x * 0.5 + 0.1
        x.stop_gradient = False
        y = net(x).square().sum()
        (slope,) = paddle.grad(y, x, create_graph=True)
        loss = y + (slope.square().sum() - 1).square()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)


@program(whole=False)
def an_argument_is_made_to_need_gradients(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any) -> Any:
        x.stop_gradient = False
        net(x).sum().backward()
        return x.grad

    p.watch(net)
    for _ in range(3):
        x = p.t(4, 3)
        p.call(step, x)
        p.note([x.grad, x.stop_gradient, *gradients(net)])


@program(whole=False)
def a_tensor_made_inside_leaves_with_its_gradient(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any) -> Any:
        x = x + 1
        x.stop_gradient = False
        net(x).sum().backward()
        return x

    p.watch(net)
    for _ in range(3):
        x = p.call(step, p.t(4, 3))
        p.note([x.grad, x.stop_gradient, *gradients(net)])


@program()
def a_tensor_made_inside_leaves_its_gradient(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any) -> Any:
        x = x + 1
        x.stop_gradient = False
        net(x).sum().backward()
        net(x * 2).sum().backward()
        first = x.grad.detach() * 1.0
        x.clear_grad()
        net(x).square().sum().backward()
        return first, x.grad.detach() + 1

    some_steps(p, step, net)


@program()
def norms_are_clipped_by_hand(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any, by_value: bool) -> Any:
        net(x).square().mean().backward()
        if by_value:
            nn.utils.clip_grad_value_(net.parameters(), 0.01)
            total = None
        else:
            total = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        optimizer.clear_grad()
        return total

    p.watch(net)
    for by_value in (False, False, True, True):
        p.call(step, p.t(4, 3), by_value)
        p.note(gradients(net))


@program()
def a_scaler_that_is_off(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(enable=False)

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)


@program()
def a_gradient_penalty_of_an_argument(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        y = net(x).square().sum()
        (slope,) = paddle.grad(y, x, create_graph=True)
        loss = y + (slope.square().sum() - 1).square()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, slope.detach()

    p.watch(net, optimizer)
    for _ in range(3):
        x = p.g(4, 3)
        p.call(step, x)
        p.note([x.grad, *gradients(net)])


@program(whole=False)
def an_argument_gets_gradients(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any, y: Any) -> Any:
        (net(x) * y).sum().backward()

    p.watch(net)
    x = p.g(4, 3)
    for y in (p.g(4, 2), p.t(4, 2), p.g(4, 2)):
        p.call(step, x, y)
        p.note([x.grad, y.grad, *gradients(net)])
    h = x * 2
    p.call(step, h, p.t(4, 2))
    p.note([x.grad, h.grad, *gradients(net)])
    hooked = p.g(4, 3)
    hooked.register_hook(lambda grad: grad * 2)
    p.call(step, hooked, p.t(4, 2))
    p.note([hooked.grad, *gradients(net)])


@program(whole=False)
def one_tensor_is_given_twice(p: Run) -> None:
    @p.static
    def step(x: Any, y: Any) -> Any:
        (x * y * y).sum().backward()

    x, y = p.g(3), p.g(3)
    for pair in ((x, y), (x, x), (x, y)):
        p.call(step, *pair)
        p.note([x.grad, y.grad])


@program(whole=False)
def a_parameter_is_an_argument_too(p: Run) -> None:
    w = paddle.create_parameter([3], "float32", default_initializer=nn.initializer.Constant(0.5))
    optimizer = paddle.optimizer.SGD(0.1, parameters=[w])

    @p.static
    def step(x: Any) -> Any:
        (x * 3).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    p.watch(w)
    for x in (p.g(3), w, p.g(3), w):
        p.call(step, x)
        p.note([x.grad, w.grad])


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
def a_result_goes_on_to_be_differentiated(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        y = net(x)
        y.square().mean().backward(retain_graph=True)
        optimizer.step()
        optimizer.clear_grad()
        return y, net(x).sum()

    some_steps(p, step, net)


@program()
def gradients_are_read_and_set(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        total = paddle.zeros([])
        with paddle.no_grad():
            for parameter in net.parameters():
                if parameter.grad is not None:
                    total = total + parameter.grad.square().sum()
                    parameter.grad = parameter.grad / 2
            net[0].bias.grad = None
        optimizer.step()
        return loss, total.sqrt()

    some_steps(p, step, net)
    net.clear_gradients(set_to_zero=False)
    some_steps(p, step, net)


@program()
def an_average_of_trained_weights(p: Run) -> None:
    net = a_net()
    averages = [q.detach().clone() for q in net.parameters()]
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        with paddle.no_grad():
            for average, parameter in zip(averages, net.parameters(), strict=True):
                average.set_value(average * 0.9 + parameter * 0.1)
        return loss

    p.watch(averages)
    some_steps(p, step, net)


@program()
def leaves_without_layers(p: Run) -> None:
    class Held:
        pass

    held = Held()
    held.w, held.b = paddle.create_parameter([3, 2], "float32"), paddle.create_parameter([2], "float32", is_bias=True)
    optimizer = paddle.optimizer.Momentum(0.1, parameters=[held.w, held.b])

    @p.static
    def step(x: Any) -> Any:
        loss = (x @ held.w + held.b).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(held, optimizer)
    for _ in range(3):
        p.call(step, p.t(4, 3))
        p.note([held.w.grad, held.b.grad])
    held.w = p.g(3, 2)  # which the optimizer does not know
    for _ in range(3):
        p.call(step, p.t(4, 3))
        p.note([held.w.grad, held.b.grad])


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


@program()
def parts_of_low_precision(p: Run) -> None:
    net = a_net()
    net.to(dtype="bfloat16")
    optimizer = paddle.optimizer.AdamW(0.1, parameters=net.parameters(), multi_precision=True)

    @p.static
    def step(x: Any) -> Any:
        loss = net(x.astype("bfloat16")).astype("float32").square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)
    p.note([np.asarray(t.numpy()) for t in optimizer._master_weights.values()])


class Doubled(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensor()
        return grad * 2 + x * 0.1


@program()
def rules_and_hooks_of_ones_own_in_a_step(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        hidden = net[0](x)
        hidden.register_hook(lambda grad: grad * 3)
        loss = net[2](Doubled.apply(hidden)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)


@program()
def recomputed_parts_in_a_step(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        loss = net[2](paddle.distributed.fleet.utils.recompute(net[0], x)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    some_steps(p, step, net)


@program()
def recurrent_layers_in_a_step(p: Run) -> None:
    net = nn.LSTM(3, 4)
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        outputs, _ = net(x)
        loss = outputs.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(net)
    for length in (3, 3, 5):
        p.call(step, p.t(2, length, 3))
        p.note(gradients(net))


@program(whole=False)
def a_loop_of_tensors_in_a_step(p: Run) -> None:
    net = a_net()
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())

    @p.static
    def step(x: Any, n: Any) -> Any:
        i = paddle.zeros([], dtype="int64")
        while i < n:
            x = x + net[0](x)[:, :3]
            i = i + 1
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    p.watch(net)
    for count in (2, 3, 0, 1):
        p.call(step, p.t(4, 3), paddle.to_tensor(count))
        p.note(gradients(net))


@program()
def writes_and_views_in_a_step(p: Run) -> None:
    net = nn.Sequential(nn.Conv2D(1, 2, 3), nn.BatchNorm2D(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    optimizer = paddle.optimizer.Momentum(0.01, parameters=net.parameters())

    @p.static
    def step(x: Any) -> Any:
        y = net(x)
        y[:, 0] = y[:, 1] * 2
        y.add_(paddle.ones([2]))
        loss = F.softmax(y).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, y.detach()

    p.watch(net)
    for rows in (3, 3, 4):
        p.call(step, p.t(rows, 1, 4, 4))
        p.note(gradients(net))


@program()
def a_graph_that_is_kept_for_a_second_backward(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any) -> Any:
        y = net(x)
        y.sum().backward(retain_graph=True)
        y.square().sum().backward()
        paddle.autograd.backward([net(x).sum(), net(x * 2).mean()])
        return y

    some_steps(p, step, net)


@program(whole=False)
def a_second_backward_of_a_graph_that_is_gone(p: Run) -> None:
    net = a_net()

    @p.static
    def step(x: Any) -> Any:
        y = net(x)
        y.sum().backward()
        y.square().sum().backward()

    def is_refused(x: Any) -> bool:
        try:
            step(x)
        except RuntimeError:
            return True
        return False

    for _ in range(3):
        p.call(is_refused, p.t(4, 3))


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
