"""Signals, images and volumes in another size: one axis after the other, each element from its neighbours along that axis.

Ratios are float32 whatever the dtype of the tensor, as in Paddle's kernels, whose roundings are followed from there (`_linear_dtype`,
`_linear_cells`). Where sizes are free the same numbers are computed at run time: products of float32 as float64, which holds them exactly,
so that they are rounded once whatever instructions compute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Literal

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import as_one
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, UnknownSize
from polyreme.ir.types import ScalarType, f32, f64, i64
from polyreme.math.common import cast_to, number_of, tensor_arg
from polyreme.math.elementwise import add, divide, maximum, minimum, multiply, subtract
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import expand, reshape, transpose, unsqueeze
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from polyreme.tensor import Tensor, shape_dims

__all__ = ["interpolate", "upsample"]

Array = np.ndarray[Any, Any]
# How places of cells are rounded: once, or the product of ratio and step before the half is taken off, too.
Cells = Literal["fused", "rounded"]
HALF = np.float32(0.5)
FORMATS = {3: ("NCW", "NWC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}


def ratio_of(old: int, new: int, factor: float, align_corners: bool) -> np.float32:
    """How far a step in the result is in the operand; `factor` is 0 where the sizes say it."""
    if align_corners:
        return np.float32((old - 1) / (new - 1)) if new > 1 else np.float32(0)
    return np.float32(1 / np.float32(factor)) if factor > 0 else np.float32(old / new)


def _known(old: Dim, new: Dim, what: str) -> tuple[int, int]:
    if not isinstance(old, int) or not isinstance(new, int):
        raise UnknownSize(f"expected known sizes for {what} interpolation but got '{old}' and '{new}'", old, new)
    return old, new


def _blend(x: Tensor, axis: int, parts: list[tuple[Array, Array]]) -> Tensor:
    """The sum of elements along `axis` at some positions, each times its shares."""
    total: Tensor | None = None
    for index, share in parts:
        weight = share.astype(x.type.dtype.np).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        part = multiply(dispatch.call(ops.Gather, x, dispatch.constant(index), axis=axis), dispatch.constant(weight))
        total = part if total is None else add(total, part)
    assert total is not None
    return total


def nearest_axis(x: Tensor, axis: int, new: Dim, factor: float | Tensor, align_corners: bool = False) -> Tensor:
    """Each element the nearest one before it (with `align_corners`: on either side)."""
    old = x.type.shape[axis]
    if old == new:
        return x
    if isinstance(factor, Tensor) or not isinstance(old, int) or not isinstance(new, int):
        times = 0 if isinstance(factor, Tensor) else int(factor)
        if align_corners or not times or new != old * times:
            places = multiply(_free_ratio(old, new, factor, align_corners), dispatch.call(ops.Iota, shape=(new,), axis=0, dtype=f32))
            places = add(places, dispatch.full((), 0.5, f32)) if align_corners else places
            return dispatch.call(ops.Gather, x, _clamped(cast_to(places, i64), old), axis=axis)
        shape = x.type.shape
        wide = expand(unsqueeze(x, axis + 1), [*shape[: axis + 1], times, *shape[axis + 1 :]])
        return reshape(wide, [*shape[:axis], new, *shape[axis + 1 :]])
    steps = ratio_of(old, new, factor, align_corners) * np.arange(new, dtype=np.float32)
    index = np.minimum((steps + HALF if align_corners else steps).astype(np.int64), old - 1)
    return dispatch.call(ops.Gather, x, dispatch.constant(index), axis=axis)


def _linear_dtype(x: Tensor) -> ScalarType:
    """What places and shares are rounded to: for signals as the tensor is, for images and volumes float32."""
    return f64 if x.ndim == 3 and x.type.dtype == f64 else f32


def _linear_cells(x: Tensor, axis: int) -> Cells:
    """How the places of cells are computed: for signals and the rows of images the product is not rounded before the half is taken off."""
    return "fused" if x.ndim == 3 or (x.ndim == 4 and axis == 2) else "rounded"


def linear_axis(x: Tensor, axis: int, new: Dim, factor: float | Tensor, align_corners: bool, align_mode: int) -> Tensor:
    """Between its two neighbours, each element by its distance from the other. `x` has its spatial axes last.

    Where `new` is 1, Paddle's kernels for images say that a step has no length, so that the one element is the first; those for signals
    and volumes place it in the middle, as far as `align_mode` does.
    """
    old = x.type.shape[axis]
    if old == new:
        return x
    if isinstance(factor, Tensor) or not isinstance(old, int) or not isinstance(new, int):
        return _linear_free_axis(x, axis, new, factor, align_corners, align_mode)
    ratio = np.float32(0) if new == 1 and x.ndim == 4 else ratio_of(old, new, factor, align_corners)
    steps, dtype = np.arange(new, dtype=np.float32), _linear_dtype(x).np
    if align_mode or align_corners:
        places = ratio * steps
    elif _linear_cells(x, axis) == "fused":
        places = ratio.astype(np.float64) * (steps + HALF) - 0.5
    else:
        places = ratio * (steps + HALF) - HALF
    places = np.maximum(places.astype(dtype), 0)
    low = np.minimum(places.astype(np.int64), old - 1)
    share = places - low.astype(dtype)
    return _blend(x, axis, [(low, 1 - share), (np.minimum(low + 1, old - 1), share)])


def _free_ratio(old: Dim, new: Dim, factor: float | Tensor, align_corners: bool) -> Tensor:
    """`ratio_of` where a size or the factor is not known, as a tensor."""

    def size(n: Dim | float) -> Tensor:
        return dispatch.full((), n, f32)

    if align_corners:
        # The last step is from the last to the last, whatever comes of dividing by 0.
        return divide(size(old - 1), maximum(size(new - 1), size(1)))
    if isinstance(factor, Tensor):
        return divide(size(1), factor)
    return size(float(np.float32(1 / np.float32(factor)))) if factor > 0 else divide(size(old), size(new))


def _clamped(places: Tensor, size: Dim) -> Tensor:
    """Places along an axis of `size`, the nearest ones for those outside: kernels see that these need no second look."""
    return minimum(maximum(places, dispatch.full((), 0, i64)), dispatch.full((), size - 1, i64))


def _free_places(ratio: Tensor, new: Dim, cells: Cells | None) -> Tensor:
    """Where the elements of a result of `new` elements are in the operand, float64 [new]; with `cells` by the middles of elements. Other
    places have been rounded to float32.
    """
    half = dispatch.full((), 0.5, f64)
    steps = dispatch.call(ops.Iota, shape=(new,), axis=0, dtype=f64)
    places = multiply(cast_to(ratio, f64), add(steps, half) if cells else steps)
    if cells != "fused":
        places = cast_to(cast_to(places, f32), f64)
    return subtract(places, half) if cells else places


def _linear_free_axis(x: Tensor, axis: int, new: Dim, factor: float | Tensor, align_corners: bool, align_mode: int) -> Tensor:
    """`linear_axis` where a size is not known: places and shares are computed when it runs."""
    old, dtype = x.type.shape[axis], _linear_dtype(x)

    def size(n: Dim | float, dtype: ScalarType = f32) -> Tensor:
        return dispatch.full((), n, dtype)

    ratio = _free_ratio(old, new, factor, align_corners)
    if x.ndim == 4 and not align_corners:
        ratio = multiply(ratio, minimum(size(new - 1), size(1)))
    cells = None if align_mode or align_corners else _linear_cells(x, axis)
    places = maximum(cast_to(_free_places(ratio, new, cells), dtype), size(0, dtype))
    low = _clamped(cast_to(places, i64), old)
    share = subtract(places, cast_to(low, dtype))
    total = None
    for index, part in ((low, subtract(size(1, dtype), share)), (minimum(add(low, size(1, i64)), size(old - 1, i64)), share)):
        weight = reshape(cast_to(part, x.type.dtype), [-1 if i == axis else 1 for i in range(x.ndim)])
        blended = multiply(dispatch.call(ops.Gather, x, index, axis=axis), weight)
        total = blended if total is None else add(total, blended)
    assert total is not None
    return total


def cubic_axis(x: Tensor, axis: int, new: Dim, factor: float | Tensor, align_corners: bool) -> Tensor:
    """From four neighbours, by Keys' convolution with a = -0.75."""
    old = x.type.shape[axis]
    if old == new:
        return x
    if isinstance(factor, Tensor) or not isinstance(old, int) or not isinstance(new, int):
        return _cubic_free_axis(x, axis, new, factor, align_corners)
    ratio = ratio_of(old, new, factor, align_corners) if new > 1 else np.float32(0)
    steps = np.arange(new, dtype=np.float32)
    wide: type[np.floating[Any]] = np.float64 if x.dtype.name == "float64" else np.float32
    places = (ratio * steps if align_corners else ratio.astype(np.float64) * (steps + HALF) - 0.5).astype(wide)
    first = np.floor(places.astype(np.float32)).astype(np.int64)
    share = places - first.astype(wide)
    return _blend(x, axis, [(np.clip(first + k, 0, old - 1), _keys(np.abs(share - k), -0.75)) for k in (-1, 0, 1, 2)])


def _cubic_free_axis(x: Tensor, axis: int, new: Dim, factor: float | Tensor, align_corners: bool) -> Tensor:
    """`cubic_axis` where a size is not known: places and shares are computed when it runs."""
    old = x.type.shape[axis]

    def number(value: Dim | float, dtype: ScalarType = f32) -> Tensor:
        return dispatch.full((), value, dtype)

    def polynomial(at: Tensor, *coefficients: float) -> Tensor:
        total = multiply(at, number(coefficients[0], wide))
        for c in coefficients[1:-1]:
            total = multiply(add(total, number(c, wide)), at)
        return add(total, number(coefficients[-1], wide))

    ratio = multiply(_free_ratio(old, new, factor, align_corners), minimum(number(new - 1), number(1)))
    wide = f64 if x.type.dtype == f64 else f32
    places = cast_to(_free_places(ratio, new, None if align_corners else "fused"), wide)
    first = dispatch.call(ops.Floor, cast_to(places, f32))
    share = subtract(places, cast_to(first, wide))
    # Keys' convolution with a = -0.75 of distances up to 1, and from there to 2.
    near, far = (1.25, -2.25, 0.0, 1.0), (-0.75, 3.75, -6.0, 3.0)
    one = number(1, wide)
    rest = subtract(one, share)
    total = None
    for k, distance, coefficients in ((-1, add(share, one), far), (0, share, near), (1, rest, near), (2, add(rest, one), far)):
        index = _clamped(add(cast_to(first, i64), number(k, i64)), old)
        weight = reshape(cast_to(polynomial(distance, *coefficients), x.type.dtype), [-1 if i == axis else 1 for i in range(x.ndim)])
        blended = multiply(dispatch.call(ops.Gather, x, index, axis=axis), weight)
        total = blended if total is None else add(total, blended)
    assert total is not None
    return total


def _keys(distance: Array, a: float) -> Array:
    """The share of a neighbour at some distance, by Keys' cubic convolution."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _smoothed_axis(x: Tensor, axis: int, new: Dim, factor: float, align_corners: bool, cubic: bool) -> Tensor:
    """By a filter as wide as a step in the result, where that is wider than one of the operand, as Pillow resizes."""
    old, new = _known(x.type.shape[axis], new, "smoothed")
    ratio = float(ratio_of(old, new, factor, align_corners))
    scale = max(ratio, 1.0)
    reach = (2.0 if cubic else 1.0) * scale
    weights = np.zeros((old, new))
    for i in range(new):
        center = ratio * (i + 0.5)
        lo, hi = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), old)
        distance = np.abs((np.arange(lo, hi) - center + 0.5) / scale)
        share = _keys(distance, -0.5) if cubic else np.maximum(1 - distance, 0)
        weights[lo:hi, i] = share / share.sum()
    order = [*(i for i in range(x.ndim) if i != axis), axis]
    made = matmul(transpose(x, order), dispatch.constant(weights.astype(x.type.dtype.np)))
    return transpose(made, [order.index(i) for i in range(x.ndim)])


def _sizes(x: Tensor, size: Any, scale_factor: Any, recompute: bool | None) -> tuple[list[Dim], list[float]]:
    """The new spatial sizes of a tensor with channels first, and the factor of each axis (0 where sizes were given)."""
    old = x.type.shape[2:]
    rank = len(old)
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        given = _numbers(size)
        if not isinstance(given, list):
            raise TypeError("size should be a list or tuple or Variable.")
        given = [int(n) if isinstance(n, float) else n for n in given]  # what follows the point is cut off
        if len(given) != rank:
            raise ValueError("The x and size should satisfy rank(x) - 2 == len(size).")
        if any(isinstance(n, int) and n <= 0 for n in given):
            raise AssertionError(f"Each dimension size given in out_shape must be greater than 0, but got {given}")
        return given, [0.0] * rank
    factors = _numbers(scale_factor)
    if isinstance(factors, (int, float)):
        factors = [factors] * rank
    if not isinstance(factors, list):
        raise TypeError("Attr(scale)'s type should be float, int, list, tuple, or Tensor.")
    if len(factors) != rank:
        raise ValueError(f"scale_shape length should be {rank} for input {x.ndim}-D tensor, but got {factors}")
    if any(f <= 0 for f in factors):
        raise ValueError(f"Attr(scale) should be greater than zero, but got {factors}")
    if recompute:
        return [scaled_size(n, np.float64(f)) for n, f in zip(old, factors, strict=True)], [0.0] * rank
    return [scaled_size(n, np.float32(f)) for n, f in zip(old, factors, strict=True)], [float(f) for f in factors]


def scaled_size(size: Dim, factor: Any) -> Dim:
    """`size` times `factor`, a numpy number in whose precision they are multiplied, without what is behind the point."""
    if isinstance(size, int):
        return int(factor * type(factor)(size))
    fraction = _fraction(factor)
    if fraction is None:
        raise UnknownSize(f"expected a scale that is a quotient of small numbers for the symbolic size '{size}' but got {factor}", size)
    return size * fraction.numerator // fraction.denominator


@cache
def _fraction(factor: Any) -> Fraction | None:
    """The fraction that gives what multiplying by `factor` gives of all sizes that images have; None if there is none of small numbers."""
    found = Fraction(float(factor)).limit_denominator(1 << 10)
    if float(factor).is_integer():
        return found
    sizes = np.arange(1 << 17)
    same = np.array_equal((factor * sizes.astype(type(factor))).astype(np.int64), sizes * found.numerator // found.denominator)
    return found if same else None


def _numbers(value: Any) -> Any:
    """A number, or a list of them, out of tensors and tuples."""
    if isinstance(value, Tensor) and value.type.dtype.kind in "iu":
        value = list(shape_dims(value)) if value.ndim else number_of(value)
    elif isinstance(value, (Tensor, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [number_of(v) for v in value]
    return number_of(value)


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """`x`, [batch, channels, *spatial] or with the channels last, with the spatial sizes `size`, or `scale_factor` times as large.

    Modes: "nearest", "linear" (one spatial axis), "bilinear" and "bicubic" (two), "trilinear" (three), "area" (means over equal parts, by
    `size`). `align_corners` puts the first and last elements on each other; otherwise `align_mode` 0 takes elements as cells with their
    middle at a half, 1 as points at whole places. With `antialias` (bilinear and bicubic) the filter widens when images shrink.
    """
    tensor_arg(x, "interpolate")
    if x.ndim not in FORMATS:
        raise ValueError(f"The dimension of the input tensor should only be 3-D, 4-D or 5-D, but the received dimension is {x.ndim}.")
    kind = mode.lower()
    allowed = {"linear": (3,), "nearest": (4, 5), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,), "area": (3, 4, 5)}
    if kind not in allowed:
        raise ValueError(f"interpolate expected mode to be one of {', '.join(allowed)} but got '{mode}'")
    if x.ndim not in allowed[kind]:
        raise ValueError(f"'{kind}' only support {' or '.join(f'{n}-D' for n in allowed[kind])} tensor, but got shape {list(x.shape)}")
    if size is None and scale_factor is None:
        raise ValueError("One of size and scale_factor must not be None.")
    if isinstance(size, (list, tuple)) and len(size) != x.ndim - 2:
        raise ValueError("The x and size should satisfy rank(x) - 2 == len(size).")
    for value, argument in ((align_corners, "align_corners"), (antialias, "antialias")):
        if not isinstance(value, bool):
            raise TypeError(f"Attr {argument} should be a bool value")
    if align_mode not in (0, 1):
        raise ValueError("align_mode can only be 0 or 1")
    if align_corners and kind == "nearest":
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    if antialias and kind not in ("bilinear", "bicubic"):
        raise ValueError("Anti-alias option is only supported for bilinear and bicubic modes")
    if kind == "area":
        if size is None:
            raise ValueError("output size can not be None in AREA mode")
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[x.ndim - 3](x, _numbers(size))
    layout = (data_format or FORMATS[x.ndim][0]).upper()
    if layout not in FORMATS[x.ndim]:
        raise ValueError(
            f"Got wrong value for param `data_format`: {layout} received but only {' or '.join(FORMATS[x.ndim])} supported for {x.ndim}-D "
            f"input."
        )
    if size is not None and scale_factor is not None:
        raise ValueError("Only one of size or scale_factor should be defined.")
    last = layout == FORMATS[x.ndim][1]

    def resized(x: Tensor) -> Tensor:
        made = to_channel_first(x) if last else x
        sizes, factors = _sizes(made, size, scale_factor, recompute_scale_factor)
        made = _resized(made, sizes, factors, kind, antialias, align_corners, align_mode)
        if made is x:
            return dispatch.call(ops.Reshape, x, shape=x.type.shape)
        return to_channel_last(made) if last else made

    return as_one(f"{kind}_interp_v2", resized, x)


def _resized(
    made: Tensor, sizes: Sequence[Any], factors: Sequence[Any], kind: str, antialias: bool, align_corners: bool, align_mode: int
) -> Tensor:
    """A tensor of channels before spatial axes, axis by axis."""
    for axis, (new, factor) in reversed(list(enumerate(zip(sizes, factors, strict=True), 2))):
        if antialias:
            made = _smoothed_axis(made, axis, new, factor, align_corners, kind == "bicubic")
        elif kind == "nearest":
            made = nearest_axis(made, axis, new, factor)
        elif kind == "bicubic":
            made = cubic_axis(made, axis, new, factor, align_corners)
        else:
            made = linear_axis(made, axis, new, factor, align_corners, align_mode)
    return made


def upsample(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """As `interpolate`."""
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format)
