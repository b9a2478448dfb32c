"""Normalisation: by the statistics of the operand itself (layers, groups, instances, batches in training), or by given ones (batches in
inference).

One op stands for the first kind, whatever its statistics are taken over: a group norm is this op on a view of its operand, for example.
Running statistics are no part of it; the front end moves them.
"""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array, widened
from polyreme.dialects.shape_rules import Shape, normal_axes, normal_axis, reduced_shape, shape_text, wide_type
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.sizes.facts import agree_all
from polyreme.ir.types import TensorType


def aligned_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape that repeats itself along all axes but `axes`."""
    return tuple(d if i in axes else 1 for i, d in enumerate(shape))


def _check_vector(vector: TensorType | None, name: str, x: TensorType, axes: tuple[int, ...]) -> None:
    """A weight, bias or statistic of `x` that has one element per place along `axes`."""
    if vector is None:
        return
    wanted = tuple(x.shape[a] for a in axes)
    check(agree_all(vector.shape, wanted), f"expected a {name} of shape {shape_text(wanted)} but got {shape_text(vector.shape)}")
    wide = wide_type(x.dtype)
    kinds = str(wide) if wide == x.dtype else f"{x.dtype} or {wide}"
    check_type(vector.dtype in (x.dtype, wide), f"expected a {name} of type {kinds} but got {vector.dtype}")


def _check_floats(x: TensorType) -> None:
    check_type(x.dtype.is_float, f"expected floats but got {x.dtype}")


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """With `axes` kept as sizes of 1; nan of no elements."""
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return np.asarray(np.divide(np.sum(x, axis=axes, keepdims=True, dtype=np.float64), count)).astype(x.dtype)


def _aligned(vector: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return widened(vector).reshape(aligned_shape(shape, axes))


def _inverse_deviation(variance: Array, epsilon: float) -> Array:
    return np.asarray(1 / np.sqrt(variance + variance.dtype.type(epsilon)))


# What is far from 0 for its spread loses digits when the mean is taken off, which is in proportion to the operand: what sums allow for.
_STANDARDIZED = Accuracy(ulp=16, absolute=16, summed=8)


@op("nn.standardize", Pure, accuracy=_STANDARDIZED)
class Standardize(Op):
    """`x` shifted and scaled to mean 0 and variance 1 over `axes`, then times `weight` plus `bias`.

        %y, %mean, %variance = nn.standardize %x, %w, %b {axes = [-1], affine = [-1]} : tensor<Nx4xf32>, tensor<Nxf32>, tensor<Nxf32>
        // %x: tensor<Nx4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>

    (x - mean) / sqrt(variance + epsilon) * weight + bias. What it is called depends on the axes: of [batch, channels, *places] a batch norm
    takes all but the channels, an instance norm all places, a layer norm the last axes, and a group norm is an instance norm with channels
    split in two axes. Further results are the mean, and the variance as the mean of squared differences (not corrected for its bias), both
    without `axes`; of no elements they are nan. `weight` and `bias`, each of which may be absent, run along the axes `affine`, in their
    order in `x`: they have its sizes there. All axes may be negative, counted from the end. Floats only; 16-bit ones are computed in
    float32, the type of the statistics, and rounded once. `weight` and `bias` have either type. `epsilon` keeps what does not vary from a
    division by 0.
    """

    x = operand()
    weight = optional()
    bias = optional()
    axes = attr(tuple[int, ...])
    affine = attr(tuple[int, ...], default=())
    epsilon = attr(float, default=1e-5)

    @staticmethod
    def infer(
        x: TensorType, weight: TensorType | None, bias: TensorType | None, *, axes: tuple[int, ...], affine: tuple[int, ...], epsilon: float
    ) -> tuple[TensorType, ...]:
        _check_floats(x)
        along = normal_axes(affine, x.rank)
        _check_vector(weight, "weight", x, along)
        _check_vector(bias, "bias", x, along)
        statistics = TensorType(reduced_shape(x.shape, normal_axes(axes, x.rank), False), wide_type(x.dtype))
        return x, statistics, statistics

    @staticmethod
    def reference(
        x: Array, weight: Array | None, bias: Array | None, *, axes: tuple[int, ...], affine: tuple[int, ...], epsilon: float
    ) -> tuple[Array, ...]:
        over, along, v = normal_axes(axes, x.ndim), normal_axes(affine, x.ndim), widened(x)
        with np.errstate(all="ignore"):
            mean = _mean(v, over)
            centred = v - mean
            variance = _mean(np.square(centred), over)
            y = centred * _inverse_deviation(variance, epsilon)
            if weight is not None:
                y = y * _aligned(weight, x.shape, along)
            if bias is not None:
                y = y + _aligned(bias, x.shape, along)
            return y.astype(x.dtype, copy=False), mean.squeeze(over), variance.squeeze(over)


@op("nn.standardize_gradient", Pure, accuracy=Accuracy(ulp=16, absolute=32, summed=32))
class StandardizeGradient(Op):
    """What `dy`, the gradient of the first result of `nn.standardize`, makes of `x`, and of its weight and bias.

        %dx, %dw, %db = nn.standardize_gradient %x, %dy, %m, %v, %w {axes = [-1], affine = [-1]}
            : tensor<Nx4xf32>, tensor<4xf32>, tensor<4xf32>
        // %x: tensor<Nx4xf32>, %dy: tensor<Nx4xf32>, %m: tensor<Nxf32>, %v: tensor<Nxf32>, %w: tensor<4xf32>

    With r = 1 / sqrt(variance + epsilon), n = (x - mean) r and g = dy weight: dx = r (g - mean(g) - n mean(g n)), means over `axes`; dw and
    db are the sums of dy n and dy over all axes but `affine`, whether there is a weight and a bias or not. `mean` and `variance` are those
    that `nn.standardize` gave; `weight`, `axes`, `affine` and `epsilon` are its own. dx has the type of `x`, dw and db that of the weight,
    or else float32 beside 16-bit floats.
    """

    x = operand()
    dy = operand()
    mean = operand()
    variance = operand()
    weight = optional()
    axes = attr(tuple[int, ...])
    affine = attr(tuple[int, ...], default=())
    epsilon = attr(float, default=1e-5)

    @staticmethod
    def infer(
        x: TensorType,
        dy: TensorType,
        mean: TensorType,
        variance: TensorType,
        weight: TensorType | None,
        *,
        axes: tuple[int, ...],
        affine: tuple[int, ...],
        epsilon: float,
    ) -> tuple[TensorType, ...]:
        _, statistics, _ = Standardize.infer(x, weight, None, axes=axes, affine=affine, epsilon=epsilon)
        check(agree_all(dy.shape, x.shape), f"expected a gradient of shape {shape_text(x.shape)} but got {shape_text(dy.shape)}")
        check_type(dy.dtype == x.dtype, f"expected a gradient of type {x.dtype} but got {dy.dtype}")
        over, along = normal_axes(axes, x.rank), normal_axes(affine, x.rank)
        kept = tuple(i for i in range(x.rank) if i not in over)
        _check_vector(mean, "mean", x, kept)
        _check_vector(variance, "variance", x, kept)
        vector = TensorType(tuple(x.shape[a] for a in along), statistics.dtype if weight is None else weight.dtype)
        return x, vector, vector

    @staticmethod
    def reference(
        x: Array,
        dy: Array,
        mean: Array,
        variance: Array,
        weight: Array | None,
        *,
        axes: tuple[int, ...],
        affine: tuple[int, ...],
        epsilon: float,
    ) -> tuple[Array, ...]:
        over, along = normal_axes(axes, x.ndim), normal_axes(affine, x.ndim)
        others = tuple(i for i in range(x.ndim) if i not in along)
        shape = tuple(1 if i in over else d for i, d in enumerate(x.shape))
        with np.errstate(all="ignore"):
            scale = _inverse_deviation(widened(variance), epsilon).reshape(shape)
            normal, seed = (widened(x) - widened(mean).reshape(shape)) * scale, widened(dy)
            kind = normal.dtype if weight is None else weight.dtype
            product = seed * normal
            dw, db = (np.sum(v, axis=others, dtype=np.float64).astype(kind) for v in (product, seed))
            g, gn = seed, product
            if weight is not None:
                w = _aligned(weight, x.shape, along)
                g, gn = seed * w, product * w
            dx = scale * (g - _mean(g, over) - normal * _mean(gn, over))
            return dx.astype(x.dtype, copy=False), dw, db


@op("nn.batch_norm", Pure, accuracy=_STANDARDIZED)
class BatchNorm(Op):
    """`x` shifted and scaled by statistics that are given, one per channel: batch normalisation as inference has it.

        %y = nn.batch_norm %x, %m, %v, %w, %b {axis = 1} : tensor<Nx2x3xf32>
        // %x: tensor<Nx2x3xf32>, %m: tensor<2xf32>, %v: tensor<2xf32>, %w: tensor<2xf32>, %b: tensor<2xf32>

    (x - mean) / sqrt(variance + epsilon) * weight + bias, where each of the vectors has one element per place along `axis`, the channels;
    `weight` and `bias` may be absent. Channels that do not vary have `epsilon` to divide by. Floats only; 16-bit ones are computed in
    float32 and rounded once. The vectors are of the operand's type, or of float32 beside 16-bit floats. In training, `nn.standardize` takes
    the statistics of the batch itself.
    """

    x = operand()
    mean = operand()
    variance = operand()
    weight = optional()
    bias = optional()
    axis = attr(int, default=1)
    epsilon = attr(float, default=1e-5)

    @staticmethod
    def infer(
        x: TensorType,
        mean: TensorType,
        variance: TensorType,
        weight: TensorType | None,
        bias: TensorType | None,
        *,
        axis: int,
        epsilon: float,
    ) -> TensorType:
        _check_floats(x)
        channels = (normal_axis(axis, x.rank),)
        for vector, name in ((mean, "mean"), (variance, "variance"), (weight, "weight"), (bias, "bias")):
            _check_vector(vector, name, x, channels)
        return x

    @staticmethod
    def reference(
        x: Array, mean: Array, variance: Array, weight: Array | None, bias: Array | None, *, axis: int, epsilon: float
    ) -> Array:
        channels = (normal_axis(axis, x.ndim),)
        with np.errstate(all="ignore"):
            scale = _inverse_deviation(widened(variance), epsilon)
            if weight is not None:
                scale = scale * widened(weight)
            y = (widened(x) - _aligned(mean, x.shape, channels)) * _aligned(scale, x.shape, channels)
            if bias is not None:
                y = y + _aligned(bias, x.shape, channels)
            return y.astype(x.dtype, copy=False)
