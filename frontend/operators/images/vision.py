"""Images, signals and volumes: in another size, rearranged, sampled between pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import f32, i64
from polyreme.math.common import cast_to
from polyreme.math.fed import sizes as fed_sizes
from polyreme.nn import functional
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.nn.functional.resize import cubic_axis, linear_axis, nearest_axis, scaled_size
from polyreme.operators.arguments import Extents, Numbers, Scalar, Sizes, UnsupportedError, channel_axis, check_count
from polyreme.operators.definition import Legacy, operator, spelled
from polyreme.operators.shape import MOST_PARTS
from polyreme.tensor import Tensor

# Where windows put their elements is a constant of so many numbers at most.
MOST_PLACES = 1 << 22
_METHODS = ("nearest", "bilinear", "linear", "trilinear", "bicubic")


# --- in another size


_SLOTS = {"X": "x", "OutSize": "out_size", "SizeTensor": "size_tensor", "Scale": "scale_tensor"}
_ATTRIBUTES = {"data_layout": "data_format"}
_WITHOUT = "out_size size_tensor scale_tensor"


def _resize(method: str) -> None:
    """The operators of a method. The older one takes from a scale only what sizes follow, and steps by the quotient of the sizes."""
    older = spelled(
        f"{method}_interp", _SLOTS, attributes=_ATTRIBUTES, defaults={"scale": 0.0}, types={"scale": "FLOAT"}, without=_WITHOUT
    )
    _declare(method, True, f"{method}_interp", legacy=spelled(f"{method}_interp_v2", _SLOTS, attributes=_ATTRIBUTES, without=_WITHOUT))
    _declare(method, False, legacy=older)


def _declare(method: str, steps_by_scale: bool, *names: str, legacy: Legacy) -> None:
    @operator(*names, legacy=legacy)
    def interpolate(
        x: Tensor,
        out_size: Extents | None = None,
        size_tensor: Extents = (),
        scale_tensor: list[Scalar] | None = None,
        *,
        data_format: str = "NCHW",
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: Numbers = (),
        interp_method: str = method,
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Tensor:
        sizes = out_d, out_h, out_w
        scales = scale_tensor or scale
        return _interpolate(
            x, out_size, size_tensor, scales, data_format, sizes, interp_method, align_corners, align_mode, steps_by_scale
        )


_resize("nearest")
_resize("bilinear")
_resize("linear")
_resize("trilinear")
_resize("bicubic")


def _interpolate(
    x: Tensor,
    out_size: Sizes | None,
    size_tensor: Sizes,
    scale: Sequence[Scalar],
    data_format: str,
    sizes_given: Sequence[int],
    interp_method: str,
    align_corners: bool,
    align_mode: int,
    steps_by_scale: bool,
) -> Tensor:
    last = channel_axis(data_format, x.ndim) != 1
    if last:
        x = to_channel_first(x)
    if interp_method not in _METHODS:
        raise UnsupportedError(f"expected nearest, linear or cubic interpolation but got '{interp_method}'")
    given = list(sizes_given)[5 - x.ndim :]
    sizes, factors = _targets(x, given, out_size, size_tensor, scale)
    if not steps_by_scale:
        factors = [0.0] * len(factors)
    for size in sizes:
        check_count(size, 1 << 20, "elements per axis")
    try:
        for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), 2):
            if interp_method == "nearest":
                x = nearest_axis(x, axis, size, factor, align_corners)
            elif interp_method == "bicubic":
                x = cubic_axis(x, axis, size, factor, align_corners)
            else:
                x = linear_axis(x, axis, size, factor, align_corners, align_mode)
    except ValueError as error:
        raise UnsupportedError(str(error)) from None
    return to_channel_last(x) if last else x


def _targets(
    x: Tensor, given: list[int], out_size: Sizes | None, size_tensor: Sizes, scales: Sequence[Scalar]
) -> tuple[list[Dim], list[Any]]:
    """The new spatial sizes, and the scale of each axis where one is given (0 where the sizes say it)."""
    sizes = x.type.shape[2:]
    rank = len(sizes)
    factors = [f for f in scales if isinstance(f, Tensor) or f != 0]
    if any(not isinstance(f, Tensor) and not f > 0 for f in factors):
        raise UnsupportedError(f"expected scales above 0 but got {factors}")
    factors = factors * rank if len(factors) == 1 else factors
    wanted: list[Dim] = list(size_tensor) or list(out_size or ()) or list(given)
    if size_tensor or out_size:
        factors = []
    if len(factors) == rank:
        factors = [cast_to(math.reshape(f, []), f32) if isinstance(f, Tensor) else float(f) for f in factors]
        return [_scaled(d, f) for d, f in zip(sizes, factors, strict=True)], factors
    if any(isinstance(d, int) and d <= 0 for d in wanted) or len(wanted) != rank:
        raise UnsupportedError(f"expected {rank} new sizes above 0 but got {wanted}")
    return wanted, [0.0] * rank


def _scaled(size: Dim, factor: Any) -> Dim:
    if not isinstance(factor, Tensor):
        return scaled_size(size, np.float32(factor))
    made = math.multiply(dispatch.full((), size, f32), factor)
    some = math.greater_equal(made, dispatch.full((), 1, f32))
    return fed_sizes.as_size(cast_to(made, i64), some, "a scale above 0 that leaves elements")


# --- rearranged


@operator("pixel_shuffle", legacy=spelled("pixel_shuffle"))
def pixel_shuffle(x: Tensor, *, upscale_factor: int = 1, data_format: str = "NCHW") -> Tensor:
    if data_format != "NCHW":
        return math.transpose(pixel_shuffle(math.transpose(x, [0, 3, 1, 2]), upscale_factor=upscale_factor), [0, 2, 3, 1])
    n, c, h, w = x.type.shape
    r = upscale_factor
    apart = math.reshape(x, [n, c // (r * r), r, r, h, w])
    return math.reshape(math.transpose(apart, [0, 1, 4, 2, 5, 3]), [n, c // (r * r), h * r, w * r])


@operator("pixel_unshuffle", legacy=spelled("pixel_unshuffle"))
def pixel_unshuffle(x: Tensor, *, downscale_factor: int = 1, data_format: str = "NCHW") -> Tensor:
    return functional.pixel_unshuffle(x, downscale_factor, data_format)


@operator(
    "channel_shuffle", "shuffle_channel", renamed={"group": "groups"},
    legacy=[spelled("channel_shuffle"), spelled("shuffle_channel", attributes={"group": "groups"})],
)  # fmt: skip
def channel_shuffle(x: Tensor, *, groups: int, data_format: str = "NCHW") -> Tensor:
    if data_format != "NCHW":
        return math.transpose(channel_shuffle(math.transpose(x, [0, 3, 1, 2]), groups=groups), [0, 2, 3, 1])
    n, c, h, w = x.type.shape
    apart = math.reshape(x, [n, groups, c // groups, h, w])
    return math.reshape(math.transpose(apart, [0, 2, 1, 3, 4]), [n, c, h, w])


@operator("temporal_shift", legacy=spelled("temporal_shift"))
def temporal_shift(x: Tensor, *, seg_num: int, shift_ratio: float = 0.25, data_format: str = "NCHW") -> Tensor:
    return functional.temporal_shift(x, seg_num, shift_ratio, data_format=data_format)


@operator("fold", legacy=spelled("fold", outputs="Y"))
def fold(x: Tensor, *, output_sizes: Sizes, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes, dilations: Sizes) -> Tensor:
    """The sums of what windows [N, channels * places in a window, windows] have for each pixel of an image."""
    numbers = [[int(n) for n in sizes] for sizes in (output_sizes, kernel_sizes, strides, paddings, dilations)]
    image, kernel, steps, pads, gaps = numbers
    top, left, bottom, right = pads if len(pads) == 4 else [*pads, *pads]
    padded = [image[0] + top + bottom, image[1] + left + right]
    if any(n < 1 for n in (*image, *kernel, *steps, *gaps)) or any(n < 0 for n in pads) or len(x.type.shape) != 3:
        raise UnsupportedError(f"expected windows of an image of {image} but got sizes {numbers[1:]} and {x.type}")
    counts = [(size - (k - 1) * gap - 1) // step + 1 for size, k, step, gap in zip(padded, kernel, steps, gaps, strict=True)]
    check_count(product([*kernel, *counts]), MOST_PLACES, "places of windows")
    rows, columns = (
        gap * np.arange(k)[:, None] + step * np.arange(count) for k, step, gap, count in zip(kernel, steps, gaps, counts, strict=True)
    )
    places = rows[:, None, :, None] * padded[1] + columns[None, :, None, :]
    batch, channels, windows = x.type.shape
    if isinstance(windows, int) and windows != product(counts):
        raise UnsupportedError(f"expected {product(counts)} windows of an image of {image} but got {windows}")
    flat = math.reshape(x, [batch, channels // product(kernel), product([*kernel, *counts])])
    summed = dispatch.call(nn.ScatterAdd, flat, dispatch.constant(places.reshape(-1).astype(np.int64)), axis=2, size=product(padded))
    whole = math.reshape(summed, [batch, channels // product(kernel), *padded])
    return whole[:, :, top : top + image[0], left : left + image[1]]


@operator("unfold", legacy=spelled("unfold", outputs="Y"))
def unfold(x: Tensor, *, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes, dilations: Sizes) -> Tensor:
    check_count(product(kernel_sizes), MOST_PARTS, "elements of a kernel")
    return functional.unfold(x, list(kernel_sizes), list(strides), list(paddings), list(dilations))


# --- sampled between pixels


@operator("grid_sample", legacy=spelled("grid_sampler", {"X": "x", "Grid": "grid"}, "Output"))
def grid_sample(x: Tensor, grid: Tensor, *, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True) -> Tensor:
    return functional.grid_sample(x, grid, mode, padding_mode, align_corners)


@operator(
    "affine_grid", legacy=spelled("affine_grid", {"Theta": "input", "OutputShape": "output_shape"}, "Output"), misdeclared=True
)
def affine_grid(input: Tensor, output_shape: Extents, *, align_corners: bool = True) -> Tensor:
    return functional.affine_grid(input, output_shape, align_corners)
