"""16-bit floats (float16, bfloat16): storage for what is computed in float32."""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.core import Op
from polyreme.ir.types import bf16, element_type, f16, f32

HALVES = (f16, bf16)


def is_widening(op: Op | None) -> bool:
    """Whether `op` is a cast of 16-bit floats to float32."""
    return isinstance(op, tensor.Map) and op.fn == "cast" and element_type(op.xs[0].type) in HALVES and element_type(op.result.type) == f32
