"""Activations that are more than one scalar function, and softmax."""

from __future__ import annotations

import math

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import normal_axis
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.core import Op
from polyreme.ir.define import Elementwise, Pure, attr, op, operand
from polyreme.ir.diagnostics import check_attr, check_type
from polyreme.ir.scalar import GELU, apply_scalar
from polyreme.ir.types import TensorType


def _floats(x: TensorType) -> TensorType:
    check_type(x.dtype.is_float, f"expected floats but got {x.dtype}")
    return x


def _wide(x: Array) -> Array:
    """16-bit floats as float32, to be rounded once at the end."""
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


@op("nn.relu", Pure, Elementwise)
class Relu(Op):
    """Each element where it is positive, else 0.

        %y = nn.relu %x : tensor<Nx4xf32>

    nan stays nan. Floats or signed integers.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        check_type(x.dtype.kind in "fi", f"expected floats or signed integers but got {x.dtype}")
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return apply_scalar("max", (x, np.zeros((), x.dtype)))


@op("nn.leaky_relu", Pure, Elementwise, accuracy=Accuracy(ulp=1))
class LeakyRelu(Op):
    """Each element where it is not negative, else `alpha` times it.

        %y = nn.leaky_relu %x {alpha = 0.1} : tensor<Nx4xf32>

    nan stays nan, and `alpha` may be any number, negative ones too.
    """

    x = operand()
    alpha = attr(float, default=0.01)

    @staticmethod
    def infer(x: TensorType, *, alpha: float) -> TensorType:
        return _floats(x)

    @staticmethod
    def reference(x: Array, *, alpha: float) -> Array:
        with np.errstate(all="ignore"):
            return np.where(x < 0, x * x.dtype.type(alpha), x)


@op("nn.gelu", Pure, Elementwise, accuracy=GELU)
class Gelu(Op):
    """The Gaussian error linear unit: each element times the normal distribution function at it.

        %y = nn.gelu %x {approximate = true} : tensor<Nx4xf32>

    x / 2 · (1 + erf(x / √2)), or with `approximate` x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))). Floats only; 16-bit ones are computed in
    float32 and rounded once.
    """

    x = operand()
    approximate = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, approximate: bool) -> TensorType:
        return _floats(x)

    @staticmethod
    def reference(x: Array, *, approximate: bool) -> Array:
        v = _wide(x)
        half = v.dtype.type(0.5)
        with np.errstate(all="ignore"):
            if approximate:
                inner = v.dtype.type(math.sqrt(2 / math.pi)) * (v + v.dtype.type(0.044715) * v * v * v)
                return (half * v * (1 + np.tanh(inner))).astype(x.dtype, copy=False)
            return apply_scalar("gelu", (v,)).astype(x.dtype, copy=False)


@op("nn.silu", Pure, Elementwise, accuracy=Accuracy(ulp=6))
class Silu(Op):
    """Each element times its sigmoid, x / (1 + exp(-x)).

        %y = nn.silu %x : tensor<Nx4xf32>

    Also called swish. Floats only; 16-bit ones are computed in float32 and rounded once.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        return _floats(x)

    @staticmethod
    def reference(x: Array) -> Array:
        v = _wide(x)
        with np.errstate(all="ignore"):
            return (v * apply_scalar("sigmoid", (v,))).astype(x.dtype, copy=False)


# The product with beta is rounded before exp; what is far below 0 is near 0 after.
@op("nn.softplus", Pure, Elementwise, accuracy=Accuracy(ulp=8, absolute=1))
class Softplus(Op):
    """log(1 + exp(beta * x)) / beta of each element, and x itself where beta * x is above `threshold`.

        %y = nn.softplus %x {beta = 2.0} : tensor<Nx4xf32>

    Above the threshold the exponential would overflow and the difference is below rounding. `beta` must not be 0. Floats only; 16-bit ones
    are computed in float32 and rounded once.
    """

    x = operand()
    beta = attr(float, default=1.0)
    threshold = attr(float, default=20.0)

    @staticmethod
    def infer(x: TensorType, *, beta: float, threshold: float) -> TensorType:
        check_attr(beta != 0, "expected a beta other than 0")
        return _floats(x)

    @staticmethod
    def reference(x: Array, *, beta: float, threshold: float) -> Array:
        v = _wide(x)
        factor = v.dtype.type(beta)
        with np.errstate(all="ignore"):
            scaled = v * factor
            return np.where(scaled > threshold, v, np.log1p(np.exp(scaled)) / factor).astype(x.dtype, copy=False)


# x - max is rounded before exp: half an ulp at -80, which is 32 eps, makes 32 ulp of its exp.
@op("nn.softmax", Pure, accuracy=Accuracy(ulp=48))
class Softmax(Op):
    """Each slice along `axis` scaled by exp so that it is positive and sums to one.

        %y = nn.softmax %x {axis = -1} : tensor<Nx4xf32>

    exp(x - max) / sum(exp(x - max)), with the slice's maximum, so nothing overflows. The result has the operand's type. A slice with nan or
    inf in it is all nan; of -inf alone it is nan, beside finite numbers -inf gives 0. Of no elements there is nothing to scale. `axis`
    counts from the end if negative. Floats only; 16-bit ones are computed in float32 and rounded once.
    """

    x = operand()
    axis = attr(int, default=-1)

    @staticmethod
    def infer(x: TensorType, *, axis: int) -> TensorType:
        normal_axis(axis, x.rank)
        return _floats(x)

    @staticmethod
    def reference(x: Array, *, axis: int) -> Array:
        v = _wide(x)
        with np.errstate(all="ignore"):
            e = np.exp(v - v.max(axis, keepdims=True, initial=-np.inf))
            return (e / e.sum(axis, keepdims=True)).astype(x.dtype, copy=False)


# The logarithm of a sum near 1 is near 0, with the error of 1.
@op("nn.log_softmax", Pure, accuracy=Accuracy(ulp=4, absolute=8))
class LogSoftmax(Op):
    """The logarithm of `nn.softmax` along `axis`, without its overflow or cancellation.

        %y = nn.log_softmax %x {axis = -1} : tensor<Nx4xf32>

    x - max - log(sum(exp(x - max))), with the slice's maximum. A slice with nan or inf in it is all nan; -inf beside finite numbers stays
    -inf. `axis` counts from the end if negative. Floats only; 16-bit ones are computed in float32 and rounded once.
    """

    x = operand()
    axis = attr(int, default=-1)

    @staticmethod
    def infer(x: TensorType, *, axis: int) -> TensorType:
        normal_axis(axis, x.rank)
        return _floats(x)

    @staticmethod
    def reference(x: Array, *, axis: int) -> Array:
        return log_softmax(_wide(x), axis).astype(x.dtype, copy=False)


def log_softmax(x: Array, axis: int) -> Array:
    """x - max - log(sum(exp(x - max))), in the type of `x`."""
    with np.errstate(all="ignore"):
        shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
