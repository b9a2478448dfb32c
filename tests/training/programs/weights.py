"""Weights that follow, freeze, are taken over."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


@program
def an_average_of_weights_follows(paddle: Any, compiled: Compile, log: Log) -> None:
    class Average:
        def __init__(self, net: Any, decay: float):
            self.net, self.decay = net, decay
            self.shadow = {name: p.clone().detach() for name, p in net.named_parameters()}
            self.backup: dict[str, Any] = {}

        def update(self) -> None:
            for name, p in self.net.named_parameters():
                self.shadow[name] = self.decay * self.shadow[name] + (1.0 - self.decay) * p.detach()

        def apply(self) -> None:
            for name, p in self.net.named_parameters():
                self.backup[name] = p.clone().detach()
                p.set_value(self.shadow[name])

        def restore(self) -> None:
            for name, p in self.net.named_parameters():
                p.set_value(self.backup[name])

    net = perceptron(paddle)
    average = Average(net, 0.8)
    optimizer = paddle.optimizer.AdamW(0.05, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        average.update()
        return loss

    evaluate = compiled(lambda x, y: paddle.nn.functional.mse_loss(net(x), y))
    for number, (x, y) in enumerate(rows(8)):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
        if number % 3 == 2:
            average.apply()
            log(averaged=evaluate(paddle.to_tensor(x), paddle.to_tensor(y)))
            average.restore()
    log.parameters(net)
    log(shadow=average.shadow["0.weight"])


@program
def a_backbone_is_frozen_and_let_go(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    optimizer = paddle.optimizer.Adam(0.02, parameters=net.parameters(), weight_decay=0.01)

    @compiled
    def step(x: Any, labels: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, labels) in enumerate(images(9)):
        for p in net[0].parameters():
            p.stop_gradient = number < 3
        net[1].training = number % 2 == 0
        if number == 6:
            for p in net[6].parameters():
                p.trainable = False
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(labels)))
    log.parameters(net)


@program
def groups_of_parameters_and_one_more_later(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn
    body, head, late = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
    optimizer = paddle.optimizer.AdamW(
        0.05,
        parameters=[
            {"params": body.parameters(), "learning_rate": 0.1, "weight_decay": 0.0},
            {"params": head.parameters(), "weight_decay": 0.1, "grad_clip": nn.ClipGradByNorm(0.05)},
        ],
        weight_decay=0.01,
    )
    use_late = False

    @compiled
    def step(x: Any, y: Any) -> Any:
        hidden = paddle.tanh(body(x))
        guess = head(hidden) + late(hidden) if use_late else head(hidden)
        loss = paddle.nn.functional.mse_loss(guess, y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, y) in enumerate(rows(8)):
        if number == 4:
            use_late = True
            optimizer._add_param_group({"params": late.parameters(), "learning_rate": 0.5})
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log.parameters(body, head, late)


@program
def a_teacher_is_copied_every_other_step(paddle: Any, compiled: Compile, log: Log) -> None:
    F = paddle.nn.functional
    net, target = perceptron(paddle, outputs=3), perceptron(paddle, outputs=3)
    target.set_state_dict(net.state_dict())
    target.eval()
    optimizer = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def step(state: Any, action: Any, reward: Any, following: Any) -> Any:
        values = paddle.take_along_axis(net(state), action.unsqueeze(1), 1).squeeze(1)
        with paddle.no_grad():
            best = target(following).max(axis=1)
            wanted = reward + 0.9 * best
        loss = F.smooth_l1_loss(values, wanted)
        loss.backward()
        for p in net.parameters():
            p.grad = p.grad.clip(-1, 1)
        optimizer.step()
        optimizer.clear_grad()
        return loss

    rng = np.random.default_rng(3)
    data = rows(8)
    for number, (x, y) in enumerate(data):
        following = data[(number + 1) % 8][0]
        drawn = (x, rng.integers(0, 3, len(x)), y[:, 0], following)
        log(loss=step(*map(paddle.to_tensor, drawn)))
        if number % 2:
            target.set_state_dict(net.state_dict())
    log.parameters(net, target)


@program
def a_student_learns_from_a_teacher(paddle: Any, compiled: Compile, log: Log) -> None:
    F = paddle.nn.functional
    teacher, student = convolutional(paddle), convolutional(paddle)
    teacher.eval()
    optimizer = paddle.optimizer.Momentum(0.05, parameters=student.parameters())

    @compiled
    def step(x: Any, labels: Any, heat: float) -> Any:
        with paddle.no_grad():
            told = F.softmax(teacher(x) / heat)
        scores = student(x)
        soft = F.kl_div(F.log_softmax(scores / heat), told, reduction="batchmean") * heat**2
        loss = 0.5 * F.cross_entropy(scores, labels) + 0.5 * soft
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, soft

    for number, (x, labels) in enumerate(images(6)):
        loss, soft = step(paddle.to_tensor(x), paddle.to_tensor(labels), 2.0 if number < 4 else 3.0)
        log(loss=loss, soft=soft)
    log.parameters(student, teacher)


@program
def keys_of_a_queue_and_an_encoder_that_follows(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Contrast(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key = perceptron(paddle, outputs=3), perceptron(paddle, outputs=3)
            for q, k in zip(self.query.parameters(), self.key.parameters()):
                k.set_value(q)
                k.stop_gradient = True
            self.register_buffer("queue", F.normalize(paddle.randn([3, 16]), axis=0))
            self.register_buffer("place", paddle.zeros([1], dtype="int64"))

        @paddle.no_grad()
        def follow(self) -> None:
            for q, k in zip(self.query.parameters(), self.key.parameters()):
                k.set_value(k * 0.9 + q * 0.1)

        @paddle.no_grad()
        def enqueue(self, keys: Any) -> None:
            start = self.place.item()
            self.queue[:, start : start + keys.shape[0]] = keys.t()
            self.place[0] = (start + keys.shape[0]) % 16

        def forward(self, x: Any, y: Any) -> Any:
            q = F.normalize(self.query(x), axis=1)
            with paddle.no_grad():
                self.follow()
                k = F.normalize(self.key(y), axis=1)
            near = (q * k).sum(axis=1, keepdim=True)
            far = q @ self.queue.clone().detach()
            scores = paddle.concat([near, far], axis=1) / 0.2
            loss = F.cross_entropy(scores, paddle.zeros([x.shape[0]], dtype="int64"))
            self.enqueue(k)
            return loss

    net = Contrast()
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.query.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = net(x, y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    rng = np.random.default_rng(4)
    for x, _ in rows(6):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(x + rng.normal(size=x.shape).astype("float32") * 0.1)), place=net.place)
    log.parameters(net)


@program
def options_are_set_by_their_attributes(paddle: Any, compiled: Compile, log: Log) -> None:
    kinds = paddle.optimizer
    for make in (
        lambda given: kinds.Adam(0.05, parameters=given),
        lambda given: kinds.AdamW(0.05, parameters=given),
        lambda given: kinds.Momentum(0.05, parameters=given),
        lambda given: kinds.RMSProp(0.05, parameters=given),
        lambda given: kinds.Lamb(0.05, parameters=given),
    ):
        net = perceptron(paddle)
        optimizer = make(net.parameters())

        @compiled
        def step(x: Any, y: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            loss = paddle.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        for number, (x, y) in enumerate(rows(6)):
            if number == 2:
                changed = {"_beta1": 0.5, "_epsilon": 0.1, "_momentum": 0.1, "_rho": 0.5, "_lamb_weight_decay": 0.5, "_use_nesterov": True}
                for name, value in changed.items():
                    if hasattr(optimizer, name):
                        setattr(optimizer, name, value)
            if number == 4 and isinstance(optimizer, kinds.AdamW):
                optimizer._weight_decay = 0.9
            log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))


@program
def options_of_groups_are_set_by_hand(paddle: Any, compiled: Compile, log: Log) -> None:
    kinds = paddle.optimizer
    for make in (
        lambda given: kinds.Adam(0.05, parameters=given, weight_decay=0.01),
        lambda given: kinds.AdamW(0.05, parameters=given),
        lambda given: kinds.Momentum(0.05, parameters=given, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5)),
        lambda given: kinds.Lamb(0.05, parameters=given),
    ):
        net = perceptron(paddle)
        first = {"params": net[0].parameters(), "beta1": 0.8, "learning_rate": 0.5, "weight_decay": 0.1}
        optimizer = make([first, {"params": net[2].parameters()}])

        @compiled
        def step(x: Any, y: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            loss = paddle.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        groups = optimizer._param_groups
        for number, (x, y) in enumerate(rows(8)):
            if number == 2:  # what is set here says nothing to groups
                optimizer._beta1 = optimizer._momentum = 0.5
            if number == 4:
                groups[0]["weight_decay"], groups[0]["learning_rate"] = 0.9, 0.01
                groups[1]["beta1"], groups[1]["momentum"] = 0.3, 0.2
            if number == 6:
                optimizer._grad_clip, groups[1]["grad_clip"] = None, paddle.nn.ClipGradByValue(0.01)
                groups[0]["params"][0].optimize_attr["learning_rate"] = 0.1
            log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))


@program
def what_a_loss_weighs_is_set_between_steps(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.LeakyReLU(0.1), nn.Linear(8, 3))
    optimizer = paddle.optimizer.SGD(0.05, parameters=net.parameters())
    loss_of = nn.CrossEntropyLoss(weight=paddle.to_tensor([1.0, 2.0, 0.5]))

    @compiled
    def step(x: Any, labels: Any) -> Any:
        loss = loss_of(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, labels) in enumerate(images(8)):
        if number == 2:
            loss_of.weight[0] = 5.0
        if number == 4:
            loss_of.weight = paddle.to_tensor([1.0, 0.0, 3.0])
        if number == 5:
            loss_of.label_smoothing = 0.2
        if number == 6:
            net[2]._negative_slope, loss_of.reduction = 0.5, "sum"
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(labels)))
    log.parameters(net)


@program
def an_average_of_weights_follows_within_the_step(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    shadow = copy.deepcopy(net)
    for p in shadow.parameters():
        p.stop_gradient = True
    opt = paddle.optimizer.Momentum(0.05, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any, decay: Any) -> Any:
        loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        with paddle.no_grad():
            for s, p in zip(shadow.parameters(), net.parameters()):
                s.set_value(s * decay + p * (1 - decay))
            for (_, s), (_, p) in zip(shadow.named_buffers(), net.named_buffers()):
                s.copy_(p, False)
        return loss

    for i, (x, y) in enumerate(images(6)):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y), min(0.9, (1 + i) / (10 + i))))
        shadow.eval()
        with paddle.no_grad():
            log(seen=shadow(paddle.to_tensor(x)))
    log.parameters(net, shadow)


@program
def small_products_beside_frozen_weights(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn

    class LoRA(nn.Layer):
        def __init__(self, base: Any, rank: Any = 2, scale: Any = 0.5) -> None:
            super().__init__()
            self.base, self.scale = base, scale
            for p in base.parameters():
                p.stop_gradient = True
            self.a = self.create_parameter([base.weight.shape[0], rank], default_initializer=nn.initializer.Normal(0, 0.1))
            self.b = self.create_parameter([rank, base.weight.shape[1]], default_initializer=nn.initializer.Constant(0.0))
            self.merged = False

        def forward(self, x: Any) -> Any:
            y = self.base(x)
            if not self.merged:
                y = y + (x @ self.a @ self.b) * self.scale
            return y

        def merge(self) -> None:
            with paddle.no_grad():
                self.base.weight.set_value(self.base.weight + self.a @ self.b * self.scale)
            self.merged = True

    net = nn.Sequential(LoRA(nn.Linear(4, 8)), nn.Silu(), LoRA(nn.Linear(8, 1)))
    opt = paddle.optimizer.AdamW(0.05, parameters=[p for p in net.parameters() if not p.stop_gradient])

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    @compiled
    def seen(x: Any) -> Any:
        return net(x)

    for x, y in rows(6):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)), seen=seen(paddle.to_tensor(x)))
    for layer in (net[0], net[2]):
        layer.merge()
    log(seen=seen(paddle.to_tensor(x)))
    log.parameters(net)
