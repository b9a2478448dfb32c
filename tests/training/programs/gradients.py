"""Gradients that are gathered, clipped, watched, and played against each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


@program
def gradients_are_gathered_over_four_steps(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    clip = paddle.nn.ClipGradByGlobalNorm(0.3)
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters(), grad_clip=clip)

    @compiled
    def step(x: Any, y: Any, number: int) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y) / 4
        loss.backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
            optimizer.clear_grad()
        return loss

    for number, (x, y) in enumerate(rows(14)):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y), number), weight=net[0].weight)
    log.parameters(net)


@program
def gradients_are_clipped_by_ones_own_code(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    optimizer = paddle.optimizer.SGD(0.5, parameters=net.parameters())

    def clip(most: float) -> Any:
        squares = [(p.grad * p.grad).sum() for p in net.parameters() if p.grad is not None]
        norm = paddle.sqrt(paddle.add_n(squares))
        factor = paddle.clip(most / (norm + 1e-6), max=1.0)
        for p in net.parameters():
            if p.grad is not None:
                p.grad.set_value(p.grad * factor)
        return norm

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        norm = clip(0.2)
        optimizer.step()
        optimizer.clear_grad()
        return loss, norm

    for x, y in rows(6):
        loss, norm = step(paddle.to_tensor(x), paddle.to_tensor(y))
        log(loss=loss, norm=norm)
    log.parameters(net)


@program
def norms_are_clipped_and_told(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    optimizer = paddle.optimizer.Momentum(0.05, parameters=net.parameters(), weight_decay=1e-3)

    @compiled
    def step(x: Any, labels: Any) -> Any:
        optimizer.clear_grad()
        loss = paddle.nn.functional.cross_entropy(net(x), labels, label_smoothing=0.1)
        loss.backward()
        norm = paddle.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss, norm

    for x, labels in images(6):
        loss, norm = step(paddle.to_tensor(x), paddle.to_tensor(labels))
        log(loss=loss, norm=norm, gradient=net[0].weight.grad)
    log.parameters(net)


@program
def losses_that_are_not_finite_are_left_out(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    optimizer = paddle.optimizer.Adam(0.05, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        if not paddle.isfinite(loss):
            return loss
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, y) in enumerate(rows(6)):
        if number % 3 == 1:
            x = x * np.float32(np.nan)
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log.parameters(net)


@program
def a_gradient_penalty(paddle: Any, compiled: Compile, log: Log) -> None:
    critic = perceptron(paddle)
    optimizer = paddle.optimizer.Adam(0.01, beta1=0.5, beta2=0.9, parameters=critic.parameters())

    @compiled
    def step(real: Any, made: Any, share: Any) -> Any:
        mixed = real * share + made * (1 - share)
        mixed.stop_gradient = False
        (slope,) = paddle.grad(critic(mixed).sum(), mixed, create_graph=True, retain_graph=True)
        penalty = ((slope.norm(2, axis=1) - 1) ** 2).mean()
        loss = critic(made).mean() - critic(real).mean() + 10.0 * penalty
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, penalty

    rng = np.random.default_rng(1)
    for x, _ in rows(6):
        made, share = rng.normal(size=x.shape).astype("float32") * 2, rng.random((len(x), 1)).astype("float32")
        loss, penalty = step(*map(paddle.to_tensor, (x, made, share)))
        log(loss=loss, penalty=penalty)
    log.parameters(critic)


@program
def two_optimizers_play_against_each_other(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional
    maker = nn.Sequential(nn.Linear(3, 8, bias_attr=False), nn.BatchNorm1D(8), nn.ReLU(), nn.Linear(8, 4))
    judge = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(8, 1))
    for_maker = paddle.optimizer.Adam(2e-2, beta1=0.5, parameters=maker.parameters())
    for_judge = paddle.optimizer.Adam(1e-2, beta1=0.5, parameters=judge.parameters())
    loss_of = nn.BCEWithLogitsLoss()

    def judge_step(real: Any) -> Any:
        for_judge.clear_grad()
        noise = paddle.randn([real.shape[0], 3])
        made = maker(noise).detach()
        right, wrong = judge(real), judge(made)
        loss = loss_of(right, paddle.ones_like(right)) + loss_of(wrong, paddle.zeros_like(wrong))
        loss.backward()
        for_judge.step()
        return loss, F.sigmoid(right).mean()

    def maker_step(count: int) -> Any:
        for_maker.clear_grad()
        scores = judge(maker(paddle.randn([count, 3])))
        loss = loss_of(scores, paddle.ones_like(scores))
        loss.backward()
        for_maker.step()
        return loss

    judge_step, maker_step = compiled(judge_step), compiled(maker_step)
    for number, (x, _) in enumerate(rows(6)):
        loss, believed = judge_step(paddle.to_tensor(x))
        log(judged=loss, believed=believed)
        if number % 2:
            log(made=maker_step(len(x)))
    log.parameters(maker, judge)


@program
def gradients_are_clipped_but_for_some(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn
    for clip in (nn.ClipGradByValue(0.01, -0.02), nn.ClipGradByNorm(0.05), nn.ClipGradByGlobalNorm(0.1)):
        free, fast = paddle.ParamAttr(need_clip=False), paddle.ParamAttr(learning_rate=2.0, regularizer=paddle.regularizer.L1Decay(0.01))
        net = nn.Sequential(nn.Linear(4, 8, weight_attr=free), nn.Tanh(), nn.Linear(8, 1, bias_attr=fast))
        opt = paddle.optimizer.RMSProp(0.02, momentum=0.5, centered=True, parameters=net.parameters(), grad_clip=clip)

        @compiled
        def step(x: Any, y: Any, net: Any = net, opt: Any = opt) -> Any:
            opt.clear_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        for x, y in rows(4):
            log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)), g=net[0].weight.grad)
        log.parameters(net)


@program
def gradients_are_taken_and_weights_moved_by_hand(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    velocity = [paddle.zeros_like(p) for p in net.parameters()]

    @compiled
    def step(x: Any, y: Any, lr: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        grads = paddle.grad(loss, net.parameters())
        with paddle.no_grad():
            for p, v, g in zip(net.parameters(), velocity, grads):
                v.scale_(0.9)
                v.add_(g)
                p.subtract_(lr * v)
        return loss

    for i, (x, y) in enumerate(rows(6)):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y), 0.1 / (i + 1)))
    log.parameters(net)
    log(v=velocity[0])


@program
def noise_is_added_to_gradients_and_signs_taken(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    opt = paddle.optimizer.SGD(0.05, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any, sign: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        with paddle.no_grad():
            for p in net.parameters():
                g = p.grad
                if sign:
                    p.grad.set_value(paddle.sign(g))
                else:
                    g.add_(0.01 * paddle.randn(g.shape))
                    g *= 2
        norms = [float_(p.grad) for p in net.parameters()]
        opt.step()
        opt.clear_grad()
        return loss, norms

    def float_(t: Any) -> Any:
        return t.norm()

    for i, (x, y) in enumerate(rows(6)):
        loss, norms = step(paddle.to_tensor(x), paddle.to_tensor(y), i % 3 == 2)
        log(loss=loss, n=norms[0])
    log.parameters(net)


@program
def products_with_the_hessian(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    params = net.parameters()

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        grads = paddle.grad(loss, params, create_graph=True)
        norm = sum((g**2).sum() for g in grads)
        hv = paddle.grad(norm, params, allow_unused=True)
        with paddle.no_grad():
            for p, g, h in zip(params, grads, hv):
                p.set_value(p - 0.1 * g - (0.01 * h if h is not None else 0))
        return loss, norm

    for x, y in rows(5):
        loss, norm = step(paddle.to_tensor(x), paddle.to_tensor(y))
        log(loss=loss, norm=norm)
    log.parameters(net)
