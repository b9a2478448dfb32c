"""Transforms of NumPy arrays [H, W, C] or [H, W], with the results of OpenCV, which Paddle calls for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from polyreme.math.creation import to_tensor as tensor_of
from polyreme.tensor import Tensor
from polyreme.vision.transforms import resampling
from polyreme.vision.transforms.geometry import centred, check_padding, resized, sides_of

Array = np.ndarray[Any, Any]

# Shares of red, green and blue in gray.
SHARES = (0.299, 0.587, 0.114)
SHARE_BITS = 15


def to_tensor(image: Array, data_format: str) -> Tensor:
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format should be CHW or HWC. Got {data_format}")
    if image.ndim == 2:
        image = image[:, :, None]
    if data_format == "CHW":
        image = image.transpose(2, 0, 1)
    if image.dtype == np.uint8:
        image = image.astype(np.float32) / np.float32(255.0)
    return tensor_of(np.ascontiguousarray(image))


def resize(image: Array, size: Any, interpolation: str) -> Array:
    height, width = image.shape[:2]
    new_width, new_height = resized(width, height, size)
    if isinstance(size, int) and (new_width, new_height) == (width, height):
        return image
    return resampling.resize(image, new_width, new_height, interpolation)


def pad(image: Array, padding: Any, fill: Any, padding_mode: str) -> Array:
    check_padding(padding, fill, padding_mode)
    left, top, right, bottom = sides_of(padding)
    sides = [(top, bottom), (left, right), (0, 0)][: image.ndim]
    if padding_mode != "constant":
        return np.pad(image, sides, mode=cast(Any, padding_mode))
    height, width, *channels = image.shape
    padded = np.empty((top + height + bottom, left + width + right, *channels), image.dtype)
    padded[...] = resampling.scalar_of(fill, channels[0] if channels else 1).reshape(channels)
    padded[top : top + height, left : left + width] = image
    return padded


def crop(image: Array, top: int, left: int, height: int, width: int) -> Array:
    return image[top : top + height, left : left + width]


def center_crop(image: Array, size: Any) -> Array:
    height, width = image.shape[:2]
    return crop(image, *centred(width, height, size))


def hflip(image: Array) -> Array:
    return np.ascontiguousarray(image[:, ::-1])


def vflip(image: Array) -> Array:
    return np.ascontiguousarray(image[::-1])


def adjust_brightness(image: Array, factor: float) -> Array:
    table = (np.arange(256) * factor).clip(0, 255).astype(np.uint8)
    return table[image.astype(np.uint8)]


def adjust_contrast(image: Array, factor: float) -> Array:
    if image.dtype != np.uint8:
        raise TypeError(f"adjust_contrast expected an array of uint8 but got {image.dtype}; convert it: img.astype('uint8')")
    table = ((np.arange(256) - 74) * factor + 74).clip(0, 255).astype(np.uint8)
    return table[image]


def adjust_saturation(image: Array, factor: float) -> Array:
    share = np.random.uniform(max(0, 1 - factor), 1 + factor)
    colours = image.astype(np.float32)
    # Paddle takes the first channel for blue here.
    gray = _gray(colours[..., ::-1])[..., None]
    return (colours * np.float32(share) + gray * np.float32(1 - share)).clip(0, 255).astype(image.dtype)


def adjust_hue(image: Array, factor: float) -> Array:
    if not -0.5 <= factor <= 0.5:
        raise ValueError(f"hue_factor:{factor} is not in [-0.5, 0.5].")
    _check_colours(image, "adjust_hue")
    hue, saturation, value = _to_hsv(image.astype(np.uint8))
    return _from_hsv((hue + int(factor * 255)) % 256, saturation, value).astype(image.dtype)


def _to_hsv(image: Array) -> tuple[Array, Array, Array]:
    """Hue, saturation and value of bytes [H, W, 3] with blue first, each int64 [H, W] in [0, 256), by OpenCV's tables of 12 bits."""
    blue, green, red = (image[..., i].astype(np.int64) for i in range(3))
    value = np.maximum(np.maximum(blue, green), red)
    spread = value - np.minimum(np.minimum(blue, green), red)
    levels = np.maximum(np.arange(256), 1)
    by_value = np.where(np.arange(256) > 0, np.rint((255 << 12) / levels), 0).astype(np.int64)
    by_spread = np.where(np.arange(256) > 0, np.rint((256 << 12) / (6.0 * levels)), 0).astype(np.int64)
    saturation = (spread * by_value[value] + (1 << 11)) >> 12
    hue = np.where(value == red, green - blue, np.where(value == green, blue - red + 2 * spread, red - green + 4 * spread))
    hue = (hue * by_spread[spread] + (1 << 11)) >> 12
    return np.clip(np.where(hue < 0, hue + 256, hue), 0, 255), saturation, value


def _from_hsv(hue: Array, saturation: Array, value: Array) -> Array:
    """Bytes [H, W, 3] with blue first: the inverse of `_to_hsv`, in float32, with a circle of 255 steps as OpenCV has it."""
    s, v = (x.astype(np.float32) * np.float32(1 / 255) for x in (saturation, value))
    place = hue.astype(np.float32) * np.float32(6 / 255)
    sector = np.floor(place).astype(np.int64)
    behind = place - sector.astype(np.float32)
    sector %= 6
    one = np.float32(1)
    levels = np.stack([v, v * (one - s), v * (one - s * behind), v * (one - s * (one - behind))], -1)
    # Which of the levels blue, green and red have in each sixth of the circle.
    places = np.array([[1, 3, 0], [1, 0, 2], [3, 0, 1], [0, 2, 1], [0, 1, 3], [2, 1, 0]])[sector]
    return np.rint(np.take_along_axis(levels, places, -1) * np.float32(255)).clip(0, 255).astype(np.uint8)


def to_grayscale(image: Array, channels: int) -> Array:
    if channels not in (1, 3):
        raise ValueError(f"num_output_channels should be either 1 or 3 but got {channels}")
    _check_colours(image, "to_grayscale")
    gray = _gray(image)[..., None]
    return gray if channels == 1 else np.repeat(gray, 3, axis=-1)


def _gray(image: Array) -> Array:
    """[H, W, 3] with red first to [H, W]; of integers with weights of 15 bits."""
    if not np.issubdtype(image.dtype, np.integer):
        shares = np.array(SHARES, image.dtype)
        return image[..., 0] * shares[0] + image[..., 1] * shares[1] + image[..., 2] * shares[2]
    red, green = (round(share * (1 << SHARE_BITS)) for share in SHARES[:2])
    blue = (1 << SHARE_BITS) - red - green
    wide = image.astype(np.int64)
    total = wide[..., 0] * red + wide[..., 1] * green + wide[..., 2] * blue
    return ((total + (1 << SHARE_BITS - 1)) >> SHARE_BITS).astype(image.dtype)


def _check_colours(image: Array, name: str) -> None:
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"{name} expected an array [H, W, 3] but got shape {list(image.shape)}")


def affine(
    image: Array,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
    interpolation: str,
    fill: Any,
    center: Sequence[float] | None,
) -> Array:
    """As Paddle has it for arrays: turned and sheared about the corner in spite of `center`, one number fills all channels."""
    height, width = image.shape[:2]
    turn = _turn(angle, (0.0, 0.0), scale)
    shear_x, shear_y = (math.tan(math.radians(s)) for s in shear)
    matrix = np.array([turn[0] + shear_y * turn[1], turn[1] + shear_x * turn[0]])
    matrix[:, 2] = translate
    return resampling.warp_affine(image, _inverse(matrix), width, height, interpolation, (fill,) * 3 if isinstance(fill, int) else fill)


def rotate(image: Array, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Array:
    height, width = image.shape[:2]
    middle = (width / 2.0, height / 2.0) if center is None else center
    matrix = _turn(angle, middle, 1.0)
    if expand:
        corners = np.array([[0, width, width, 0], [0, 0, height, height], [1, 1, 1, 1]], float)
        # Rounded, so that a quarter turn adds no pixel.
        turned = np.round(matrix, 15) @ corners
        new_width, new_height = (math.ceil(side.max()) - math.floor(side.min()) for side in turned)
        matrix[:, 2] += ((new_width - width) * 0.5, (new_height - height) * 0.5)
        width, height = new_width, new_height
    return resampling.warp_affine(image, _inverse(matrix), width, height, interpolation, fill)


def _turn(angle: float, center: Sequence[float], scale: float) -> Array:
    """[2, 3], which turns places (x, y, 1) against the clock by degrees about `center`, and scales."""
    a, b = math.cos(math.radians(angle)) * scale, math.sin(math.radians(angle)) * scale
    x, y = center
    return np.array([[a, b, (1 - a) * x - b * y], [-b, a, b * x + (1 - a) * y]])


def _inverse(matrix: Array) -> list[float]:
    """The affine map back, row by row; zeros where there is none."""
    (a, b, c), (d, e, f) = matrix.tolist()
    determinant = a * e - b * d
    factor = 1 / determinant if determinant else 0.0
    a, b, d, e = e * factor, -b * factor, -d * factor, a * factor
    return [a, b, -a * c - b * f, d, e, -d * c - e * f]


def perspective(image: Array, matrix: list[float], interpolation: str, fill: Any) -> Array:
    return resampling.warp_perspective(image, matrix, interpolation, fill)


def normalize(image: Any, mean: Any, std: Any, data_format: str, to_rgb: bool) -> Array:
    shape = (-1, 1, 1) if data_format == "CHW" else (1, 1, -1)
    means, deviations = (np.float32(np.array(v).reshape(shape)) for v in (mean, std))
    values = np.asarray(image)
    return np.asarray(((values[..., ::-1] if to_rgb else values) - means) / deviations)


def erase(image: Array, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Array:
    if not inplace:
        image = image.copy()
    image[i : i + h, j : j + w, ...] = v
    return image
