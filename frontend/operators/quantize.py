"""Numbers in eight bits, as Paddle's converted models have them: integers held in floats, and scales that are the magnitude of the greatest
integer.
"""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.dialects.nn.quantize import whole_range
from polyreme.ir.core import Value
from polyreme.ir.types import f32, i8
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_INPUTS = {"X": "x", "Scale": "scale", "ZeroPoint": "zero_point", "InAccum": "in_accum", "InState": "in_state"}
_OUTPUTS = "Y OutScale OutAccum OutState"


@operator("quantize_linear", legacy=spelled("quantize_linear", _INPUTS, _OUTPUTS))
def quantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, in_accum: Tensor | None = None, in_state: Tensor | None = None, *,
    quant_axis: int = 0, bit_length: int = 8, qmin: int = -128, qmax: int = 127, round_type: int = 0, is_test: bool = True,
    only_observer: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The integers, as floats. Further results are statistics of training."""
    if not is_test:
        raise UnsupportedError("expected 'quantize_linear' in inference: in training it changes its scales")
    if only_observer:
        return x, None, None, None
    if round_type != 0:
        raise UnsupportedError(f"expected the round_type 0, halves to even, but got {round_type}")
    step = _step(scale, bit_length, qmin, qmax)
    counts = dispatch.call(nn.QuantizeLinear, x, step, None, axis=quant_axis if step.type.rank else 0, bit_length=bit_length)
    return dispatch.call(nn.Cast, counts, dtype=f32), None, None, None


@operator("dequantize_linear", legacy=spelled("dequantize_linear", _INPUTS, _OUTPUTS))
def dequantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, in_accum: Tensor | None = None, in_state: Tensor | None = None, *,
    quant_axis: int = 0, bit_length: int = 8, qmin: int = -128, qmax: int = 127, round_type: int = 0, is_test: bool = True,
    only_observer: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """What integers in floats stand for. Those of `quantize_linear`, and weights that are whole numbers of eight bits, become integers
    again.
    """
    if only_observer:
        return x, None, None, None
    step = _step(scale, bit_length, qmin, qmax)
    axis = quant_axis if step.type.rank else 0
    counts = _as_integers(x)
    if counts is not None:
        return dispatch.call(nn.DequantizeLinear, counts, step, None, axis=axis), None, None, None
    if step.type.rank:
        step = math.reshape(step, [-1 if i == axis % x.type.rank else 1 for i in range(x.type.rank)])
    return math.multiply(x, step), None, None, None


def _step(scale: Tensor, bit_length: int, qmin: int, qmax: int) -> Tensor:
    """What one integer more stands for. Paddle takes the zero point and does not look at it."""
    low, high = whole_range(bit_length) if 2 <= bit_length <= 8 else (0, 0)
    if (qmin, qmax) != (low, high):
        raise UnsupportedError(f"expected integers of 2 to 8 bits in their whole range but got {bit_length} bits from {qmin} to {qmax}")
    kind = scale.type
    flat = math.reshape(scale, []) if kind.rank == 1 and kind.shape == (1,) else scale
    if flat.type.rank > 1:
        raise UnsupportedError(f"expected one scale, or one per place along an axis, but got {list(kind.shape)}")
    return math.divide(flat, math.full([], high, "float32"))


def _as_integers(x: Tensor) -> Tensor | None:
    value = x._value
    if x.type.dtype == i8:
        return x
    if isinstance(value, np.ndarray):
        counts = value.astype(np.int8) if np.abs(value).max(initial=0) <= 128 else None
        if counts is None or not np.array_equal(counts.astype(value.dtype), value):
            return None
        whole = Tensor._wrap(counts)
        whole.name, whole.persistable = x.name, True
        return whole
    cast = value.producer(nn.Cast) if isinstance(value, Value) else None
    return None if cast is None or cast.x.type.dtype != i8 else Tensor._wrap(cast.x, cast.x.type)
