"""Images: sampled at given places, and channels traded for pixels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.dtypes import of_scalar
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.types import i64
from polyreme.math.common import same_sizes, tensor_arg
from polyreme.math.creation import linspace
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import add, cast, clip, divide, floor, maximum, minimum, multiply, scale, subtract
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import concat, expand, reshape, stack, transpose
from polyreme.math.matrices import diag_embed
from polyreme.nn.functional.common import pad
from polyreme.nn.functional.conv import to_channel_first, to_channel_last
from polyreme.tensor import Tensor, shape_dims

__all__ = ["affine_grid", "channel_shuffle", "diag_embed", "grid_sample", "pixel_shuffle", "pixel_unshuffle", "temporal_shift"]


def _check_image(x: Tensor, data_format: str, function: str) -> bool:
    """Whether the channels of [batch, channels, height, width] come last."""
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"Attr(data_format) should be 'NCHW' or 'NHWC', but {function} got {data_format}")
    if tensor_arg(x, function).ndim != 4:
        raise ValueError(f"{function} expected a tensor of 4 axes ({data_format}) but got shape {list(x.shape)}")
    return data_format == "NHWC"


def _check_factor(value: Any, what: str) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{what} must be int type")
    if value <= 0:
        raise ValueError(f"{what} must be positive, but got {value}")


def pixel_shuffle(x: Tensor, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """[N, C * r * r, H, W] to [N, C, H * r, W * r]: each group of r * r channels becomes a square of pixels."""
    _check_factor(upscale_factor, "upscale factor")
    last, r = _check_image(x, data_format, "pixel_shuffle"), upscale_factor
    batch, channels, height, width = (x.type.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3)))
    if isinstance(channels, int) and channels % (r * r):
        raise ValueError(f"pixel_shuffle expected channels that {r * r}, the square of the factor, divides but got {channels}")
    kept = channels // (r * r)
    if last:
        spread = transpose(reshape(x, [batch, height, width, kept, r, r]), [0, 1, 4, 2, 5, 3])
        return reshape(spread, [batch, height * r, width * r, kept])
    spread = transpose(reshape(x, [batch, kept, r, r, height, width]), [0, 1, 4, 2, 5, 3])
    return reshape(spread, [batch, kept, height * r, width * r])


def pixel_unshuffle(x: Tensor, downscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """[N, C, H, W] to [N, C * r * r, H / r, W / r]: what `pixel_shuffle` undoes."""
    _check_factor(downscale_factor, "Downscale factor")
    last, r = _check_image(x, data_format, "pixel_unshuffle"), downscale_factor
    batch, channels, height, width = (x.type.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3)))
    if any(isinstance(n, int) and n % r for n in (height, width)):
        raise ValueError(f"pixel_unshuffle expected a height and width that {r} divides but got {height} and {width}")
    if last:
        spread = transpose(reshape(x, [batch, height // r, r, width // r, r, channels]), [0, 1, 3, 5, 2, 4])
        return reshape(spread, [batch, height // r, width // r, channels * r * r])
    spread = transpose(reshape(x, [batch, channels, height // r, r, width // r, r]), [0, 1, 3, 5, 2, 4])
    return reshape(spread, [batch, channels * r * r, height // r, width // r])


def channel_shuffle(x: Tensor, groups: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Channels in `groups` groups, dealt out in turn: the first of each group, then the second of each, …"""
    _check_factor(groups, "groups")
    last = _check_image(x, data_format, "channel_shuffle")
    axis = 3 if last else 1
    shape = x.type.shape
    if isinstance(shape[axis], int) and shape[axis] % groups:
        raise ValueError(f"channel_shuffle expected channels that {groups} groups divide but got {shape[axis]}")
    apart = reshape(x, [*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]])
    order = list(range(5))
    order[axis], order[axis + 1] = axis + 1, axis
    return reshape(transpose(apart, order), shape)


@operator("temporal_shift")
def temporal_shift(x: Tensor, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: str = "NCHW") -> Tensor:
    """[N * seg_num, C, H, W], frames of videos: the first part of the channels comes from the frame before, the second from the frame
    after, zeros beyond the ends.
    """
    last = _check_image(x, data_format, "temporal_shift")
    if not isinstance(seg_num, int):
        raise TypeError("seg_num must be int type.")
    if not 0 < shift_ratio < 0.5:
        raise ValueError(f"temporal_shift expected shift_ratio in (0, 0.5) but got {shift_ratio}")
    frames = to_channel_first(x) if last else x
    shape = frames.type.shape
    videos = reshape(frames, [-1, seg_num, *shape[1:]])
    channels = shape[1]
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    parts = []
    if first:
        parts.append(pad(videos[:, :-1, :first], [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]))
    if second > first:
        parts.append(pad(videos[:, 1:, first:second], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
    if isinstance(channels, int) and second < channels:
        parts.append(videos[:, :, second:])
    shifted = reshape(concat(parts, 2), shape)
    return to_channel_last(shifted) if last else shifted


# --- sampling


@operator("affine_grid")
def affine_grid(theta: Tensor, out_shape: Any, align_corners: bool = True, name: str | None = None) -> Tensor:
    """Where affine maps take the places of an image of `out_shape`: [N, H, W, 2] (x, y) for maps [N, 2, 3], [N, D, H, W, 3] (x, y, z) for
    [N, 3, 4].

    Places run from -1 to 1: with `align_corners` between the middles of the outermost pixels, otherwise between their outer edges.
    """
    tensor_arg(theta, "affine_grid", "theta")
    sizes = list(shape_dims(out_shape))
    spatial = len(sizes) - 2
    if spatial not in (2, 3) or theta.ndim != 3 or theta.shape[1:] != [spatial, spatial + 1]:
        raise ValueError(
            f"affine_grid expected theta [N, 2, 3] with 4 sizes, or [N, 3, 4] with 5 sizes, but got {list(theta.shape)} with {sizes}"
        )
    if any(isinstance(n, Expr) for n in sizes[2:]):
        wide = expand(_free_points(theta, sizes[2:], align_corners), [theta.type.shape[0], product(sizes[2:]), spatial + 1])
        made = matmul(wide, theta, transpose_y=True)
        return reshape(made, [theta.type.shape[0], *sizes[2:], spatial])
    dtype = theta.type.dtype.np
    axes = []
    for n in sizes[2:]:
        places = np.linspace(-1, 1, n, dtype=dtype)
        axes.append(places if align_corners else places * dtype.type((n - 1) / n))
    grids = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*reversed(grids), np.ones_like(grids[0])], -1).reshape(1, -1, spatial + 1).astype(dtype)
    made = matmul(
        dispatch.call(ops.BroadcastTo, dispatch.constant(points), shape=(theta.type.shape[0], *points.shape[1:])), theta, transpose_y=True
    )
    return reshape(made, [theta.type.shape[0], *sizes[2:], spatial])


def _free_points(theta: Tensor, sizes: Sequence[Dim], align_corners: bool) -> Tensor:
    """The places of `affine_grid` and a 1 behind each, [1, places, axes + 1], of sizes that are not known while the program is built."""
    dtype = of_scalar(theta.type.dtype)
    grids = []
    for axis, n in enumerate(sizes):
        places = linspace(-1, 1, n, dtype)
        if not align_corners:
            number, fewer = (dispatch.full((), m, theta.type.dtype) for m in (n, n - 1))
            places = multiply(places, divide(fewer, number))
        grids.append(expand(reshape(places, [-1 if i == axis else 1 for i in range(len(sizes))]), list(sizes)))
    ones = expand(dispatch.full((1,) * len(sizes), 1, theta.type.dtype), list(sizes))
    return reshape(stack([*reversed(grids), ones], -1), [1, -1, len(sizes) + 1])


@operator("grid_sampler")
def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = True, name: str | None = None
) -> Tensor:
    """`x` [N, C, H, W] at the places (x, y) in `grid` [N, h, w, 2], as [N, C, h, w]; or volumes [N, C, D, H, W] at [N, d, h, w, 3].

    Places run from -1 to 1 as in `affine_grid`. "bilinear" takes the neighbours by their distance, "nearest" the nearest one. What lies
    outside is 0 ("zeros"), the nearest edge ("border") or mirrored at the edges ("reflection").
    """
    tensor_arg(x, "grid_sample")
    tensor_arg(grid, "grid_sample", "grid")
    if mode not in ("bilinear", "nearest"):
        raise ValueError(f"The mode of grid sample function should be in ['bilinear', 'nearest'], but got: {mode}")
    if padding_mode not in ("zeros", "reflection", "border"):
        raise ValueError(
            f"The padding mode of grid sample function should be in ['zeros', 'reflection', 'border'], but got: {padding_mode}"
        )
    if not isinstance(align_corners, bool):
        raise TypeError(f"The align corners should be bool, but got: {align_corners}")
    spatial = x.ndim - 2
    if (
        spatial not in (2, 3)
        or grid.ndim != x.ndim
        or not same_sizes(grid.type.shape[-1:], [spatial])
        or not same_sizes(x.type.shape[:1], grid.type.shape[:1])
    ):
        raise ValueError(
            f"grid_sample expected images [N, C, H, W] and places [N, h, w, 2], or one axis more, but got {list(x.shape)} and "
            f"{list(grid.shape)}"
        )
    sizes = x.shape[2:]
    # The last coordinate in the grid is that of the first spatial axis.
    places = [_place(grid[..., spatial - 1 - i], n, padding_mode, align_corners) for i, n in enumerate(sizes)]
    rows = reshape(transpose(x, [0, *range(2, x.ndim), 1]), [-1, x.shape[1]])
    batch = dispatch.call(ops.Iota, shape=(x.shape[0], *(1,) * spatial), axis=0, dtype=i64)
    if mode == "nearest":
        nearest = [dispatch.call(ops.Round, p) for p in places]
        # A share of 1 that depends on the places: gradients of 0 arrive there.
        share = scale(nearest[0], 0.0, 1.0)
        for p in nearest[1:]:
            share = multiply(share, scale(p, 0.0, 1.0))
        found = _at(rows, batch, [cast(p, "int64") for p in nearest], sizes, share)
        return transpose(found, [0, x.ndim - 1, *range(1, x.ndim - 1)])
    below = [floor(p) for p in places]
    above_share = [subtract(p, lo) for p, lo in zip(places, below, strict=True)]
    below_share = [scale(s, -1.0, 1.0) for s in above_share]
    total: Tensor | None = None
    for corner in cartesian((0, 1), repeat=spatial):
        at = [add(cast(lo, "int64"), dispatch.full((), step, i64)) for lo, step in zip(below, corner, strict=True)]
        share = above_share[0] if corner[0] else below_share[0]
        for step, high, low in zip(corner[1:], above_share[1:], below_share[1:], strict=True):
            share = multiply(share, high if step else low)
        found = _at(rows, batch, at, sizes, share)
        total = found if total is None else add(total, found)
    assert total is not None
    return transpose(total, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def _place(grid: Tensor, size: Dim, padding_mode: str, align_corners: bool) -> Tensor:
    """Places from -1 to 1 as positions along an axis of `size`."""
    if isinstance(size, Expr):
        return _free_place(grid, size, padding_mode, align_corners)
    place = scale(grid, (size - 1) / 2, (size - 1) / 2) if align_corners else scale(scale(grid, float(size), float(size - 1)), 0.5)
    if padding_mode == "reflection":
        span = float(size - 1) * 2 if align_corners else float(size) * 2
        if span == 0:
            return scale(place, 0.0)
        away = abs_(place if align_corners else scale(place, 1.0, 0.5))
        folded = subtract(away, scale(floor(divide(away, dispatch.full((), span, away.type.dtype))), span))
        place = minimum(folded, scale(folded, -1.0, span))
        place = place if align_corners else scale(place, 1.0, -0.5)
    return place if padding_mode == "zeros" else clip(place, 0.0, float(size - 1))


def _free_place(grid: Tensor, size: Expr, padding_mode: str, align_corners: bool) -> Tensor:
    """`_place` where the size is not known while the program is built."""

    def number(value: Dim | float) -> Tensor:
        return dispatch.full((), value, grid.type.dtype)

    last, half = number(size - 1), number(0.5)
    middle = multiply(last, half)
    place = add(multiply(grid, middle), middle) if align_corners else multiply(add(multiply(grid, number(size)), last), half)
    if padding_mode == "reflection":
        span = number(2 * (size - 1) if align_corners else 2 * size)
        away = abs_(place if align_corners else add(place, half))
        folded = subtract(away, multiply(floor(divide(away, maximum(span, number(1)))), span))
        place = minimum(folded, subtract(span, folded))
        place = place if align_corners else subtract(place, half)
    return place if padding_mode == "zeros" else minimum(maximum(place, number(0)), last)


def _at(rows: Tensor, batch: Tensor, at: Sequence[Tensor], sizes: Sequence[Dim], share: Tensor) -> Tensor:
    """The channels at whole positions, times their share; 0 outside."""
    index: Tensor = batch
    inside: Tensor | None = None
    for place, n in zip(at, sizes, strict=True):
        low, high = dispatch.full((), 0, i64), dispatch.full((), n - 1, i64)
        here = dispatch.call(ops.LogicalAnd, dispatch.call(ops.GreaterEqual, place, low), dispatch.call(ops.LessEqual, place, high))
        inside = here if inside is None else dispatch.call(ops.LogicalAnd, inside, here)
        held = dispatch.call(ops.Minimum, dispatch.call(ops.Maximum, place, low), high)
        index = add(multiply(index, dispatch.full((), n, i64)), held)
    found = dispatch.call(ops.Gather, rows, index, axis=0)
    assert inside is not None
    mask = dispatch.call(ops.Reshape, inside, shape=(*inside.type.shape, 1))
    found = multiply(found, dispatch.call(ops.Reshape, share, shape=(*share.type.shape, 1)))
    return dispatch.call(ops.Where, mask, found, dispatch.full((), 0, rows.type.dtype))
