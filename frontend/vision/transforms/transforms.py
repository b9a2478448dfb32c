"""Transforms as objects: fixed ones, changes of colours, drawn anew for each image from the generator of `random`, as Paddle draws, and
those of places.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from polyreme.tensor import Tensor
from polyreme.vision.transforms import functional as F
from polyreme.vision.transforms.base import BaseTransform, Compose, Keys, expect, pair_of
from polyreme.vision.transforms.geometry import PADDING_MODES
from polyreme.vision.transforms.places import (
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
)

__all__ = [
    "BaseTransform", "BrightnessTransform", "CenterCrop", "ColorJitter", "Compose", "ContrastTransform", "Grayscale", "HueTransform",
    "Normalize", "Pad",
    "RandomAffine", "RandomCrop", "RandomErasing", "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation",
    "RandomVerticalFlip",
    "Resize", "SaturationTransform", "ToTensor", "Transpose",
]  # fmt: skip


def _range_of(value: Any, name: str, center: float = 1, low: float = 0, high: float = math.inf) -> list[float] | None:
    """(least, greatest) factor from one number about `center`, or as given; None where the image stays as it is."""
    if isinstance(value, Real):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative, but got {value}.")
        bounds = [center - float(value), center + float(value)]
        if low == 0:
            bounds[0] = max(bounds[0], 0)
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        if not low <= value[0] <= value[1] <= high:
            raise ValueError(f"{name} values should be between {(low, high)} but got {value}")
        bounds = list(value)
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2 but got {value!r}.")
    return None if bounds[0] == bounds[1] == center else bounds


# --- fixed ones


class ToTensor(BaseTransform):
    """See `to_tensor`."""

    def __init__(self, data_format: str = "CHW", keys: Keys = None):
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, img: Any) -> Any:
        return F.to_tensor(img, self.data_format)


class Resize(BaseTransform):
    """See `resize`."""

    def __init__(self, size: Any, interpolation: str = "bilinear", keys: Keys = None):
        super().__init__(keys)
        expect(
            isinstance(size, int) or isinstance(size, Iterable) and len(list(size)) == 2,
            f"expected a size or (height, width) but got {size!r}",
        )
        self.size = size
        self.interpolation = interpolation

    def _apply_image(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """See `center_crop`."""

    def __init__(self, size: Any, keys: Keys = None):
        super().__init__(keys)
        self.size = pair_of(size)

    def _apply_image(self, img: Any) -> Any:
        return F.center_crop(img, self.size)


class Normalize(BaseTransform):
    """See `normalize`; one number stands for three channels."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0, data_format: str = "CHW", to_rgb: bool = False, keys: Keys = None):
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, Real) else mean
        self.std = [std] * 3 if isinstance(std, Real) else std
        self.data_format = data_format
        self.to_rgb = to_rgb

    def _apply_image(self, img: Any) -> Any:
        return F.normalize(img, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """Axes in the order of `order`. Pillow's images become arrays, and images without channels get one."""

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Keys = None):
        super().__init__(keys)
        self.order = order

    def _apply_image(self, img: Any) -> Any:
        if isinstance(img, Tensor):
            return img.transpose(self.order)
        if F.is_pillow(img):
            img = np.asarray(img)
        return (img[..., np.newaxis] if img.ndim == 2 else img).transpose(self.order)


class Pad(BaseTransform):
    """See `pad`."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant", keys: Keys = None):
        expect(isinstance(padding, (Real, list, tuple)), f"expected a padding, or 2 or 4 of them, but got {padding!r}")
        expect(isinstance(fill, (Real, str, list, tuple)), f"expected fill to be a number or one for each channel but got {fill!r}")
        expect(padding_mode in PADDING_MODES, f"expected padding_mode to be one of {', '.join(PADDING_MODES)} but got {padding_mode!r}")
        if isinstance(padding, (list, tuple)) and len(padding) not in (2, 4):
            raise ValueError(f"Padding must be an int or a 2, or 4 element tuple, not a {len(padding)} element tuple")
        super().__init__(keys)
        self.padding = tuple(padding) if isinstance(padding, list) else padding
        self.fill = tuple(fill) if isinstance(fill, list) else fill
        self.padding_mode = padding_mode

    def _apply_image(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(BaseTransform):
    """See `to_grayscale`."""

    def __init__(self, num_output_channels: int = 1, keys: Keys = None):
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, img: Any) -> Any:
        return F.to_grayscale(img, self.num_output_channels)


# --- colours


class BrightnessTransform(BaseTransform):
    """`adjust_brightness` by a factor from [1 - value, 1 + value], not below 0, or from the two numbers that `value` is."""

    def __init__(self, value: Any, keys: Keys = None):
        super().__init__(keys)
        self.value = _range_of(value, "brightness")

    def _apply_image(self, img: Any) -> Any:
        return img if self.value is None else F.adjust_brightness(img, random.uniform(*self.value))


class ContrastTransform(BaseTransform):
    """`adjust_contrast` by a factor from [1 - value, 1 + value], not below 0."""

    def __init__(self, value: float, keys: Keys = None):
        super().__init__(keys)
        if value < 0:
            raise ValueError(f"contrast value should be non-negative but got {value}")
        self.value = _range_of(value, "contrast")

    def _apply_image(self, img: Any) -> Any:
        return img if self.value is None else F.adjust_contrast(img, random.uniform(*self.value))


class SaturationTransform(BaseTransform):
    """`adjust_saturation` by a factor from [1 - value, 1 + value], not below 0, or from the two numbers that `value` is."""

    def __init__(self, value: Any, keys: Keys = None):
        super().__init__(keys)
        self.value = _range_of(value, "saturation")

    def _apply_image(self, img: Any) -> Any:
        return img if self.value is None else F.adjust_saturation(img, random.uniform(*self.value))


class HueTransform(BaseTransform):
    """`adjust_hue` by a factor from [-value, value], or from the two numbers in [-0.5, 0.5] that `value` is."""

    def __init__(self, value: Any, keys: Keys = None):
        super().__init__(keys)
        self.value = _range_of(value, "hue", center=0, low=-0.5, high=0.5)

    def _apply_image(self, img: Any) -> Any:
        return img if self.value is None else F.adjust_hue(img, random.uniform(*self.value))


class ColorJitter(BaseTransform):
    """Brightness, contrast, saturation and hue changed in an order that is drawn: see the four transforms; None leaves one out."""

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0, keys: Keys = None):
        super().__init__(keys)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue

    def _get_param(self, brightness: Any, contrast: Any, saturation: Any, hue: Any) -> Compose:
        kinds = (
            (BrightnessTransform, brightness),
            (ContrastTransform, contrast),
            (SaturationTransform, saturation),
            (HueTransform, hue),
        )
        transforms: list[BaseTransform] = [kind(value, self.keys) for kind, value in kinds if value is not None]
        random.shuffle(transforms)
        return Compose(transforms)

    def _apply_image(self, img: Any) -> Any:
        return self._get_param(self.brightness, self.contrast, self.saturation, self.hue)(img)
