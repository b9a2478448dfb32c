"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.math.common import axis_of, cast_to, floating, no_integers, number_like, number_of, same_sizes, select, tensor_arg
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import add, divide, expm1, in_place, multiply, neg, scale, sign, subtract
from polyreme.math.manipulation import chunk, reshape
from polyreme.math.reduction import max as max_
from polyreme.tensor import Tensor

__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid",
    "log_softmax", "maxout", "mish", "prelu",
    "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softshrink", "softsign", "swiglu", "swish", "tanh", "tanhshrink",
    "thresholded_relu",
]  # fmt: skip


def _above(x: Tensor, value: float) -> Tensor:
    return dispatch.call(ops.Greater, x, number_like(x, value))


def relu(x: Tensor, name: str | None = None) -> Tensor:
    """max(x, 0)."""
    return dispatch.call(ops.Relu, tensor_arg(x, "relu"))


@operator("relu6")
def relu6(x: Tensor, name: str | None = None) -> Tensor:
    """x held within [0, 6]."""
    return _held(tensor_arg(x, "relu6"), 0.0, 6.0)


def _held(x: Tensor, low: float, high: float) -> Tensor:
    """x held within [low, high], with the gradient 0 at both ends, too."""
    below = dispatch.call(ops.LessEqual, x, number_like(x, low))
    above = dispatch.call(ops.GreaterEqual, x, number_like(x, high))
    return select(below, number_like(x, low), select(above, number_like(x, high), x))


def _negative_part(x: Tensor) -> Tensor:
    """min(x, 0), with the whole gradient at 0."""
    return select(_above(x, 0.0), number_like(x, 0.0), x)


def leaky_relu(x: Tensor, negative_slope: float = 0.01, name: str | None = None) -> Tensor:
    """x where it is positive, else negative_slope * x."""
    return dispatch.call(ops.LeakyRelu, tensor_arg(x, "leaky_relu"), alpha=float(negative_slope))


@operator("prelu")
def prelu(x: Tensor, weight: Tensor, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """As `leaky_relu` with a learned slope: one for all, or one per channel."""
    slope = weight
    if weight.size != 1:
        assert x.ndim > 1, f"prelu expected two axes or more for {weight.size} slopes but got shape {list(x.shape)}"
        channel = x.ndim - 1 if data_format.endswith("C") and len(data_format) > 2 else 1
        if not same_sizes(x.type.shape[channel : channel + 1], [weight.size]):
            raise AssertionError(f"prelu expected {x.shape[channel]} slopes, one per channel, but got {weight.size}")
        slope = reshape(weight, [weight.size if i == channel else 1 for i in range(x.ndim)])
    elif not x.ndim:
        slope = reshape(weight, [])
    return select(_above(x, 0.0), x, multiply(x, slope))


@operator("elu")
def elu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    # The exponential is taken of the negative part alone: what is not chosen must not overflow, not even in the gradient.
    negative = scale(expm1(_negative_part(x)), float(alpha))
    return select(_above(x, 0.0), x, negative)


@operator("celu")
def celu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if alpha == 0:
        raise ZeroDivisionError("celu expected alpha other than 0")
    negative = scale(expm1(scale(_negative_part(x), 1.0 / alpha)), float(alpha))
    return select(_above(x, 0.0), x, negative)


@operator("selu")
def selu(x: Tensor, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772, name: str | None = None) -> Tensor:
    """scale * elu(x, alpha)."""
    if scale <= 1.0:
        raise ValueError(f"The scale must be greater than 1.0. Received: {scale}.")
    if alpha < 0:
        raise ValueError(f"The alpha must be no less than zero. Received: {alpha}.")
    # Paddle keeps both numbers in float32, and float64 tensors show it.
    return multiply(elu(x, float(np.float32(alpha))), number_like(x, float(np.float32(scale))))


def gelu(x: Tensor, approximate: Any = False, name: str | None = None) -> Tensor:
    """x times the normal distribution function of x; by tanh when `approximate`."""
    return dispatch.call(ops.Gelu, tensor_arg(x, "gelu"), approximate=approximate in (True, "tanh"))


@operator("swish")
def swish(x: Tensor, name: str | None = None) -> Tensor:
    """x * sigmoid(x)."""
    return dispatch.call(ops.Silu, tensor_arg(x, "silu"))


def silu(x: Tensor, inplace: bool = False, name: str | None = None) -> Tensor:
    """x * sigmoid(x), with `inplace` in place of `x`."""
    return in_place(swish)(x) if inplace else swish(x)


@operator("mish")
def mish(x: Tensor, name: str | None = None) -> Tensor:
    """x * tanh(softplus(x))."""
    return multiply(x, dispatch.call(ops.Tanh, softplus(x)))


def sigmoid(x: Tensor, name: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    result = dispatch.call(ops.Sigmoid, floating(tensor_arg(x, "sigmoid")))
    return result if out is None else dispatch.assign(out, result)


@operator("logsigmoid")
def log_sigmoid(x: Tensor, name: str | None = None) -> Tensor:
    """log(sigmoid(x))."""
    return neg(dispatch.call(ops.Softplus, neg(x), beta=1.0, threshold=40.0))


def tanh(x: Tensor, name: str | None = None) -> Tensor:
    """Hyperbolic tangent."""
    return dispatch.call(ops.Tanh, floating(tensor_arg(x, "tanh")))


@operator("tanh_shrink")
def tanhshrink(x: Tensor, name: str | None = None) -> Tensor:
    """x - tanh(x)."""
    return subtract(x, tanh(x))


def softplus(x: Tensor, beta: float = 1, threshold: float = 20, name: str | None = None) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x where beta * x is over the threshold."""
    return dispatch.call(ops.Softplus, tensor_arg(x, "softplus"), beta=float(beta), threshold=float(threshold))


def softsign(x: Tensor, name: str | None = None) -> Tensor:
    """x / (1 + |x|)."""
    return divide(x, add(abs_(x), number_like(x, 1.0)))


def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Tensor:
    """x held within [min, max]."""
    return _held(tensor_arg(x, "hardtanh"), float(min), float(max))


@operator("hard_sigmoid")
def hardsigmoid(x: Tensor, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Tensor:
    """slope * x + offset, held within [0, 1]."""
    return _held(scale(no_integers(x, "hardsigmoid"), float(np.float32(slope)), float(np.float32(offset))), 0.0, 1.0)


@operator("hard_swish")
def hardswish(x: Tensor, name: str | None = None) -> Tensor:
    """x * relu6(x + 3) / 6."""
    return scale(multiply(no_integers(x, "hardswish"), relu6(add(x, number_like(x, 3.0)))), 1.0 / 6.0)


def hardshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x where |x| is at or over the threshold, else 0."""
    return select(dispatch.call(ops.Less, abs_(no_integers(x, "hardshrink")), number_like(x, float(threshold))), number_like(x, 0.0), x)


def softshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x moved towards 0 by the threshold, and 0 within it."""
    if threshold < 0:
        raise ValueError(f"The threshold must be no less than zero. Received: {threshold}.")
    return multiply(sign(no_integers(x, "softshrink")), relu(subtract(abs_(x), number_like(x, float(threshold)))))


def thresholded_relu(x: Tensor, threshold: float = 1.0, value: float = 0.0, name: str | None = None) -> Tensor:
    """x where it is over the threshold, else `value`; nan stays nan."""
    return select(dispatch.call(ops.LessEqual, x, number_like(x, float(threshold))), number_like(x, float(value)), x)


def softmax(x: Tensor, axis: int = -1, dtype: Any = None, name: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(x) scaled to sum to one along `axis`."""
    result = _soft(ops.Softmax, x, axis, dtype, "softmax")
    return result if out is None else dispatch.assign(out, result)


def log_softmax(x: Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """log(softmax(x))."""
    return _soft(ops.LogSoftmax, x, axis, dtype, "log_softmax")


def _soft(cls: Any, x: Tensor, axis: Any, dtype: Any, name: str) -> Tensor:
    tensor_arg(x, name)
    place = axis_of(-1 if axis is None else number_of(axis), x.ndim, name)
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    if x.ndim == 0:
        return reshape(dispatch.call(cls, reshape(x, [1]), axis=0), [])
    return dispatch.call(cls, x, axis=place)


def gumbel_softmax(x: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None) -> Tensor:
    """Samples of the Gumbel-softmax distribution along `axis`: softmax((x + noise) / temperature), which is near to one-hot where the
    temperature is low. `hard` ones are one-hot, with the gradient of the soft ones.
    """
    from polyreme.math.creation import arange, uniform

    place = axis_of(axis, tensor_arg(x, "gumbel_softmax").ndim, "gumbel_softmax")
    drawn = uniform(x.type.shape, x.dtype, 1e-5, 1.0)
    noise = neg(dispatch.call(ops.Log, neg(dispatch.call(ops.Log, drawn))))
    soft = softmax(divide(add(x, noise), number_like(x, number_of(temperature))), place)
    if not hard:
        return soft
    largest = soft.detach().argmax(place, keepdim=True)
    places = reshape(arange(x.shape[place]), [-1 if a == place else 1 for a in range(x.ndim)])
    chosen = cast_to(largest == places, x.type.dtype)
    return add(chosen, subtract(soft, soft.detach()))  # no digit of the ones is lost


def maxout(x: Tensor, groups: int, axis: int = 1, name: str | None = None) -> Tensor:
    """The largest of each `groups` neighbouring channels."""
    place = axis_of(axis, x.ndim, "maxout")
    size = x.shape[place]
    if size % groups:
        raise ValueError(f"maxout expected a size that {groups} groups divide but axis {place} has {size}")
    apart = [*x.shape[:place], size // groups, groups, *x.shape[place + 1 :]]
    return max_(reshape(x, apart), place + 1)


def glu(x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    """The first half along `axis` times the sigmoid of the second."""
    first, second = chunk(x, 2, axis)
    return multiply(first, sigmoid(second))


def swiglu(x: Tensor, y: Tensor | None = None, name: str | None = None) -> Tensor:
    """silu(x) * y; without y, of the two halves of x along the last axis."""
    if y is None:
        x, y = chunk(x, 2, -1)
    return multiply(silu(x), y)


IN_PLACE = ["elu", "hardtanh", "leaky_relu", "relu", "softmax", "tanh", "thresholded_relu"]
for _name in IN_PLACE:
    globals()[_name + "_"] = in_place(globals()[_name])
__all__ += [n + "_" for n in IN_PLACE]
