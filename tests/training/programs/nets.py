"""Kinds of nets and of optimizers, texts, noise, mixed precision, hooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, convolutional, images, perceptron, program, rows


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
def words_that_are_read_move_alone(paddle: Any, compiled: Compile, log: Log) -> None:
    nn, F = paddle.nn, paddle.nn.functional
    table, out = nn.Embedding(9, 4, padding_idx=2, sparse=True), nn.Linear(4, 3)
    optimizer = paddle.optimizer.Adam(0.05, parameters=[*table.parameters(), *out.parameters()], lazy_mode=True)

    @compiled
    def step(words: Any, labels: Any) -> Any:
        loss = F.cross_entropy(out(table(words).mean(axis=1)), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    rng = np.random.default_rng(19)
    for _ in range(6):
        log(loss=step(paddle.to_tensor(rng.integers(0, 6, (5, 2))), paddle.to_tensor(rng.integers(0, 3, 5))))
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
    optimizer = paddle.optimizer.Adam(schedule, 0.9, 0.98, 1e-5, parameters=net.parameters(), grad_clip=nn.ClipGradByValue(0.5))

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
