"""What changes between steps: weights that are loaded, the mode, the optimizer, a part of the net, hooks."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


@program
def weights_and_state_are_loaded_between_steps(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    opt = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.05, 2, 0.5), parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    data = images(8)
    saved = None
    for i, (x, y) in enumerate(data):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
        opt._learning_rate.step()
        if i == 2:
            weights = {k: v.numpy().copy() for k, v in net.state_dict().items()}
            state = {k: v.numpy().copy() if hasattr(v, "numpy") else copy.deepcopy(v) for k, v in opt.state_dict().items()}
            saved = weights, state
        if i == 5:
            net.set_state_dict(saved[0])
            opt.set_state_dict({k: (paddle.to_tensor(v) if isinstance(v, np.ndarray) else v) for k, v in saved[1].items()})
            log(rate=opt.get_lr())
    log.parameters(net)


@program
def train_and_eval_in_one_function(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    opt = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def run(x: Any, y: Any, train: Any = True) -> Any:
        if train:
            net.train()
        else:
            net.eval()
        s = net(x)
        loss = paddle.nn.functional.cross_entropy(s, y)
        if train:
            loss.backward()
            opt.step()
            opt.clear_grad()
        return loss

    for i, (x, y) in enumerate(images(8)):
        log(loss=run(paddle.to_tensor(x), paddle.to_tensor(y), i % 3 != 2), mode=net.training)
    log.parameters(net)


@program
def the_optimizer_is_another_after_a_while(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    state = {"opt": paddle.optimizer.Adam(0.05, parameters=net.parameters())}

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.l1_loss(net(x), y)
        loss.backward()
        state["opt"].step()
        state["opt"].clear_grad()
        return loss

    for i, (x, y) in enumerate(rows(9)):
        if i == 3:
            state["opt"] = paddle.optimizer.SGD(0.1, parameters=net.parameters())
        if i == 6:
            state["opt"] = paddle.optimizer.Adam(0.01, parameters=net[2].parameters())
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log.parameters(net)


@program
def the_head_is_replaced(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn
    net = perceptron(paddle, outputs=2)
    opt = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    class Trainer:
        pass

    t = Trainer()
    t.opt = opt

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        t.opt.step()
        t.opt.clear_grad()
        return loss

    rng = np.random.default_rng(4)
    for i, (x, _) in enumerate(rows(8)):
        if i == 4:
            net[2] = nn.Linear(8, 4)
            t.opt = paddle.optimizer.AdamW(0.02, parameters=net.parameters(), lr_ratio=None)
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(rng.integers(0, 2, len(x)))))
    log.parameters(net)


@program
def hooks_come_and_go_between_steps(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    opt = paddle.optimizer.SGD(0.2, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    a = b = c = None
    for i, (x, y) in enumerate(rows(10)):
        if i == 2:
            a = net[0].register_forward_post_hook(lambda layer, inputs, outputs: outputs * 0.5)
        if i == 4:
            a.remove()
            b = net[0].register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,))
        if i == 6:
            b.remove()
            c = net[0].weight.register_hook(lambda g: g * 3)
        if i == 8:
            c.remove()
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log.parameters(net)
