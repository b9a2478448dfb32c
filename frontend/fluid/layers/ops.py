"""Functions of one tensor, element by element, each one operator of its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.names import listed

__all__ = [
    "abs", "acos", "asin", "atan", "brelu", "ceil", "clip", "clip_by_norm", "cos", "cos_sim", "cosh", "cumsum", "elu", "erf", "exp",
    "floor", "gelu", "hard_shrink", "hard_sigmoid", "hard_swish", "leaky_relu", "log", "log1p", "logsigmoid", "maxout", "mish", "pow",
    "reciprocal", "relu", "relu6", "round", "rsqrt", "selu", "sigmoid", "sign", "sin", "sinh", "soft_relu", "softplus", "softshrink",
    "softsign", "sqrt", "square", "stanh", "swish", "tanh", "tanh_shrink", "thresholded_relu",
]  # fmt: skip


def _function(type: str) -> Callable[..., Any]:
    @takes("x")
    def function(x: Any, name: str | None = None) -> Any:
        helper = LayerHelper(type, name=name)
        out = helper.create_variable_for_type_inference(x.dtype)
        helper.append_op(type, {"X": x}, {"Out": out})
        return out

    function.__name__ = function.__qualname__ = type
    function.__doc__ = f"The operator `{type}` on `x`."
    return function


abs = _function("abs")
acos = _function("acos")
asin = _function("asin")
atan = _function("atan")
ceil = _function("ceil")
cos = _function("cos")
cosh = _function("cosh")
exp = _function("exp")
floor = _function("floor")
log = _function("log")
logsigmoid = _function("logsigmoid")
reciprocal = _function("reciprocal")
relu = _function("relu")
round = _function("round")
rsqrt = _function("rsqrt")
sigmoid = _function("sigmoid")
sign = _function("sign")
sin = _function("sin")
sinh = _function("sinh")
softplus = _function("softplus")
softsign = _function("softsign")
sqrt = _function("sqrt")
square = _function("square")
tanh = _function("tanh")
tanh_shrink = _function("tanh_shrink")
erf = _function("erf")


def _shaped(type: str, x: Any, attrs: dict[str, Any], name: str | None = None) -> Any:
    helper = LayerHelper(type, name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op(type, {"X": x}, {"Out": out}, attrs)
    return out


@takes("x")
def leaky_relu(x: Any, alpha: float = 0.02, name: str | None = None) -> Any:
    """x where it is positive, alpha * x elsewhere."""
    return _shaped("leaky_relu", x, {"alpha": alpha}, name)


@takes("x")
def elu(x: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return _shaped("elu", x, {"alpha": alpha}, name)


@takes("x")
def relu6(x: Any, threshold: float = 6.0, name: str | None = None) -> Any:
    """x within [0, threshold]."""
    return _shaped("relu6", x, {"threshold": threshold}, name)


@takes("x")
def hard_sigmoid(x: Any, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Any:
    """slope * x + offset, within [0, 1]."""
    return _shaped("hard_sigmoid", x, {"slope": slope, "offset": offset}, name)


@takes("x")
def hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    """x, but 0 within [-threshold, threshold]."""
    return _shaped("hard_shrink", x, {"threshold": threshold})


@takes("x")
def softshrink(x: Any, alpha: float = 0.5) -> Any:
    """x brought nearer to 0 by alpha, and 0 within [-alpha, alpha]."""
    return _shaped("softshrink", x, {"lambda": alpha})


@takes("x")
def thresholded_relu(x: Any, threshold: float = 1.0) -> Any:
    """x where it is above the threshold, else 0."""
    return _shaped("thresholded_relu", x, {"threshold": threshold})


@takes("x")
def swish(x: Any, beta: float = 1.0, name: str | None = None) -> Any:
    """x * sigmoid(beta * x)."""
    return _shaped("swish", x, {"beta": beta}, name)


@takes("x")
def gelu(x: Any, approximate: bool = False) -> Any:
    """x times the normal distribution function of x, or by tanh."""
    return _shaped("gelu", x, {"approximate": approximate})


@takes("x")
def brelu(x: Any, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Any:
    """x within [t_min, t_max]."""
    return _shaped("brelu", x, {"t_min": t_min, "t_max": t_max}, name)


@takes("x")
def stanh(x: Any, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Any:
    """scale_b * tanh(scale_a * x)."""
    return _shaped("stanh", x, {"scale_a": scale_a, "scale_b": scale_b}, name)


@takes("x")
def pow(x: Any, factor: Any = 1.0, name: str | None = None) -> Any:
    """x to the power of `factor`, a number or a variable of one element."""
    helper = LayerHelper("pow", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    by_variable = not isinstance(factor, (int, float))
    slots = {"X": x, "FactorTensor": factor} if by_variable else {"X": x}
    helper.append_op("pow", slots, {"Out": out}, {} if by_variable else {"factor": float(factor)})
    return out


@takes("x")
def clip(x: Any, min: float, max: float, name: str | None = None) -> Any:
    """x within [min, max]."""
    return _shaped("clip", x, {"min": min, "max": max}, name)


@takes("x")
def clip_by_norm(x: Any, max_norm: float, name: str | None = None) -> Any:
    """x, scaled down to the 2-norm `max_norm` where it has a greater one."""
    return _shaped("clip_by_norm", x, {"max_norm": max_norm}, name)


@takes("x")
def hard_swish(x: Any, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None) -> Any:
    """x * (x + offset within [0, threshold]) / scale."""
    return _shaped("hard_swish", x, {"threshold": threshold, "scale": scale, "offset": offset}, name)


@takes("x")
def mish(x: Any, threshold: float = 20, name: str | None = None) -> Any:
    """x * tanh(log(1 + exp(x)))."""
    return _shaped("mish", x, {"threshold": threshold}, name)


@takes("x")
def selu(x: Any, scale: float | None = None, alpha: float | None = None, name: str | None = None) -> Any:
    """scale * x where it is positive, scale * alpha * (exp(x) - 1) elsewhere."""
    return _shaped("selu", x, {"scale": scale, "alpha": alpha}, name)


@takes("x")
def soft_relu(x: Any, threshold: float = 40.0, name: str | None = None) -> Any:
    """log(1 + exp(x)), of x within [-threshold, threshold]."""
    return _shaped("soft_relu", x, {"threshold": threshold}, name)


@takes("x")
def log1p(x: Any, out: Any = None, name: str | None = None) -> Any:
    """log(1 + x)."""
    helper = LayerHelper("log1p", name=name)
    made = helper.create_variable_for_type_inference(x.dtype) if out is None else out
    helper.append_op("log1p", {"X": x}, {"Out": made})
    return made


@takes("x")
def cumsum(x: Any, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None) -> Any:
    """The sums of the elements up to each one along `axis`, by default the last; without it with `exclusive`, from the end with `reverse`.
    """
    return _shaped("cumsum", x, {"axis": axis, "exclusive": exclusive, "reverse": reverse})


@takes("x")
def maxout(x: Any, groups: int, name: str | None = None, axis: int = 1) -> Any:
    """The greatest of each `groups` neighbouring channels."""
    if axis not in (1, -1, 3):
        raise ValueError(f"Attr(axis) should be 1 when data format is NCHW, -1 or 3 when data format is NHWC. Received Attr(axis): {axis}.")
    return _shaped("maxout", x, {"groups": groups, "axis": 3 if axis == -1 else axis}, name)


@takes("X", "Y")
def cos_sim(X: Any, Y: Any) -> Any:
    """The cosine of the angle between each row of `X` and that of `Y`, which may have one row for all, [N, 1]."""
    helper = LayerHelper("cos_sim")
    out, of_x, of_y = (helper.create_variable_for_type_inference(X.dtype) for _ in range(3))
    helper.append_op("cos_sim", {"X": X, "Y": Y}, {"Out": out, "XNorm": of_x, "YNorm": of_y})
    return out


__dir__ = listed(__name__)
