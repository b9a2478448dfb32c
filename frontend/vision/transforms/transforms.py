"""Transforms as objects: a fixed one, or one drawn anew for each image from the generators of `random` and `numpy.random`, as Paddle draws."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from polyreme.math.creation import normal
from polyreme.math.creation import to_tensor as tensor_of
from polyreme.math.elementwise import cast
from polyreme.tensor import Tensor
from polyreme.vision.transforms import functional as F
from polyreme.vision.transforms.geometry import PADDING_MODES

__all__ = [
    "BaseTransform", "BrightnessTransform", "CenterCrop", "ColorJitter", "Compose", "ContrastTransform", "Grayscale", "HueTransform", "Normalize", "Pad",
    "RandomAffine", "RandomCrop", "RandomErasing", "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip",
    "Resize", "SaturationTransform", "ToTensor", "Transpose",
]  # fmt: skip

Keys = Sequence[str] | None


def _expect(holds: bool, message: str) -> None:
    """AssertionError, which is what Paddle raises for these arguments."""
    if not holds:
        raise AssertionError(message)


def _range_of(value: Any, name: str, center: float = 1, low: float = 0, high: float = math.inf) -> list[float] | None:
    """(least, greatest) factor from one number about `center`, or as given; None where the image stays as it is."""
    if isinstance(value, Number):
        if value < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be non negative, but got {value}.")
        bounds = [center - value, center + value]  # type: ignore[operator]
        if low == 0:
            bounds[0] = max(bounds[0], 0)
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        if not low <= value[0] <= value[1] <= high:
            raise ValueError(f"{name} values should be between {(low, high)} but got {value}")
        bounds = list(value)
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2 but got {value!r}.")
    return None if bounds[0] == bounds[1] == center else bounds


def _angles(value: Any, name: str, lengths: tuple[int, ...] = (2,)) -> list[float]:
    if isinstance(value, Number):
        if value < 0:  # type: ignore[operator]
            raise ValueError(f"If {name} is a single number, it must be positive, but got {value}.")
        return [-float(value), float(value)]  # type: ignore[arg-type]
    _check_sequence(value, name, lengths)
    return [float(v) for v in value]


def _check_sequence(value: Any, name: str, lengths: tuple[int, ...] = (2,)) -> None:
    wanted = " or ".join(map(str, lengths))
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a sequence of length {wanted} but got {type(value).__name__}.")
    if len(value) not in lengths:
        raise ValueError(f"{name} should be sequence of length {wanted} but got {value}.")


def _pair(size: Any) -> Any:
    return (int(size), int(size)) if isinstance(size, Number) else size  # type: ignore[call-overload]


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            try:
                data = transform(data)
            except Exception as error:
                error.add_note(f"raised by the transform {transform} of a Compose")
                raise
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(" + "".join(f"\n    {t}" for t in self.transforms) + "\n)"


class BaseTransform:
    """A transform of one image, or of a tuple of things that belong together.

    `keys` names what the parts of the tuple are: "image" [H, W, C], "coords" [N, 2], "boxes" [N, 4] of (left, top, right, bottom), "mask" [H, W, 1], or
    another name. A subclass defines `_apply_NAME` for each name that it takes, and may define `_get_params`, which is given the whole tuple first and
    whose result stands in `params`. Parts beyond the keys are passed on as they are. Without `keys` the input is an image.
    """

    def __init__(self, keys: Keys = None):
        if keys is None:
            keys = ("image",)
        elif not isinstance(keys, Sequence):
            raise ValueError(f"keys should be a sequence, but got keys={keys}")
        for key in keys:
            if self._get_apply(key) is None:
                raise NotImplementedError(f"{key} is unsupported data structure: {type(self).__name__} defines no _apply_{key}")
        self.keys = keys
        self.params: Any = None

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        return None

    def __call__(self, inputs: Any) -> Any:
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(parts)
        outputs = []
        for key, part in zip(self.keys, parts):
            apply = self._get_apply(key)
            outputs.append(part if apply is None else apply(part))
        outputs += parts[len(self.keys) :]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _get_apply(self, key: str) -> Callable[[Any], Any] | None:
        return getattr(self, f"_apply_{key}", None)

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_image")

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_boxes")

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_mask")

    def _apply_coords(self, coords: Any) -> Any:
        raise NotImplementedError(f"expected {type(self).__name__} to define _apply_coords")


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
        _expect(isinstance(size, int) or isinstance(size, Iterable) and len(list(size)) == 2, f"expected a size or (height, width) but got {size!r}")
        self.size = size
        self.interpolation = interpolation

    def _apply_image(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """See `center_crop`."""

    def __init__(self, size: Any, keys: Keys = None):
        super().__init__(keys)
        self.size = _pair(size)

    def _apply_image(self, img: Any) -> Any:
        return F.center_crop(img, self.size)


class Normalize(BaseTransform):
    """See `normalize`; one number stands for three channels."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0, data_format: str = "CHW", to_rgb: bool = False, keys: Keys = None):
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, Number) else mean
        self.std = [std] * 3 if isinstance(std, Number) else std
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
        _expect(isinstance(padding, (Number, list, tuple)), f"expected a padding, or 2 or 4 of them, but got {padding!r}")
        _expect(isinstance(fill, (Number, str, list, tuple)), f"expected fill to be a number or one for each channel but got {fill!r}")
        _expect(padding_mode in PADDING_MODES, f"expected padding_mode to be one of {', '.join(PADDING_MODES)} but got {padding_mode!r}")
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


# --- places


class RandomHorizontalFlip(BaseTransform):
    """`hflip` with probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Keys = None):
        super().__init__(keys)
        _expect(0 <= prob <= 1, f"probability must be between 0 and 1 but got {prob}")
        self.prob = prob

    def _apply_image(self, img: Any) -> Any:
        return F.hflip(img) if random.random() < self.prob else img


class RandomVerticalFlip(BaseTransform):
    """`vflip` with probability `prob`."""

    def __init__(self, prob: float = 0.5, keys: Keys = None):
        super().__init__(keys)
        _expect(0 <= prob <= 1, f"probability must be between 0 and 1 but got {prob}")
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
        _expect(scale[0] <= scale[1], f"scale should be of kind (min, max) but got {scale}")
        _expect(ratio[0] <= ratio[1], f"ratio should be of kind (min, max) but got {ratio}")
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
        self.size = _pair(size)
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
        if isinstance(degrees, Number):
            if degrees < 0:  # type: ignore[operator]
                raise ValueError(f"If degrees is a single number, it must be positive, but got {degrees}.")
            degrees = (-degrees, degrees)  # type: ignore[operator]
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

    The shift is up to the shares `translate` (x, y) of the size; the shears are along x, or x and y, from the two or four bounds of `shear`.
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
        _expect(interpolation in ("nearest", "bilinear", "bicubic"), f"expected nearest, bilinear or bicubic but got {interpolation!r}")
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
        elif not isinstance(fill, (Sequence, Number)):
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
        _expect(0 <= prob <= 1, f"probability must be between 0 and 1 but got {prob}")
        _expect(0 <= distortion_scale <= 1, f"distortion_scale must be between 0 and 1 but got {distortion_scale}")
        _expect(interpolation in ("nearest", "bilinear", "bicubic"), f"expected nearest, bilinear or bicubic but got {interpolation!r}")
        _expect(isinstance(fill, (Number, str, list, tuple)), f"expected fill to be a number or one for each channel but got {fill!r}")
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
        _expect(isinstance(scale, (tuple, list)), f"scale should be a tuple or list but got {scale!r}")
        _expect(0 <= scale[0] <= scale[1] <= 1, f"scale should be of kind (min, max) and in range [0, 1] but got {scale}")
        _expect(isinstance(ratio, (tuple, list)), f"ratio should be a tuple or list but got {ratio!r}")
        _expect(0 <= ratio[0] <= ratio[1], f"ratio should be of kind (min, max) but got {ratio}")
        _expect(0 <= prob <= 1, f"The probability should be in range [0, 1] but got {prob}")
        _expect(isinstance(value, (Number, str, tuple, list)), f"value should be a number, tuple, list or str but got {value!r}")
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
            value: Any = [self.value] if isinstance(self.value, Number) else self.value
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
