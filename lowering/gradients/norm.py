"""Gradients of normalisations. Mean and variance are operands or results like any other, so that all gradients have gradients."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Add, BatchNorm, Div, Mul, Neg, Standardize, StandardizeGradient, Sub
from polyreme.dialects.shape_rules import normal_axes
from polyreme.lowering.decompose.normalization import affine, along, cast, inverse_deviation, mean, project, reshaped, total, wide, without
from polyreme.lowering.gradients.table import Emitter, Value, count_of, gradient, number, repeat_to, size_number


def _plus(b: Emitter, x: Value | None, y: Value) -> Value:
    return y if x is None else b(Add, x, y)


@gradient(Standardize)
def standardize(op: Any, b: Emitter, dy: Value | None, dmean: Value | None, dvariance: Value | None) -> Any:
    """by `nn.standardize_gradient` from dy; dmean / n and 2 dvariance (x - mean) / n from the statistics"""
    _, middle, variance = op.results
    shape, kind = op.x.type.shape, op.x.type.dtype
    axes = normal_axes(op.axes, len(shape))
    kept = without(shape, axes)
    dx = dw = db = None
    if dy is not None:
        numbers = {"axes": op.axes, "affine": op.affine, "epsilon": op.epsilon}
        dx, dw, db = b(StandardizeGradient, op.x, dy, middle, variance, op.weight, **numbers)
    share = None
    if dmean is not None:
        share = repeat_to(b, along(b, dmean, shape, kept), shape)
    if dvariance is not None:
        centred = b(Sub, wide(b, op.x), along(b, middle, shape, kept))
        twice = b(Add, dvariance, dvariance)
        share = _plus(b, share, b(Mul, along(b, twice, shape, kept), centred))
    if share is not None:
        count = size_number(b, count_of(shape, axes), share.type.dtype)
        dx = _plus(b, dx, cast(b, b(Div, share, count), kind))
    dbias = None if op.bias is None or db is None else cast(b, db, op.bias.type.dtype)
    return dx, None if op.weight is None else dw, dbias


@gradient(StandardizeGradient)
def standardize_gradient(op: Any, b: Emitter, a: Value | None, c: Value | None, e: Value | None) -> Any:
    """With r, n, g as in the op, P its projection, u = mean(a n), v = mean(g n) and s = mean(a g) - mean(a) mean(g) - u v, all means over
    `axes`:

    d(dy) = r weight P(a) + c n + e, dweight = sum of dy r P(a), and with h = c dy - r (v a + u g), the gradient of n:
    dx = r h, dmean = -r sum(h), dvariance = -(r³ count s + r² sum(h n)) / 2
    """
    shape, kind = op.x.type.shape, op.x.type.dtype
    axes, channels = normal_axes(op.axes, len(shape)), normal_axes(op.affine, len(shape))
    kept, others = without(shape, axes), without(shape, channels)
    flat = inverse_deviation(b, wide(b, op.variance), op.epsilon)
    r = along(b, flat, shape, kept)
    n = b(Mul, b(Sub, wide(b, op.x), along(b, op.mean, shape, kept)), r)
    seed = wide(b, op.dy)
    h = ddy = dweight = dr = None
    if a is not None:
        a = wide(b, a)
        ra = b(Mul, r, project(b, a, n, axes))
        ddy = affine(b, ra, op.weight, None, channels)
        if op.weight is not None:
            dweight = cast(b, total(b, b(Mul, seed, ra), others), op.weight.type.dtype)
        g = affine(b, seed, op.weight, None, channels)
        u, v = mean(b, b(Mul, a, n), axes), mean(b, b(Mul, g, n), axes)
        h = b(Neg, b(Mul, r, b(Add, b(Mul, v, a), b(Mul, u, g))))
        s = b(Sub, b(Sub, mean(b, b(Mul, a, g), axes), b(Mul, mean(b, a, axes), mean(b, g, axes))), b(Mul, u, v))
        dr = b(Mul, size_number(b, count_of(shape, axes), s.type.dtype), reshaped(b, s, flat.type.shape))
    if c is not None:
        c = along(b, c, shape, channels)
        ddy = _plus(b, ddy, b(Mul, c, n))
        h = _plus(b, h, b(Mul, c, seed))
    if e is not None:
        ddy = _plus(b, ddy, repeat_to(b, along(b, e, shape, channels), shape))
    ddy = None if ddy is None else cast(b, ddy, kind)
    if h is None:
        return None, ddy, None, None, dweight
    dmean = b(Neg, b(Mul, flat, total(b, h, axes)))
    # n depends on r, too: h n / r of it.
    half = b(Mul, b(Mul, flat, flat), number(b, -0.5, flat))
    inner = total(b, b(Mul, h, n), axes)
    dvariance = b(Mul, half, inner if dr is None else b(Add, b(Mul, flat, dr), inner))
    return cast(b, b(Mul, r, h), kind), ddy, cast(b, dmean, op.mean.type.dtype), cast(b, dvariance, op.variance.type.dtype), dweight


@gradient(BatchNorm)
def batch_norm(op: Any, b: Emitter, dy: Value) -> Any:
    """With r = 1 / sqrt(variance + epsilon), t = sum of dy per channel and s = sum of dy (x - mean):

    dx = dy weight r, dmean = -weight r t, dvariance = -weight r³ s / 2, dweight = r s, dbias = t
    """
    shape = op.x.type.shape
    channels = normal_axes((op.axis,), len(shape))
    others = without(shape, channels)
    r = inverse_deviation(b, wide(b, op.variance), op.epsilon)
    scale = r if op.weight is None else b(Mul, r, wide(b, op.weight))
    seed = wide(b, dy)
    t = total(b, seed, others)
    s = total(b, b(Mul, seed, b(Sub, wide(b, op.x), along(b, op.mean, shape, channels))), others)
    half = b(Mul, b(Mul, scale, b(Mul, r, r)), number(b, -0.5, r))
    return (
        cast(b, b(Mul, seed, along(b, scale, shape, channels)), op.x.type.dtype),
        cast(b, b(Neg, b(Mul, scale, t)), op.mean.type.dtype),
        cast(b, b(Mul, half, s), op.variance.type.dtype),
        None if op.weight is None else cast(b, b(Mul, r, s), op.weight.type.dtype),
        None if op.bias is None else cast(b, t, op.bias.type.dtype),
    )
