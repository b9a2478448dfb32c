"""Attention: weights by how well queries and keys match, and what they take of the values."""

from __future__ import annotations

import math
from typing import Any

from polyreme import dispatch
from polyreme.casting.state import REGIONS
from polyreme.device import current_place
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Expr, UnknownSize
from polyreme.ir.types import bf16, f16, f32, i1, i64
from polyreme.math.common import cast_to, tensor_arg
from polyreme.math.elementwise import add
from polyreme.math.elementwise import scale as scaled
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import expand, flatten, reshape, squeeze, transpose, unsqueeze
from polyreme.nn.functional.activation import softmax
from polyreme.nn.functional.common import dropout
from polyreme.tensor import Tensor

__all__ = ["scaled_dot_product_attention"]

# Deeper keys and wider values than these have no kernel without scores in memory.
MOST_DEPTH = 256


def additive_mask(mask: Tensor | None, dtype: Any) -> Tensor | None:
    """What is added to scores of that dtype: bools and integers say which positions count (0 there, -1e9 elsewhere), floats are added as
    they are.
    """
    if mask is None or mask.type.dtype == dtype:
        return mask
    if mask.type.dtype.kind in "biu":
        return scaled(cast_to(mask, dtype), 1e9, -1.0, bias_after_scale=False)
    return cast_to(mask, dtype)


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, factor: float, dropout_p: float, training: bool, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """softmax(factor query keyᵀ + mask) value, and the weights; shapes [..., queries, depth], [..., keys, depth] and [..., keys, width]."""
    scores = matmul(scaled(query, factor), key, transpose_y=True)
    if causal:
        mask = _later(scores)
    if mask is not None:
        scores = add(scores, mask)
    weights = softmax(scores)
    if dropout_p:
        weights = dropout(weights, dropout_p, training=training)
    return matmul(weights, value), weights


def takes_whole() -> bool:
    """Whether attention may be one op: on a GPU, in programs that are no lists of Paddle's operators."""
    recorder = dispatch.active_trace()
    return bool(current_place().is_gpu_place()) and (recorder is None or recorder.taped)


def attend_whole(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, factor: float, dropout_p: float, causal: bool) -> Any:
    """softmax(factor query keyᵀ + mask) value for [batch, length, heads, depth] as one op, where a GPU computes it without its scores in
    memory; None elsewhere, and where the weights, or gradients of the mask, are needed.
    """
    if dropout_p or not takes_whole():
        return None
    kinds = [t.type for t in (query, key, value)]
    if any(t.dtype != kinds[0].dtype or t.dtype not in (f32, f16, bf16) or t.rank != 4 for t in kinds):
        return None
    if any(t.shape[2] != kinds[0].shape[2] or not isinstance(t.shape[3], int) or not 0 < t.shape[3] <= MOST_DEPTH for t in kinds):
        return None
    if kinds[1].shape[1] != kinds[2].shape[1] or any(t.shape[0] != kinds[0].shape[0] or 0 in t.shape for t in kinds):
        return None
    if mask is not None and (causal or not mask.stop_gradient or mask.type.dtype != kinds[0].dtype or REGIONS.count):
        return None
    if mask is not None:
        if mask.ndim > 4:
            return None
        mask = reshape(mask, [*[1] * (4 - mask.ndim), *mask.type.shape]) if mask.ndim < 4 else mask
        scores = (kinds[0].shape[0], kinds[0].shape[2], kinds[0].shape[1], kinds[1].shape[1])
        if any(n not in (1, m) for n, m in zip(mask.type.shape, scores, strict=True)):
            return None
    out, _ = dispatch.call(ops.Attention, query, key, value, mask, scale=float(factor), causal=causal)
    return out


def _later(scores: Tensor) -> Tensor:
    """-inf where a key comes after its query, 0 elsewhere: [queries, keys]. Every query sees the first key at least."""
    queries, keys = scores.type.shape[-2:]
    row = dispatch.call(ops.Iota, shape=(queries, 1), axis=0, dtype=i64)
    column = dispatch.call(ops.Iota, shape=(1, keys), axis=1, dtype=i64)
    dtype = scores.type.dtype
    return dispatch.call(
        ops.Where, dispatch.call(ops.Greater, column, row), dispatch.full((), -math.inf, dtype), dispatch.full((), 0.0, dtype)
    )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    backend: str | None = None,
    scale: float | None = None,
    enable_gqa: bool = True,
    name: str | None = None,
) -> Tensor:
    """softmax(scale query keyᵀ + attn_mask) value for tensors of shape [batch, length, heads, depth], or without the batch.

    `scale` is 1 / sqrt(depth) unless given. The mask is [batch, heads, queries, keys] or broadcasts to that; bools say which positions
    count, floats are added. With `is_causal` a position sees itself and those before it, and the mask is ignored. With `enable_gqa` queries
    may have a multiple of the heads that keys and values have, which several then share. `backend` is accepted for its place: compiled code
    for inference never has all scores in memory, any other has [queries, keys] of them.
    """
    for argument, tensor in (("query", query), ("key", key), ("value", value)):
        tensor_arg(tensor, "scaled_dot_product_attention", argument)
        if tensor.ndim not in (3, 4):
            raise ValueError(
                f"scaled_dot_product_attention expected '{argument}' of shape [batch, length, heads, depth], the batch absent or not, but "
                f"got {list(tensor.shape)}"
            )
    batched = query.ndim == 4
    if not batched:
        query, key, value = (unsqueeze(t, 0) for t in (query, key, value))
    heads, key_heads, value_heads = (t.shape[2] for t in (query, key, value))
    if free := [n for n in (heads, key_heads, value_heads) if isinstance(n, Expr)]:
        raise UnknownSize(f"scaled_dot_product_attention expected known numbers of heads but got the symbolic size '{free[0]}'", *free)
    if key_heads != value_heads or (key_heads and heads % key_heads) or (not enable_gqa and heads != key_heads):
        wanted = (
            "a multiple of the heads of keys and values, which are as many"
            if enable_gqa
            else "as many heads of queries, keys and values (enable_gqa=False)"
        )
        raise AssertionError(f"scaled_dot_product_attention expected {wanted}, but got {heads}, {key_heads} and {value_heads}")
    if key_heads and heads != key_heads:
        key, value = (flatten(expand(unsqueeze(t, 3), [-1, -1, -1, heads // key_heads, -1]), 2, 3) for t in (key, value))
    if attn_mask is not None and attn_mask.type.dtype == i1:
        dtype = query.type.dtype
        attn_mask = dispatch.call(ops.Where, attn_mask, dispatch.full((), 0.0, dtype), dispatch.full((), float("-inf"), dtype))
    depth = query.shape[-1]
    factor = scale or (depth**-0.5 if depth else 1.0)
    whole = attend_whole(query, key, value, None if is_causal else attn_mask, factor, dropout_p if training else 0.0, is_causal)
    if whole is not None:
        return whole if batched else squeeze(whole, 0)
    query, key, value = (transpose(t, [0, 2, 1, 3]) for t in (query, key, value))
    out, _ = attend(query, key, value, attn_mask, factor, dropout_p, training, is_causal)
    out = transpose(out, [0, 2, 1, 3])
    return out if batched else squeeze(out, 0)
