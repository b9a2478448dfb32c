"""Normalisations taken apart, in `nn` ops: their values, for the `tensor` level, and what their gradients share."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Add, Cast, Full, Mean, Mul, Reshape, Rsqrt, Square, Sub, Sum
from polyreme.dialects.nn.norm import aligned_shape
from polyreme.dialects.shape_rules import Shape, normal_axes, wide_type
from polyreme.ir.types import ScalarType

Value = Any  # an IR value, or an eager tensor: anything with `.type`
Emitter = Any  # emits an op, by its class


def cast(b: Emitter, x: Value, dtype: ScalarType) -> Value:
    return x if x.type.dtype == dtype else b(Cast, x, dtype=dtype)


def wide(b: Emitter, x: Value) -> Value:
    """16-bit floats as float32."""
    return cast(b, x, wide_type(x.type.dtype))


def reshaped(b: Emitter, x: Value, shape: Shape) -> Value:
    return x if x.type.shape == shape else b(Reshape, x, shape=shape)


def along(b: Emitter, vector: Value, shape: Shape, axes: tuple[int, ...]) -> Value:
    """A weight, bias or statistic, wide, shaped so that it runs along `axes` of `shape`."""
    return reshaped(b, wide(b, vector), aligned_shape(shape, axes))


def without(shape: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """All axes of `shape` but `axes`."""
    return tuple(i for i in range(len(shape)) if i not in axes)


def mean(b: Emitter, x: Value, axes: tuple[int, ...]) -> Value:
    """With the axes kept as sizes of 1."""
    return b(Mean, x, axis=axes, keepdims=True) if axes else x


def total(b: Emitter, x: Value, axes: tuple[int, ...]) -> Value:
    """The sum, without the axes."""
    return b(Sum, x, axis=axes) if axes else x


def inverse_deviation(b: Emitter, variance: Value, epsilon: float) -> Value:
    """1 / sqrt(variance + epsilon)"""
    return b(Rsqrt, b(Add, variance, b(Full, value=epsilon, dtype=variance.type.dtype)))


def affine(b: Emitter, y: Value, weight: Value | None, bias: Value | None, axes: tuple[int, ...]) -> Value:
    """y weight + bias"""
    shape = y.type.shape
    if weight is not None:
        y = b(Mul, y, along(b, weight, shape, axes))
    return y if bias is None else b(Add, y, along(b, bias, shape, axes))


def standardize(op: Any, b: Emitter, x: Value, weight: Value | None, bias: Value | None) -> tuple[Value, ...]:
    """(x - mean) / sqrt(mean of squared differences + epsilon) weight + bias: two sweeps for the statistics, because one that sums squares
    cancels
    """
    kind, shape = x.type.dtype, x.type.shape
    axes = normal_axes(op.axes, len(shape))
    v = wide(b, x)
    middle = mean(b, v, axes)
    centred = b(Sub, v, middle)
    variance = mean(b, b(Square, centred), axes)
    y = b(Mul, centred, inverse_deviation(b, variance, op.epsilon))
    y = affine(b, y, weight, bias, normal_axes(op.affine, len(shape)))
    kept = tuple(d for i, d in enumerate(shape) if i not in axes)
    return cast(b, y, kind), reshaped(b, middle, kept), reshaped(b, variance, kept)


def standardize_gradient(
    op: Any, b: Emitter, x: Value, dy: Value, middle: Value, variance: Value, weight: Value | None
) -> tuple[Value, ...]:
    """r (g - mean(g) - n mean(g n)), and the sums of dy n and dy, with n the normal form of x and g = dy weight"""
    shape = x.type.shape
    axes, channels = normal_axes(op.axes, len(shape)), normal_axes(op.affine, len(shape))
    kept = without(shape, axes)
    r = along(b, inverse_deviation(b, wide(b, variance), op.epsilon), shape, kept)
    n = b(Mul, b(Sub, wide(b, x), along(b, middle, shape, kept)), r)
    seed = wide(b, dy)
    kind = seed.type.dtype if weight is None else weight.type.dtype
    dw, db = (cast(b, total(b, v, without(shape, channels)), kind) for v in (b(Mul, seed, n), seed))
    g = affine(b, seed, weight, None, channels)
    dx = b(Mul, r, project(b, g, n, axes))
    return cast(b, dx, x.type.dtype), dw, db


def project(b: Emitter, g: Value, n: Value, axes: tuple[int, ...]) -> Value:
    """g - mean(g) - n mean(g n): what is left of g beside its mean and its part along n"""
    return b(Sub, b(Sub, g, mean(b, g, axes)), b(Mul, n, mean(b, b(Mul, g, n), axes)))


def batch_norm(op: Any, b: Emitter, x: Value, middle: Value, variance: Value, weight: Value | None, bias: Value | None) -> Value:
    """(x - mean) (weight / sqrt(variance + epsilon)) + bias, where the factor is one number per channel"""
    shape = x.type.shape
    channels = normal_axes((op.axis,), len(shape))
    factor = inverse_deviation(b, wide(b, variance), op.epsilon)
    if weight is not None:
        factor = b(Mul, factor, wide(b, weight))
    centred = b(Sub, wide(b, x), along(b, middle, shape, channels))
    return cast(b, affine(b, centred, factor, bias, channels), x.type.dtype)
