"""Normalisation by statistics: of a batch, a layer, an instance, groups of channels, or neighbouring channels.

Running statistics are tensors that a call in training changes: in eager mode at once, in a traced function as a result of its own, in a
static program by an operator that writes the variables that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from polyreme import dispatch, tape
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, Expr, UnknownSize, product
from polyreme.ir.types import i64
from polyreme.math.common import number_of, same_sizes, tensor_arg
from polyreme.math.creation import clone
from polyreme.math.elementwise import add, divide, pow, scale, square
from polyreme.math.manipulation import reshape
from polyreme.math.reduction import mean
from polyreme.tensor import Tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm"]

Function = TypeVar("Function", bound=Callable[..., Any])
SPATIAL_FORMATS = ("NCL", "NCHW", "NCDHW", "NLC", "NHWC", "NDHWC")


def accepting(**names: str) -> Callable[[Function], Function]:
    """Let keyword arguments go by other names, too: `accepting(eps="epsilon")`."""

    def wrap(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for other, name in names.items():
                if other in kwargs:
                    if name in kwargs:
                        raise ValueError(f"Cannot specify both '{name}' and its alias '{other}'.")
                    kwargs[name] = kwargs.pop(other)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return wrap


def channel_axis(data_format: str, rank: int) -> int:
    """Where channels stand: axis 1 in formats like "NCHW", else the last one."""
    return 1 if data_format[1] == "C" else rank - 1


# --- batches


@operator("batch_norm")
def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias per channel.

    By the statistics of the batch in training, by the running ones otherwise; `use_global_stats` says which, whatever `training` is. The
    batch's (with the variance not corrected for its bias) move the running ones: running = momentum * running + (1 - momentum) * batch's.
    `x` is [N, C], or [N, C, *sizes] or [N, *sizes, C] as `data_format` says; the other tensors are [C]. The running statistics get no
    gradients. What has one element per channel is returned as it is.
    """
    tensor_arg(x, "batch_norm")
    assert x.ndim >= 2, "input dim must be larger than 1"
    if x.ndim > 5:
        raise ValueError(f"batch_norm expected an input of 2 to 5 axes but got shape {list(x.shape)}")
    if data_format not in ("NC", *SPATIAL_FORMATS):
        raise ValueError(f"data_format must be one of 'NC', 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC', 'NDHWC' but receive {data_format}")
    of_batch = training if use_global_stats is None else not use_global_stats
    recorder = dispatch.active_trace()
    if recorder is not None:
        inputs = {"X": x, "Mean": running_mean, "Variance": running_var, "Scale": weight, "Bias": bias}
        attributes = {
            "momentum": float(number_of(momentum)), "epsilon": float(epsilon), "is_test": not training,
            "data_layout": "NCHW" if data_format[1] == "C" else "NHWC",
            "use_global_stats": not of_batch if use_global_stats is None else use_global_stats,
            "trainable_statistics": use_global_stats is False,
        }  # fmt: skip
        outputs: dict[str, Any] = {"Y": x.type, "MeanOut": running_mean, "VarianceOut": running_var}
        made = recorder.operator("batch_norm", inputs, outputs, attributes)
        if made is not None:
            return made["Y"]
    axis = channel_axis(data_format, x.ndim)
    if not of_batch:
        return dispatch.call(ops.BatchNorm, x, running_mean.detach(), running_var.detach(), weight, bias, axis=axis, epsilon=float(epsilon))
    y, batch_mean, batch_variance = by_batch(x, weight, bias, axis, float(epsilon))
    count = elements_per_channel(x, axis)
    move(running_mean, batch_mean, momentum, count)
    move(running_var, batch_variance, momentum, count)
    return y


def elements_per_channel(x: Tensor, axis: int) -> Dim:
    """How many elements share a place along `axis`."""
    return product(d for i, d in enumerate(x.type.shape) if i != axis)


def by_batch(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, axis: int, epsilon: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """`x` by the statistics that it has per place along `axis`, and these; without them, as it is, when there is but one element of each or
    none.
    """
    others = tuple(i for i in range(x.ndim) if i != axis)
    if elements_per_channel(x, axis) == 1:
        return clone(x), None, None
    y, batch_mean, batch_variance = dispatch.call(ops.Standardize, x, weight, bias, axes=others, affine=(axis,), epsilon=epsilon)
    return (y, None, None) if 0 in x.type.shape else (y, batch_mean, batch_variance)


@tape.no_grad()
def moved(running: Tensor, batch: Tensor, momentum: float, count: Dim = 2) -> Tensor:
    """momentum * running + (1 - momentum) * batch, with a momentum that is a float32, as in Paddle

    A `count` of elements that is known when the program runs only is looked at then: the statistics of one or none move nothing.
    """
    momentum = float(np.float32(momentum))
    if running.type.dtype != batch.type.dtype:
        batch = dispatch.call(ops.Cast, batch, dtype=running.type.dtype)
    kept, taken = (dispatch.full((), share, running.type.dtype) for share in (momentum, 1.0 - momentum))
    new = add(dispatch.call(ops.Mul, running, kept), dispatch.call(ops.Mul, batch, taken))
    if isinstance(count, int):
        return new
    several = dispatch.call(ops.Greater, dispatch.call(ops.DimValue, size=count, dtype=i64), dispatch.full((), 1, i64))
    return dispatch.call(ops.Where, several, new, running)


def move(running: Tensor, batch: Tensor | None, momentum: Any, count: Dim = 2) -> None:
    """Let a running statistic take in the batch's, where there is one."""
    if batch is not None:
        with tape.recording(False):
            dispatch.assign(running, moved(running, batch, float(number_of(momentum)), count))


# --- layers, instances, groups


@operator("layer_norm")
@accepting(input="x", eps="epsilon")
def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Each slice of the last axes, whose sizes are `normalized_shape`, to mean 0 and variance 1; then times `weight` plus `bias`, with an
    element for each of the slice's.
    """
    tensor_arg(x, "layer_norm")
    if isinstance(normalized_shape, (int, np.integer)):
        normalized_shape = [int(normalized_shape)]
    if not isinstance(normalized_shape, (list, tuple)):
        raise ValueError("`normalized_shape` should be int, list of ints or tuple of ints.")
    sizes = [number_of(s) for s in normalized_shape]
    first = x.ndim - len(sizes)
    if first < 0 or not same_sizes(x.type.shape[first:], sizes):
        text = str(sizes)
        raise ValueError(f"Given normalized_shape is {text}, expected input with shape [*, {text[1:]}, but got input shape {list(x.shape)}")
    if not sizes:
        raise ValueError("layer_norm expected a normalized_shape of at least one size but got []")
    if not 0 <= epsilon <= 0.001:
        raise ValueError(f"'epsilon' in Op(LayerNorm) should be between 0.0 and 0.001, but received [{epsilon}].")
    axes = tuple(range(first, x.ndim))
    weight, bias = (_flat(v, x.type.shape[first:], n, "layer_norm") for v, n in ((weight, "weight"), (bias, "bias")))
    return dispatch.call(ops.Standardize, x, weight, bias, axes=axes, affine=axes, epsilon=float(epsilon))[0]


def _flat(vector: Tensor | None, shape: tuple[Dim, ...], name: str, function: str) -> Tensor | None:
    """A weight or bias, a vector of as many elements as `shape` has, in that shape."""
    if vector is None or vector.type.shape == shape and len(shape) == 1:
        return vector
    if vector.type.shape != (product(shape),):
        raise ValueError(f"{function} expected a {name} of shape [{product(shape)}] but got {list(vector.shape)}")
    return reshape(vector, list(shape))


@operator("instance_norm")
def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-05,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Each channel of each image, [N, C, *sizes], to mean 0 and variance 1; then times `weight` plus `bias` [C]. As in Paddle, running
    statistics and the format are of no effect.
    """
    tensor_arg(x, "instance_norm")
    if not 2 <= x.ndim <= 5:
        raise ValueError(f"instance_norm expected an input of 2 to 5 axes but got shape {list(x.shape)}")
    axes = tuple(range(2, x.ndim))
    return dispatch.call(ops.Standardize, x, weight, bias, axes=axes, affine=(1,), epsilon=float(eps))[0]


@operator("group_norm")
def group_norm(
    x: Tensor,
    num_groups: int,
    epsilon: float = 1e-05,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Channels in `num_groups` groups, each group of each image to mean 0 and variance 1; then times `weight` plus `bias` [C].

    Also called as `group_norm(input, num_groups, weight, bias, eps)`.
    """
    tensor_arg(x, "group_norm")
    if data_format not in SPATIAL_FORMATS:
        raise ValueError("unsupported data layout:" + data_format)
    if x.ndim < 2:
        raise ValueError(f"group_norm expected an input of at least 2 axes but got shape {list(x.shape)}")
    axis = channel_axis(data_format, x.ndim)
    for vector in (weight, bias):
        if vector is not None and vector.ndim == 1:
            same_sizes(x.type.shape[axis : axis + 1], vector.type.shape)
    channels = x.type.shape[axis]
    if isinstance(channels, Expr):
        raise UnknownSize(f"group_norm expected a known number of channels but got the symbolic size '{channels}'", channels)
    if not 1 <= num_groups <= channels or channels % num_groups:
        raise ValueError(f"group_norm expected a number of groups that divides {channels} channels but got {num_groups}")
    for vector, what in ((weight, "weight"), (bias, "bias")):
        if vector is not None and vector.type.shape != (channels,):
            raise ValueError(f"group_norm expected a {what} of shape [{channels}] but got {list(vector.shape)}")
    return by_groups(x, num_groups, weight, bias, axis, epsilon)[0]


def by_groups(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, axis: int, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`x` by the statistics of groups of its places along `axis`, and these, [N, groups]."""
    shape: list[Any] = list(x.type.shape)
    split = [groups, shape[axis] // groups]
    apart = reshape(x, [*shape[:axis], *split, *shape[axis + 1 :]])
    axes = tuple(i for i in range(1, apart.ndim) if i != axis)
    vectors = [None if v is None else reshape(v, split) for v in (weight, bias)]
    y, mean, variance = dispatch.call(ops.Standardize, apart, *vectors, axes=axes, affine=(axis, axis + 1), epsilon=float(epsilon))
    return reshape(y, shape), mean, variance


def _either_order(function: Function) -> Function:
    """`group_norm` with Paddle's arguments, or with weight, bias and eps in the third place."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) < 2:
            raise TypeError(
                f"Too few arguments in the function call: {len(args)}, {len(kwargs)}; group_norm expected an input and a number of groups"
            )
        if len(args) >= 3 and not isinstance(args[2], float):
            named = dict(zip(("weight", "bias", "epsilon"), args[2:], strict=False))
            twice = next((k for k in named if k in kwargs), None)
            if twice is not None:
                raise TypeError(f"got multiple values for argument '{twice}'")
            args, kwargs = args[:2], {**kwargs, **named}
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


group_norm = accepting(input="x", eps="epsilon")(_either_order(group_norm))


# --- neighbouring channels


def local_response_norm(
    x: Tensor,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x / (k + alpha * m) ** beta, with m the mean of the squares of `size` neighbouring channels, of which those beyond the ends count as
    0.
    """
    tensor_arg(x, "local_response_norm")
    if data_format not in SPATIAL_FORMATS:
        raise ValueError(f"data_format should be in one of [NCL, NCHW, NCDHW, NLC, NHWC, NDHWC], but got {data_format}")
    if x.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input, but got {x.ndim} dimensions")
    for i, length in enumerate(x.type.shape[1:], 1):
        if length == 0:
            raise ValueError(f"Expected every dim's size to be larger than 0, but the size of the {i}-th dim is 0")
    if size < 1:
        raise ValueError(f"local_response_norm expected a size of at least 1 but got {size}")
    axis = x.ndim - 1 if data_format.endswith("C") else 1
    widths = [0] * (2 * x.ndim)
    widths[2 * axis : 2 * axis + 2] = [size // 2, (size - 1) // 2]
    padded = dispatch.call(ops.Pad, square(x), padding=tuple(widths))
    windows = dispatch.call(ops.Window, padded, axes=(axis,), sizes=(size,), strides=(1,), dilations=(1,))
    return divide(x, pow(scale(mean(windows, -1), alpha, k), beta))
