"""Gradients of attention: by an op of their own, which needs no more of the scores than the logarithm of each row's sum."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Add, Attention, AttentionGradient
from polyreme.lowering.decompose.attention import gradient_written_out, written_out
from polyreme.lowering.gradients.composite import gradients_through
from polyreme.lowering.gradients.table import Emitter, Value, gradient


@gradient(Attention)
def attention(op: Any, b: Emitter, dy: Value | None, dsums: Value | None) -> Any:
    """by `nn.attention_gradient` from dy; from dsums, which is rare, by way of the scores"""
    found: list[Value | None] = [None, None, None]
    numbers = {"scale": op.scale, "causal": op.causal}
    if dy is not None:
        y, sums = op.results
        found = list(b(AttentionGradient, op.query, op.key, op.value, y, sums, dy, op.mask, **numbers))
    if dsums is not None:
        compose = lambda e: written_out(op, e, op.query, op.key, op.value, op.mask)[1:]
        parts = gradients_through(b, compose, [op.query, op.key, op.value], [dsums])
        found = [x if part is None else part if x is None else b(Add, x, part) for x, part in zip(found, parts, strict=True)]
    return *found, None


@gradient(AttentionGradient)
def attention_gradient(op: Any, b: Emitter, *grads: Value | None) -> Any:
    """By way of the gradients as they are written out."""
    compose = lambda e: gradient_written_out(op, e, op.query, op.key, op.value, op.out, op.sums, op.dy, op.mask)
    return *gradients_through(b, compose, [op.query, op.key, op.value, op.out, op.sums, op.dy], grads), None
