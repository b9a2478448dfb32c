"""Gradients past rounding: a straight way through `nn.fake_quantize`, and what a scale gets from the numbers it makes."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Cast, DequantizeLinear, FakeQuantize, Mul, Sub
from polyreme.dialects.shape_rules import normal_axis
from polyreme.lowering.decompose.normalization import cast, total, without
from polyreme.lowering.decompose.quantize import along
from polyreme.lowering.gradients.table import Emitter, Value, gradient


@gradient(DequantizeLinear)
def dequantize_linear(op: Any, b: Emitter, dy: Value) -> Any:
    """dscale = the sum of dy (x - zero_point) over what the scale repeats itself along"""
    rank = op.x.type.rank
    steps = b(Cast, op.x, dtype=dy.type.dtype)
    if op.zero_point is not None:
        steps = b(Sub, steps, along(b, cast(b, op.zero_point, dy.type.dtype), rank, op.axis))
    kept = (normal_axis(op.axis, rank),) if op.scale.type.rank else ()
    return None, total(b, b(Mul, dy, steps), without(op.x.type.shape, kept)), None


@gradient(FakeQuantize)
def fake_quantize(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy, straight through rounding and clipping"""
    return dy, None
