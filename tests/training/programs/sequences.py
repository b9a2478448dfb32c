"""Sequences: of lengths of their own, told word by word, and aligned."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.training.programs.driver import Compile, Log, program


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
