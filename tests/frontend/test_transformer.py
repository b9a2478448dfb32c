"""Transformers compiled: for any batch and length, in training, step by step with caches; what attention refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.static import InputSpec

nn, F = paddle.nn, paddle.nn.functional


def numbers(*shape: int) -> Any:
    return paddle.to_tensor(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def encoder(dropout: float = 0.0, layers: int = 2) -> Any:
    paddle.seed(5)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout), layers, nn.LayerNorm(8))


def test_a_compiled_encoder_gives_what_the_eager_one_gives_for_any_batch_and_length() -> None:
    plain, spec = encoder(layers=1), [InputSpec([None, None, 8], "float32", "x")]
    compiled = paddle.jit.to_static(encoder(layers=1), input_spec=spec)
    plain.eval()
    compiled.eval()
    for shape in ((2, 5, 8), (3, 1, 8)):
        x = numbers(*shape)
        np.testing.assert_allclose(compiled(x).numpy(), plain(x).numpy(), rtol=1e-5, atol=1e-5)


def test_a_compiled_encoder_learns_as_the_eager_one_does() -> None:
    def gradients(model: Any) -> list[Any]:
        x = numbers(2, 4, 8)
        x.stop_gradient = False
        mask = paddle.tril(paddle.ones([4, 4], "bool"))
        (model(x, mask) ** 3).sum().backward()
        return [x.grad.numpy(), *(p.grad.numpy() for p in model.parameters())]

    for found, wanted in zip(gradients(paddle.jit.to_static(encoder())), gradients(encoder()), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_dropout_draws_the_same_numbers_compiled_as_eager() -> None:
    plain, compiled = encoder(0.3), paddle.jit.to_static(encoder(0.3))
    x = numbers(2, 4, 8)
    paddle.seed(1)
    wanted = plain(x).numpy()
    paddle.seed(1)
    np.testing.assert_allclose(compiled(x).numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert not np.allclose(plain(x).numpy(), wanted)


def test_causal_attention_of_any_length_sees_nothing_later() -> None:
    attend = paddle.jit.to_static(
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), input_spec=[InputSpec([None, None, 2, 4], "float32", "x")]
    )
    for length in (3, 6):
        x = numbers(2, length, 2, 4)
        out = attend(x).numpy()
        np.testing.assert_allclose(out[:, 0], x.numpy()[:, 0], rtol=1e-5)
        np.testing.assert_allclose(attend(x[:, :2]).numpy(), out[:, :2], rtol=1e-5, atol=1e-6)


def test_attention_in_16_bits_is_near_that_in_32() -> None:
    x = numbers(2, 3, 2, 4)
    half = F.scaled_dot_product_attention(*[x.astype("bfloat16")] * 3, is_causal=True)
    assert half.dtype == paddle.bfloat16
    np.testing.assert_allclose(half.astype("float32").numpy(), F.scaled_dot_product_attention(x, x, x, is_causal=True).numpy(), atol=0.05)


def test_attention_says_which_argument_is_wrong() -> None:
    x = numbers(2, 3, 4, 4)
    with pytest.raises(ValueError, match=r"expected 'key' of shape \[batch, length, heads, depth\]"):
        F.scaled_dot_product_attention(x, x[0, 0], x)
    with pytest.raises(AssertionError, match="a multiple of the heads of keys and values, .* but got 4, 3 and 3"):
        F.scaled_dot_product_attention(x, x[:, :, :3], x[:, :, :3])
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads, but received 5 and 2"):
        nn.MultiHeadAttention(5, 2)
