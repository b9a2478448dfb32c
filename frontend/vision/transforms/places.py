"""Transforms that move, cut out or erase parts of an image, drawn anew for each from the generators of `random` and `numpy.random`, as
Paddle draws.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from polyreme.math.creation import normal
from polyreme.math.creation import to_tensor as tensor_of
from polyreme.math.elementwise import cast
from polyreme.tensor import Tensor
from polyreme.vision.transforms import functional as F
from polyreme.vision.transforms.base import BaseTransform, Keys, expect, pair_of

__all__ = [
    "RandomAffine", "RandomCrop", "RandomErasing", "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation",
    "RandomVerticalFlip",
]  # fmt: skip


def _angles(value: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    if isinstance(value, Real):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive, but got {value}.")
        return [-float(value), float(value)]
    _check_sequence(value, name, lengths)
    return [float(v) for v in value]


def _check_sequence(value: Any, name: str, lengths: tuple[int, ...] = (2,)) -> None:
    wanted = " or ".join(map(str, lengths))
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a sequence of length {wanted} but got {type(value).__name__}.")
    if len(value) not in lengths:
        raise ValueError(f"{name} should be sequence of length {wanted} but got {value}.")


class RandomHorizontalFlip(BaseTransform):
    """`hflip` with probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Keys = None):
        super().__init__(keys)
        expect(0 <= prob <= 1, f"probability must be between 0 and 1 but got {prob}")
        self.prob = prob

    def _apply_image(self, img: Any) -> Any:
        return F.hflip(img) if random.random() < self.prob else img


class RandomVerticalFlip(BaseTransform):
    """`vflip` with probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Keys = None):
        super().__init__(keys)
        expect(0 <= prob <= 1, f"probability must be between 0 and 1 but got {prob}")
        self.prob = prob

    def _apply_image(self, img: Any) -> Any:
        return F.vflip(img) if random.random() < self.prob else img


class RandomResizedCrop(BaseTransform):
    """A part of the image, resized to `size`: its share of the area from `scale`, the ratio of its width to its height from `ratio`.

    Ten draws are made for a part that fits; after that the middle is taken.
    """

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Keys = None,
    ):
        super().__init__(keys)
        expect(scale[0] <= scale[1], f"scale should be of kind (min, max) but got {scale}")
        expect(ratio[0] <= ratio[1], f"ratio should be of kind (min, max) but got {ratio}")
        self.size = (size, size) if isinstance(size, int) else size
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation

    def _get_param(self, image: Any, attempts: int = 10) -> tuple[int, int, int, int]:
        """Top, left, height and width."""
        width, height = F.size_of(image)
        for _ in range(attempts):
            area = np.random.uniform(self.scale[0], self.scale[1]) * (height * width)
            aspect = math.exp(np.random.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            w, h = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
            if 0 < w <= width and 0 < h <= height:
                top = random.randint(0, height - h)
                return top, random.randint(0, width - w), h, w
        if width / height < min(self.ratio):
            w, h = width, int(round(width / min(self.ratio)))
        elif width / height > max(self.ratio):
            w, h = int(round(height * max(self.ratio))), height
        else:
            w, h = width, height
        return (height - h) // 2, (width - w) // 2, h, w

    def _apply_image(self, img: Any) -> Any:
        return F.resize(F.crop(img, *self._get_param(img)), self.size, self.interpolation)


class RandomCrop(BaseTransform):
    """A part of the size `size` of the image with margins: see `pad` for `padding`; `pad_if_needed` widens images that are too small."""

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Keys = None,
    ):
        super().__init__(keys)
        self.size = pair_of(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def _get_param(self, img: Any, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """Top, left, height and width."""
        w, h = F.size_of(img)
        new_h, new_w = output_size
        if (w, h) == (new_w, new_h):
            return 0, 0, h, w
        if new_h > h or new_w > w:
            raise ValueError(f"RandomCrop expected an image of at least {new_h} x {new_w} but got {h} x {w}; pad_if_needed=True widens it")
        top = random.randint(0, h - new_h)
        return top, random.randint(0, w - new_w), new_h, new_w

    def _apply_image(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        w, h = F.size_of(img)
        if self.pad_if_needed and w < self.size[1]:
            img = F.pad(img, (self.size[1] - w, 0), self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = F.pad(img, (0, self.size[0] - h), self.fill, self.padding_mode)
        return F.crop(img, *self._get_param(img, self.size))


class RandomRotation(BaseTransform):
    """`rotate` by an angle from [-degrees, degrees], or from the two numbers that `degrees` is."""

    def __init__(
        self,
        degrees: Any,
        interpolation: str = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        keys: Keys = None,
    ):
        if isinstance(degrees, Real):
            if degrees < 0:
                raise ValueError(f"If degrees is a single number, it must be positive, but got {degrees}.")
            degrees = (-degrees, degrees)
        elif len(degrees) != 2:
            raise ValueError(f"If degrees is a sequence, it must be of len 2, but got {degrees}.")
        super().__init__(keys)
        self.degrees = degrees
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = fill

    def _get_param(self, degrees: Sequence[float]) -> float:
        return random.uniform(degrees[0], degrees[1])

    def _apply_image(self, img: Any) -> Any:
        return F.rotate(img, self._get_param(self.degrees), self.interpolation, self.expand, self.center, self.fill)


class RandomAffine(BaseTransform):
    """`affine` by what is drawn: an angle as `RandomRotation` has it, a shift, a factor from `scale`, and shears.

    The shift is up to the shares `translate` (x, y) of the size; the shears are along x, or x and y, from the two or four bounds of
    `shear`.
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Any = None,
        keys: Keys = None,
    ):
        self.degrees = _angles(degrees, "degrees")
        super().__init__(keys)
        expect(interpolation in ("nearest", "bilinear", "bicubic"), f"expected nearest, bilinear or bicubic but got {interpolation!r}")
        if translate is not None:
            _check_sequence(translate, "translate")
            if not all(0.0 <= t <= 1.0 for t in translate):
                raise ValueError(f"translation values should be between 0 and 1 but got {translate}")
        if scale is not None:
            _check_sequence(scale, "scale")
            if not all(s > 0 for s in scale):
                raise ValueError(f"scale values should be positive but got {scale}")
        if fill is None:
            fill = 0
        elif not isinstance(fill, (Sequence, Real)):
            raise TypeError(f"Fill should be either a sequence or a number but got {type(fill).__name__}.")
        if center is not None:
            _check_sequence(center, "center")
        self.interpolation = interpolation
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else _angles(shear, "shear", (2, 4))
        self.fill = fill
        self.center = center

    def _get_param(
        self, img_size: Sequence[int], degrees: Sequence[float], translate: Any = None, scale_ranges: Any = None, shears: Any = None
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, shift, factor and shears."""
        angle = random.uniform(degrees[0], degrees[1])
        shift = (0, 0)
        if translate is not None:
            far_x, far_y = float(translate[0] * img_size[0]), float(translate[1] * img_size[1])
            x = int(random.uniform(-far_x, far_x))
            shift = (x, int(random.uniform(-far_y, far_y)))
        scale = 1.0 if scale_ranges is None else random.uniform(scale_ranges[0], scale_ranges[1])
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = random.uniform(shears[0], shears[1])
            if len(shears) == 4:
                shear_y = random.uniform(shears[2], shears[3])
        return angle, shift, scale, (shear_x, shear_y)

    def _apply_image(self, img: Any) -> Any:
        drawn = self._get_param(F.size_of(img), self.degrees, self.translate, self.scale, self.shear)
        return F.affine(img, *drawn, interpolation=self.interpolation, fill=self.fill, center=self.center)


class RandomPerspective(BaseTransform):
    """`perspective` with probability `prob`: each corner moves inwards by up to `distortion_scale` of half the size."""

    def __init__(
        self, prob: float = 0.5, distortion_scale: float = 0.5, interpolation: str = "nearest", fill: Any = 0, keys: Keys = None
    ):  # fmt: skip
        super().__init__(keys)
        expect(0 <= prob <= 1, f"probability must be between 0 and 1 but got {prob}")
        expect(0 <= distortion_scale <= 1, f"distortion_scale must be between 0 and 1 but got {distortion_scale}")
        expect(interpolation in ("nearest", "bilinear", "bicubic"), f"expected nearest, bilinear or bicubic but got {interpolation!r}")
        expect(isinstance(fill, (Real, str, list, tuple)), f"expected fill to be a number or one for each channel but got {fill!r}")
        self.prob = prob
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = fill

    def get_params(self, width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """The corners, and where they come to be, from the top left on with the clock."""
        far_x, far_y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))

        def left() -> int:
            return int(random.uniform(0, far_x + 1))

        def right() -> int:
            return int(random.uniform(width - far_x - 1, width))

        def top() -> int:
            return int(random.uniform(0, far_y + 1))

        def bottom() -> int:
            return int(random.uniform(height - far_y - 1, height))

        corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return corners, [[left(), top()], [right(), top()], [right(), bottom()], [left(), bottom()]]

    def _apply_image(self, img: Any) -> Any:
        width, height = F.size_of(img)
        if random.random() >= self.prob:
            return img
        corners, moved = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, corners, moved, self.interpolation, self.fill)


class RandomErasing(BaseTransform):
    """`erase` with probability `prob`: the share of the area from `scale`, the ratio of height to width from `ratio`.

    `value` fills it: one number, one for each of three channels, or "random" for noise.
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        keys: Keys = None,
    ):
        super().__init__(keys)
        expect(isinstance(scale, (tuple, list)), f"scale should be a tuple or list but got {scale!r}")
        expect(0 <= scale[0] <= scale[1] <= 1, f"scale should be of kind (min, max) and in range [0, 1] but got {scale}")
        expect(isinstance(ratio, (tuple, list)), f"ratio should be a tuple or list but got {ratio!r}")
        expect(0 <= ratio[0] <= ratio[1], f"ratio should be of kind (min, max) but got {ratio}")
        expect(0 <= prob <= 1, f"The probability should be in range [0, 1] but got {prob}")
        expect(isinstance(value, (Real, str, tuple, list)), f"value should be a number, tuple, list or str but got {value!r}")
        if isinstance(value, str) and value != "random":
            raise ValueError(f"value must be 'random' when type is str but got {value!r}")
        self.prob = prob
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    def _get_param(self, img: Any) -> tuple[int, int, int, int, Any]:
        """Top, left, height, width and values; the image itself in place of the values where ten draws found nothing that fits."""
        w, h = F.size_of(img)
        is_tensor = isinstance(img, Tensor)
        shape = np.asarray(img).shape if F.is_pillow(img) else img.shape
        channels = shape[-3] if is_tensor else shape[2:]
        for _ in range(10):
            area = np.random.uniform(self.scale[0], self.scale[1]) * (h * w)
            aspect = np.exp(np.random.uniform(*np.log(self.ratio)))
            new_h, new_w = int(round(np.sqrt(area * aspect))), int(round(np.sqrt(area / aspect)))
            if new_h >= h or new_w >= w:
                continue
            value: Any = [self.value] if isinstance(self.value, Real) else self.value
            if is_tensor:
                values: Any = normal(shape=[channels, new_h, new_w]) if value == "random" else tensor_of(value, img.dtype)[:, None, None]
                values = cast(values, img.dtype)
            else:
                values = np.random.normal(size=[new_h, new_w, *channels]) * 255 if value == "random" else np.array(value)
            top = np.random.randint(0, h - new_h + 1)
            return top, np.random.randint(0, w - new_w + 1), new_h, new_w, values
        return 0, 0, h, w, img

    def _apply_image(self, img: Any) -> Any:
        if random.random() >= self.prob:
            return img
        if isinstance(self.value, (tuple, list)) and len(self.value) not in (1, 3):
            raise ValueError(f"Value should be a single number or a sequence with length equals to image's channel but got {self.value}")
        return F.erase(img, *self._get_param(img), self.inplace)
