"""The models that are timed: each is built by the same code from Paddle or from Polyreme, with weights drawn by numpy.

Both libraries have the same API, so `build(paddle)` takes either module. Run in a Python that has Paddle, this file writes Paddle's own
files of a model:

    python -m benchmarks.zoo resnet50 1 FOLDER        # reads FOLDER/weights.npz
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Array = Any
GPT_LAYERS, GPT_HEADS, GPT_WIDTH, GPT_WORDS, GPT_PAST = 12, 12, 768, 50257, 127


@dataclass(frozen=True)
class Model:
    """`build(paddle)` gives a Layer; `inputs` are its inputs as (name, shape without the batch, dtype), `batches` the batch sizes that are
    timed. With `int8` the model is timed after quantisation, beside itself in float32.
    """

    name: str
    build: Callable[[Any], Any]
    inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    batches: tuple[int, ...] = (1,)
    int8: bool = False

    def shapes(self, batch: int) -> list[tuple[str, list[int], str]]:
        """Inputs with their batch."""
        return [(name, [batch, *shape], dtype) for name, shape, dtype in self.inputs]


def vision(name: str, paddle: Any) -> Any:
    """A model of `paddle.vision.models` as it is made by default."""
    made = getattr(paddle.vision.models, name)
    return made(num_classes=10) if name == "LeNet" else made()


def mlp(paddle: Any) -> Any:
    """784-512-512-10 with ReLU between."""
    nn = paddle.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def encoder(paddle: Any) -> Any:
    """The encoder of BERT-base: 12 layers of 768 with 12 heads, GELU, norms after; it takes embeddings."""
    nn = paddle.nn
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu"), 12)


def vit(paddle: Any) -> Any:
    """ViT-B/16 for 224x224: patches of 16x16, a class token, learnt positions, 12 layers with norms before, a head of 1000 classes."""
    nn = paddle.nn

    class ViT(nn.Layer):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2D(3, 768, 16, stride=16)
            self.token = self.create_parameter([1, 1, 768])
            self.positions = self.create_parameter([1, 197, 768])
            layer = nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu", normalize_before=True)
            self.encoder = nn.TransformerEncoder(layer, 12, nn.LayerNorm(768))
            self.head = nn.Linear(768, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose([0, 2, 1])
            x = paddle.concat([self.token.expand([x.shape[0], 1, 768]), x], axis=1) + self.positions
            return self.head(self.encoder(x)[:, 0])

    return ViT()


def gpt2(paddle: Any) -> Any:
    """One step of GPT-2-small: a word, and the keys and values of 127 words before it, give the scores of the next word and this word's
    keys and values.

    `past` is [batch, 24, 12 heads, 127, 64]: keys and values of each layer in turn. The new ones have 1 in place of 127; the caller keeps
    them.
    """
    nn = paddle.nn

    class Block(nn.Layer):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(GPT_WIDTH), nn.LayerNorm(GPT_WIDTH)
            self.qkv, self.out = nn.Linear(GPT_WIDTH, 3 * GPT_WIDTH), nn.Linear(GPT_WIDTH, GPT_WIDTH)
            self.up, self.down = nn.Linear(GPT_WIDTH, 4 * GPT_WIDTH), nn.Linear(4 * GPT_WIDTH, GPT_WIDTH)

        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            qkv = self.qkv(self.norm1(x)).reshape([-1, 1, 3, GPT_HEADS, 64]).transpose([2, 0, 3, 1, 4])
            q, k, v = qkv[0], qkv[1], qkv[2]
            scores = paddle.matmul(q * 0.125, paddle.concat([keys, k], axis=2), transpose_y=True)
            mixed = paddle.matmul(nn.functional.softmax(scores), paddle.concat([values, v], axis=2))
            x = x + self.out(mixed.transpose([0, 2, 1, 3]).reshape([-1, 1, GPT_WIDTH]))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)))), k, v

    class GPT2(nn.Layer):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(GPT_WORDS, GPT_WIDTH)
            self.positions = nn.Embedding(1024, GPT_WIDTH)
            self.blocks = nn.LayerList([Block() for _ in range(GPT_LAYERS)])
            self.norm = nn.LayerNorm(GPT_WIDTH)

        def forward(self, word: Any, past: Any) -> Any:
            x = self.words(word) + self.positions.weight[GPT_PAST]
            new = []
            for i, block in enumerate(self.blocks):
                x, k, v = block(x, past[:, 2 * i], past[:, 2 * i + 1])
                new += [k, v]
            return paddle.matmul(self.norm(x), self.words.weight, transpose_y=True), paddle.stack(new, axis=1)

    return GPT2()


def network(file: str, kind: str, paddle: Any) -> Any:
    """A Layer of `benchmarks/architectures.py` or `benchmarks/sequences.py`, which are Paddle's own once that is imported."""
    return getattr(import_module(f"benchmarks.{file}"), kind)()


def recurrent(kind: str, paddle: Any) -> Any:
    """One layer of 256 over 256 inputs; all its states."""

    class Recurrent(paddle.nn.Layer):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.cell = getattr(paddle.nn, kind)(256, 256)

        def forward(self, x: Any) -> Any:
            return self.cell(x)[0]

    return Recurrent()


def _image(name: str, size: int = 224, batches: tuple[int, ...] = (1,), made: str = "") -> Model:
    return Model(name, partial(vision, made or name), (("x", (3, size, size), "float32"),), batches)


def _network(name: str, kind: str, shape: tuple[int, ...] = (3, 224, 224)) -> Model:
    return Model(name, partial(network, "architectures", kind), (("x", shape, "float32"),))


def _words(name: str, kind: str, *inputs: tuple[str, tuple[int, ...], str], batches: tuple[int, ...] = (1,)) -> Model:
    return Model(name, partial(network, "sequences", kind), inputs, batches)


MODELS = {
    m.name: m
    for m in (
        _image("resnet50", batches=(1, 16)),
        _image("resnet18", batches=(1, 16)),
        _image("vgg16", batches=(1, 16)),
        _image("mobilenet_v2", batches=(1, 16)),
        _image("mobilenet_v3_large", batches=(1, 16)),
        Model("bert-base 128", encoder, (("x", (128, 768), "float32"),)),
        Model("bert-base 384", encoder, (("x", (384, 768), "float32"),)),
        Model("vit-b16", vit, (("x", (3, 224, 224), "float32"),)),
        Model("gpt2-small decode", gpt2, (("word", (1,), "int64"), ("past", (2 * GPT_LAYERS, GPT_HEADS, GPT_PAST, 64), "float32"))),
        Model("lstm 256x64", partial(recurrent, "LSTM"), (("x", (64, 256), "float32"),)),
        Model("gru 256x64", partial(recurrent, "GRU"), (("x", (64, 256), "float32"),)),
        Model("LeNet", partial(vision, "LeNet"), (("x", (1, 28, 28), "float32"),)),
        Model("mlp 784-512-512-10", mlp, (("x", (784,), "float32"),), (1, 128)),
        _image("alexnet"),
        _image("mobilenet_v1"),
        _image("squeezenet1_1"),
        _image("densenet121"),
        _image("shufflenet_v2_x1_0"),
        _image("googlenet"),
        _image("inception_v3", 299),
        _network("convnext-t", "ConvNeXt"),
        _network("efficientnet-b0", "EfficientNet"),
        _network("swin-t", "Swin"),
        _network("unet 256", "UNet", (3, 256, 256)),
        _network("detector 416", "Detector", (3, 416, 416)),
        _network("text reader", "TextReader", (3, 48, 320)),
        _network("wavenet", "WaveNet", (1, 4000)),
        _network("r3d-18", "VideoNet", (3, 8, 56, 56)),
        _network("super-resolution", "SuperResolution", (3, 64, 64)),
        _network("style transfer", "StyleTransfer", (3, 128, 128)),
        Model("diffusion unet", partial(network, "architectures", "DiffusionUNet"), (("x", (4, 32, 32), "float32"), ("step", (), "int64"))),
        _words("decoder prefill", "Decoder", ("words", (128,), "int64")),
        _words("decoder step", "Decoder", ("words", (1,), "int64"), ("past", (8, 2, 255, 64), "float32")),
        _words("t5 encoder", "T5Encoder", ("words", (128,), "int64")),
        _words("translator", "Translator", ("words", (32,), "int64")),
        _words("deepfm", "DeepFM", ("sparse", (26,), "int64"), ("dense", (13,), "float32"), batches=(1, 256)),
        _words("graph net", "GraphNet", ("nodes", (1000, 128), "float32"), ("edges", (2, 8000), "int64")),
        Model("resnet50 int8", partial(vision, "resnet50"), (("x", (3, 224, 224), "float32"),), (1, 16), int8=True),
        Model("bert-base 128 int8", encoder, (("x", (128, 768), "float32"),), int8=True),
    )
}


def draw_weights(shapes: Mapping[str, Sequence[int]], seed: int = 0) -> dict[str, Array]:
    """Weights by name, scaled so that activations keep their size; variances are positive."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for name, shape in shapes.items():
        last = name.rpartition(".")[2]
        if last == "_variance":
            value = rng.uniform(0.5, 1.5, shape)
        elif len(shape) < 2:
            near_one = last == "weight"  # the scale of a norm
            value = rng.uniform(0.8, 1.2, shape) if near_one else rng.uniform(-0.1, 0.1, shape)
        else:
            fan_in = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
            value = rng.standard_normal(shape, np.float32) * (1.4 * fan_in**-0.5 if len(shape) == 4 else fan_in**-0.5)
        drawn[name] = value.astype("float32")
    return drawn


def draw_inputs(model: Model, batch: int, seed: int = 1) -> dict[str, Array]:
    """Random inputs by name."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 1000, shape).astype(dtype) if dtype.startswith("int") else rng.standard_normal(shape, np.float32)
        for name, shape, dtype in model.shapes(batch)
    }


def load_weights(layer: Any, arrays: Mapping[str, Array], paddle: Any) -> Any:
    """The Layer in evaluation mode, holding these weights."""
    missing, unexpected = layer.set_state_dict({name: paddle.to_tensor(value) for name, value in arrays.items()})
    if missing or unexpected:
        raise SystemExit(f"the libraries name their weights differently: {missing} {unexpected}")
    layer.eval()
    return layer


def write_paddle_files(model: Model, batch: int, folder: Path) -> None:
    """`paddle.json` and `paddle.pdiparams` in the folder, of the weights there."""
    import paddle

    with np.load(folder / "weights.npz") as stored:
        layer = load_weights(model.build(paddle), dict(stored), paddle)
    spec = [paddle.static.InputSpec(shape, dtype, name) for name, shape, dtype in model.shapes(batch)]
    paddle.jit.save(paddle.jit.to_static(layer, full_graph=True), str(folder / "paddle"), input_spec=spec)


if __name__ == "__main__":
    write_paddle_files(MODELS[sys.argv[1]], int(sys.argv[2]), Path(sys.argv[3]))
