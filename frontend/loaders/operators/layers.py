"""Convolution, pooling, normalization, dropout, and the operators that fuse a layer."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.loaders.errors import OperatorError, check_count
from polyreme.loaders.meaning import Number, Sizes, meaning
from polyreme.loaders.operators.activation import apply_activation, channel_axis, per_channel
from polyreme.loaders.operators.arithmetic import matmul_with_flatten
from polyreme.nn import functional
from polyreme.nn.functional.conv import padding_pairs, to_channel_first, to_channel_last
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
    gaps = [1] * rank if algorithm == "SAME" else list(dilations)
    return function(x, weight, bias, list(strides), _padding(paddings, algorithm), gaps, groups, _layout(data_format, rank))


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
    if padding_algorithm == "SAME":
        raise OperatorError("expected a transposed convolution with explicit padding but got 'SAME'")
    steps, gaps = list(strides), list(dilations)
    pairs = padding_pairs(_padding(paddings, padding_algorithm), 2, x.type.shape[2:], kernel, steps, gaps, False)  # type: ignore[arg-type]
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
            return function(x, sizes)  # type: ignore[no-any-return]
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
) -> tuple[Tensor, None]:
    """The largest elements, without their positions."""
    return pool(
        x, kernel_size, strides=strides, paddings=paddings, global_pooling=global_pooling, adaptive=adaptive, ceil_mode=ceil_mode
    ), None


@meaning("batch_norm", "sync_batch_norm")
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
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per channel, by the running statistics, or in training by the batch's own, which then move those."""
    mean_out, variance_out = mean, variance
    if not (use_global_stats or is_test and not trainable_statistics):
        axes = [a for a in range(x.ndim) if a != channel_axis(data_format, x.ndim)]
        batch_mean = math.mean(x, axes)
        batch_variance = math.mean(math.square(math.subtract(x, per_channel(batch_mean, x, data_format))), axes)
        mean_out, variance_out = (
            math.add(math.scale(old, momentum), math.scale(new, 1.0 - momentum))
            for old, new in ((mean, batch_mean), (variance, batch_variance))
        )
        mean, variance = batch_mean, batch_variance
    factor = math.rsqrt(math.scale(variance, 1.0, epsilon))
    if scale is not None:
        factor = math.multiply(factor, scale)
    shift = math.scale(math.multiply(mean, factor), -1.0)
    if bias is not None:
        shift = math.add(bias, shift)
    y = math.add(math.multiply(x, per_channel(factor, x, data_format)), per_channel(shift, x, data_format))
    return y, mean_out, variance_out, mean, variance, None


def _standardized(x: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = math.mean(x, axes, keepdim=True)
    centred = math.subtract(x, mean)
    variance = math.mean(math.square(centred), axes, keepdim=True)
    return math.multiply(centred, math.rsqrt(math.scale(variance, 1.0, epsilon))), mean, variance


@meaning()
def layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[Tensor, ...]:
    tail = list(x.type.shape[begin_norm_axis:])
    y, mean, variance = _standardized(x, list(range(begin_norm_axis, x.ndim)), epsilon)
    if scale is not None:
        y = math.multiply(y, math.reshape(scale, tail))
    if bias is not None:
        y = math.add(y, math.reshape(bias, tail))
    head = list(x.type.shape[:begin_norm_axis])
    return y, math.reshape(mean, head), math.reshape(variance, head)


@meaning()
def rms_norm(x: Tensor, scale: Tensor | None = None, *, normalized_shape: Sizes = (), epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    axes = list(range(x.ndim - max(1, len(normalized_shape)), x.ndim))
    inverse = math.rsqrt(math.scale(math.mean(math.square(x), axes, keepdim=True), 1.0, epsilon))
    y = math.multiply(x, inverse)
    return (y if scale is None else math.multiply(y, scale)), inverse


@meaning()
def instance_norm(x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5) -> tuple[Tensor, ...]:
    y, mean, variance = _standardized(x, list(range(2, x.ndim)), epsilon)
    if scale is not None:
        y = math.multiply(y, per_channel(scale, x, "NCHW"))
    if bias is not None:
        y = math.add(y, per_channel(bias, x, "NCHW"))
    return y, math.reshape(mean, [-1]), math.reshape(math.rsqrt(math.scale(variance, 1.0, epsilon)), [-1])


@meaning()
def group_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5, groups: int = 1, data_format: str = "NCHW"
) -> tuple[Tensor, ...]:
    last = channel_axis(data_format, x.ndim) != 1
    if last:
        x = to_channel_first(x)
    shape = list(x.type.shape)
    apart = math.reshape(x, [shape[0], groups, shape[1] // groups, *shape[2:]])
    y, mean, variance = _standardized(apart, list(range(2, apart.ndim)), epsilon)
    y = math.reshape(y, shape)
    if scale is not None:
        y = math.multiply(y, per_channel(scale, x, "NCHW"))
    if bias is not None:
        y = math.add(y, per_channel(bias, x, "NCHW"))
    means = [math.reshape(v, [shape[0], groups]) for v in (mean, variance)]
    return (to_channel_last(y) if last else y), *means


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
