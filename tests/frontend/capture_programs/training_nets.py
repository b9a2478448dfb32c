"""Steps of training of nets of all kinds: low precision, rules and hooks of one's own, recurrence, loops, writes and views."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program
from tests.frontend.capture_programs.steps import a_net, gradients, some_steps


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
