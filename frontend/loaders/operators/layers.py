"""Convolution, pooling, normalization, dropout, and the operators that fuse a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.loaders.errors import OperatorError, check_count
from polyreme.loaders.meaning import Number, Sizes, meaning
from polyreme.loaders.operators.activation import apply_activation, channel_axis, per_channel
from polyreme.loaders.operators.arithmetic import matmul_with_flatten
from polyreme.nn import functional
from polyreme.nn.functional.conv import dilations_of, padding_pairs, to_channel_first, to_channel_last
from polyreme.nn.functional.norm import by_batch, by_groups, elements_per_channel, moved
from polyreme.tensor import Tensor


def _layout(data_format: str, rank: int) -> str:
    """A data format by the name that functions of `rank` spatial axes take."""
    letters = {1: "L", 2: "HW", 3: "DHW"}[rank]
    return f"N{letters}C" if channel_axis(data_format, rank + 2) != 1 else f"NC{letters}"


def _padding(paddings: Sizes, algorithm: str) -> Any:
    if algorithm not in ("EXPLICIT", "SAME", "VALID"):
        raise OperatorError(f"expected the padding algorithm EXPLICIT, SAME or VALID but got '{algorithm}'")
    return list(paddings) if algorithm == "EXPLICIT" else algorithm


def _convolve(
    rank: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    strides: Sizes,
    paddings: Sizes,
    algorithm: str,
    dilations: Sizes,
    groups: int,
    data_format: str,
) -> Tensor:
    function = functional.conv2d if rank == 2 else functional.conv3d
    return function(x, weight, bias, list(strides), _padding(paddings, algorithm), list(dilations), groups, _layout(data_format, rank))


@meaning("conv2d", "depthwise_conv2d")
def conv2d(
    input: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    return _convolve(2, input, filter, bias, strides, paddings, padding_algorithm, dilations, groups or 1, data_format)


@meaning()
def conv3d(
    input: Tensor,
    filter: Tensor,
    *,
    strides: Sizes = (1, 1, 1),
    paddings: Sizes = (0, 0, 0),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1, 1),
    groups: int = 1,
    data_format: str = "NCDHW",
) -> Tensor:
    return _convolve(3, input, filter, None, strides, paddings, padding_algorithm, dilations, groups or 1, data_format)


@meaning("conv2d_transpose", "depthwise_conv2d_transpose")
def conv2d_transpose(
    x: Tensor,
    filter: Tensor,
    output_size: Sizes = (),
    *,
    bias: Tensor | None = None,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    output_padding: Sizes = (),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sizes = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
) -> Tensor:
    last = channel_axis(data_format, x.ndim) != 1
    if last:
        x = to_channel_first(x)
    kernel = filter.type.shape[2:]
    padding = _padding(paddings, padding_algorithm)
    steps, gaps = list(strides), dilations_of(list(dilations), 2, padding)
    pairs = padding_pairs(padding, 2, x.type.shape[2:], kernel, steps, gaps, False)  # type: ignore[arg-type]
    sizes: list[Dim] = []
    for i, (places, k) in enumerate(zip(x.type.shape[2:], kernel, strict=True)):
        least = (places - 1) * steps[i] - pairs[2 * i] - pairs[2 * i + 1] + (k - 1) * gaps[i] + 1
        sizes.append(output_size[i] if output_size else least + (output_padding[i] if output_padding else 0))
    made = dispatch.call(
        ops.ConvTranspose,
        x,
        filter,
        strides=tuple(steps),
        padding=tuple(pairs),
        dilations=tuple(gaps),
        groups=groups or 1,
        sizes=tuple(sizes),
    )
    if bias is not None:
        made = math.add(made, per_channel(bias, made, "NCHW"))
    return to_channel_last(made) if last else made


@meaning("pool2d", "pool3d")
def pool(
    x: Tensor,
    kernel_size: Sizes,
    *,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    data_format: str = "NCHW",
    pooling_type: str = "max",
    global_pooling: bool = False,
    adaptive: bool = False,
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """The largest element or the mean of each window; `adaptive` reads the kernel's sizes as the result's."""
    if pooling_type not in ("max", "avg"):
        raise OperatorError(f"expected the pooling type max or avg but got '{pooling_type}'")
    rank, largest = x.ndim - 2, pooling_type == "max"
    layout = _layout(data_format, rank)
    if global_pooling:
        kernel_size, adaptive = [1] * rank, True
    sizes = [int(k) for k in kernel_size]
    if adaptive:
        for count in sizes:
            check_count(count, 1024, "places per axis of adaptive pooling")
        names = {
            (2, True): "adaptive_max_pool2d",
            (2, False): "adaptive_avg_pool2d",
            (3, True): "adaptive_max_pool3d",
            (3, False): "adaptive_avg_pool3d",
        }
        function = getattr(functional, names[rank, largest])
        if channel_axis(data_format, x.ndim) == 1:
            return function(x, sizes)
        return to_channel_last(function(to_channel_first(x), sizes))
    padding = _padding(paddings, padding_algorithm)
    if largest:
        function = functional.max_pool2d if rank == 2 else functional.max_pool3d
        return function(x, sizes, list(strides), padding, False, ceil_mode, layout)
    function = functional.avg_pool2d if rank == 2 else functional.avg_pool3d
    return function(x, sizes, list(strides), padding, ceil_mode, exclusive, None, layout)


@meaning()
def max_pool2d_with_index(
    x: Tensor,
    *,
    kernel_size: Sizes,
    strides: Sizes = (1, 1),
    paddings: Sizes = (0, 0),
    global_pooling: bool = False,
    adaptive: bool = False,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The largest elements, and where they stood in their images; adaptive and global ones without."""
    if adaptive or global_pooling:
        return pool(
            x, kernel_size, strides=strides, paddings=paddings, global_pooling=global_pooling, adaptive=adaptive, ceil_mode=ceil_mode
        ), None
    return functional.max_pool2d(x, list(kernel_size), list(strides), list(paddings), True, ceil_mode)


Statistics = Callable[..., tuple[Tensor, Tensor | None, Tensor | None]]


@meaning()
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
) -> tuple[Tensor | None, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per channel, by the running statistics, or in training by the batch's own, which
    then move those.
    """
    of_batch = not (use_global_stats or is_test and not trainable_statistics)
    return _batch_norm(x, mean, variance, scale, bias, by_batch if of_batch else None, momentum, epsilon, data_format)


@meaning()
def sync_batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
) -> tuple[Tensor | None, ...]:
    """As `batch_norm`; the batch is that of all ranks together."""
    from polyreme.distributed.statistics import by_joined_batch

    of_batch = not (use_global_stats or is_test and not trainable_statistics)
    return _batch_norm(x, mean, variance, scale, bias, by_joined_batch if of_batch else None, momentum, epsilon, data_format)


def _batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    statistics: Statistics | None,
    momentum: float,
    epsilon: float,
    data_format: str,
) -> tuple[Tensor | None, ...]:
    """By what `statistics` takes of the batch, or by the running ones."""
    axis = channel_axis(data_format, x.ndim)
    if statistics is None:
        y = dispatch.call(ops.BatchNorm, x, mean, variance, scale, bias, axis=axis, epsilon=float(epsilon))
        return y, mean, variance, mean, variance, None
    y, batch_mean, batch_variance = statistics(x, scale, bias, axis, float(epsilon))
    if batch_mean is None or batch_variance is None:
        return y, mean, variance, mean, variance, None
    # All ranks together have enough elements.
    count = elements_per_channel(x, axis) if statistics is by_batch else 2
    after = (moved(old, new, momentum, count) for old, new in ((mean, batch_mean), (variance, batch_variance)))
    return y, *after, batch_mean, batch_variance, None


@meaning()
def layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[Tensor, ...]:
    tail = list(x.type.shape[begin_norm_axis:])
    axes = tuple(range(begin_norm_axis, x.ndim))
    vectors = [None if v is None else math.reshape(v, tail) for v in (scale, bias)]
    return dispatch.call(ops.Standardize, x, *vectors, axes=axes, affine=axes, epsilon=float(epsilon))


@meaning()
def rms_norm(x: Tensor, scale: Tensor | None = None, *, normalized_shape: Sizes = (), epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    axes = list(range(x.ndim - max(1, len(normalized_shape)), x.ndim))
    inverse = math.rsqrt(math.scale(math.mean(math.square(x), axes, keepdim=True), 1.0, epsilon))
    y = math.multiply(x, inverse)
    return (y if scale is None else math.multiply(y, scale)), inverse


@meaning()
def instance_norm(x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5) -> tuple[Tensor, ...]:
    axes = tuple(range(2, x.ndim))
    y, mean, variance = dispatch.call(ops.Standardize, x, scale, bias, axes=axes, affine=(1,), epsilon=float(epsilon))
    return y, math.reshape(mean, [-1]), math.reshape(math.rsqrt(math.scale(variance, 1.0, epsilon)), [-1])


@meaning()
def group_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5, groups: int = 1, data_format: str = "NCHW"
) -> tuple[Tensor, ...]:
    return by_groups(x, groups, scale, bias, channel_axis(data_format, x.ndim), epsilon)


@meaning()
def affine_channel(x: Tensor, scale: Tensor, bias: Tensor, *, data_layout: str = "NCHW") -> Tensor:
    layout = "NCHW" if data_layout == "AnyLayout" else data_layout
    return math.add(math.multiply(x, per_channel(scale, x, layout)), per_channel(bias, x, layout))


@meaning()
def dropout(
    x: Tensor,
    seed_tensor: Tensor | None = None,
    p: Number = 0.5,
    *,
    is_test: bool = False,
    mode: str = "downgrade_in_infer",
    seed: int = 0,
    fix_seed: bool = False,
) -> tuple[Tensor, None]:
    """In a program for inference only the scaling that the mode asks for; in training by draws of the default generator."""
    chosen = "downscale_in_infer" if mode in ("downgrade_in_infer", "downscale_in_infer") else mode
    return functional.dropout(x, float(p), training=not is_test, mode=chosen), None


@meaning()
def fc(
    input: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    in_num_col_dims: int = 1,
    activation_type: str = "",
    padding_weights: bool = False,
) -> Tensor:
    if padding_weights:
        raise OperatorError("expected weights without padding")
    y = matmul_with_flatten(input, w, x_num_col_dims=in_num_col_dims)
    if bias is not None:
        y = math.add(y, math.reshape(bias, [-1]))
    return apply_activation(y, activation_type)
