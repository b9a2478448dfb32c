"""Losses of many kinds, several of them, and what is measured beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


@program
def tasks_are_weighed_by_how_unsure_they_are(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8))
            self.value, self.kind = nn.Linear(8, 1), nn.Linear(8, 3)
            self.log_variances = self.create_parameter([2], default_initializer=nn.initializer.Constant(0.0))

        def forward(self, x: Any) -> Any:
            h = self.body(x)
            return {"value": self.value(h), "kind": self.kind(h)}

    net = Net()
    opt = paddle.optimizer.Adam(0.02, parameters=net.parameters())
    rng = np.random.default_rng(2)

    @compiled
    def step(batch: Any) -> Any:
        out = net(batch["x"])
        weight = paddle.to_tensor([1.0, 2.0, 0.5])
        losses = [
            F.smooth_l1_loss(out["value"], batch["y"], delta=0.5),
            F.cross_entropy(out["kind"], batch["kind"], label_smoothing=0.1, weight=weight),
        ]
        total = 0
        for i, loss in enumerate(losses):
            total = total + paddle.exp(-net.log_variances[i]) * loss + net.log_variances[i]
        total.backward()
        opt.step()
        opt.clear_grad()
        return {"total": total, "parts": [loss.detach() for loss in losses]}

    for x, y in rows(6):
        out = step({"x": paddle.to_tensor(x), "y": paddle.to_tensor(y), "kind": paddle.to_tensor(rng.integers(0, 3, len(x)))})
        log(total=out["total"], a=out["parts"][0], b=out["parts"][1])
    log.parameters(net)


@program
def losses_of_many_kinds(paddle: Any, compiled: Compile, log: Log) -> None:
    F = paddle.nn.functional
    net = perceptron(paddle, outputs=3)
    opt = paddle.optimizer.SGD(0.3, parameters=net.parameters())

    @compiled
    def step(x: Any, labels: Any, kind: Any) -> Any:
        s = net(x)
        if kind == "soft":
            loss = F.cross_entropy(s, F.label_smooth(F.one_hot(labels, 3), epsilon=0.2), soft_label=True)
        elif kind == "ignored":
            loss = F.cross_entropy(s, labels, ignore_index=1)
        elif kind == "nll":
            loss = F.nll_loss(F.log_softmax(s), labels, weight=paddle.to_tensor([0.2, 0.3, 0.5]))
        elif kind == "bce":
            loss = F.binary_cross_entropy_with_logits(s, F.one_hot(labels, 3), pos_weight=paddle.to_tensor([1.0, 2.0, 3.0]))
        elif kind == "focal":
            loss = F.sigmoid_focal_loss(s, F.one_hot(labels, 3), normalizer=paddle.to_tensor([4.0]))
        elif kind == "kl":
            loss = F.kl_div(F.log_softmax(s), F.softmax(F.one_hot(labels, 3)), reduction="batchmean")
        else:
            loss = F.soft_margin_loss(s, F.one_hot(labels, 3) * 2 - 1) + F.softmax_with_cross_entropy(s, labels.unsqueeze(1)).mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    rng = np.random.default_rng(4)
    kinds = ["soft", "ignored", "nll", "bce", "focal", "kl", "margin"] * 2
    for (x, _), kind in zip(rows(14), kinds):
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(rng.integers(0, 3, len(x))), kind))
    log.parameters(net)


@program
def two_losses_one_after_the_other(paddle: Any, compiled: Compile, log: Log) -> None:
    net = perceptron(paddle, outputs=3)
    opt = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any) -> Any:
        s = net(x)
        a = paddle.nn.functional.mse_loss(s[:, :1], y)
        b = s[:, 1:].abs().mean()
        a.backward(retain_graph=True)
        first = net[0].weight.grad.clone()
        (0.5 * b).backward()
        opt.step()
        opt.clear_grad()
        return a + b, first

    @compiled
    def both(x: Any, y: Any) -> Any:
        s = net(x)
        a = paddle.nn.functional.mse_loss(s[:, :1], y)
        b = s[:, 1:].abs().mean()
        paddle.autograd.backward([a, b], [paddle.to_tensor(1.0), paddle.to_tensor(0.3)])
        opt.step()
        opt.clear_grad()
        return a, b

    for i, (x, y) in enumerate(rows(6)):
        f = both if i % 2 else step
        out = f(paddle.to_tensor(x), paddle.to_tensor(y))
        log(a=out[0].detach())
        log(**{f"b{i % 2}": out[1].detach()})
    log.parameters(net)


@program
def pairs_are_pulled_together_and_apart(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional
    net = perceptron(paddle, outputs=5)
    opt = paddle.optimizer.Lamb(0.02, parameters=net.parameters())
    temp = paddle.create_parameter([1], "float32", default_initializer=nn.initializer.Constant(2.0))
    opt2 = paddle.optimizer.SGD(0.1, parameters=[temp])

    @compiled
    def step(x: Any, y: Any) -> Any:
        a = F.normalize(net(x), axis=1)
        b = F.normalize(net(y), axis=1)
        logits = a @ b.t() * temp.exp()
        labels = paddle.arange(x.shape[0])
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        loss = loss + F.triplet_margin_loss(a, b, b.roll(1, 0)) + F.cosine_embedding_loss(a, b, paddle.ones([x.shape[0]], dtype="int64"))
        loss.backward()
        opt.step()
        opt2.step()
        opt.clear_grad()
        opt2.clear_grad()
        with paddle.no_grad():
            temp.clip_(0.0, 2.1)
        return loss, F.cosine_similarity(a, b).mean().detach()

    for x, _ in rows(5):
        loss, near = step(paddle.to_tensor(x), paddle.to_tensor(x[::-1].copy()))
        log(loss=loss, near=near, heat=temp)
    log.parameters(net)


@program
def codes_follow_what_is_near_them(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Codes(nn.Layer):
        def __init__(self, count: Any, width: Any) -> None:
            super().__init__()
            self.register_buffer("codes", paddle.randn([count, width]))
            self.register_buffer("counts", paddle.zeros([count]))
            self.register_buffer("sums", self.codes.clone())
            self.count = count

        def forward(self, x: Any) -> Any:
            d = (x**2).sum(1, keepdim=True) - 2 * x @ self.codes.t() + (self.codes**2).sum(1)
            which = d.argmin(1)
            hot = F.one_hot(which, self.count)
            q = hot @ self.codes
            if self.training:
                with paddle.no_grad():
                    self.counts.set_value(0.9 * self.counts + 0.1 * hot.sum(0))
                    self.sums.set_value(0.9 * self.sums + 0.1 * hot.t() @ x)
                    n = self.counts.sum()
                    w = (self.counts + 1e-5) / (n + self.count * 1e-5) * n
                    self.codes.set_value(self.sums / w.unsqueeze(1))
            commit = F.mse_loss(x, q.detach())
            return x + (q - x).detach(), commit, which

    encoder, codes, decoder = nn.Linear(4, 3), Codes(5, 3), nn.Linear(3, 4)
    opt = paddle.optimizer.Adam(0.02, parameters=[*encoder.parameters(), *decoder.parameters()])

    @compiled
    def step(x: Any) -> Any:
        q, commit, which = codes(encoder(x))
        loss = F.mse_loss(decoder(q), x) + 0.25 * commit
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss, which

    for x, _ in rows(6):
        loss, which = step(paddle.to_tensor(x))
        log(loss=loss, which=which)
    log.parameters(encoder, codes, decoder)


@program
def a_metric_and_a_mean_within_the_step(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    opt = paddle.optimizer.Adagrad(0.05, parameters=net.parameters())
    metric = paddle.metric.Accuracy()

    class Meter:
        def __init__(self) -> None:
            self.total, self.count, self.losses = 0.0, 0, []

    meter = Meter()

    @compiled
    def step(x: Any, y: Any) -> Any:
        s = net(x)
        loss = paddle.nn.functional.cross_entropy(s, y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        correct = metric.compute(s, y)
        metric.update(correct)
        meter.count += 1
        meter.total += loss.item()
        meter.losses.append(float(loss))
        return loss

    for x, y in images(5):
        step(paddle.to_tensor(x), paddle.to_tensor(y))
        log(acc=metric.accumulate(), total=meter.total, count=meter.count)
    log(losses=meter.losses)
    log.parameters(net)
