"""The nets of `whole_steps`, in words that torch and Paddle share, so that all libraries have the same weights under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["NETS", "Words", "adversaries"]

# Of each stage of MobileNetV2: how much wider its blocks are inside, their channels, how many there are, the stride of the first.
INVERTED = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
WORDS_KNOWN = 30522  # to BERT


class Words:
    """A library's words for what the nets need; layers of torch and of Paddle differ in names, and in how weights lie."""

    def __init__(self, library: str, threads: int):
        self.library, self.is_torch = library, library.startswith("torch")
        if self.is_torch:
            import torch

            torch.set_num_threads(threads)
            self.lib: Any = torch
        else:
            self.lib = __import__("polyreme" if library == "polyreme" else "paddle")
        self.nn = self.lib.nn
        self.functional = self.nn.functional
        self.base: Any = self.nn.Module if self.is_torch else self.nn.Layer

    def tensor(self, array: Any) -> Any:
        return self.lib.from_numpy(array) if self.is_torch else self.lib.to_tensor(array)

    def conv(self, inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0, groups: int = 1, bias: bool = True) -> Any:
        if self.is_torch:
            return self.nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=bias)
        return self.nn.Conv2D(inputs, outputs, size, stride, padding, groups=groups, bias_attr=None if bias else False)

    def norm(self, channels: int) -> Any:
        return self.nn.BatchNorm2d(channels) if self.is_torch else self.nn.BatchNorm2D(channels)

    def pool(self, size: int = 2, stride: int = 2, padding: int = 0) -> Any:
        return (self.nn.MaxPool2d if self.is_torch else self.nn.MaxPool2D)(size, stride, padding)

    def average(self) -> Any:
        """Of a whole image."""
        return (self.nn.AdaptiveAvgPool2d if self.is_torch else self.nn.AdaptiveAvgPool2D)(1)

    def lstm(self, inputs: int, width: int) -> Any:
        return self.nn.LSTM(inputs, width, batch_first=True) if self.is_torch else self.nn.LSTM(inputs, width)

    def order(self, x: Any, axes: list[int]) -> Any:
        return x.permute(*axes) if self.is_torch else x.transpose(axes)

    def filled(self, *nets: Any) -> Any:
        """The nets with the same weights in every library."""
        draw = np.random.default_rng(0)
        for net in nets:
            layers = net.modules() if self.is_torch else net.sublayers(True)
            linear = {id(layer.weight) for layer in layers if type(layer).__name__ == "Linear"}
            for name, parameter in sorted(net.named_parameters(), key=lambda pair: pair[0]):
                if not self.is_torch and parameter.stop_gradient:
                    continue  # Paddle counts what batch norms keep among parameters
                shape = list(parameter.shape)
                turned = self.is_torch and id(parameter) in linear
                if len(shape) == 1:
                    values = draw.standard_normal(shape) * 0.1 + name.endswith("weight")
                elif id(parameter) in linear:
                    values = draw.standard_normal(shape[::-1] if turned else shape) / shape[1 if turned else 0] ** 0.5
                else:
                    values = draw.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
                values = np.ascontiguousarray((values.T if turned else values).astype("float32"))
                with self.lib.no_grad():
                    parameter.copy_(self.tensor(values)) if self.is_torch else parameter.set_value(values)
        return nets[0] if len(nets) == 1 else nets

    def adam(self, net: Any) -> Any:
        if self.is_torch:
            return self.lib.optim.Adam(net.parameters(), lr=1e-3, fused=True)
        return self.lib.optimizer.Adam(1e-3, parameters=net.parameters())

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad() if self.is_torch else optimizer.clear_grad()

    def net(self, net: Any) -> Any:
        return self.lib.compile(net) if self.library == "torch-compile" else net

    def step(self, step: Callable[..., Any], *args: Any) -> Callable[[], float]:
        if self.library == "polyreme":
            step = self.lib.jit.to_static(step, full_graph=True)
        elif self.library == "paddle-static":
            step = self.lib.jit.to_static(step)
        return lambda: float(step(*args))

    def trained(self, net: Any, loss_of: Callable[[Any, Any], Any], x: Any, y: Any) -> Callable[[], float]:
        """A step of training a net for arrays `x` and `y`."""
        made = self.net(self.filled(net))
        optimizer = self.adam(net)

        def step(x: Any, y: Any) -> Any:
            loss = loss_of(made(x), y)
            loss.backward()
            optimizer.step()
            self.clear(optimizer)
            return loss

        return self.step(step, self.tensor(x), self.tensor(y))

    def classifier(self, net: Any, x: Any, classes: int) -> Callable[[], float]:
        return self.trained(net, self.functional.cross_entropy, x, np.random.default_rng(2).integers(0, classes, len(x)))


def encoder_layer(words: Words, width: int, heads: int, within: int, activation: str = "relu") -> Any:
    """A layer of a Transformer encoder for [N, L, width], its norms behind."""
    nn, functional = words.nn, words.functional
    base: Any = words.base
    scale = (width // heads) ** -0.5

    class EncoderLayer(base):
        def __init__(self) -> None:
            super().__init__()
            self.a_query, self.b_key, self.c_value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
            self.d_out, self.e_wide, self.f_narrow = nn.Linear(width, width), nn.Linear(width, within), nn.Linear(within, width)
            self.g_norm, self.h_norm = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            rows, length = x.shape[0], x.shape[1]
            parts = (made(x).reshape([rows, length, heads, width // heads]) for made in (self.a_query, self.b_key, self.c_value))
            q, k, v = (words.order(part, [0, 2, 1, 3]) for part in parts)
            seen = functional.softmax(q @ words.order(k, [0, 1, 3, 2]) * scale, -1) @ v
            x = self.g_norm(x + self.d_out(words.order(seen, [0, 2, 1, 3]).reshape([rows, length, width])))
            return self.h_norm(x + self.f_narrow(getattr(functional, activation)(self.e_wide(x))))

    return EncoderLayer()


def bert(words: Words) -> Any:
    """BERT's base: 12 layers, 768 wide, over the words known and 128 places; scores of 2 classes at the first word."""
    nn = words.nn
    base: Any = words.base

    class Bert(base):
        def __init__(self) -> None:
            super().__init__()
            self.a_words, self.b_places, self.c_norm = nn.Embedding(WORDS_KNOWN, 768), nn.Embedding(128, 768), nn.LayerNorm(768)
            self.d_layers = nn.Sequential(*[encoder_layer(words, 768, 12, 3072, "gelu") for _ in range(12)])
            self.e_pooled, self.f_scores = nn.Linear(768, 768), nn.Linear(768, 2)
            self.places = words.tensor(np.arange(128).reshape(1, 128))

        def forward(self, ids: Any) -> Any:
            x = self.d_layers(self.c_norm(self.a_words(ids) + self.b_places(self.places)))
            return self.f_scores(words.functional.tanh(self.e_pooled(x[:, 0])))

    return Bert()


def residual(words: Words, body: Any, short: Any = None, end: Any = None) -> Any:
    """`end(body(x) + short(x))`."""
    base: Any = words.base

    class Residual(base):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.short, self.end = body, short, end

        def forward(self, x: Any) -> Any:
            x = self.body(x) + (x if self.short is None else self.short(x))
            return x if self.end is None else self.end(x)

    return Residual()


def resnet18(words: Words) -> Any:
    nn = words.nn

    def block(inputs: int, outputs: int, stride: int) -> Any:
        body = nn.Sequential(
            words.conv(inputs, outputs, 3, stride, 1, bias=False), words.norm(outputs), nn.ReLU(),
            words.conv(outputs, outputs, 3, 1, 1, bias=False), words.norm(outputs)
        )  # fmt: skip
        short = None
        if stride != 1 or inputs != outputs:
            short = nn.Sequential(words.conv(inputs, outputs, 1, stride, bias=False), words.norm(outputs))
        return residual(words, body, short, nn.ReLU())

    layers = [words.conv(3, 64, 7, 2, 3, bias=False), words.norm(64), nn.ReLU(), words.pool(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [block(inputs, outputs, stride), block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, words.average(), nn.Flatten(), nn.Linear(512, 1000))


def mobilenet_v2(words: Words) -> Any:
    """Without its dropout, whose random numbers differ."""
    nn = words.nn

    def conv(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> list[Any]:
        return [words.conv(inputs, outputs, size, stride, size // 2, groups, bias=False), words.norm(outputs)]

    layers, channels = [*conv(3, 32, 3, 2), nn.ReLU6()], 32
    for expand, width, repeats, first in INVERTED:
        for i in range(repeats):
            stride, hidden = first if i == 0 else 1, channels * expand
            wider = [] if expand == 1 else [*conv(channels, hidden, 1), nn.ReLU6()]
            body = nn.Sequential(*wider, *conv(hidden, hidden, 3, stride, hidden), nn.ReLU6(), *conv(hidden, width, 1))
            layers.append(residual(words, body) if stride == 1 and channels == width else body)
            channels = width
    return nn.Sequential(*layers, *conv(channels, 1280, 1), nn.ReLU6(), words.average(), nn.Flatten(), nn.Linear(1280, 1000))


def recurrent(words: Words) -> Any:
    """An LSTM 256 wide, and scores of 10 classes at its last step."""
    base: Any = words.base

    class Recurrent(base):
        def __init__(self) -> None:
            super().__init__()
            self.a_lstm, self.b_scores = words.lstm(256, 256), words.nn.Linear(256, 10)

        def forward(self, x: Any) -> Any:
            return self.b_scores(self.a_lstm(x)[0][:, -1])

    return Recurrent()


def _drawn(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _mlp(words: Words) -> Callable[[], float]:
    nn = words.nn
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return words.classifier(net, _drawn(128, 784), 10)


def _lenet(words: Words) -> Callable[[], float]:
    nn = words.nn
    net = nn.Sequential(
        words.conv(1, 6, 3, padding=1), nn.ReLU(), words.pool(), words.conv(6, 16, 5), nn.ReLU(), words.pool(), nn.Flatten(),
        nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
    )  # fmt: skip
    return words.classifier(net, _drawn(64, 1, 28, 28), 10)


def _encoder(words: Words) -> Callable[[], float]:
    net = words.nn.Sequential(*[encoder_layer(words, 256, 4, 1024) for _ in range(4)])
    return words.trained(net, words.functional.mse_loss, _drawn(8, 128, 256), _drawn(8, 128, 256, seed=2))


def _bert(words: Words) -> Callable[[], float]:
    return words.classifier(bert(words), np.random.default_rng(1).integers(0, WORDS_KNOWN, (4, 128)), 2)


def adversaries(words: Words) -> Callable[[], float]:
    """A step of a generator and of a judge, each with an optimizer of its own."""
    nn, functional = words.nn, words.functional
    maker = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())
    judge = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 1))
    words.filled(maker, judge)
    for_maker, for_judge = words.adam(maker), words.adam(judge)
    make, judged = words.net(maker), words.net(judge)

    def step(noise: Any, real: Any) -> Any:
        drawn = make(noise)
        lost = functional.softplus(-judged(real)).mean() + functional.softplus(judged(drawn.detach())).mean()
        lost.backward()
        for_judge.step()
        words.clear(for_judge)
        won = functional.softplus(-judged(drawn)).mean()
        won.backward()
        for_maker.step()
        words.clear(for_maker)
        words.clear(for_judge)
        return lost.detach() + won.detach()

    return words.step(step, words.tensor(_drawn(64, 64)), words.tensor(_drawn(64, 784, seed=2)))


NETS: dict[str, Callable[[Words], Callable[[], float]]] = {
    "MLP": _mlp,
    "LeNet": _lenet,
    "ResNet-18, 64": lambda words: words.classifier(resnet18(words), _drawn(8, 3, 64, 64), 1000),
    "ResNet-18, 224": lambda words: words.classifier(resnet18(words), _drawn(8, 3, 224, 224), 1000),
    "MobileNetV2": lambda words: words.classifier(mobilenet_v2(words), _drawn(8, 3, 224, 224), 1000),
    "encoder": _encoder,
    "BERT": _bert,
    "LSTM": lambda words: words.classifier(recurrent(words), _drawn(16, 64, 256), 10),
    "adversaries": adversaries,
}
