"""Normalizations of `static.nn`, `prelu` and `spectral_norm`, with parameters of their own."""

from __future__ import annotations

import warnings
from typing import Any

from polyreme import math as functions
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.layers.norm import as_matrix, iterate
from polyreme.static.current import default_main_program
from polyreme.static.nn.parameters import activated, constant_parameter, known_size, layer_name, parameter
from polyreme.static.recorder import variable_of
from polyreme.tape import no_grad
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["batch_norm", "data_norm", "group_norm", "instance_norm", "layer_norm", "prelu", "spectral_norm"]

ONE, ZERO = init.Constant(1.0), init.Constant(0.0)


def batch_norm(
    input: Tensor,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Tensor:
    """Each channel by its statistics: of the batch in training, of what batches had so far with `is_test` or `use_global_stats`.

    `input` has 2 to 5 axes, channels as `data_layout` says. The running statistics are persistable variables. `in_place` is of no effect.
    """
    assert bias_attr is not False, "bias_attr should not be False in batch_norm."
    if not 2 <= input.ndim <= 5:
        raise ValueError(f"expected 2D or 3D or 4D or 5D input (got {input.ndim}D input, input shape is: {list(input.shape)})")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError("unsupported data layout:" + data_layout)
    layer, dtype = layer_name("batch_norm", name), _wide(input)
    channels = [known_size(input, 1 if data_layout == "NCHW" else -1, "batch_norm", "number of channels")]
    scale, bias = parameter(layer, "w", channels, param_attr, dtype, ONE), parameter(layer, "b", channels, bias_attr, dtype)
    mean = constant_parameter(layer, "w", channels, dtype, ZERO, moving_mean_name)
    variance = constant_parameter(layer, "w", channels, dtype, ONE, moving_variance_name)
    for statistic in (mean, variance):
        statistic.do_model_average = do_model_average_for_mean_and_var
    layout = data_layout if input.ndim > 2 else "NC"
    made = F.batch_norm(
        input, mean, variance, scale, bias, not is_test, momentum, epsilon, layout, use_global_stats=True if use_global_stats else None
    )
    return activated(made, act)


def _wide(input: Tensor) -> str:
    """The dtype of parameters: float32 for inputs of 16 bits."""
    return "float32" if input.dtype.name in ("float16", "bfloat16") else input.dtype.name


def layer_norm(
    input: Tensor,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The axes from `begin_norm_axis` on to mean 0 and variance 1, then times a scale and plus a bias per element of these, if wanted."""
    layer = layer_name("layer_norm", name)
    size = [known_size(input, slice(begin_norm_axis, None), "layer_norm", f"size from axis {begin_norm_axis} on")]
    weights = []
    for wanted, attr, what, suffix, start in ((scale, param_attr, "param_attr", "w", ONE), (shift, bias_attr, "bias_attr", "b", None)):
        option = "scale" if suffix == "w" else "shift"
        if wanted:
            assert attr is not False, f"{what} should not be False when using {option}."
        elif attr:
            warnings.warn(f"{what} is only available with {option} is True.", stacklevel=2)
        weights.append(parameter(layer, suffix, size, attr, input.dtype, start) if wanted else None)
    sizes: Any = input.type.shape[begin_norm_axis:]
    return activated(F.layer_norm(input, list(sizes), weights[0], weights[1], epsilon), act)


def group_norm(
    input: Tensor,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Channels in groups, each group of each image to mean 0 and variance 1. There is a scale only with a `param_attr`, and a bias only
    with a `bias_attr`, as in Paddle.
    """
    if input.ndim < 2:
        raise ValueError(f"The dimensions of Op(static.nn.group_norm)'s input should be more than 1. But received {input.ndim}")
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(
            f"Param(data_layout) of Op(static.nn.group_norm) got wrong value: received {data_layout} but only NCHW or NHWC supported."
        )
    layer = layer_name("group_norm", name)
    channels = [known_size(input, 1 if data_layout == "NCHW" else -1, "group_norm", "number of channels")]
    scale = parameter(layer, "w", channels, param_attr, input.dtype, ONE) if param_attr else None
    bias = parameter(layer, "b", channels, bias_attr, input.dtype) if bias_attr else None
    return activated(F.group_norm(input, groups, float(epsilon), scale, bias, data_layout), act)


def instance_norm(input: Tensor, epsilon: float = 1e-05, param_attr: Any = None, bias_attr: Any = None, name: str | None = None) -> Tensor:
    """Each channel of each image to mean 0 and variance 1. There are a scale and a bias only if both attributes are given, as in Paddle."""
    if param_attr is False:
        assert bias_attr is False, "param_attr and bias_attr must be set to False at the same time in instance_norm"
    if not 2 <= input.ndim <= 5:
        raise ValueError(f"expected 2D or 3D or 4D or 5D input (got {input.ndim}D input, input shape is: {list(input.shape)})")
    layer = layer_name("instance_norm", name)
    scale = bias = None
    if param_attr and bias_attr:
        channels = [known_size(input, 1, "instance_norm", "number of channels")]
        scale = parameter(layer, "w", channels, param_attr, _wide(input), ONE)
        bias = parameter(layer, "b", channels, bias_attr, _wide(input), ZERO)
    return F.instance_norm(input, weight=scale, bias=bias, eps=epsilon)


def data_norm(
    input: Tensor,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Tensor:
    """(x - sum / count) * sqrt(count / squares) per column of [N, C], by sums over all data, which are parameters.

    Their gradients are what the batch adds. `param_attr` is a dict of their first values: `batch_size`, `batch_sum`, `batch_square`, and
    with `enable_scale_and_shift` of `scale_w` and `bias`.
    """
    if sync_stats:
        raise NotImplementedError("data_norm expected sync_stats=False but got True, which is of Paddle's parameter servers; leave it out")
    given = param_attr if isinstance(param_attr, dict) else {}
    layer, dtype = layer_name("data_norm", name), input.dtype
    channels = [known_size(input, 1 if data_layout == "NCHW" else -1, "data_norm", "number of columns")]

    def statistic(key: str, default: float, start: Any = None) -> Any:
        first = init.Constant(float(given.get(key, default)))
        return parameter(name or layer, key if name is None else f"{key}", channels, None, dtype, first)

    size, total, squares = statistic("batch_size", 1e4), statistic("batch_sum", 0.0), statistic("batch_square", 1e4)
    slots = {"X": input, "BatchSize": size, "BatchSum": total, "BatchSquareSum": squares}
    if enable_scale_and_shift:
        slots.update(scale_w=statistic("scale_w", 1.0), bias=statistic("bias", 0.0))
    block = default_main_program().current_block()
    out, means, scales = (block.create_var(unique_name.generate("data_norm.tmp"), dtype=dtype) for _ in range(3))
    attributes = {"epsilon": float(epsilon), "slot_dim": slot_dim, "summary_decay_rate": summary_decay_rate}
    block.append_op(
        "data_norm", {slot: variable_of(t, block) for slot, t in slots.items()}, {"Y": out, "Means": means, "Scales": scales}, attributes
    )
    return activated(out, act)


def spectral_norm(weight: Tensor, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Tensor:
    """`weight` divided by its largest singular value, as `power_iters` power iterations find it from two vectors that the startup program
    draws. The rows of the matrix are the axis `dim`, 0 or 1.
    """
    if dim not in (0, 1):
        raise ValueError(f"The input `dim` must be 0 (if weight in fc) or 1 (if weight in conv), but received dim={dim}")
    layer = layer_name("spectral_norm", name)
    rows = known_size(weight, dim, "spectral_norm", "shape")
    columns = known_size(weight, slice(None), "spectral_norm", "shape") // rows
    u, v = (constant_parameter(layer, "w", [n], weight.dtype, init.Normal(0.0, 1.0)) for n in (rows, columns))
    matrix = as_matrix(weight, dim)
    with no_grad():
        u, v = iterate(matrix, u, v, power_iters, eps)
    return functions.divide(weight, functions.dot(u, functions.mv(matrix, v)))


def prelu(x: Tensor, mode: str, param_attr: Any = None, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """x where it is above 0, else x times a learned slope: one for "all", one per "channel", or one per "element" of a sample.

    Slopes are 0.25 at first.
    """
    if mode not in ("all", "channel", "element"):
        raise ValueError("mode should be one of all, channel, element.")
    shape = [1]
    if mode == "channel":
        formats = ["NC", "NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC"]
        if data_format not in formats:
            raise ValueError(
                f"data_format must be one of 'NC', 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC', 'NDHWC' but receive {data_format}"
            )
        assert x.ndim >= 2, "The size of input shape should be equal or larger than 2 in prelu() when mode is 'channel'"
        first = data_format[1] == "C"
        channels = known_size(x, 1 if first else -1, "prelu", "number of channels")
        shape = [1, channels, 1, 1] if first else [1, 1, 1, channels]
    elif mode == "element":
        assert x.ndim >= 1, "The size of input shape should be equal or larger than 1 in prelu() when mode is 'element'"
        known_size(x, slice(1, None), "prelu", "shape of a sample")
        shape = [1, *x.shape[1:]]
    slope = parameter(layer_name("prelu", name), "w", shape, param_attr, x.dtype, init.Constant(0.25))
    if mode == "element":
        return functions.where(x > 0, x, x * slope)
    return F.prelu(x, functions.reshape(slope, [-1]), data_format if mode == "channel" else "NCHW")
