"""The networks: small in size or depth where the kinds of layers stay the same, since each is lowered for every machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polyreme as paddle
from benchmarks.zoo import MODELS
from polyreme import nn
from polyreme.ir.builtin import Func, Module
from polyreme.jit.saving import trace_model
from polyreme.lowering.gradients.autodiff import backward_half, forward_half, needs_gradients
from polyreme.static import InputSpec

Made = tuple[Module, str]  # a module at `nn` level, and what becomes of its weights, as `pipeline` has it


@dataclass(frozen=True)
class Network:
    """`build` gives a Layer that takes inputs of these shapes, in which None is a free size.

    `weights` says what is known of its weights: "packed" outside of the program, as `to_static` runs it, or "constant", as `compile` does;
    or it `trains`.
    """

    name: str
    build: Callable[[], Any]
    shapes: tuple[tuple[int | None, ...], ...]
    weights: str = "packed"

    def modules(self) -> list[Made]:
        """What is lowered: one module, or those of both halves where it trains."""
        paddle.seed(0)
        layer = self.build()
        layer.train() if self.weights == "trains" else layer.eval()
        traced = trace_model(layer, [InputSpec(list(shape), "float32") for shape in self.shapes])
        if self.weights == "constant":
            return [(traced.frozen(), "")]
        if self.weights == "packed":
            return [(traced.module(), "always")]
        wrt = tuple(i for i, role in enumerate(traced.func.arg_roles) if role == "param")
        given = [i for i, needed in enumerate(needs_gradients(traced.func, wrt)) if needed][:1]
        half = forward_half(traced.func, wrt)
        return [(_alone(half.function), "worth"), (_alone(backward_half(traced.func, wrt, given, half).function), "")]


def _alone(func: Func) -> Module:
    module = Module.empty(loc=func.location)
    copy = func.clone()
    copy.attributes["sym_name"] = "main"
    module.block.append(copy)
    return module


def _zoo(name: str) -> Callable[[], Any]:
    return lambda: MODELS[name].build(paddle)


class _Recurrent(nn.Layer):
    def __init__(self, kind: str):
        super().__init__()
        self.cell = getattr(nn, kind)(64, 96)
        self.head = nn.Linear(96, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.cell(x)[0][:, -1])


class _Decoder(nn.Layer):
    """Halved by strides, doubled by transposed convolutions, with what was there before beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2D(3, 16, 3, padding=1), nn.Conv2D(16, 32, 3, stride=2, padding=1)
        self.deep, self.up = nn.Conv2D(32, 32, 3, padding=2, dilation=2), nn.Conv2DTranspose(32, 16, 2, stride=2)
        self.last = nn.Conv2D(32, 4, 1)

    def forward(self, x: Any) -> Any:
        f = nn.functional
        a = f.relu(self.first(x))
        b = f.silu(self.deep(f.relu(self.down(a))))
        return f.sigmoid(self.last(paddle.concat([a, self.up(b)], axis=1)))


class _Separable(nn.Layer):
    """Convolutions, depthwise ones behind them, and products behind these."""

    def __init__(self, kernel: int = 3):
        super().__init__()
        self.layers = nn.LayerList(
            [
                nn.Conv2D(3, 24, 3, padding=1),
                nn.Conv2D(24, 48, 1),
                nn.Conv2D(48, 48, kernel, padding=kernel // 2, groups=48),
                nn.Conv2D(48, 24, 1),
            ]
        )

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = nn.functional.relu(layer(x))
        return x


def _transformer(before: bool = False) -> Any:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(192, 3, 384, dropout=0.0, activation="gelu", normalize_before=before), 2)


NETWORKS = (
    Network("lenet", _zoo("LeNet"), ((1, 1, 28, 28),)),
    Network("lenet training", _zoo("LeNet"), ((8, 1, 28, 28),), "trains"),
    Network("mlp", _zoo("mlp 784-512-512-10"), ((1, 784),)),
    Network("mlp free rows", _zoo("mlp 784-512-512-10"), ((None, 784),), "constant"),
    Network("resnet18", _zoo("resnet18"), ((1, 3, 224, 224),)),
    Network("resnet18 free pixels", _zoo("resnet18"), ((None, 3, None, None),)),
    Network("resnet50", _zoo("resnet50"), ((1, 3, 224, 224),), "constant"),
    Network("mobilenet_v2", _zoo("mobilenet_v2"), ((1, 3, 224, 224),)),
    Network("mobilenet_v2 constant", _zoo("mobilenet_v2"), ((1, 3, 224, 224),), "constant"),
    Network("mobilenet_v2 free pixels", _zoo("mobilenet_v2"), ((1, 3, None, None),)),
    Network("mobilenet_v3_large", _zoo("mobilenet_v3_large"), ((1, 3, 224, 224),)),
    Network("shufflenet", _zoo("shufflenet_v2_x1_0"), ((1, 3, 224, 224),)),
    Network("separable", _Separable, ((1, 3, 56, 56),), "constant"),
    Network("decoder", _Decoder, ((1, 3, 64, 64),)),
    Network("decoder free pixels", _Decoder, ((1, 3, None, None),), "constant"),
    Network("transformer", _transformer, ((1, 128, 192),)),
    Network("transformer free words", lambda: _transformer(True), ((None, None, 192),)),
    Network("transformer training", _transformer, ((4, 32, 192),), "trains"),
    Network("lstm", lambda: _Recurrent("LSTM"), ((1, 40, 64),)),
    Network("gru", lambda: _Recurrent("GRU"), ((2, 40, 64),)),
)
