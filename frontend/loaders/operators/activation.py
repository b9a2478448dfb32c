"""Activations."""

from __future__ import annotations

from collections.abc import Callable

from polyreme import math
from polyreme.ir.dims import Dim
from polyreme.loaders.errors import OperatorError
from polyreme.loaders.meaning import meaning
from polyreme.nn import functional
from polyreme.tensor import Tensor


@meaning("relu")
def relu(x: Tensor) -> Tensor:
    return functional.relu(x)


@meaning("relu6")
def relu6(x: Tensor, *, threshold: float = 6.0) -> Tensor:
    return functional.relu6(x) if threshold == 6.0 else math.clip(x, 0.0, threshold)


@meaning("leaky_relu")
def leaky_relu(x: Tensor, *, negative_slope: float = 0.02) -> Tensor:
    return functional.leaky_relu(x, negative_slope)


@meaning("rrelu")
def rrelu(x: Tensor, *, lower: float = 0.125, upper: float = 1 / 3, is_test: bool = False) -> Tensor:
    """In inference the slope is the middle of the two."""
    if not is_test:
        raise OperatorError("expected 'rrelu' in inference: its slopes in training are random")
    return functional.leaky_relu(x, (lower + upper) / 2)


@meaning("prelu")
def prelu(x: Tensor, alpha: Tensor, *, data_format: str = "NCHW", mode: str = "all") -> Tensor:
    """One slope for all, one per channel, or one per element."""
    if mode != "element":
        return functional.prelu(x, math.reshape(alpha, [-1]), data_format)
    slopes = math.reshape(alpha, [1, *x.type.shape[1:]])
    return math.where(math.greater_than(x, math.zeros_like(x)), x, math.multiply(x, slopes))


@meaning("elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.elu(x, alpha)


@meaning("celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.celu(x, alpha)


@meaning("selu")
def selu(x: Tensor, *, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Tensor:
    return functional.selu(x, scale, alpha)


@meaning("gelu")
def gelu(x: Tensor, *, approximate: bool = False) -> Tensor:
    return functional.gelu(x, approximate)


@meaning("silu")
def silu(x: Tensor) -> Tensor:
    return functional.silu(x)


@meaning("swish")
def swish(x: Tensor, *, beta: float = 1.0) -> Tensor:
    return functional.silu(x) if beta == 1.0 else math.multiply(x, functional.sigmoid(math.scale(x, beta)))


@meaning("mish")
def mish(x: Tensor, *, threshold: float = 20.0) -> Tensor:
    return math.multiply(x, math.tanh(functional.softplus(x, 1.0, threshold)))


@meaning("sigmoid")
def sigmoid(x: Tensor) -> Tensor:
    return functional.sigmoid(x)


@meaning("logsigmoid")
def logsigmoid(x: Tensor) -> Tensor:
    return functional.log_sigmoid(x)


@meaning("tanh")
def tanh(x: Tensor) -> Tensor:
    return math.tanh(x)


@meaning("stanh")
def stanh(x: Tensor, *, scale_a: float = 0.67, scale_b: float = 1.7159) -> Tensor:
    return math.stanh(x, scale_a, scale_b)


@meaning("tanh_shrink")
def tanh_shrink(x: Tensor) -> Tensor:
    return functional.tanhshrink(x)


@meaning("softplus")
def softplus(x: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return functional.softplus(x, beta, threshold)


@meaning("softsign")
def softsign(x: Tensor) -> Tensor:
    return functional.softsign(x)


@meaning("hardtanh")
def hardtanh(x: Tensor, *, min: float = 0.0, max: float = 24.0) -> Tensor:
    return math.clip(x, min, max)


@meaning("hardsigmoid")
def hardsigmoid(x: Tensor, *, slope: float = 0.2, offset: float = 0.5) -> Tensor:
    return functional.hardsigmoid(x, slope, offset)


@meaning("hardswish")
def hardswish(x: Tensor, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> Tensor:
    """x * clip(x + offset, 0, threshold) / scale."""
    if (threshold, scale, offset) == (6.0, 6.0, 3.0):
        return functional.hardswish(x)
    return math.scale(math.multiply(x, math.clip(math.scale(x, 1.0, offset), 0.0, threshold)), 1.0 / scale)


@meaning("hardshrink")
def hardshrink(x: Tensor, *, threshold: float = 0.5) -> Tensor:
    return functional.hardshrink(x, threshold)


@meaning("softshrink")
def softshrink(x: Tensor, *, threshold: float = 0.5) -> Tensor:
    return functional.softshrink(x, threshold)


@meaning("thresholded_relu")
def thresholded_relu(x: Tensor, *, threshold: float = 1.0, value: float = 0.0) -> Tensor:
    return functional.thresholded_relu(x, threshold, value)


@meaning("softmax")
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return functional.softmax(x, axis)


@meaning("log_softmax")
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return functional.log_softmax(x, axis)


@meaning("fused_softmax_mask")
def fused_softmax_mask(x: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(math.add(x, mask), -1)


@meaning("maxout")
def maxout(x: Tensor, *, groups: int, axis: int = 1) -> Tensor:
    return functional.maxout(x, groups, axis)


@meaning("swiglu")
def swiglu(x: Tensor, y: Tensor | None = None) -> Tensor:
    return functional.swiglu(x, y)


def apply_activation(x: Tensor, name: str) -> Tensor:
    """What a fused operator applies to its result; "" is nothing."""
    known: dict[str, Callable[[Tensor], Tensor]] = {
        "": lambda v: v,
        "identity": lambda v: v,
        "relu": relu,
        "relu6": relu6,
        "sigmoid": sigmoid,
        "tanh": tanh,
        "gelu": gelu,
    }
    if name not in known:
        raise OperatorError(f"expected an activation ({', '.join(filter(None, known))}) but got '{name}'")
    return known[name](x)


def channel_axis(data_format: str, rank: int) -> int:
    """Where channels stand: last in formats that end in C."""
    return rank - 1 if data_format.endswith("C") and data_format != "NC" else 1


def per_channel(v: Tensor, x: Tensor, data_format: str) -> Tensor:
    """A vector of one value per channel, shaped so that it broadcasts to `x`."""
    axis = channel_axis(data_format, x.ndim)
    shape: list[Dim] = [1] * x.ndim
    shape[axis] = v.type.shape[0]
    return math.reshape(v, shape) if x.ndim > 1 else v
