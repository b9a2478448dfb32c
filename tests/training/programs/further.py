"""Further programs that train, written as people write them: losses of many kinds, buffers, lengths, parts that are replaced."""

from __future__ import annotations

import copy
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
            d = (x ** 2).sum(1, keepdim=True) - 2 * x @ self.codes.t() + (self.codes ** 2).sum(1)
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
def sequences_with_lengths_both_ways(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 5, num_layers=2, direction="bidirect", dropout=0.0)
            self.out = nn.Linear(20, 2)

        def forward(self, x: Any, n: Any) -> Any:
            y, (h, c) = self.lstm(x, sequence_length=n)
            return self.out(paddle.concat([h[-2], h[-1], y.mean(1)], axis=-1))

    net = Net()
    opt = paddle.optimizer.Adamax(0.02, parameters=net.parameters())

    @compiled
    def step(x: Any, n: Any, y: Any) -> Any:
        loss = F.cross_entropy(net(x, n), y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    rng = np.random.default_rng(4)
    for length in (5, 5, 7, 5, 7):
        x = rng.normal(size=(4, length, 3)).astype("float32")
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(rng.integers(1, length + 1, 4)), paddle.to_tensor(rng.integers(0, 2, 4))))
    log.parameters(net)


@program
def a_decoder_is_told_the_word_before_or_not(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class Seq(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inw = nn.Embedding(9, 6)
            self.enc = nn.SimpleRNN(6, 6, num_layers=2, dropout=0.3)
            self.cell = nn.GRUCell(6, 6)
            self.out = nn.Linear(6, 9)
            self.drop = nn.Dropout(0.2)

        def forward(self, src: Any, tgt: Any, forced: Any) -> Any:
            _, h = self.enc(self.inw(src))
            h = h[-1]
            token = tgt[:, 0]
            scores = []
            for t in range(1, tgt.shape[1]):
                o, h = self.cell(self.drop(self.inw(token)), h)
                s = self.out(o)
                scores.append(s)
                token = tgt[:, t] if forced[t] else s.argmax(-1)
            return paddle.stack(scores, 1)

    net = Seq()
    opt = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def step(src: Any, tgt: Any, forced: Any) -> Any:
        s = net(src, tgt, forced)
        loss = F.cross_entropy(s.reshape([-1, 9]), tgt[:, 1:].reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    rng = np.random.default_rng(4)
    for _ in range(5):
        forced = [bool(b) for b in rng.integers(0, 2, 4)]
        log(loss=step(paddle.to_tensor(rng.integers(0, 9, (3, 5))), paddle.to_tensor(rng.integers(0, 9, (3, 4))), forced))
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
            loss = F.binary_cross_entropy_with_logits(s, F.one_hot(labels, 3), pos_weight=paddle.to_tensor([1., 2., 3.]))
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
def images_are_cut_and_pasted(paddle: Any, compiled: Compile, log: Log) -> None:
    net = convolutional(paddle)
    opt = paddle.optimizer.Momentum(0.05, parameters=net.parameters())

    @compiled
    def step(x: Any, y: Any, box: Any) -> Any:
        order = paddle.arange(x.shape[0] - 1, -1, -1)
        top, left, bottom, right = box
        x = x.clone()
        x[:, :, top:bottom, left:right] = x[order][:, :, top:bottom, left:right]
        share = 1 - (bottom - top) * (right - left) / 36
        s = net(x)
        loss = share * paddle.nn.functional.cross_entropy(s, y) + (1 - share) * paddle.nn.functional.cross_entropy(s, y[order])
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    rng = np.random.default_rng(7)
    for x, y in images(6):
        top, left = (int(v) for v in rng.integers(0, 3, 2))
        h, w = (int(v) for v in rng.integers(1, 4, 2))
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(y), (top, left, top + h, left + w)))
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


@program
def pixels_are_told_apart(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional

    class UNet(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Conv2D(1, 4, 3, padding=1)
            self.gn = nn.GroupNorm(2, 4)
            self.mid = nn.Conv2D(4, 8, 3, stride=2, padding=1, bias_attr=False)
            self.inn = nn.InstanceNorm2D(8)
            self.up = nn.Conv2DTranspose(8, 4, 2, stride=2)
            self.out = nn.Conv2D(8, 2, 1)
            self.act = nn.PReLU()

        def forward(self, x: Any) -> Any:
            a = self.act(self.gn(self.down(x)))
            b = F.leaky_relu(self.inn(self.mid(a)))
            c = self.up(b)
            d = F.interpolate(F.avg_pool2d(c, 2), scale_factor=2, mode="bilinear")
            return self.out(paddle.concat([a, c + d], 1))

    net = UNet()
    opt = paddle.optimizer.AdamW(0.01, parameters=net.parameters())

    @compiled
    def step(x: Any, m: Any) -> Any:
        s = net(x)
        p = F.softmax(s, axis=1)[:, 1]
        ce = F.cross_entropy(s, m, axis=1)
        mf = m.squeeze(1).astype("float32")
        dice = 1 - (2 * (p * mf).sum([1, 2]) + 1) / (p.sum([1, 2]) + mf.sum([1, 2]) + 1)
        loss = ce + dice.mean()
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    rng = np.random.default_rng(2)
    for x, _ in images(5):
        m = rng.integers(0, 2, (len(x), 1, 6, 6))
        log(loss=step(paddle.to_tensor(x), paddle.to_tensor(m)))
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
def speech_is_aligned(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 5))
    opt = paddle.optimizer.Adam(0.02, parameters=net.parameters())

    @compiled
    def step(x: Any, labels: Any, n: Any, m: Any) -> Any:
        lp = F.log_softmax(net(x).transpose([1, 0, 2]))
        loss = F.ctc_loss(lp, labels, n, m, blank=0, reduction="mean")
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    rng = np.random.default_rng(2)
    for _ in range(4):
        x, labels = rng.normal(size=(3, 9, 4)).astype("float32"), rng.integers(1, 5, (3, 3)).astype("int32")
        log(loss=step(*map(paddle.to_tensor, (x, labels, np.array([9, 8, 7]), np.array([3, 2, 1])))))
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
        norm = sum((g ** 2).sum() for g in grads)
        hv = paddle.grad(norm, params, allow_unused=True)
        with paddle.no_grad():
            for p, g, h in zip(params, grads, hv):
                p.set_value(p - 0.1 * g - (0.01 * h if h is not None else 0))
        return loss, norm

    for x, y in rows(5):
        loss, norm = step(paddle.to_tensor(x), paddle.to_tensor(y))
        log(loss=loss, norm=norm)
    log.parameters(net)
