"""Steps within steps, and gradients of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


@program
def a_step_up_before_the_step_down(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    optimizer = paddle.optimizer.SGD(0.2, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        with paddle.no_grad():
            norm = paddle.sqrt(sum((p.grad**2).sum() for p in net.parameters()))
            moves = []
            for p in net.parameters():
                move = p.grad * (0.05 / (norm + 1e-12))
                p.add_(move)
                moves.append(move)
        optimizer.clear_grad()
        sharp = paddle.nn.functional.mse_loss(net(x), y)
        sharp.backward()
        with paddle.no_grad():
            for p, move in zip(net.parameters(), moves):
                p.subtract_(move)
        optimizer.step()
        optimizer.clear_grad()
        return loss, sharp

    for x, y in rows(6):
        loss, sharp = step(paddle.to_tensor(x), paddle.to_tensor(y))
        log(loss=loss, sharp=sharp)
    log.parameters(net)


@program
def learning_to_learn_in_a_few_steps(paddle: Any, compiled: Compile, log: Log) -> None:
    F = paddle.nn.functional
    weights = [paddle.create_parameter(shape, "float32") for shape in ([4, 6], [6, 1])]
    biases = [paddle.create_parameter(shape, "float32", is_bias=True) for shape in ([6], [1])]
    parameters = [weights[0], biases[0], weights[1], biases[1]]
    optimizer = paddle.optimizer.Adam(0.02, parameters=parameters)

    def guess(x: Any, held: Any) -> Any:
        return F.linear(paddle.tanh(F.linear(x, held[0], held[1])), held[2], held[3])

    @compiled
    def step(near: Any, near_y: Any, far: Any, far_y: Any) -> Any:
        fast = list(parameters)
        for _ in range(2):
            slopes = paddle.grad(F.mse_loss(guess(near, fast), near_y), fast, create_graph=True)
            fast = [p - 0.1 * g for p, g in zip(fast, slopes)]
        loss = F.mse_loss(guess(far, fast), far_y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    data = rows(8)
    for (a, b), (c, d) in zip(data[::2], data[1::2]):
        log(loss=step(*map(paddle.to_tensor, (a, b, c, d))))
    log(**{f"p{i}": p for i, p in enumerate(parameters)})


@program
def images_are_made_harder_by_their_gradients(paddle: Any, compiled: Compile, log: Log) -> None:
    F = paddle.nn.functional
    net = convolutional(paddle)
    optimizer = paddle.optimizer.SGD(0.05, parameters=net.parameters())

    @compiled
    def step(x: Any, labels: Any) -> Any:
        x.stop_gradient = False
        plain = F.cross_entropy(net(x), labels)
        plain.backward()
        harder = (x + 0.1 * x.grad.sign()).detach()
        optimizer.clear_grad()
        loss = F.cross_entropy(net(harder), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return plain, loss

    for x, labels in images(5):
        plain, loss = step(paddle.to_tensor(x), paddle.to_tensor(labels))
        log(plain=plain, loss=loss)
    log.parameters(net)


@program
def a_gradient_is_turned_around(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Turn(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: float) -> Any:
            ctx.factor = factor
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return -ctx.factor * grad

    body, head, judge = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 2)
    held = [*body.parameters(), *head.parameters(), *judge.parameters()]
    optimizer = paddle.optimizer.Adam(0.05, parameters=held)

    @compiled
    def step(x: Any, y: Any, domain: Any, factor: float) -> Any:
        hidden = F.relu(body(x))
        loss = F.mse_loss(head(hidden), y) + F.cross_entropy(judge(Turn.apply(hidden, factor)), domain)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, y) in enumerate(rows(6)):
        factor = 2 / (1 + np.exp(-10 * number / 6)) - 1
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y), paddle.to_tensor(np.arange(8) % 2), float(factor)))
    log.parameters(body, head, judge)
