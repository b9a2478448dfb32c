"""Programs that train, written as people write them, in Paddle's words: each runs under Paddle and under Polyreme, eagerly or compiled.

A program is a function of the module, of what compiles (`jit.to_static`, or nothing) and of a `Log`; it notes losses, rates and whatever
else a user would look at, and in the end its parameters. What Paddle 3.3.1 noted is in `programs.npz`; `python -m tests.training.record`,
run by a Python that has Paddle, writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Compile = Callable[[Any], Any]
Program = Callable[[Any, Compile, "Log"], None]
PROGRAMS: dict[str, Program] = {}


class Log:
    """What a program noted, by name and in order."""

    def __init__(self) -> None:
        self.notes: dict[str, list[Any]] = {}

    def __call__(self, **values: Any) -> None:
        for name, value in values.items():
            held = value.astype("float32").numpy() if hasattr(value, "numpy") and "float" in str(value.dtype) else value
            held = held.numpy() if hasattr(held, "numpy") else held
            self.notes.setdefault(name, []).append(np.array(held))

    def parameters(self, *nets: Any, but: str = "nothing") -> None:
        """All that a net holds, buffers too; without what is named `but`."""
        for number, net in enumerate(nets):
            for name, held in net.state_dict().items():
                if but not in name:
                    self(**{f"net{number}.{name}": held.detach()})

    def arrays(self) -> dict[str, Any]:
        """Each name's notes in one array: they have one shape."""
        return {name: np.stack(values) for name, values in self.notes.items()}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def images(count: int, batch: int = 8) -> list[tuple[Any, Any]]:
    """Batches of small images with a class each, which can be learned."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(count):
        labels = rng.integers(0, 3, batch)
        found.append(((rng.normal(size=(batch, 1, 6, 6)) + labels[:, None, None, None]).astype("float32"), labels))
    return found


def rows(count: int, batch: int = 8, width: int = 4) -> list[tuple[Any, Any]]:
    """Batches of rows, with a target each."""
    rng = np.random.default_rng(6)
    weight = rng.normal(size=(width, 1))
    found = []
    for _ in range(count):
        x = rng.normal(size=(batch, width))
        found.append((x.astype("float32"), np.tanh(x @ weight).astype("float32")))
    return found


def perceptron(paddle: Any, width: int = 4, outputs: int = 1, hidden: int = 8) -> Any:
    nn = paddle.nn
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def convolutional(paddle: Any) -> Any:
    nn = paddle.nn
    # A bias in front of a norm has a gradient of rounding alone, of which Adam would make whole steps.
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, padding=1, bias_attr=False), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(36, 3),
    )  # fmt: skip


# --- rates


@program
def the_rate_of_a_schedule_is_logged(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    cosine = paddle.optimizer.lr.CosineAnnealingDecay(0.1, 6)
    schedule = paddle.optimizer.lr.LinearWarmup(cosine, 3, 0.0, 0.1)
    optimizer = paddle.optimizer.AdamW(schedule, parameters=net.parameters(), weight_decay=0.01)

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, optimizer.get_lr()

    for x, y in rows(8):
        loss, rate = step(paddle.to_tensor(x), paddle.to_tensor(y))
        schedule.step()
        log(loss=loss, rate=rate)
    log.parameters(net)


@program
def the_rate_is_an_input_of_the_net(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    schedule = paddle.optimizer.lr.ExponentialDecay(0.1, 0.7)
    optimizer = paddle.optimizer.SGD(schedule, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        penalty = sum((p * p).sum() for p in net.parameters())
        loss = paddle.nn.functional.mse_loss(net(x), y) + optimizer.get_lr() * 0.1 * penalty
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        return loss

    for x, y in rows(6):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)), rate=schedule.get_lr())
    log.parameters(net)


@program
def the_rate_is_set_by_hand_between_steps(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    optimizer = paddle.optimizer.Momentum(0.1, parameters=net.parameters(), use_nesterov=True)

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.smooth_l1_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, y) in enumerate(rows(8)):
        optimizer.set_lr(0.1 * min(1.0, (number + 1) / 4) if number < 6 else 0.001)
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)), rate=optimizer.get_lr())
    log.parameters(net)


@program
def the_rate_is_set_within_a_step(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    optimizer = paddle.optimizer.Adam(0.1, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any, number: int) -> Any:
        optimizer.set_lr(0.1 / (1 + number))
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for number, (x, y) in enumerate(rows(6)):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y), number), rate=optimizer.get_lr())
    log.parameters(net)


@program
def a_plateau_lowers_the_rate(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    schedule = paddle.optimizer.lr.ReduceOnPlateau(0.3, factor=0.5, patience=1, cooldown=1)
    optimizer = paddle.optimizer.SGD(schedule, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for _ in range(3):
        losses = [float(step(paddle.to_tensor(x), paddle.to_tensor(y))) for x, y in rows(4)]
        schedule.step(paddle.to_tensor(np.mean(losses), dtype="float32") * 0 + 1.0)
        log(losses=losses, rate=optimizer.get_lr())
    log.parameters(net)


# --- what is printed and kept


@program
def a_trainer_that_counts_and_prints(paddle: Any, compiled: Compile, log: Log) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = convolutional(paddle)
            self.optimizer = paddle.optimizer.Adam(0.01, parameters=self.net.parameters())
            self.steps, self.history, self.best = 0, [], 1e9

        def step(self, x: Any, labels: Any) -> Any:
            self.net.train()
            loss = paddle.nn.functional.cross_entropy(self.net(x), labels)
            loss.backward()
            self.optimizer.step()
            self.optimizer.clear_grad()
            self.steps += 1
            if self.steps % 3 == 0:
                print(f"step {self.steps}: rate {self.optimizer.get_lr():.3f}")
                self.history.append(loss.detach())
            return loss

        def evaluate(self, x: Any, labels: Any) -> Any:
            self.net.eval()
            with paddle.no_grad():
                scores = self.net(x)
            return (scores.argmax(-1) == labels).astype("float32").mean()

    trainer = Trainer()
    step, evaluate = compiled(trainer.step), compiled(trainer.evaluate)
    for x, labels in images(9):
        loss = step(paddle.to_tensor(x), paddle.to_tensor(labels))
        share = evaluate(paddle.to_tensor(x), paddle.to_tensor(labels))
        log(loss=loss, share=share, steps=trainer.steps, kept=len(trainer.history))
        if float(loss) < trainer.best:
            trainer.best = float(loss)
        log(best=trainer.best)
    log(history=[float(h) for h in trainer.history])
    log.parameters(trainer.net)


@program
def losses_are_kept_as_numbers(paddle: Any, compiled: Compile, log: Log) -> None:
    F = paddle.nn.functional
    net = perceptron(paddle, outputs=4)
    optimizer = paddle.optimizer.RMSProp(0.01, parameters=net.parameters())
    totals = {"mean": 0.0, "spread": 0.0}

    @compiled
    def step(x: Any, y: Any, weight: float) -> Any:
        scores = net(x)
        mean = F.mse_loss(scores[:, :1], y)
        spread = F.l1_loss(scores[:, 1:2], y) + F.kl_div(F.log_softmax(scores), F.softmax(x), reduction="batchmean")
        loss = mean + weight * spread
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        totals["mean"] += float(mean)
        totals["spread"] += spread.item()
        return {"loss": loss.item(), "mean": float(mean)}

    for number, (x, y) in enumerate(rows(6)):
        log(**step(paddle.to_tensor(x), paddle.to_tensor(y), 0.5 if number < 3 else 0.25))
    log(**totals)
    log.parameters(net)


# --- gradients that are gathered, clipped, watched


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


# --- weights that follow, freeze, are taken over


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


# --- steps within steps


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


# --- kinds of nets


@program
def a_model_of_texts_carries_its_state(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Model(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(7, 5, padding_idx=0)
            self.lstm = nn.LSTM(5, 6, num_layers=2)
            self.out = nn.Linear(6, 7)

        def forward(self, words: Any, state: Any = None) -> Any:
            hidden, state = self.lstm(self.embedding(words), state)
            return self.out(hidden), state

    net = Model()
    optimizer = paddle.optimizer.Adam(0.02, parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(0.25))

    @compiled
    def step(words: Any, state: Any) -> Any:
        scores, state = net(words[:, :-1], state)
        loss = F.cross_entropy(scores.reshape([-1, 7]), words[:, 1:].reshape([-1]), ignore_index=0)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, tuple(s.detach() for s in state)

    rng = np.random.default_rng(8)
    state = None
    for number in range(7):
        if number % 4 == 0:
            state = None
        loss, state = step(paddle.to_tensor(rng.integers(0, 7, (3, 6))), state)
        log(loss=loss, hidden=state[0])
    log.parameters(net)


@program
def a_code_with_noise_in_it(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn

    class Coder(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inward, self.outward = nn.Linear(4, 6), perceptron(paddle, 3, 4)

        def forward(self, x: Any) -> Any:
            mean, spread = self.inward(x).chunk(2, axis=-1)
            code = mean + paddle.randn(mean.shape) * paddle.exp(0.5 * spread)
            return self.outward(code), mean, spread

    net = Coder()
    optimizer = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def step(x: Any, share: float) -> Any:
        made, mean, spread = net(x)
        near = paddle.nn.functional.mse_loss(made, x, reduction="sum") / x.shape[0]
        far = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(-1).mean()
        loss = near + share * far
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, near.detach(), far.detach()

    for number, (x, _) in enumerate(rows(7)):
        loss, near, far = step(paddle.to_tensor(x[: 8 if number < 5 else 5]), min(1.0, number / 5))
        log(loss=loss, near=near, far=far)
    log.parameters(net)


@program
def words_of_a_table_read_by_rows(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional
    table, out = nn.Embedding(9, 4, sparse=True), nn.Linear(4, 3)
    optimizer = paddle.optimizer.Momentum(0.05, parameters=[*table.parameters(), *out.parameters()])

    @compiled
    def step(words: Any, labels: Any) -> Any:
        loss = F.cross_entropy(out(table(words).mean(axis=1)), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    rng = np.random.default_rng(9)
    for _ in range(6):
        log(loss=step(paddle.to_tensor(rng.integers(0, 6, (5, 3))), paddle.to_tensor(rng.integers(0, 3, 5))))
    log.parameters(table, out)


@program
def parameters_have_rates_and_decays_of_their_own(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn
    first = nn.Linear(
        4, 8, weight_attr=paddle.ParamAttr(learning_rate=0.5, regularizer=paddle.regularizer.L1Decay(0.01)),
        bias_attr=paddle.ParamAttr(learning_rate=2.0, need_clip=False),
    )  # fmt: skip
    second = nn.Linear(8, 1, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.1), trainable=False))
    net = nn.Sequential(first, nn.Tanh(), second)
    optimizer = paddle.optimizer.Momentum(
        0.1, parameters=net.parameters(), weight_decay=paddle.regularizer.L2Decay(0.02), grad_clip=nn.ClipGradByGlobalNorm(0.1)
    )

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for x, y in rows(6):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log.parameters(net)


@program
def a_training_that_stops_and_goes_on(paddle: Any, compiled: Compile, log: Log) -> None:
    def trained(batches: Any, weights: Any = None, state: Any = None) -> Any:
        net = perceptron(paddle)
        schedule = paddle.optimizer.lr.StepDecay(0.05, 2, 0.5)
        optimizer = paddle.optimizer.AdamW(schedule, parameters=net.parameters(), weight_decay=0.1)
        if state is not None:
            net.set_state_dict(weights)
            optimizer.set_state_dict(state)

        @compiled
        def step(x: Any, y: Any) -> Any:
            loss = paddle.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        for x, y in batches:
            log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)), rate=optimizer.get_lr())
            schedule.step()
        return net, optimizer

    data = rows(8)
    with paddle.utils.unique_name.guard():
        net, optimizer = trained(data[:5])
    weights = {name: held.clone() for name, held in net.state_dict().items()}
    with paddle.utils.unique_name.guard():
        net, _ = trained(data[5:], weights, optimizer.state_dict())
    log.parameters(net)


@program
def mixed_precision_with_a_scale(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    optimizer = paddle.optimizer.Adam(0.01, parameters=net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=256.0)

    @compiled
    def step(x: Any, labels: Any) -> Any:
        with paddle.amp.auto_cast(level="O1"):
            loss = paddle.nn.functional.cross_entropy(net(x), labels)
        scaled = scaler.scale(loss)
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad(set_to_zero=False)
        return loss

    for x, labels in images(6):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(labels)))
    log.parameters(net)


@program
def rows_are_mixed_by_numbers_of_numpy(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    optimizer = paddle.optimizer.Momentum(0.02, parameters=net.parameters())
    rng = np.random.default_rng(10)
    loss_of = paddle.nn.CrossEntropyLoss()

    @compiled
    def step(x: Any, labels: Any) -> Any:
        share = float(rng.beta(0.4, 0.4))
        order = paddle.randperm(x.shape[0])
        mixed = share * x + (1 - share) * x[order]
        scores = net(mixed)
        loss = share * loss_of(scores, labels) + (1 - share) * loss_of(scores, labels[order])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss, share

    for x, labels in images(6):
        loss, share = step(paddle.to_tensor(x), paddle.to_tensor(labels))
        log(loss=loss, share=share)
    log.parameters(net)


@program
def an_encoder_whose_layers_are_dropped(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Encoder(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(11, 8)
            self.layers = nn.LayerList([nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1) for _ in range(3)])
            self.norm, self.out = nn.LayerNorm(8), nn.Linear(8, 11)

        def forward(self, words: Any, drop: Any) -> Any:
            hidden = self.words(words)
            mask = (words != 0).astype("float32").unsqueeze([1, 2])
            mask = (1 - mask) * -1e9
            for number, layer in enumerate(self.layers):
                if self.training and number in drop:
                    continue
                hidden = layer(hidden, mask)
            return F.linear(self.norm(hidden), self.words.weight.t()) + self.out(hidden)

    net = Encoder()
    schedule = paddle.optimizer.lr.NoamDecay(8, 4, 0.5)
    optimizer = paddle.optimizer.Adam(
        schedule, 0.9, 0.98, 1e-5, parameters=net.parameters(), grad_clip=nn.ClipGradByValue(0.5)
    )

    @compiled
    def step(words: Any, wanted: Any, drop: Any) -> Any:
        scores = net(words, drop)
        loss = F.cross_entropy(scores, wanted, ignore_index=0, reduction="none")
        loss = loss.sum() / (wanted != 0).astype("float32").sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    rng = np.random.default_rng(12)
    for number in range(6):
        words = rng.integers(0, 11, (2, 5))
        log(loss=step(paddle.to_tensor(words), paddle.to_tensor(rng.integers(0, 11, (2, 5, 1))), [1] if number % 3 == 2 else []))
        schedule.step()
    # A bias of keys has a gradient of rounding alone.
    log.parameters(net, but="k_proj.bias")


@program
def weights_of_a_norm_that_is_one(paddle: Any, compiled: Compile, log: Log) -> None:
    nn = paddle.nn
    net = nn.Sequential(
        nn.utils.weight_norm(nn.Linear(4, 8), dim=1), nn.Tanh(), nn.utils.spectral_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 1)
    )
    optimizer = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for x, y in rows(6):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log.parameters(net)


@program
def hooks_see_and_change_gradients(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle)
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    seen = []
    net[0].weight.register_hook(lambda grad: grad * 0.5)
    net[2].weight.register_hook(lambda grad: seen.append(float(grad.abs().sum())))

    @compiled
    def step(x: Any, y: Any) -> Any:
        loss = paddle.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    for x, y in rows(5):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y)))
    log(seen=seen)
    log.parameters(net)


@program
def steps_by_minimize_and_a_loss_of_parts(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional
    net = perceptron(paddle, outputs=2)
    centers = paddle.create_parameter([3, 2], "float32", default_initializer=nn.initializer.Normal(0.0, 1.0))
    optimizer = paddle.optimizer.Adagrad(0.1, parameters=[*net.parameters(), centers], weight_decay=0.01)

    @compiled
    def step(x: Any, labels: Any) -> Any:
        features = net(x)
        distances = (features.unsqueeze(1) - centers.unsqueeze(0)).pow(2).sum(-1)
        parts = {"classes": F.cross_entropy(-distances, labels), "centers": distances.gather_nd(
            paddle.stack([paddle.arange(x.shape[0]), labels], axis=1)).mean()}  # fmt: skip
        loss = sum(parts.values())
        loss.backward()
        optimizer.minimize(loss)
        optimizer.clear_grad()
        return parts

    rng = np.random.default_rng(13)
    for x, _ in rows(6):
        log(**step(paddle.to_tensor(x), paddle.to_tensor(rng.integers(0, 3, len(x)))))
    log.parameters(net)
    log(at=centers)
