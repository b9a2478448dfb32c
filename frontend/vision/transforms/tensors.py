"""Transforms of tensors [C, H, W]: compositions of ops, so that they are differentiated and traced. Most take [N, C, H, W], too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.math.common import cast_to
from polyreme.math.creation import full_like, ones
from polyreme.math.creation import to_tensor as tensor_of
from polyreme.math.elementwise import cast, clip, floor, lerp, trunc, where
from polyreme.math.logic import equal
from polyreme.math.manipulation import concat, expand, flip, reshape, squeeze, stack, tile, transpose, unbind, unsqueeze
from polyreme.math.reduction import max as largest
from polyreme.math.reduction import mean as mean_of
from polyreme.math.reduction import min as smallest
from polyreme.math.reduction import sum as sum_of
from polyreme.nn import functional as F
from polyreme.tensor import Tensor
from polyreme.vision.transforms.geometry import centred, check_padding, resized, sides_of

Array = np.ndarray[Any, Any]

# Shares of red, green and blue in gray.
SHARES = (0.2989, 0.587, 0.114)


def _check(image: Tensor, data_format: str = "CHW") -> None:
    if image.ndim not in (3, 4) or data_format.lower() not in ("chw", "hwc"):
        raise RuntimeError(
            f"not support [type={type(image)}, ndim={image.ndim}, data_format={data_format}] paddle image: "
            "expected a tensor [C, H, W] or [N, C, H, W] and a data_format of CHW or HWC"
        )


def _check_factor(image: Tensor, factor: float, name: str) -> int:
    """The number of channels; errors as Paddle has them."""
    _check(image)
    if factor < 0:
        raise AssertionError(f"{name} should be non-negative but got {factor}")
    channels = image.shape[-3]
    if channels not in (1, 3):
        kind = AssertionError if name == "brightness_factor" else ValueError
        raise kind(f"channels of input should be either 1 or 3 but got shape {list(image.shape)}")
    return int(channels)


def _floating(image: Tensor) -> Tensor:
    """Integers as float32, whose arithmetic they are then changed by."""
    return image if image.type.dtype.is_float else cast(image, "float32")


def to_tensor(image: Tensor, data_format: str) -> Tensor:
    return image if data_format.lower() == "chw" else transpose(image, [1, 2, 0])


def resize(image: Tensor, size: Any, interpolation: str) -> Tensor:
    _check(image)
    height, width = image.shape[-2:]
    if isinstance(size, int) and (width <= 0 or height <= 0):
        raise NotImplementedError(f"Not support while w<=0 or h<=0, but received w={width}, h={height}")
    new_width, new_height = resized(width, height, size)
    if isinstance(size, int) and (new_width, new_height) == (width, height):
        return image
    scaled: Tensor = F.interpolate(unsqueeze(image, 0), size=[new_height, new_width], mode=interpolation.lower())
    return squeeze(scaled, 0)


def pad(image: Tensor, padding: Any, fill: Any, padding_mode: str) -> Tensor:
    _check(image)
    check_padding(padding, fill, padding_mode)
    if padding_mode == "symmetric":
        raise ValueError("Do not support symmetric mode: expected constant, edge or reflect for a tensor")
    if isinstance(fill, (list, tuple)):
        raise TypeError(f"pad expected one number to fill a tensor with but got {fill}")
    left, top, right, bottom = sides_of(padding)
    mode = "replicate" if padding_mode == "edge" else padding_mode
    return squeeze(F.pad(unsqueeze(image, 0), [left, right, top, bottom], mode, float(fill)), 0)


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    _check(image)
    return image[..., top : top + height, left : left + width]


def center_crop(image: Tensor, size: Any) -> Tensor:
    _check(image)
    height, width = image.shape[-2:]
    return crop(image, *centred(width, height, size))


def hflip(image: Tensor) -> Tensor:
    _check(image)
    return flip(image, [-1])


def vflip(image: Tensor) -> Tensor:
    _check(image)
    return flip(image, [-2])


# --- colours


def _blend(image: Tensor, other: Tensor, ratio: float) -> Tensor:
    """other + ratio * (image - other), kept in the range of the dtype."""
    highest = 1.0 if image.type.dtype.is_float else 255.0
    return cast_to(clip(lerp(_floating(other), _floating(image), float(ratio)), 0.0, highest), image.type.dtype)


def adjust_brightness(image: Tensor, factor: float) -> Tensor:
    _check_factor(image, factor, "brightness_factor")
    return _blend(image, image * 0, factor)


def adjust_contrast(image: Tensor, factor: float) -> Tensor:
    channels = _check_factor(image, factor, "contrast_factor")
    gray = image if channels == 1 else to_grayscale(image, 1)
    return _blend(image, mean_of(_floating(gray), axis=[-3, -2, -1], keepdim=True), factor)


def adjust_saturation(image: Tensor, factor: float) -> Tensor:
    channels = _check_factor(image, factor, "saturation_factor")
    return image if channels == 1 else _blend(image, to_grayscale(image, 1), factor)


def adjust_hue(image: Tensor, factor: float) -> Tensor:
    _check(image)
    if not -0.5 <= factor <= 0.5:
        raise AssertionError(f"hue_factor should be in range [-0.5, 0.5] but got {factor}")
    if _check_factor(image, 0.0, "hue_factor") == 1:
        return image
    is_bytes = image.dtype.name == "uint8"
    hue, saturation, value = _to_hsv(_floating(image) / 255.0 if is_bytes else image)
    hue = hue + factor
    turned = _from_hsv(hue - floor(hue), saturation, value)
    return cast(turned * 255.0, "uint8") if is_bytes else turned


def _to_hsv(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, saturation and value, each in [0, 1]: [C, H, W] in [0, 1] to three of [H, W]."""
    value, low = largest(image, axis=-3), smallest(image, axis=-3)
    spread, is_gray = value - low, equal(value, low)
    one = value * 0 + 1.0
    saturation = spread / where(is_gray, one, value)
    red, green, blue = unbind(image, axis=-3)
    divisor = where(is_gray, one, spread)
    from_red, from_green, from_blue = (value - red) / divisor, (value - green) / divisor, (value - blue) / divisor
    zero = value * 0
    otherwise = where(equal(value, green), from_red - from_blue + 2.0, from_green - from_red + 4.0)
    sixths = where(equal(value, red), from_blue - from_green, otherwise)
    hue = where(is_gray, zero, sixths) / 6.0 + 1.0
    return hue - trunc(hue), saturation, value


def _from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """The inverse of `_to_hsv`."""
    place = hue * 6.0
    sector = floor(place)
    behind = place - sector
    low = clip(value * (1.0 - saturation), 0.0, 1.0)
    falling = clip(value * (1.0 - saturation * behind), 0.0, 1.0)
    rising = clip(value * (1.0 - saturation * (1.0 - behind)), 0.0, 1.0)
    # What each channel is in each sixth of the circle.
    red = [value, falling, low, low, rising, value]
    green = [rising, value, value, falling, low, low]
    blue = [low, low, rising, value, value, falling]
    return stack([_chosen(sector, levels) for levels in (red, green, blue)], axis=-3)


def _chosen(sector: Tensor, levels: Sequence[Tensor]) -> Tensor:
    """The level of each element's sector."""
    result = levels[5]
    # A hue of one is a hue of zero.
    for number, level in [*enumerate(levels[:5]), (6, levels[0])]:
        result = where(equal(sector, full_like(sector, number)), level, result)
    return result


def to_grayscale(image: Tensor, channels: int) -> Tensor:
    _check(image)
    if channels not in (1, 3):
        raise ValueError(f"num_output_channels should be either 1 or 3 but got {channels}")
    colours = _floating(image)
    shares = cast_to(reshape(tensor_of(list(SHARES)), [-1, 1, 1]), colours.type.dtype)
    gray = cast_to(sum_of(colours * shares, axis=-3, keepdim=True), image.type.dtype)
    shape = list(gray.shape)
    shape[-3] = channels
    return expand(gray, shape)


def normalize(image: Tensor, mean: Any, std: Any, data_format: str) -> Tensor:
    _check(image, data_format)
    shape = [-1, 1, 1] if data_format.lower() == "chw" else [-1]
    means, deviations = (reshape(tensor_of(v), shape) for v in (mean, std))
    return (image - means) / deviations


# --- places: a grid says for every new pixel where in the old image it is read, with -1 and 1 at the image's borders


def _sampled(image: Tensor, grid: Array, interpolation: str, fill: Any) -> Tensor:
    """`image` read at the places of `grid`, float32 [H, W, 2]; `fill`, one number or one for each channel, where they lie outside."""
    batch = unsqueeze(image, 0) if image.ndim == 3 else image
    pixels = _floating(batch)
    if fill is not None:
        # One channel more says how much of a pixel comes from inside.
        n, _, height, width = pixels.shape
        pixels = concat([pixels, cast_to(ones([n, 1, height, width]), pixels.type.dtype)], axis=1)
    places = cast_to(tile(unsqueeze(tensor_of(np.ascontiguousarray(grid)), 0), [pixels.shape[0], 1, 1, 1]), pixels.type.dtype)
    found: Tensor = F.grid_sample(pixels, places, mode=interpolation, padding_mode="zeros", align_corners=False)
    if fill is not None:
        channels = batch.shape[1]
        found, inside = found[:, :channels], found[:, channels:]
        given = list(fill) if isinstance(fill, (list, tuple)) else [fill]
        around = cast_to(reshape(tensor_of([float(v) for v in given[:channels]]), [1, -1, 1, 1]), found.type.dtype)
        if interpolation == "nearest":
            inside = cast_to(inside >= 0.5, found.type.dtype)
        found = found * inside + (1.0 - inside) * around
    found = cast_to(found, image.type.dtype)
    return squeeze(found, 0) if image.ndim == 3 else found


def _affine_grid(matrix: Array, width: int, height: int, new_width: int, new_height: int) -> Array:
    """float32 [new_height, new_width, 2]: `matrix` float32 [2, 3] applied to the places counted from the middle of the new image."""
    x = np.linspace(-new_width * 0.5 + 0.5, new_width * 0.5 - 0.5, new_width, dtype=np.float32)
    y = np.linspace(-new_height * 0.5 + 0.5, new_height * 0.5 - 0.5, new_height, dtype=np.float32)
    base = np.ones((new_height, new_width, 3), np.float32)
    base[..., 0], base[..., 1] = x, y[:, None]
    # An image without rows or columns has no places to count: any length of it will do.
    return base @ (matrix.T / np.array([0.5 * max(width, 1), 0.5 * max(height, 1)], np.float32))


def affine(image: Tensor, matrix: list[float], interpolation: str, fill: Any) -> Tensor:
    _check(image)
    height, width = image.shape[-2:]
    grid = _affine_grid(np.array(matrix, np.float32).reshape(2, 3), width, height, width, height)
    return _sampled(image, grid, interpolation, fill)


def rotate(image: Tensor, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Tensor:
    _check(image)
    height, width = image.shape[-2:]
    x, y = (0.0, 0.0) if center is None else (center[0] - width * 0.5, center[1] - height * 0.5)
    turn = math.radians(-angle % 360)
    cosine, sine = math.cos(turn), math.sin(turn)
    matrix = np.array([[cosine, sine, x - cosine * x - sine * y], [-sine, cosine, y + sine * x - cosine * y]], np.float32)
    new_width, new_height = width, height
    if expand:
        half_width, half_height = 0.5 * width, 0.5 * height
        corners = [
            [-half_width, -half_height, 1],
            [-half_width, half_height, 1],
            [half_width, half_height, 1],
            [half_width, -half_height, 1],
        ]
        turned = np.array(corners, np.float32) @ matrix.T
        new_width, new_height = (int(d) for d in np.ceil(turned.max(0)) - np.floor(turned.min(0)))
    return _sampled(image, _affine_grid(matrix, width, height, new_width, new_height), interpolation, fill)


def perspective(image: Tensor, matrix: list[float], interpolation: str, fill: Any) -> Tensor:
    _check(image)
    height, width = image.shape[-2:]
    a, b, c, d, e, f, g, h = np.array(matrix, np.float32)
    x = np.arange(width, dtype=np.float32) + np.float32(0.5)
    y = (np.arange(height, dtype=np.float32) + np.float32(0.5))[:, None]
    w = g * x + h * y + 1
    half_width, half_height = np.float32(0.5 * width), np.float32(0.5 * height)
    grid = np.stack([(a * x + b * y + c) / half_width / w - 1, (d * x + e * y + f) / half_height / w - 1], -1)
    return _sampled(image, grid.astype(np.float32), interpolation, fill)


def erase(image: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool) -> Tensor:
    _check(image)
    if not inplace:
        image = image.clone()
    image[..., i : i + h, j : j + w] = v
    return image
