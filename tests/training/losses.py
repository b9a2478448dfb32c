"""Two nets that train for two hundred steps, in words that Paddle has, too: a LeNet on handwritten digits and a Transformer encoder that
turns rows of words around.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = Path(__file__).parents[2] / "frontend" / "data" / "digits.npz"
NETS = ("digits", "encoder")
STEPS = 200


def batches(name: str, steps: int) -> Iterator[tuple[Any, Any]]:
    """What a net is given, and what is wanted of it."""
    rng = np.random.default_rng(21)
    if name == "encoder":
        for _ in range(steps):
            words = rng.integers(0, 12, (4, 10))
            yield words, words[:, ::-1].copy()[..., None]
        return
    with np.load(DIGITS) as data:
        # Each pixel of 8 x 8 is nine of 28 x 28.
        images = np.pad(np.kron(data["images"] / np.float32(16), np.ones((1, 3, 3), "float32")), ((0, 0), (2, 2), (2, 2)))
        labels = data["labels"].astype("int64")
    for _ in range(steps):
        chosen = rng.integers(0, len(labels), 32)
        yield images[chosen, None], labels[chosen, None]


def net_of(paddle: Any, name: str) -> Any:
    nn = paddle.nn
    if name == "digits":
        return nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5), nn.ReLU(), nn.MaxPool2D(2, 2),
            nn.Flatten(), nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10),
        )  # fmt: skip

    class Encoder(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(12, 32), nn.Embedding(10, 32)
            self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0), 2)
            self.out = nn.Linear(32, 12)

        def forward(self, words: Any) -> Any:
            return self.out(self.body(self.words(words) + self.places.weight))

    return Encoder()


def optimizer_of(paddle: Any, name: str, parameters: Any) -> Any:
    clip = paddle.nn.ClipGradByGlobalNorm(1.0) if name == "encoder" else None
    return paddle.optimizer.AdamW(1e-3, parameters=parameters, weight_decay=0.01, epsilon=1e-6, grad_clip=clip)


def losses(
    paddle: Any, name: str, steps: int = STEPS, compiled: Callable[[Any], Any] = lambda function: function, level: str = "O0",
    dtype: str = "bfloat16",
) -> list[float]:  # fmt: skip
    """Of the first steps of a net; with a `level` in mixed precision."""
    paddle.seed(33)
    net = net_of(paddle, name)
    optimizer = optimizer_of(paddle, name, net.parameters())
    if level == "O2":
        net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype=dtype)
    region = (lambda: paddle.amp.auto_cast(level=level, dtype=dtype)) if level != "O0" else contextlib.nullcontext

    @compiled
    def step(x: Any, y: Any) -> Any:
        with region():
            loss = paddle.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    return [float(step(paddle.to_tensor(x), paddle.to_tensor(y))) for x, y in batches(name, steps)]


def static_losses(paddle: Any, name: str, steps: int = STEPS, level: str = "O0", dtype: str = "bfloat16") -> list[float]:
    """The same by a static Program."""
    paddle.enable_static()
    try:
        paddle.seed(33)
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 1, 28, 28] if name == "digits" else [4, 10], "float32" if name == "digits" else "int64")
            y = paddle.static.data("y", [None, 1] if name == "digits" else [4, 10, 1], "int64")
            net, optimizer = net_of(paddle, name), optimizer_of(paddle, name, None)
            if level == "O2":
                net, optimizer = paddle.amp.decorate(net, optimizer, level="O2", dtype=dtype)
            with paddle.amp.auto_cast(enable=level != "O0", level=level if level != "O0" else "O1", dtype=dtype):
                loss = paddle.nn.functional.cross_entropy(net(x), y)
            optimizer.minimize(loss)
        executor = paddle.static.Executor()
        executor.run(startup)
        return [float(executor.run(main, feed={"x": a, "y": b}, fetch_list=[loss])[0]) for a, b in batches(name, steps)]
    finally:
        paddle.disable_static()
