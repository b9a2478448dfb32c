"""Rates: schedules, rates that are set, read and logged, and what a trainer prints and keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


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
