"""Activations."""

from __future__ import annotations

from collections.abc import Callable

from polyreme import math
from polyreme.nn import functional
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator("relu", legacy=spelled("relu"))
def relu(x: Tensor) -> Tensor:
    return functional.relu(x)


@operator("relu6", legacy=spelled("relu6"))
def relu6(x: Tensor, *, threshold: float = 6.0) -> Tensor:
    return functional.relu6(x) if threshold == 6.0 else math.clip(x, 0.0, threshold)


@operator("leaky_relu", legacy=spelled("leaky_relu", attributes={"alpha": "negative_slope"}))
def leaky_relu(x: Tensor, *, negative_slope: float = 0.02) -> Tensor:
    return functional.leaky_relu(x, negative_slope)


@operator("rrelu", legacy=spelled("rrelu", outputs="Out Noise"))
def rrelu(x: Tensor, *, lower: float = 0.125, upper: float = 1 / 3, is_test: bool = False) -> Tensor:
    """In inference the slope is the middle of the two."""
    if not is_test:
        raise UnsupportedError("expected 'rrelu' in inference: its slopes in training are random")
    return functional.leaky_relu(x, (lower + upper) / 2)


@operator("prelu", legacy=spelled("prelu", {"X": "x", "Alpha": "alpha"}))
def prelu(x: Tensor, alpha: Tensor, *, data_format: str = "NCHW", mode: str = "all") -> Tensor:
    """One slope for all, one per channel, or one per element."""
    if mode != "element":
        return functional.prelu(x, math.reshape(alpha, [-1]), data_format)
    slopes = math.reshape(alpha, [1, *x.type.shape[1:]])
    return math.where(math.greater_than(x, math.zeros_like(x)), x, math.multiply(x, slopes))


@operator("elu", legacy=spelled("elu"))
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.elu(x, alpha)


@operator("celu", legacy=spelled("celu"))
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return functional.celu(x, alpha)


@operator("selu", legacy=spelled("selu"))
def selu(x: Tensor, *, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Tensor:
    return functional.selu(x, scale, alpha)


@operator("gelu", legacy=spelled("gelu"))
def gelu(x: Tensor, *, approximate: bool = False) -> Tensor:
    return functional.gelu(x, approximate)


@operator("silu", legacy=spelled("silu"))
def silu(x: Tensor) -> Tensor:
    return functional.silu(x)


@operator("swish", legacy=spelled("swish"))
def swish(x: Tensor, *, beta: float = 1.0) -> Tensor:
    return functional.silu(x) if beta == 1.0 else math.multiply(x, functional.sigmoid(math.scale(x, beta)))


@operator("mish", legacy=spelled("mish"), renamed={"lambda": "threshold"})
def mish(x: Tensor, *, threshold: float = 20.0) -> Tensor:
    return math.multiply(x, math.tanh(functional.softplus(x, 1.0, threshold)))


@operator("sigmoid", legacy=spelled("sigmoid"))
def sigmoid(x: Tensor) -> Tensor:
    return functional.sigmoid(x)


@operator("logsigmoid", legacy=spelled("logsigmoid"))
def logsigmoid(x: Tensor) -> Tensor:
    return functional.log_sigmoid(x)


@operator("tanh", legacy=spelled("tanh"))
def tanh(x: Tensor) -> Tensor:
    return math.tanh(x)


@operator("stanh", legacy=spelled("stanh"))
def stanh(x: Tensor, *, scale_a: float = 0.67, scale_b: float = 1.7159) -> Tensor:
    return math.stanh(x, scale_a, scale_b)


@operator("tanh_shrink", legacy=spelled("tanh_shrink"))
def tanh_shrink(x: Tensor) -> Tensor:
    return functional.tanhshrink(x)


@operator("softplus", legacy=spelled("softplus"))
def softplus(x: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return functional.softplus(x, beta, threshold)


@operator("softsign", legacy=spelled("softsign"))
def softsign(x: Tensor) -> Tensor:
    return functional.softsign(x)


@operator("hardtanh", legacy=spelled("brelu", attributes={"t_min": "min", "t_max": "max"}), renamed={"t_min": "min", "t_max": "max"})
def hardtanh(x: Tensor, *, min: float = 0.0, max: float = 24.0) -> Tensor:
    return math.clip(x, min, max)


@operator("hardsigmoid", legacy=spelled("hard_sigmoid"))
def hardsigmoid(x: Tensor, *, slope: float = 0.2, offset: float = 0.5) -> Tensor:
    return functional.hardsigmoid(x, slope, offset)


@operator("hardswish", legacy=spelled("hard_swish"))
def hardswish(x: Tensor, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> Tensor:
    """x * clip(x + offset, 0, threshold) / scale."""
    if (threshold, scale, offset) == (6.0, 6.0, 3.0):
        return functional.hardswish(x)
    return math.scale(math.multiply(x, math.clip(math.scale(x, 1.0, offset), 0.0, threshold)), 1.0 / scale)


@operator("hardshrink", legacy=spelled("hard_shrink"))
def hardshrink(x: Tensor, *, threshold: float = 0.5) -> Tensor:
    return functional.hardshrink(x, threshold)


@operator("softshrink", legacy=spelled("softshrink", attributes={"lambda": "threshold"}))
def softshrink(x: Tensor, *, threshold: float = 0.5) -> Tensor:
    return functional.softshrink(x, threshold)


@operator("thresholded_relu", legacy=spelled("thresholded_relu"))
def thresholded_relu(x: Tensor, *, threshold: float = 1.0, value: float = 0.0) -> Tensor:
    return functional.thresholded_relu(x, threshold, value)


@operator("softmax", legacy=spelled("softmax", ignored="data_format"))
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return functional.softmax(x, axis)


@operator("log_softmax", legacy=spelled("log_softmax", ignored="data_format"))
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return functional.log_softmax(x, axis)


@operator("fused_softmax_mask", legacy=spelled("fused_softmax_mask", {"X": "x", "Mask": "mask"}))
def fused_softmax_mask(x: Tensor, mask: Tensor) -> Tensor:
    return functional.softmax(math.add(x, mask), -1)


@operator("maxout", legacy=spelled("maxout"))
def maxout(x: Tensor, *, groups: int, axis: int = 1) -> Tensor:
    return functional.maxout(x, groups, axis)


@operator("swiglu", legacy=spelled("swiglu", {"x": "x", "y": "y"}, "out"))
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
        raise UnsupportedError(f"expected an activation ({', '.join(filter(None, known))}) but got '{name}'")
    return known[name](x)


@operator(legacy=spelled("soft_relu"))
def soft_relu(x: Tensor, *, threshold: float = 40.0) -> Tensor:
    """log(1 + exp(x)), of x within [-threshold, threshold]."""
    return math.log(math.scale(math.exp(math.clip(x, -threshold, threshold)), 1.0, 1.0))
