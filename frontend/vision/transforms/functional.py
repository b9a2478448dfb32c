"""Transforms as functions of an image: one of Pillow's, a NumPy array [H, W, C] or [H, W], or a tensor [C, H, W]."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np

from polyreme.names import listed
from polyreme.tensor import Tensor
from polyreme.vision.transforms import arrays, tensors
from polyreme.vision.transforms.geometry import affine_matrix, perspective_matrix

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "affine", "center_crop", "crop", "erase", "hflip",
    "normalize", "pad",
    "perspective", "resize", "rotate", "to_grayscale", "to_tensor", "vflip",
]  # fmt: skip


def is_pillow(image: Any) -> bool:
    """Whether this is an image of Pillow's; there is none where nobody has imported Pillow."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def is_array(image: Any) -> bool:
    """Whether this is a NumPy array [H, W, C] or [H, W]."""
    return isinstance(image, np.ndarray) and image.ndim in (2, 3)


def size_of(image: Any) -> tuple[int, int]:
    """Width and height."""
    if is_pillow(image):
        width, height = image.size
    elif is_array(image):
        height, width = image.shape[:2]
    elif not isinstance(image, Tensor):
        raise TypeError(f"Unexpected type {type(image)}: expected a PIL Image, an array or a tensor")
    elif image.ndim not in (3, 4):
        raise ValueError(f"The dim for input Tensor should be 3-D or 4-D, but received {image.ndim}")
    else:
        height, width = image.shape[-2:]
    return width, height


def _meant_for(image: Any, name: str = "img") -> ModuleType:
    """The module that has the functions for this kind of image."""
    if isinstance(image, Tensor):
        return tensors
    if is_array(image):
        return arrays
    if is_pillow(image):
        # Not at the top, as Pillow may be absent.
        from polyreme.vision.transforms import pillow

        return pillow
    dims = f" of shape {image.shape}" if isinstance(image, np.ndarray) else ""
    raise TypeError(f"{name} should be PIL Image or Tensor Image or ndarray with dim=[2 or 3]. Got {type(image)}{dims}")


def to_tensor(pic: Any, data_format: str = "CHW") -> Tensor:
    """A tensor [C, H, W], or [H, W, C] for `data_format` "HWC". Bytes become float32 in [0, 1]; other dtypes, and tensors, keep their
    values.
    """
    result: Tensor = _meant_for(pic, "pic").to_tensor(pic, data_format)
    return result


def resize(img: Any, size: Any, interpolation: str = "bilinear") -> Any:
    """The image at another size: (height, width), or the length of its shorter side.

    `interpolation` is "nearest", "bilinear" or "bicubic"; also "lanczos", "box" and "hamming" for Pillow's images, "area" and "lanczos" for
    arrays, "area" for tensors.
    """
    return _meant_for(img).resize(img, size, interpolation)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """The image with margins: `padding` is one width for all, (left and right, top and bottom), or (left, top, right, bottom).

    `padding_mode` fills them: "constant" with `fill`, "edge" with the last pixel, "reflect" and "symmetric" with a mirror image, without
    and with the last pixel. Tensors have no "symmetric".
    """
    return _meant_for(img).pad(img, padding, fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of the image."""
    return _meant_for(img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of the image; `output_size` is (height, width), or one length for both."""
    return _meant_for(img).center_crop(img, output_size)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return _meant_for(img).hflip(img)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return _meant_for(img).vflip(img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Brighter for factors above 1, black for 0. Arrays are taken for bytes."""
    return _meant_for(img).adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """More contrast for factors above 1, gray for 0. Arrays must be of bytes, and are drawn away from the level 74."""
    return _meant_for(img).adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Stronger colours for factors above 1, gray for 0.

    For arrays Paddle draws the factor from `numpy.random`, evenly from [1 - saturation_factor, 1 + saturation_factor], and so do we.
    """
    return _meant_for(img).adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Colours turned about the circle of hues by `hue_factor` in [-0.5, 0.5] of it."""
    return _meant_for(img).adjust_hue(img, hue_factor)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: str = "nearest",
    fill: Any = 0,
    center: Sequence[float] | None = None,
) -> Any:
    """The image sheared and turned by degrees, scaled about `center` (x, y; by default its middle), and moved by `translate` (x, y) pixels.
    """
    kind = _meant_for(img)
    if not isinstance(angle, (int, float)):
        raise TypeError(f"Argument angle should be int or float but got {type(angle).__name__}")
    if not isinstance(translate, (list, tuple)):
        raise TypeError(f"Argument translate should be a sequence but got {type(translate).__name__}")
    if len(translate) != 2:
        raise ValueError(f"Argument translate should be a sequence of length 2 but got {translate}")
    if scale <= 0.0:
        raise ValueError(f"Argument scale should be positive but got {scale}")
    if not isinstance(shear, (Real, list, tuple)):
        raise TypeError(f"Shear should be either a single value or a sequence of two values but got {type(shear).__name__}")
    if not isinstance(interpolation, str):
        raise TypeError(f"Argument interpolation should be a string but got {type(interpolation).__name__}")
    shears: list[Any] = [shear, 0.0] if isinstance(shear, Real) else list(shear) * (2 if len(shear) == 1 else 1)
    if len(shears) != 2:
        raise ValueError(f"Shear should be a sequence containing two values. Got {shear}")
    if center is not None and not isinstance(center, (list, tuple)):
        raise TypeError(f"Argument center should be a sequence but got {type(center).__name__}")
    width, height = size_of(img)
    if kind is arrays:
        return arrays.affine(img, angle, translate, scale, shears, interpolation, fill, center)
    if kind is tensors:
        # Places in tensors are counted from their middle.
        origin = [0.0, 0.0] if center is None else [center[0] - width * 0.5, center[1] - height * 0.5]
    else:
        origin = [width * 0.5, height * 0.5] if center is None else list(center)
    return kind.affine(img, affine_matrix(origin, float(angle), translate, scale, shears), interpolation, fill)


def rotate(
    img: Any,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = 0,
) -> Any:
    """The image turned against the clock by degrees about `center` (x, y; by default its middle); `expand` makes room for all of it."""
    if isinstance(center, list):
        center = tuple(center)
    if isinstance(fill, list):
        fill = tuple(fill)
    return _meant_for(img).rotate(img, angle, interpolation, expand, center, fill)


def perspective(
    img: Any,
    startpoints: Sequence[Sequence[float]],
    endpoints: Sequence[Sequence[float]],
    interpolation: str = "nearest",
    fill: Any = 0,
) -> Any:
    """The image seen so that four places (x, y) of it come to be at `endpoints`."""
    return _meant_for(img).perspective(img, perspective_matrix(startpoints, endpoints), interpolation, fill)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Without colours, in one channel or three that are equal."""
    return _meant_for(img).to_grayscale(img, num_output_channels)


def normalize(img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False) -> Any:
    """(img - mean) / std by channel: a tensor for tensors, else an array; `to_rgb` turns the last axis of arrays around first."""
    if isinstance(img, Tensor):
        return tensors.normalize(img, mean, std, data_format)
    return arrays.normalize(np.array(img).astype(np.float32) if is_pillow(img) else img, mean, std, data_format, to_rgb)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """The image with `v` in the rows from `i` to `i + h` and the columns from `j` to `j + w`; `inplace` changes an array or tensor itself.
    """
    kind = _meant_for(img)
    if is_pillow(img):
        return kind.erase(img, i, j, h, w, v)
    return kind.erase(img, i, j, h, w, v, inplace)


__dir__ = listed(__name__)
