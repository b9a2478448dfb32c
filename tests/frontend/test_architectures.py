"""Networks of many kinds, as people write them: compiled they compute what they do eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from benchmarks import architectures, sequences

Inputs = list[tuple[str, tuple[int, ...]]]
IMAGE: Callable[..., Inputs] = lambda *shape: [("float32", (1, *shape))]
WORDS: Inputs = [("int64", (2, 9))]
# Each small, with the inputs of a batch.
CASES: dict[str, tuple[Callable[[], paddle.nn.Layer], Inputs]] = {
    "ConvNeXt": (lambda: architectures.ConvNeXt((1, 1, 1, 1), (8, 16, 24, 32)), IMAGE(3, 64, 64)),
    "U-Net for images that halve unevenly": (lambda: architectures.UNet(4), IMAGE(3, 33, 38)),
    "detector": (lambda: architectures.Detector(4, 5), IMAGE(3, 64, 96)),
    "WaveNet": (lambda: architectures.WaveNet(8, 8, 1, 4), IMAGE(1, 50)),
    "super resolution": (lambda: architectures.SuperResolution(8, 1), IMAGE(3, 12, 14)),
    "T5": (lambda: sequences.T5Encoder(32, 2, 64, 2, 50), WORDS),
    "translator": (lambda: sequences.Translator(50, 16, 4), WORDS),
    "DeepFM": (lambda: sequences.DeepFM(5, 3, 50, 4, (16,)), [("int64", (2, 5)), ("float32", (2, 3))]),
    "graph": (lambda: sequences.GraphNet(8, 16, 4, 2), [("float32", (1, 50, 8)), ("int64", (1, 2, 99))]),
}


def drawn(inputs: Inputs) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        paddle.to_tensor(rng.integers(0, 50, shape) if dtype == "int64" else rng.standard_normal(shape).astype(dtype))
        for dtype, shape in inputs
    ]


# One of them is large: it takes half a minute to compile.
@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name == "detector" else ()) for name in CASES])
def test_a_compiled_network_computes_what_it_does_eagerly(name: str) -> None:
    make, inputs = CASES[name]
    paddle.seed(0)
    layer = make()
    layer.eval()
    given = drawn(inputs)
    expected = layer(*given)
    got = paddle.jit.to_static(layer)(*given)
    for mine, theirs in zip(*([out if isinstance(out, (tuple, list)) else [out] for out in (got, expected)]), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-3, atol=1e-4 * abs(theirs.numpy()).max())


@pytest.mark.slow
def test_a_decoder_goes_on_from_its_cache_for_any_number_of_words() -> None:
    paddle.seed(0)
    layer = sequences.Decoder(160, 4, 2, 96, 1, 50, 64)
    layer.eval()
    words = paddle.to_tensor(np.random.default_rng(0).integers(0, 50, (2, 9)))
    spec = [paddle.static.InputSpec([None, "T"], "int64", "words")]
    start = paddle.jit.to_static(layer.forward, input_spec=spec)
    step = paddle.jit.to_static(
        lambda word, past: layer(word, past),
        input_spec=[paddle.static.InputSpec([None, 1], "int64", "word"), paddle.static.InputSpec([None, 2, 2, "P", 40], "float32", "past")],
    )
    scores, past = start(words[:, :6])
    for i in range(6, 9):
        scores, past = step(words[:, i : i + 1], past)
    whole, kept = layer(words)
    np.testing.assert_allclose(scores.numpy(), whole.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(past.numpy(), kept.numpy(), rtol=1e-4, atol=1e-5)
