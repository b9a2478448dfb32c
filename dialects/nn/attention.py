"""Attention as one op, for devices that compute it without its scores in memory, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects.arrays import Array, widened
from polyreme.dialects.shape_rules import shape_text, wide_type
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.sizes.facts import agree, agree_all
from polyreme.ir.types import TensorType

# Sums of products, of weights that are exponentials of such sums.
_ATTENTION = Accuracy(ulp=64, absolute=64, summed=16)


def _check_operands(query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None) -> None:
    for what, given in (("query", query), ("key", key), ("value", value)):
        check(given.rank == 4, f"expected a {what} [batch, length, heads, depth] but got {shape_text(given.shape)}")
        check_type(given.dtype.is_float, f"expected floats but got {given.dtype}")
        check_type(given.dtype == query.dtype, f"expected operands of one type but got {query.dtype} and {given.dtype}")
    for what, given in (("key", key), ("value", value)):
        fits = agree(given.shape[0], query.shape[0]) and agree(given.shape[2], query.shape[2]) and agree(given.shape[1], key.shape[1])
        check(fits, f"expected a {what} of the query's batch and heads, as long as the key, but got {shape_text(given.shape)}")
    check(agree(query.shape[3], key.shape[3]), f"expected a key as deep as the query but got {shape_text(key.shape)}")
    if mask is not None:
        scores = (query.shape[0], query.shape[2], query.shape[1], key.shape[1])
        fits = mask.rank == 4 and all(n == 1 or agree(n, m) for n, m in zip(mask.shape, scores, strict=True))
        check(fits, f"expected a mask that repeats itself to {shape_text(scores)} but got {shape_text(mask.shape)}")
        check_type(mask.dtype == query.dtype, f"expected a mask of type {query.dtype} but got {mask.dtype}")


def _scores(query: Array, key: Array, mask: Array | None, scale: float, causal: bool) -> Array:
    scores = np.einsum("amhd,anhd->ahmn", query, key) * scale
    if mask is not None:
        scores = scores + mask
    if causal:
        later = np.arange(scores.shape[-1]) > np.arange(scores.shape[-2])[:, None]
        scores = np.where(later, -np.inf, scores)
    return np.asarray(scores)


def _exact(*arrays: Array | None) -> list[Any]:
    return [None if x is None else x.astype(np.float64) for x in arrays]


@op("nn.attention", Pure, accuracy=_ATTENTION)
class Attention(Op):
    """softmax(`scale` query keyᵀ + mask) value for each head, and the logarithms of the sums that the softmax divides by.

        %y, %sums = nn.attention %q, %k, %v {scale = 0.5, causal = true} : tensor<Nx3x2x4xf32>, tensor<Nx2x3xf32>
        // %q: tensor<Nx3x2x4xf32>, %k: tensor<Nx5x2x4xf32>, %v: tensor<Nx5x2x4xf32>

    query is [batch, queries, heads, depth], key [batch, keys, heads, depth] and value [batch, keys, heads, width], floats of one type;
    the first result is [batch, queries, heads, width]. `mask`, [batch, heads, queries, keys] with sizes of 1 where it repeats itself, is
    added to the scores; it has no gradient. With `causal` a query sees the keys up to its own number. The second result,
    [batch, heads, queries], is log(sum(exp(scores))), what gradients need to find each weight again: float32 beside 16-bit floats, which
    are summed in float32. A query that sees no key, all of whose scores are -inf, has nan.
    """

    query = operand()
    key = operand()
    value = operand()
    mask = optional()
    scale = attr(float, default=1.0)
    causal = attr(bool, default=False)

    @staticmethod
    def infer(
        query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None, *, scale: float, causal: bool
    ) -> tuple[TensorType, ...]:
        _check_operands(query, key, value, mask)
        batch, queries, heads, _ = query.shape
        out = TensorType((batch, queries, heads, value.shape[3]), query.dtype)
        return out, TensorType((batch, heads, queries), wide_type(query.dtype))

    @staticmethod
    def reference(query: Array, key: Array, value: Array, mask: Array | None, *, scale: float, causal: bool) -> tuple[Array, ...]:
        q, k, v, m = _exact(query, key, value, mask)
        with np.errstate(all="ignore"):
            scores = _scores(q, k, m, scale, causal)
            peak = scores.max(-1, keepdims=True, initial=-np.inf)
            weights = np.exp(scores - peak)
            total = weights.sum(-1, keepdims=True)
            out = np.einsum("ahmn,anhw->amhw", weights / total, v)
            sums = (peak + np.log(total))[..., 0]
        return out.astype(query.dtype), sums.astype(widened(query).dtype)


@op("nn.attention_gradient", Pure, accuracy=_ATTENTION)
class AttentionGradient(Op):
    """What `dy`, the gradient of the first result of `nn.attention`, makes of its query, key and value.

        %dq, %dk, %dv = nn.attention_gradient %q, %k, %v, %y, %sums, %dy {scale = 0.5}
            : tensor<Nx3x2x4xf32>, tensor<Nx5x2x4xf32>, tensor<Nx5x2x4xf32>
        // %q: tensor<Nx3x2x4xf32>, %k: tensor<Nx5x2x4xf32>, %v: tensor<Nx5x2x4xf32>
        // %y: tensor<Nx3x2x4xf32>, %sums: tensor<Nx2x3xf32>, %dy: tensor<Nx3x2x4xf32>

    With the weights p = exp(scores - sums), which are computed anew, and d = sum(dy y) of each query: dv = pᵀ dy, and with
    s = scale p (dy valueᵀ - d): dq = s key and dk = sᵀ query. `out` and `sums` are what `nn.attention` gave; `mask`, `scale` and `causal`
    are its own. Sums may be rounded to 16 bits beside 16-bit floats.
    """

    query = operand()
    key = operand()
    value = operand()
    out = operand()
    sums = operand()
    dy = operand()
    mask = optional()
    scale = attr(float, default=1.0)
    causal = attr(bool, default=False)

    @staticmethod
    def infer(
        query: TensorType,
        key: TensorType,
        value: TensorType,
        out: TensorType,
        sums: TensorType,
        dy: TensorType,
        mask: TensorType | None,
        *,
        scale: float,
        causal: bool,
    ) -> tuple[TensorType, ...]:
        made, kept = Attention.infer(query, key, value, mask, scale=scale, causal=causal)
        for what, given, wanted in (("result", out, made), ("gradient", dy, made), ("sums", sums, kept)):
            check(agree_all(given.shape, wanted.shape), f"expected {what} of shape {shape_text(wanted.shape)}: {shape_text(given.shape)}")
            check_type(given.dtype in (wanted.dtype, query.dtype), f"expected {what} of type {wanted.dtype} but got {given.dtype}")
        return query, key, value

    @staticmethod
    def reference(
        query: Array,
        key: Array,
        value: Array,
        out: Array,
        sums: Array,
        dy: Array,
        mask: Array | None,
        *,
        scale: float,
        causal: bool,
    ) -> tuple[Array, ...]:
        q, k, v, y, kept, g, m = _exact(query, key, value, out, sums, dy, mask)
        with np.errstate(all="ignore"):
            weights = np.exp(_scores(q, k, m, scale, causal) - kept[..., None])
            apart = np.einsum("amhw,anhw->ahmn", g, v) - (g * y).sum(-1).swapaxes(1, 2)[..., None]
            ds = weights * apart * scale
            dq, dk = np.einsum("ahmn,anhd->amhd", ds, k), np.einsum("ahmn,amhd->anhd", ds, q)
            dv = np.einsum("ahmn,amhw->anhw", weights, g)
        return dq.astype(query.dtype), dk.astype(key.dtype), dv.astype(value.dtype)
