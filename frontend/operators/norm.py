"""Normalization."""

from __future__ import annotations

from collections.abc import Callable

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.nn import functional
from polyreme.nn.functional.norm import by_batch, by_groups, elements_per_channel, moved
from polyreme.operators.arguments import Sizes, UnsupportedError, channel_axis, per_channel
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

Statistics = Callable[..., tuple[Tensor, Tensor | None, Tensor | None]]
_AFFINE = {"X": "x", "Scale": "scale", "Bias": "bias"}
_BATCH = {**_AFFINE, "Mean": "mean", "Variance": "variance", "MomentumTensor": "momentum"}
_STATISTICS = "Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace"


@operator(
    "batch_norm",
    legacy=spelled("batch_norm", _BATCH, _STATISTICS, attributes={"data_layout": "data_format"}, constant="Mean Variance"),
)
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


@operator(
    "sync_batch_norm",
    legacy=spelled("sync_batch_norm", _BATCH, _STATISTICS, attributes={"data_layout": "data_format"}, constant="Mean Variance"),
)
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
        y = dispatch.call(nn.BatchNorm, x, mean, variance, scale, bias, axis=axis, epsilon=float(epsilon))
        return y, mean, variance, mean, variance, None
    y, batch_mean, batch_variance = statistics(x, scale, bias, axis, float(epsilon))
    if batch_mean is None or batch_variance is None:
        return y, mean, variance, mean, variance, None
    # All ranks together have enough elements.
    count = elements_per_channel(x, axis) if statistics is by_batch else 2
    after = (moved(old, new, momentum, count) for old, new in ((mean, batch_mean), (variance, batch_variance)))
    return y, *after, batch_mean, batch_variance, None


@operator("layer_norm", legacy=spelled("layer_norm", _AFFINE, "Y Mean Variance"))
def layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[Tensor, ...]:
    if not 0 <= begin_norm_axis < max(x.ndim, 1):
        raise UnsupportedError(f"expected 'begin_norm_axis' in [0, {max(x.ndim, 1)}) but got {begin_norm_axis}")
    tail = list(x.type.shape[begin_norm_axis:])
    axes = tuple(range(begin_norm_axis, x.ndim))
    vectors = [None if v is None else math.reshape(v, tail) for v in (scale, bias)]
    return dispatch.call(nn.Standardize, x, *vectors, axes=axes, affine=axes, epsilon=float(epsilon))


@operator("rms_norm")
def rms_norm(x: Tensor, scale: Tensor | None = None, *, normalized_shape: Sizes = (), epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    axes = list(range(x.ndim - max(1, len(normalized_shape)), x.ndim))
    inverse = math.rsqrt(math.scale(math.mean(math.square(x), axes, keepdim=True), 1.0, epsilon))
    y = math.multiply(x, inverse)
    return (y if scale is None else math.multiply(y, scale)), inverse


def _residual(x: Tensor, bias: Tensor | None, residual: Tensor | None, share: float, quant_scale: float) -> Tensor:
    """What is added up in front of a norm; what would be quantised behind it is refused."""
    if quant_scale > 0:
        raise UnsupportedError(f"expected a norm that is not quantised but got a scale of {quant_scale}")
    if residual is not None:
        x = math.add(x, math.scale(residual, share) if share != 1.0 else residual)
    return x if bias is None else math.add(x, bias)


_ADDED = {name: name for name in ("x", "bias", "residual", "norm_weight", "norm_bias")}


@operator("fused_rms_norm_quant", legacy=spelled("fused_rms_norm_quant", _ADDED, "out residual_out inv_var"))
def fused_rms_norm_quant(
    x: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    *,
    epsilon: float,
    begin_norm_axis: int,
    quant_scale: float,
    quant_round_type: int,
    quant_max_bound: float,
    quant_min_bound: float,
) -> tuple[Tensor, Tensor, None]:
    """The norm of what is added up, and the sum."""
    total = _residual(x, bias, residual, 1.0, quant_scale)
    axes = list(range(begin_norm_axis % max(x.ndim, 1), x.ndim))
    y = math.multiply(total, math.rsqrt(math.scale(math.mean(math.square(total), axes, keepdim=True), 1.0, epsilon)))
    tail = list(x.type.shape[axes[0] :])
    y = y if norm_weight is None else math.multiply(y, math.reshape(norm_weight, tail))
    return (y if norm_bias is None else math.add(y, math.reshape(norm_bias, tail))), total, None


@operator("fused_bias_residual_layernorm", legacy=spelled("fused_bias_residual_layernorm", _ADDED, "out residual_out mean variance"))
def fused_bias_residual_layernorm(
    x: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    norm_weight: Tensor | None = None,
    norm_bias: Tensor | None = None,
    *,
    epsilon: float,
    residual_alpha: float,
    begin_norm_axis: int,
    quant_scale: float,
    quant_round_type: int,
    quant_max_bound: float,
    quant_min_bound: float,
) -> tuple[Tensor | None, ...]:
    """The norm of what is added up, and the sum; without weights of the norm, the sum alone."""
    total = _residual(x, bias, residual, residual_alpha, quant_scale)
    if norm_weight is None and norm_bias is None:
        return total, total, None, None
    y, *_ = layer_norm(total, norm_weight, norm_bias, epsilon=epsilon, begin_norm_axis=begin_norm_axis % max(x.ndim, 1))
    return y, total, None, None


@operator("instance_norm", legacy=spelled("instance_norm", _AFFINE, "Y SavedMean SavedVariance"))
def instance_norm(x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5) -> tuple[Tensor, ...]:
    axes = tuple(range(2, x.ndim))
    y, mean, variance = dispatch.call(nn.Standardize, x, scale, bias, axes=axes, affine=(1,), epsilon=float(epsilon))
    return y, math.reshape(mean, [-1]), math.reshape(math.rsqrt(math.scale(variance, 1.0, epsilon)), [-1])


@operator("group_norm", legacy=spelled("group_norm", _AFFINE, "Y Mean Variance", attributes={"data_layout": "data_format"}))
def group_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, epsilon: float = 1e-5, groups: int, data_format: str = "NCHW"
) -> tuple[Tensor, ...]:
    return by_groups(x, groups, scale, bias, channel_axis(data_format, x.ndim), epsilon)


@operator("affine_channel", legacy=spelled("affine_channel", _AFFINE))
def affine_channel(x: Tensor, scale: Tensor, bias: Tensor, *, data_layout: str = "NCHW") -> Tensor:
    layout = "NCHW" if data_layout == "AnyLayout" else data_layout
    return math.add(math.multiply(x, per_channel(scale, x, layout)), per_channel(bias, x, layout))


@operator(legacy=spelled("lrn", outputs="Out MidOut"))
def lrn(x: Tensor, *, n: int = 5, k: float = 2.0, alpha: float = 1e-4, beta: float = 0.75, data_format: str = "NCHW") -> Tensor:
    """x / (k + alpha * s) ** beta, with s the sum of the squares of `n` neighbouring channels."""
    layout = "NHWC" if data_format == "NHWC" else "NCHW"
    return functional.local_response_norm(x, n, alpha * n, beta, k, layout)
