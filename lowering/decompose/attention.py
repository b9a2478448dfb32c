"""Attention and its gradients at the `tensor` level: a group for each kernel that a GPU has for them, whose scores are inside.

A processor takes the group of the result; the others are taken apart again there. `written_out` is attention in `nn` ops, for exporters and
for gradients of gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects import nn
from polyreme.dialects import tensor as tt
from polyreme.dialects.shape_rules import wide_type
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.types import ScalarType, i64
from polyreme.lowering.machines.gpu import FLASH_TOGETHER

Value = Any  # an IR value, or an eager tensor: anything with `.type`
Emitter = Any  # emits an op, by its class



def attention(op: Any, b: Builder, query: Value, key: Value, value: Value, mask: Value | None) -> tuple[Value, ...]:
    def made(g: Builder, q: Value, k: Value, v: Value, m: Value | None = None) -> list[Value]:
        scores = _scores(op, g, q, k, m)
        peak = _reduce(g, scores, "max")
        e = g(tt.Map, g(tt.Map, scores, peak, fn="sub"), fn="exp")
        total = _reduce(g, e, "add")
        weights = _cast(g, g(tt.Map, e, total, fn="div"), q.type.dtype)
        out = g(tt.Contract, weights, v, spec="abMN,aNbW->aMbW")
        return [out, g(tt.Map, peak, g(tt.Map, total, fn="log"), fn="add")] if op.results[1].uses else [out]

    out, *sums = _group(op, b, [query, key, value, *([mask] if mask is not None else [])], made)
    shape = op.results[1].type.shape
    return out, b(tt.Reshape, sums[0], shape=shape) if sums else b(tt.Full, value=0.0, shape=shape, dtype=op.results[1].type.dtype)


def attention_gradient(
    op: Any, b: Builder, query: Value, key: Value, value: Value, out: Value, sums: Value, dy: Value, mask: Value | None
) -> tuple[Value, ...]:
    kind = wide_type(query.type.dtype)
    products = b(tt.Map, _cast(b, dy, kind), _cast(b, out, kind), fn="mul")
    taken = b(tt.Reduce, products, fn="add", axes=(3,), keepdims=True)
    kept = b(tt.Reshape, _cast(b, sums, kind), shape=(*sums.type.shape, 1))
    operands = [query, key, value, kept, taken, dy, *([mask] if mask is not None else [])]
    dtype = query.type.dtype

    def weights(g: Builder, q: Value, k: Value, kept: Value, m: Value | None) -> Value:
        return g(tt.Map, g(tt.Map, _scores(op, g, q, k, m), kept, fn="sub"), fn="exp")

    def of_scores(g: Builder, p: Value, v: Value, taken: Value, dy: Value) -> Value:
        apart = g(tt.Contract, _cast(g, dy, kind), _cast(g, v, kind), spec="aMbW,aNbW->abMN")
        taken = g(tt.Transpose, taken, perm=(0, 2, 1, 3))
        ds = g(tt.Map, p, g(tt.Map, apart, taken, fn="sub"), fn="mul")
        return _cast(g, g(tt.Map, ds, g(tt.Full, value=op.scale, dtype=kind), fn="mul"), dtype)

    def of_query(g: Builder, q: Value, k: Value, v: Value, kept: Value, taken: Value, dy: Value, m: Value | None = None) -> list[Value]:
        ds = of_scores(g, weights(g, q, k, kept, m), v, taken, dy)
        return [g(tt.Contract, ds, k, spec="abMN,aNbK->aMbK")]

    def of_key(g: Builder, q: Value, k: Value, v: Value, kept: Value, taken: Value, dy: Value, m: Value | None = None) -> list[Value]:
        ds = of_scores(g, weights(g, q, k, kept, m), v, taken, dy)
        return [g(tt.Contract, ds, q, spec="abMN,aMbK->aNbK")]

    def of_value(g: Builder, q: Value, k: Value, kept: Value, dy: Value, m: Value | None = None) -> list[Value]:
        p = _cast(g, weights(g, q, k, kept, m), dtype)
        return [g(tt.Contract, p, dy, spec="abMN,aMbW->aNbW")]

    def of_both(g: Builder, q: Value, k: Value, v: Value, kept: Value, taken: Value, dy: Value, m: Value | None = None) -> list[Value]:
        p = weights(g, q, k, kept, m)
        dv = g(tt.Contract, _cast(g, p, dtype), dy, spec="abMN,aMbW->aNbW")
        return [g(tt.Contract, of_scores(g, p, v, taken, dy), q, spec="abMN,aMbK->aNbK"), dv]

    (dq,) = _group(op, b, operands, of_query)
    depth, width = query.type.shape[3], value.type.shape[3]
    if all(isinstance(n, int) and n <= FLASH_TOGETHER for n in (depth, width)):
        dk, dv = _group(op, b, operands, of_both)
        return dq, dk, dv
    (dk,) = _group(op, b, operands, of_key)
    (dv,) = _group(op, b, [query, key, kept, dy, *operands[6:]], of_value)
    return dq, dk, dv


def _group(op: Op, b: Builder, operands: Sequence[Value], make: Callable[..., list[Value]]) -> tuple[Value, ...]:
    """The ops of `make` as one `tensor.fused`."""
    block = Block([x.type for x in operands], [f"x{i}" for i in range(len(operands))])
    g = Builder.at_end(block, op.location)
    g.insert(tt.Yield(make(g, *block.args)))
    fused = b.insert_op(tt.Fused(list(operands), body=Region(block), loc=op.location))
    return tuple(fused.results)


def _scores(op: Any, g: Builder, query: Value, key: Value, mask: Value | None) -> Value:
    """scale query keyᵀ + mask in float32 or float64, [batch, heads, queries, keys]."""
    kind = wide_type(query.type.dtype)
    scores = g(tt.Contract, _cast(g, query, kind), _cast(g, key, kind), spec="aMbK,aNbK->abMN")
    scores = g(tt.Map, scores, g(tt.Full, value=op.scale, dtype=kind), fn="mul")
    if mask is not None:
        scores = g(tt.Map, scores, _cast(g, mask, kind), fn="add")
    if not op.causal:
        return scores
    queries, keys = scores.type.shape[2:]
    row = g(tt.Iota, shape=(1, 1, queries, 1), axis=2, dtype=i64)
    column = g(tt.Iota, shape=(1, 1, 1, keys), axis=3, dtype=i64)
    low, zero = (g(tt.Full, value=x, dtype=kind) for x in (-math.inf, 0.0))
    return g(tt.Map, scores, g(tt.Map, g(tt.Map, column, row, fn="gt"), low, zero, fn="select"), fn="add")


def _reduce(g: Builder, x: Value, fn: str) -> Value:
    return g(tt.Reduce, x, fn=fn, axes=(3,), keepdims=True)


def _cast(g: Builder, x: Value, dtype: ScalarType) -> Value:
    return x if x.type.dtype == dtype else g(tt.Map, x, fn="cast", dtype=dtype)


# --- in `nn` ops


def written_out(op: Any, b: Emitter, query: Value, key: Value, value: Value, mask: Value | None) -> tuple[Value, Value]:
    """Both results of attention in `nn` ops, with the scores in memory."""
    dtype = query.type.dtype
    scores = _written_scores(op, b, query, key, mask)
    weights = _narrowed(b, b(nn.Softmax, scores, axis=-1), dtype)
    out = _heads(b, b(nn.MatMul, weights, _heads(b, value)))
    # The largest score is a number that the result does not depend on.
    peak = b(nn.StopGradient, b(nn.Max, scores, axis=(3,), keepdims=True))
    sums = b(nn.Add, peak, b(nn.Log, b(nn.Sum, b(nn.Exp, b(nn.Sub, scores, peak)), axis=(3,), keepdims=True)))
    return out, b(nn.Reshape, sums, shape=sums.type.shape[:3])


def gradient_written_out(
    op: Any, b: Emitter, query: Value, key: Value, value: Value, out: Value, sums: Value, dy: Value, mask: Value | None
) -> tuple[Value, Value, Value]:
    """The results of `nn.attention_gradient` in `nn` ops."""
    dtype = query.type.dtype
    kept = b(nn.Reshape, _widened(b, sums), shape=(*sums.type.shape, 1))
    p = b(nn.Exp, b(nn.Sub, _written_scores(op, b, query, key, mask), kept))
    g = _heads(b, _widened(b, dy))
    taken = b(nn.Sum, b(nn.Mul, g, _heads(b, _widened(b, out))), axis=(3,), keepdims=True)
    apart = b(nn.Sub, b(nn.MatMul, g, _turned(b, _heads(b, _widened(b, value)))), taken)
    ds = b(nn.Mul, b(nn.Mul, p, apart), b(nn.Full, value=op.scale, dtype=wide_type(dtype)))
    q, k = (_heads(b, _widened(b, x)) for x in (query, key))
    made = b(nn.MatMul, ds, k), b(nn.MatMul, _turned(b, ds), q), b(nn.MatMul, _turned(b, p), g)
    dq, dk, dv = (_narrowed(b, _heads(b, x), dtype) for x in made)
    return dq, dk, dv


def _written_scores(op: Any, b: Emitter, query: Value, key: Value, mask: Value | None) -> Value:
    kind = wide_type(query.type.dtype)
    product = b(nn.MatMul, _heads(b, query), _turned(b, _heads(b, key)))
    scores = b(nn.Mul, _widened(b, product), b(nn.Full, value=op.scale, dtype=kind))
    if mask is not None:
        scores = b(nn.Add, scores, _widened(b, mask))
    if not op.causal:
        return scores
    queries, keys = scores.type.shape[2:]
    row, column = b(nn.Iota, shape=(queries, 1), axis=0, dtype=i64), b(nn.Iota, shape=(1, keys), axis=1, dtype=i64)
    low, zero = (b(nn.Full, value=x, dtype=kind) for x in (-math.inf, 0.0))
    return b(nn.Add, scores, b(nn.Where, b(nn.Greater, column, row), low, zero))


def _heads(b: Emitter, x: Value) -> Value:
    """Heads in front of the length, or behind it again."""
    return b(nn.Transpose, x, perm=(0, 2, 1, 3))


def _turned(b: Emitter, x: Value) -> Value:
    return b(nn.Transpose, x, perm=(0, 1, 3, 2))


def _widened(b: Emitter, x: Value) -> Value:
    return _narrowed(b, x, wide_type(x.type.dtype))


def _narrowed(b: Emitter, x: Value, dtype: ScalarType) -> Value:
    return x if x.type.dtype == dtype else b(nn.Cast, x, dtype=dtype)
