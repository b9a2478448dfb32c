"""`paddle.vision.transforms`: changes of images before they reach a model."""

from typing import TYPE_CHECKING

from polyreme.names import absent_from, listed
from polyreme.vision.transforms.functional import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    affine,
    center_crop,
    crop,
    erase,
    hflip,
    normalize,
    pad,
    perspective,
    resize,
    rotate,
    to_grayscale,
    to_tensor,
    vflip,
)
from polyreme.vision.transforms.transforms import (
    BaseTransform,
    BrightnessTransform,
    CenterCrop,
    ColorJitter,
    Compose,
    ContrastTransform,
    Grayscale,
    HueTransform,
    Normalize,
    Pad,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    SaturationTransform,
    ToTensor,
    Transpose,
)

__all__ = [
    "BaseTransform", "BrightnessTransform", "CenterCrop", "ColorJitter", "Compose", "ContrastTransform", "Grayscale", "HueTransform",
    "Normalize", "Pad",
    "RandomAffine", "RandomCrop", "RandomErasing", "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation",
    "RandomVerticalFlip",
    "Resize", "SaturationTransform", "ToTensor", "Transpose", "adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation",
    "affine",
    "center_crop", "crop", "erase", "hflip", "normalize", "pad", "perspective", "resize", "rotate", "to_grayscale", "to_tensor", "vflip",
]  # fmt: skip

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
