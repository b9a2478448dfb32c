"""Steps of a scale taken apart, in `nn` ops: counting them, and what so many of them make."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Add, Cast, Full, Maximum, Minimum, Mul, Reciprocal, Round, Sign, Sub, Trunc
from polyreme.dialects.nn.quantize import whole_range
from polyreme.dialects.shape_rules import normal_axis, wide_type
from polyreme.ir.types import i8
from polyreme.lowering.decompose.normalization import Emitter, Value, cast, reshaped


def number(b: Emitter, value: float, like: Value) -> Value:
    return b(Full, value=value, dtype=like.type.dtype)


def along(b: Emitter, vector: Value, rank: int, axis: int) -> Value:
    """A scale or zero point, shaped so that it runs along `axis` of a value of so many axes; a single number as it is."""
    if not vector.type.rank:
        return vector
    (size,) = vector.type.shape
    return reshaped(b, vector, tuple(size if i == normal_axis(axis, rank) else 1 for i in range(rank)))


def in_steps(b: Emitter, x: Value, scale: Value, axis: int) -> Value:
    """x * (1 / scale), wide"""
    dtype = wide_type(x.type.dtype)
    return b(Mul, cast(b, x, dtype), along(b, b(Reciprocal, cast(b, scale, dtype)), x.type.rank, axis))


def within(b: Emitter, steps: Value, low: int, high: int) -> Value:
    return b(Minimum, b(Maximum, steps, number(b, low, steps)), number(b, high, steps))


def quantize_linear(op: Any, b: Emitter, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """clip(round(x * (1 / scale)) + zero_point)"""
    steps = b(Round, in_steps(b, x, scale, op.axis))
    if zero_point is not None:
        steps = b(Add, steps, along(b, cast(b, zero_point, steps.type.dtype), x.type.rank, op.axis))
    return b(Cast, within(b, steps, *whole_range(op.bit_length)), dtype=i8)


def dequantize_linear(op: Any, b: Emitter, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """(x - zero_point) * scale"""
    dtype = wide_type(scale.type.dtype)
    steps = b(Cast, x, dtype=dtype)
    if zero_point is not None:
        steps = b(Sub, steps, along(b, cast(b, zero_point, dtype), x.type.rank, op.axis))
    return cast(b, b(Mul, steps, along(b, cast(b, scale, dtype), x.type.rank, op.axis)), scale.type.dtype)


def fake_quantize(op: Any, b: Emitter, x: Value, scale: Value) -> Value:
    """clip(round(x * (1 / scale))) * scale"""
    low, high = whole_range(op.bit_length)
    steps = in_steps(b, x, scale, op.axis)
    if op.ties == "away":
        low = -high
        steps = b(Trunc, b(Add, steps, b(Mul, b(Sign, steps), number(b, 0.5, steps))))
    else:
        steps = b(Round, steps)
    counted = within(b, steps, low, high)
    return cast(b, b(Mul, counted, along(b, cast(b, scale, counted.type.dtype), x.type.rank, op.axis)), x.type.dtype)
