"""Numbers in eight bits: steps of a scale, counted.

`dequantize_linear(quantize_linear(x, scale), scale)` is what becomes of `x` where it passes through eight bits. A model that is quantised
after training says it that way: such pairs stand before what takes activations, and weights are constants of eight bits under a
`dequantize_linear`; what takes both may compute in integers.
"""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array, widened
from polyreme.dialects.shape_rules import normal_axis, shape_text, wide_type
from polyreme.ir.accuracy import ROUNDED, Accuracy
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.sizes.facts import agree_all
from polyreme.ir.types import TensorType, i8


def step_shape(rank: int, scale_rank: int, axis: int) -> tuple[int, ...]:
    """The shape, as for numpy's `reshape`, in which one scale per place along `axis` repeats itself along the other axes; () for a single
    one.
    """
    return tuple(-1 if i == normal_axis(axis, rank) else 1 for i in range(rank)) if scale_rank else ()


def whole_range(bit_length: int) -> tuple[int, int]:
    """The least and the greatest number of so many bits, a sign among them."""
    return -(1 << (bit_length - 1)), (1 << (bit_length - 1)) - 1


def _check_scale(x: TensorType, scale: TensorType, zero_point: TensorType | None, axis: int) -> None:
    check(scale.rank <= 1, f"expected a scale that is one number, or one per place along an axis, but got {shape_text(scale.shape)}")
    if scale.rank:
        wanted = (x.shape[normal_axis(axis, x.rank)],)
        check(
            agree_all(scale.shape, wanted),
            f"expected a scale of shape {shape_text(wanted)}, as axis {axis} has it, but got {shape_text(scale.shape)}",
        )
    if zero_point is not None:
        check_type(zero_point.dtype == i8, f"expected a zero point of type i8 but got {zero_point.dtype}")
        check(
            agree_all(zero_point.shape, scale.shape),
            f"expected a zero point of the scale's shape {shape_text(scale.shape)} but got {shape_text(zero_point.shape)}",
        )


def _check_quantized(x: TensorType, scale: TensorType, bit_length: int, most: int = 8) -> None:
    check_type(x.dtype.is_float, f"expected floats but got {x.dtype}")
    wide = wide_type(x.dtype)
    kinds = str(wide) if wide == x.dtype else f"{x.dtype} or {wide}"
    check_type(scale.dtype in (x.dtype, wide), f"expected a scale of type {kinds} but got {scale.dtype}")
    check_attr(2 <= bit_length <= most, f"expected 2 to {most} bits but got {bit_length}")


def _steps(x: Array, scale: Array, axis: int) -> Array:
    """`x` in steps, not yet whole."""
    step = widened(scale)
    return np.asarray(widened(x) * (step.dtype.type(1) / step).reshape(step_shape(x.ndim, scale.ndim, axis)))


@op("nn.quantize_linear", Pure)
class QuantizeLinear(Op):
    """How many steps of `scale` each element is from zero, as an integer of `bit_length` bits.

        %q = nn.quantize_linear %x, %s {axis = 1} : tensor<Nx4xi8>      // %x: tensor<Nx4xf32>, %s: tensor<4xf32>

    clip(round(x * (1 / scale)) + zero_point, -2**(bit_length - 1), 2**(bit_length - 1) - 1), halves rounded to even, held in i8 whatever
    `bit_length` (2 to 8) is. `scale` is one number, or one per place along `axis`; `zero_point`, of i8 and of the scale's shape, is 0 where
    it is absent. What lies outside the range becomes its end, infinities too; of nan the result is not specified. Steps of 16-bit floats
    are counted in float32, which their scale may be. The reciprocal of the scale is rounded before it is multiplied with, so that a number
    whose quotient is within rounding of a half may go either way.
    """

    x = operand()
    scale = operand()
    zero_point = optional()
    axis = attr(int, default=0)
    bit_length = attr(int, default=8)

    @staticmethod
    def infer(x: TensorType, scale: TensorType, zero_point: TensorType | None, *, axis: int, bit_length: int) -> TensorType:
        _check_quantized(x, scale, bit_length)
        _check_scale(x, scale, zero_point, axis)
        return x.with_dtype(i8)

    @staticmethod
    def reference(x: Array, scale: Array, zero_point: Array | None, *, axis: int, bit_length: int) -> Array:
        low, high = whole_range(bit_length)
        with np.errstate(all="ignore"):
            steps = np.round(_steps(x, scale, axis))
            if zero_point is not None:
                steps = steps + zero_point.astype(steps.dtype).reshape(step_shape(x.ndim, scale.ndim, axis))
            return np.minimum(np.maximum(steps, low), high).astype(np.int8)


@op("nn.dequantize_linear", Pure, accuracy=ROUNDED)
class DequantizeLinear(Op):
    """The numbers that so many steps of `scale` make.

        %y = nn.dequantize_linear %q, %s : tensor<Nx4xf32>      // %q: tensor<Nx4xi8>, %s: tensor<f32>

    (x - zero_point) * scale, of the scale's element type. `scale` is one number, or one per place along `axis`; `zero_point`, of i8 and of
    the scale's shape, is 0 where it is absent. 16-bit floats are computed in float32 and rounded once.
    """

    x = operand()
    scale = operand()
    zero_point = optional()
    axis = attr(int, default=0)

    @staticmethod
    def infer(x: TensorType, scale: TensorType, zero_point: TensorType | None, *, axis: int) -> TensorType:
        check_type(x.dtype == i8, f"expected counts of type i8 but got {x.dtype}")
        check_type(scale.dtype.is_float, f"expected a scale of floats but got {scale.dtype}")
        _check_scale(x, scale, zero_point, axis)
        return x.with_dtype(scale.dtype)

    @staticmethod
    def reference(x: Array, scale: Array, zero_point: Array | None, *, axis: int) -> Array:
        shape = step_shape(x.ndim, scale.ndim, axis)
        step = widened(scale).reshape(shape)
        steps = x.astype(step.dtype)
        with np.errstate(all="ignore"):
            if zero_point is not None:
                steps = steps - zero_point.astype(step.dtype).reshape(shape)
            return np.asarray(steps * step).astype(scale.dtype)


@op("nn.fake_quantize", Pure, accuracy=Accuracy(ulp=1))
class FakeQuantize(Op):
    """Each element at the nearest whole number of steps of `scale`: what it would be in few bits, for training with that in view.

        %y = nn.fake_quantize %x, %s : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %s: tensor<f32>

    clip(round(x * (1 / scale)), low, high) * scale, where low and high are those of `bit_length` bits. With `ties` "even", halves are
    rounded to even and the range is -2**(bit_length - 1) to 2**(bit_length - 1) - 1, as `nn.quantize_linear` has both; with "away", halves
    are rounded away from 0 and -2**(bit_length - 1) is left out. `scale` is one number, or one per place along `axis`. The gradient passes
    `x` as if nothing were rounded or clipped (Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic
    neurons for conditional computation", 2013), and does not reach the scale.
    """

    x = operand()
    scale = operand()
    axis = attr(int, default=0)
    bit_length = attr(int, default=8)
    ties = attr(str, default="even", choices=("even", "away"))

    @staticmethod
    def infer(x: TensorType, scale: TensorType, *, axis: int, bit_length: int, ties: str) -> TensorType:
        _check_quantized(x, scale, bit_length, 16)
        _check_scale(x, scale, None, axis)
        return x

    @staticmethod
    def reference(x: Array, scale: Array, *, axis: int, bit_length: int, ties: str) -> Array:
        low, high = whole_range(bit_length)
        with np.errstate(all="ignore"):
            steps = _steps(x, scale, axis)
            if ties == "away":
                low = -high
                steps = np.trunc(steps + np.sign(steps) * steps.dtype.type(0.5))
            else:
                steps = np.round(steps)
            steps = np.minimum(np.maximum(steps, steps.dtype.type(low)), steps.dtype.type(high))
            return np.asarray(steps * widened(scale).reshape(step_shape(x.ndim, scale.ndim, axis))).astype(x.dtype)
