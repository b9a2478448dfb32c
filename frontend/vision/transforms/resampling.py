"""Sizes and places of arrays [H, W] or [H, W, C] changed, by the rules of OpenCV, which Paddle calls for arrays.

Bytes are computed with integers as OpenCV does: weights of 11 bits for `resize`, places of 5 bits behind the point for `warp`. Kernels:
"nearest", "bilinear", "bicubic" (Keys, with a = -0.75), "lanczos" (eight taps) and "area" (the mean of what a pixel covers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["resize", "warp_affine", "warp_perspective"]

Array = np.ndarray[Any, Any]
WEIGHT_BITS = 11
PLACE_BITS = 5
AFFINE_BITS = 10


# --- kernels: weights of the taps around a place, which is `x` in [0, 1) behind the tap in the middle


def _linear(x: Array) -> Array:
    return np.stack([1 - x, x], -1)


def _cubic(x: Array) -> Array:
    a = -0.75
    before = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    left = ((a + 2) * x - (a + 3)) * x * x + 1
    right = ((a + 2) * (1 - x) - (a + 3)) * (1 - x) * (1 - x) + 1
    return np.stack([before, left, right, 1 - before - left - right], -1)


def _lanczos(x: Array) -> Array:
    """sinc(t) sinc(t / 4) at distances t from -4 to 4, made to sum to one."""
    t = x[..., None] + 3 - np.arange(8)
    weights = np.sinc(t) * np.sinc(t / 4)
    return weights / weights.sum(-1, keepdims=True)


KERNELS: dict[str, Callable[[Array], Array]] = {"bilinear": _linear, "bicubic": _cubic, "lanczos": _lanczos}


def _check(interpolation: str) -> None:
    if interpolation not in ("nearest", "area", *KERNELS):
        raise KeyError(f"expected an interpolation of nearest, area, {', '.join(KERNELS)} but got {interpolation!r}")


# --- resizing: every new row is a weighted sum of old rows, and every new column of old columns

Taps = tuple[Array, Array]  # which old ones [new, taps], and their weights float64 [new, taps]


def _kernel_taps(old: int, new: int, interpolation: str) -> Taps:
    place = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(place)
    return _taps_at(first.astype(np.int64), place - first, old, interpolation)


def _enlarging_area_taps(old: int, new: int) -> Taps:
    """What an enlarged image takes for "area": only pixels that lie across a border of old ones are mixed."""
    first = np.floor(np.arange(new) * (old / new)).astype(np.int64)
    behind = (np.arange(new) + 1 - (first + 1) * (new / old)).astype(np.float32)
    return _taps_at(first, np.where(behind <= 0, 0, behind - np.floor(behind)), old, "bilinear")


def _taps_at(first: Array, behind: Array, old: int, interpolation: str) -> Taps:
    weights = KERNELS[interpolation](behind)
    reach = weights.shape[-1] // 2
    return np.clip(first[:, None] + np.arange(1 - reach, reach + 1), 0, old - 1), weights


def _area_taps(old: int, new: int) -> Taps:
    scale = old / new
    start = np.arange(new) * scale
    cell = np.minimum(scale, old - start)
    index = np.floor(start).astype(np.int64)[:, None] + np.arange(math.ceil(scale) + 1)
    # How much of each old pixel lies in the new one; slivers below a thousandth are left out.
    covered = np.minimum(index + 1, (start + scale)[:, None]) - np.maximum(index, start[:, None])
    covered = np.where((covered > 1e-3) & (index < old), covered, 0)
    return np.minimum(index, old - 1), covered / cell[:, None]


def _weighted(values: Array, taps: Taps, axis: int) -> Array:
    """Sums over the taps along `axis`, in the dtype that `values` and the weights have together."""
    index, weights = taps
    shape = [1] * values.ndim
    shape[axis] = -1
    total: Any = 0
    for k in range(index.shape[1]):
        total = total + values.take(index[:, k], axis) * weights[:, k].reshape(shape)
    return np.asarray(total)


def resize(image: Array, width: int, height: int, interpolation: str) -> Array:
    """`image` at the size [height, width], in its own dtype. KeyError for an unknown interpolation."""
    _check(interpolation)
    old_height, old_width = image.shape[:2]
    if interpolation == "nearest":
        rows = np.minimum(np.arange(height) * (old_height / height), old_height - 1).astype(np.int64)
        columns = np.minimum(np.arange(width) * (old_width / width), old_width - 1).astype(np.int64)
        return image[rows[:, None], columns]
    # Half the size takes means of four pixels, whichever way it is asked for.
    halved = interpolation == "bilinear" and (old_width, old_height) == (2 * width, 2 * height)
    if halved or interpolation == "area" and width <= old_width and height <= old_height:
        return _shrink(image, width, height)
    if interpolation == "area":
        across, down = _enlarging_area_taps(old_width, width), _enlarging_area_taps(old_height, height)
    else:
        across, down = _kernel_taps(old_width, width, interpolation), _kernel_taps(old_height, height, interpolation)
    if image.dtype != np.uint8:
        return _weighted(_weighted(_computed(image), _single(across), 1), _single(down), 0).astype(image.dtype)
    across, down = _fixed(across), _fixed(down)
    sums = _weighted(image.astype(np.int32), across, 1)
    if across[0].shape[1] == 2:
        # OpenCV's sums of two rows keep 16 bits of each product.
        index, weights = down
        parts = [(sums.take(index[:, k], 0) >> 4) * weights[:, k].reshape(-1, *[1] * (image.ndim - 1)) >> 16 for k in range(2)]
        total = (parts[0] + parts[1] + 2) >> 2
    else:
        total = (_weighted(sums.astype(np.int64), down, 0) + (1 << 2 * WEIGHT_BITS - 1)) >> 2 * WEIGHT_BITS
    return np.clip(total, 0, 255).astype(np.uint8)


def _shrink(image: Array, width: int, height: int) -> Array:
    old_height, old_width = image.shape[:2]
    mean = _weighted(_weighted(_computed(image), _single(_area_taps(old_width, width)), 1), _single(_area_taps(old_height, height)), 0)
    if image.dtype != np.uint8:
        return mean.astype(image.dtype)
    halved = (old_width, old_height) == (2 * width, 2 * height)
    return np.clip(np.floor(mean + 0.5) if halved else np.rint(mean), 0, 255).astype(np.uint8)


def _computed(image: Array) -> Array:
    return image if image.dtype == np.float64 else image.astype(np.float32)


def _single(taps: Taps) -> Taps:
    return taps[0], taps[1].astype(np.float32)


def _fixed(taps: Taps) -> Taps:
    return taps[0], np.rint(taps[1].astype(np.float32) * np.float32(1 << WEIGHT_BITS)).astype(np.int32)


# --- warping: every new pixel is read at a place of the old image


def warp_affine(image: Array, matrix: Sequence[float], width: int, height: int, interpolation: str, fill: Any) -> Array:
    """`image` read at (a x + b y + c, d x + e y + f) for each (x, y) of the new one [height, width]; `fill`, by channel, where that lies
    outside.
    """
    _check(interpolation)
    a, b, c, d, e, f = matrix
    scale = 1 << AFFINE_BITS
    kept = AFFINE_BITS if interpolation == "nearest" else AFFINE_BITS - PLACE_BITS
    x, y = np.arange(width), np.arange(height)[:, None]
    half = 1 << kept - 1
    columns = (np.rint((b * y + c) * scale).astype(np.int64) + half + np.rint(a * x * scale).astype(np.int64)) >> kept
    rows = (np.rint((e * y + f) * scale).astype(np.int64) + half + np.rint(d * x * scale).astype(np.int64)) >> kept
    return _read(image, columns, rows, interpolation, fill)


def warp_perspective(image: Array, matrix: Sequence[float], interpolation: str, fill: Any) -> Array:
    """`image` read at ((a x + b y + c) / w, (d x + e y + f) / w) with w = g x + h y + 1 for each (x, y) of its own size."""
    _check(interpolation)
    a, b, c, d, e, f, g, h = matrix
    height, width = image.shape[:2]
    x, y = np.arange(width), np.arange(height)[:, None]
    w = g * x + h * y + 1
    scale = np.where(w == 0, 0, (1 if interpolation == "nearest" else 1 << PLACE_BITS) / np.where(w == 0, 1, w))
    places = (a * x + b * y + c) * scale, (d * x + e * y + f) * scale
    far = 2.0**31 - 1
    columns, rows = (np.rint(np.clip(p, -far, far)).astype(np.int64) for p in places)
    return _read(image, columns, rows, interpolation, fill)


def _read(image: Array, columns: Array, rows: Array, interpolation: str, fill: Any) -> Array:
    """Pixels at whole places for "nearest", else at places in 32nds of a pixel."""
    channels = image.shape[2] if image.ndim == 3 else 1
    outside = scalar_of(fill, channels).astype(image.dtype).reshape(image.shape[2:])
    if interpolation == "nearest":
        return _pixels(image, columns, rows, outside)
    # Of the kernels that warping has, the mean of an area is none.
    kernel = KERNELS["bilinear" if interpolation == "area" else interpolation]
    table = kernel(np.arange(1 << PLACE_BITS) / (1 << PLACE_BITS))
    reach = table.shape[1] // 2
    low = (1 << PLACE_BITS) - 1
    across, down = table[columns & low], table[rows & low]
    columns, rows = columns >> PLACE_BITS, rows >> PLACE_BITS
    total: Any = 0
    for j in range(2 * reach):
        for i in range(2 * reach):
            pixels = _pixels(image, columns + (i + 1 - reach), rows + (j + 1 - reach), outside)
            weight = across[..., i] * down[..., j]
            total = total + pixels * (weight[..., None] if image.ndim == 3 else weight)
    if np.issubdtype(image.dtype, np.integer):
        limits = np.iinfo(image.dtype)
        total = np.clip(np.floor(total + 0.5), limits.min, limits.max)
    return np.asarray(total).astype(image.dtype)


def _pixels(image: Array, columns: Array, rows: Array, outside: Array) -> Array:
    height, width = image.shape[:2]
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    pixels = image[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
    return np.where(inside[..., None] if image.ndim == 3 else inside, pixels, outside)


def scalar_of(fill: Any, channels: int) -> Array:
    """`fill` by channel, float64 [channels], as OpenCV takes it: what is not given is 0, so that one number fills the first channel only.
    """
    given = list(fill) if isinstance(fill, (list, tuple)) else [fill]
    return np.array((given + [0] * channels)[:channels], np.float64)
