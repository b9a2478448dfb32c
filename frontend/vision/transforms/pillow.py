"""Transforms of Pillow's images. Imported only where there is one, so that the package runs without Pillow."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from polyreme.math.creation import to_tensor as tensor_of
from polyreme.math.manipulation import reshape, transpose
from polyreme.tensor import Tensor
from polyreme.vision.transforms.geometry import centred, check_padding, resized, sides_of

INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "lanczos": Image.Resampling.LANCZOS,
    "hamming": Image.Resampling.HAMMING,
}


def _interpolation(name: str) -> Image.Resampling:
    if name not in INTERPOLATIONS:
        raise KeyError(f"expected an interpolation of {', '.join(INTERPOLATIONS)} but got {name!r}")
    return INTERPOLATIONS[name]


def _colour(image: Image.Image, fill: Any) -> Any:
    """One number for each channel; an int stands for that number in all of them."""
    if not isinstance(fill, int):
        return fill
    channels = len(image.getbands())
    return fill if channels == 1 else (fill,) * channels


def to_tensor(image: Image.Image, data_format: str) -> Tensor:
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format should be CHW or HWC. Got {data_format}")
    values: np.ndarray[Any, Any]
    if image.mode in ("I", "I;16"):
        values = np.asarray(image, np.int32)
    elif image.mode == "F":
        values = np.asarray(image, np.float32)
    elif image.mode == "1":
        values = np.asarray(image, np.uint8) * np.uint8(255)
    else:
        values = np.asarray(image)
    if values.dtype == np.uint8:
        values = values.astype(np.float32) / np.float32(255.0)
    pixels = reshape(tensor_of(values), [image.height, image.width, len(image.getbands())])
    return transpose(pixels, [2, 0, 1]) if data_format == "CHW" else pixels


def resize(image: Image.Image, size: Any, interpolation: str) -> Image.Image:
    new = resized(*image.size, size)
    return image if isinstance(size, int) and new == image.size else image.resize(new, _interpolation(interpolation))


def pad(image: Image.Image, padding: Any, fill: Any, padding_mode: str) -> Image.Image:
    check_padding(padding, fill, padding_mode)
    left, top, right, bottom = sides_of(padding)
    palette = image.getpalette() if image.mode == "P" else None
    if padding_mode == "constant":
        padded = ImageOps.expand(image, border=(left, top, right, bottom), fill=tuple(fill) if isinstance(fill, list) else fill)
    else:
        values = np.asarray(image)
        sides = [(top, bottom), (left, right), (0, 0)][: values.ndim]
        padded = Image.fromarray(np.pad(values, sides, mode=cast(Any, padding_mode)))
    if palette is not None:
        padded.putpalette(palette)
    return padded


def crop(image: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    return image.crop((left, top, left + width, top + height))


def center_crop(image: Image.Image, size: Any) -> Image.Image:
    return crop(image, *centred(*image.size, size))


def hflip(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def adjust_brightness(image: Image.Image, factor: float) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(factor)


def adjust_contrast(image: Image.Image, factor: float) -> Image.Image:
    return ImageEnhance.Contrast(image).enhance(factor)


def adjust_saturation(image: Image.Image, factor: float) -> Image.Image:
    return ImageEnhance.Color(image).enhance(factor)


def adjust_hue(image: Image.Image, factor: float) -> Image.Image:
    if not -0.5 <= factor <= 0.5:
        raise ValueError(f"hue_factor:{factor} is not in [-0.5, 0.5].")
    if image.mode in ("L", "1", "I", "F"):
        return image
    hue, saturation, value = image.convert("HSV").split()
    turned = (np.array(hue, np.int16) + int(factor * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8)), saturation, value)).convert(image.mode)


def affine(image: Image.Image, matrix: list[float], interpolation: str, fill: Any) -> Image.Image:
    return image.transform(
        image.size, Image.Transform.AFFINE, matrix, cast(Any, _interpolation(interpolation)), fillcolor=_colour(image, fill)
    )  # fmt: skip


def rotate(image: Image.Image, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Image.Image:
    return image.rotate(angle, cast(Any, _interpolation(interpolation)), expand, center, fillcolor=_colour(image, fill))


def perspective(image: Image.Image, matrix: list[float], interpolation: str, fill: Any) -> Image.Image:
    return image.transform(
        image.size, Image.Transform.PERSPECTIVE, matrix, cast(Any, _interpolation(interpolation)), fillcolor=_colour(image, fill)
    )  # fmt: skip


def to_grayscale(image: Image.Image, channels: int) -> Image.Image:
    if channels not in (1, 3):
        raise ValueError(f"num_output_channels should be either 1 or 3 but got {channels}")
    gray = image.convert("L")
    return gray if channels == 1 else Image.merge("RGB", (gray, gray, gray))


def erase(image: Image.Image, i: int, j: int, h: int, w: int, v: Any) -> Image.Image:
    values = np.array(image, dtype=np.uint8)
    values[i : i + h, j : j + w, ...] = v
    return Image.fromarray(values)
