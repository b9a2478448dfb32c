"""Small networks of the kinds that people train, with batches for them, and their training in every mode on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import polyreme as paddle
from polyreme.tensor import Tensor

F = paddle.nn.functional
Array = np.ndarray[Any, Any]

MODES = ("dygraph", "the loss", "the step", "static")
CLASSES = 5


def mlp() -> Any:
    return paddle.nn.Sequential(paddle.nn.Linear(12, 40), paddle.nn.ReLU(), paddle.nn.Linear(40, CLASSES))


class NarrowLeNet(paddle.nn.Layer):
    """LeNet with few channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = paddle.nn.Conv2D(1, 2, 3, padding=1), paddle.nn.Conv2D(2, 4, 5)
        self.fc1, self.fc2 = paddle.nn.Linear(100, 24), paddle.nn.Linear(24, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 2)
        return self.fc2(F.dropout(F.relu(self.fc1(paddle.flatten(x, 1))), 0.25))


class ResidualBlock(paddle.nn.Layer):
    """Two convolutions with batch norms, and what they take added to what they give."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = paddle.nn.Conv2D(4, 4, 3, padding=1, bias_attr=False), paddle.nn.BatchNorm2D(4)
        self.conv2, self.norm2 = paddle.nn.Conv2D(4, 4, 3, padding=1, bias_attr=False), paddle.nn.BatchNorm2D(4)
        self.head = paddle.nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return self.head(F.relu(self.norm2(self.conv2(y)) + x).mean(axis=[2, 3]))


class TransformerLayer(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = paddle.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1), paddle.nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(axis=1))


class LstmCell(paddle.nn.Layer):
    """Three steps of a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = paddle.nn.LSTMCell(6, 8), paddle.nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for i in range(3):
            y, state = self.cell(x[:, i], state)
        return self.head(y)


class Gpt(paddle.nn.Layer):
    """A block of GPT between embeddings and the scores of tokens, by the weights of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = paddle.nn.Embedding(CLASSES, 16), paddle.nn.Embedding(6, 16)
        self.norm1, self.qkv, self.out = paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 48), paddle.nn.Linear(16, 16)
        self.norm2, self.up, self.down = paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 32), paddle.nn.Linear(32, 16)
        self.norm = paddle.nn.LayerNorm(16)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(paddle.arange(6))
        q, k, v = self.qkv(self.norm1(x)).reshape([-1, 6, 3, 2, 8]).unbind(2)
        x = x + F.dropout(self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape([-1, 6, 16])), 0.1)
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return paddle.matmul(self.norm(x), self.tokens.weight, transpose_y=True).reshape([-1, CLASSES])


@dataclass(frozen=True)
class Network:
    """How to make one, and the shapes of its input and of its labels; inputs of tokens are whole numbers."""

    make: Callable[[], Any]
    shape: tuple[int, ...]
    labels: tuple[int, ...] = (4,)
    tokens: bool = False

    def batches(self, count: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            x = rng.integers(0, CLASSES, self.shape) if self.tokens else rng.normal(size=self.shape).astype("float32")
            yield x, rng.integers(0, CLASSES, self.labels)


NETWORKS = {
    "mlp": Network(mlp, (4, 12)),
    "lenet": Network(NarrowLeNet, (4, 1, 28, 28)),
    "resnet block": Network(ResidualBlock, (4, 4, 6, 6)),
    "transformer layer": Network(TransformerLayer, (4, 6, 16)),
    "lstm cell": Network(LstmCell, (4, 3, 6)),
    "gpt step": Network(Gpt, (3, 6), (18,), tokens=True),
}


@dataclass(frozen=True)
class Trained:
    """The losses, all weights and running statistics at the end, and for each step on a GPU what it copied: uploads and their bytes,
    downloads and their bytes.
    """

    losses: list[float]
    weights: dict[str, Array]
    copies: list[tuple[int, ...]]


def _copies() -> tuple[int, ...]:
    if paddle.get_device() == "cpu":
        return (0,) * 4
    stats = paddle.device.cuda.memory_stats()
    return tuple(stats[name] for name in ("uploads", "uploaded_bytes", "downloads", "downloaded_bytes"))


def trained(name: str, mode: str, device: str, steps: int, seed: int = 0, told: Callable[[], None] = lambda: None) -> Trained:
    """Train by Adam, and call `told` after each step. Its epsilon is as large as gradients are, so that rounding of those that should be
    zero makes no step.
    """
    network = NETWORKS[name]
    paddle.set_device(device)
    paddle.seed(3)
    if mode == "static":
        paddle.enable_static()
    try:
        step, weights = (_static if mode == "static" else _dynamic)(network, mode)
        losses, copies = [], []
        for x, y in network.batches(steps, seed):
            before = _copies()
            losses.append(step(x, y))
            copies.append(tuple(b - a for a, b in zip(before, _copies(), strict=True)))
            told()
        return Trained(losses, weights(), copies)
    finally:
        paddle.disable_static()
        paddle.set_device("cpu")


def _dynamic(network: Network, mode: str) -> tuple[Callable[[Array, Array], float], Callable[[], dict[str, Array]]]:
    with paddle.utils.unique_name.guard():
        net = network.make()
    optimizer = paddle.optimizer.Adam(0.01, epsilon=1e-3, parameters=net.parameters())

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(net(x), y)

    loss_of = paddle.jit.to_static(loss_of) if mode == "the loss" else loss_of

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    step = paddle.jit.to_static(step) if mode == "the step" else step
    return lambda x, y: float(step(paddle.to_tensor(x), paddle.to_tensor(y))), lambda: {k: v.numpy() for k, v in net.state_dict().items()}


def _static(network: Network, _: str) -> tuple[Callable[[Array, Array], float], Callable[[], dict[str, Array]]]:
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", list(network.shape), "int64" if network.tokens else "float32")
        y = paddle.static.data("y", list(network.labels), "int64")
        loss = F.cross_entropy(network.make()(x), y)
        paddle.optimizer.Adam(0.01, epsilon=1e-3).minimize(loss)
    executor = paddle.static.Executor()
    executor.run(startup, scope=scope)

    def step(x: Array, y: Array) -> float:
        return float(executor.run(main, feed={"x": x, "y": y}, fetch_list=[loss], scope=scope)[0])

    def weights() -> dict[str, Array]:
        persistable = [v.name for v in main.list_vars() if v.persistable]
        return {name: np.array(found.get_tensor()) for name in persistable if (found := scope.find_var(name)) is not None}

    return step, weights
