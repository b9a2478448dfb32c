"""Programs that train with gradients that are differentiated, read, set, or those of arguments and of what a step makes."""

from __future__ import annotations

from typing import Any

import polyreme as paddle
from polyreme import nn
from tests.frontend.capture_programs.driver import Run, program
from tests.frontend.capture_programs.steps import a_net, gradients, some_steps


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
