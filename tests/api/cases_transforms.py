"""Transforms of images as tensors. Those of arrays and of Pillow's images, for which Paddle asks other packages, are in tests/frontend/test_transforms.py."""

import random

import numpy

from tests.api.table import FLOATS, cases, check, normal, uniform

T = "paddle.vision.transforms"
IMAGE = (3, 6, 7)


def image(*shape, dtype="float32"):
    """Numbers in [0, 1]."""
    return uniform(*(shape or IMAGE), dtype=dtype)


def seeded(function, seed=5):
    """What `function` gives after the generators of Python and NumPy have been seeded."""
    random.seed(seed)
    numpy.random.seed(seed)
    return function()


for flip in ("hflip", "vflip"):

    @cases(f"{T}.{flip}")
    def _(c):
        for dtype in FLOATS:
            c(image(dtype=dtype))
        c(image(1, 4, 5).strided())
        c(image(2, 3, 4, 5))
        c(normal(4, 5), _raises=True)


@cases(f"{T}.crop")
def _(c):
    c(image(), 1, 2, 3, 4)
    c(image(), 0, 0, 9, 9)
    c(image(1, 5, 5), 2, 1, 2, 1)


@cases(f"{T}.center_crop")
def _(c):
    c(image(), 4)
    c(image(), (3, 5))
    c(image(), 5)


@cases(f"{T}.pad")
def _(c):
    c(image(), 2)
    c(image(), (1, 2), 0.5)
    c(image(), [1, 0, 2, 3], 3)
    for mode in ("edge", "reflect"):
        c(image(), (2, 1), 0, mode)
    c(image(), 1, 0, "symmetric", _raises=True)
    c(image(), (1, 2, 3), _raises=True)
    c(image(), 1, 0, "nearest", _raises=True)


@cases(f"{T}.normalize")
def _(c):
    c(image(), [0.1, 0.2, 0.3], [0.5, 2.0, 3.0])
    c(image(6, 7, 3), [0.1, 0.2, 0.3], [0.5, 2.0, 3.0], "HWC")
    c(image(), [0.1, 0.2, 0.3], [0.5, 2.0, 3.0], "XYZ", _raises=True)


@cases(f"{T}.to_grayscale")
def _(c):
    for dtype in FLOATS:
        c(image(dtype=dtype))
    c(image(), 3)
    c(image(2, 3, 4, 5))
    c(image(), 2, _raises=True)


@cases(f"{T}.to_tensor")
def _(c):
    c(image())
    c(image(), "HWC")


@cases(f"{T}.adjust_brightness")
def _(c):
    for factor in (0, 0.4, 1.0, 1.7):
        c(image(), factor)
    c(image(1, 4, 5), 0.5)
    c(image(), -1.0, _raises=True)
    c(image(2, 4, 5), 0.5, _raises=True)


@cases(f"{T}.adjust_contrast")
def _(c):
    for factor in (0, 0.4, 1.0, 1.7):
        c(image(), factor)
    c(image(1, 4, 5), 0.5)
    c(image(), -1.0, _raises=True)
    c(image(2, 4, 5), 0.5, _raises=True)


@cases(f"{T}.functional.adjust_saturation")
def _(c):
    for factor in (0, 0.4, 1.0, 1.7):
        c(image(), factor)
    c(image(1, 4, 5), 0.5)
    c(image(), -1.0, _raises=True)


@cases(f"{T}.adjust_hue")
def _(c):
    for factor in (-0.5, -0.2, 0.0, 0.3, 0.5):
        c(image(), factor)
    c(image(1, 4, 5), 0.3)
    c(image(), 0.6, _raises=True)


@check(f"{T}.BrightnessTransform", f"{T}.ContrastTransform", f"{T}.SaturationTransform", f"{T}.HueTransform", f"{T}.ColorJitter")
def colours_are_drawn_as_paddle_draws_them(paddle, np, rng):
    transforms = paddle.vision.transforms
    x = paddle.to_tensor(rng.random(IMAGE).astype("float32"))
    made = {
        "brightness": transforms.BrightnessTransform(0.4),
        "bounds": transforms.BrightnessTransform((0.2, 0.3)),
        "contrast": transforms.ContrastTransform(0.4),
        "saturation": transforms.SaturationTransform(0.4),
        "hue": transforms.HueTransform(0.4),
        "nothing": transforms.HueTransform(0),
        "jitter": transforms.ColorJitter(0.4, 0.3, 0.2, 0.1),
        "jitter without hue": transforms.ColorJitter(0.4, hue=None),
    }
    return {name: [seeded(lambda: transform(x), seed) for seed in range(3)] for name, transform in made.items()}


@check(f"{T}.RandomHorizontalFlip", f"{T}.RandomVerticalFlip", f"{T}.RandomCrop", f"{T}.CenterCrop", f"{T}.Pad", f"{T}.Grayscale")
def parts_and_flips_are_drawn_as_paddle_draws_them(paddle, np, rng):
    transforms = paddle.vision.transforms
    x = paddle.to_tensor(rng.random(IMAGE).astype("float32"))
    made = {
        "left": transforms.RandomHorizontalFlip(0.5),
        "top": transforms.RandomVerticalFlip(0.5),
        "crop": transforms.RandomCrop(4),
        "crop of margins": transforms.RandomCrop((5, 4), padding=2, fill=1, padding_mode="edge"),
        "crop of a small image": transforms.RandomCrop((9, 8), pad_if_needed=True),
        "center": transforms.CenterCrop(4),
        "pad": transforms.Pad([1, 2], 0.5),
        "gray": transforms.Grayscale(3),
    }
    return {name: [seeded(lambda: transform(x), seed) for seed in range(4)] for name, transform in made.items()}


@check(f"{T}.Compose", f"{T}.Normalize", f"{T}.Transpose", f"{T}.ToTensor", f"{T}.BaseTransform")
def transforms_are_composed_and_take_tuples(paddle, np, rng):
    transforms = paddle.vision.transforms

    class Scaled(transforms.BaseTransform):
        def _get_params(self, inputs):
            return inputs[self.keys.index("image")].shape[0]

        def _apply_image(self, image):
            return image * self.params

        def _apply_boxes(self, boxes):
            return boxes + self.params

    array = rng.random((4, 5, 3)).astype("float32")
    composed = transforms.Compose([transforms.Normalize(0.5, 2.0, "HWC"), transforms.Transpose()])
    both = Scaled(keys=("image", "boxes"))((array, np.ones((2, 4)), "kept"))
    caught = []
    for keys, kind in ((("image", "sound"), NotImplementedError), (3, ValueError)):
        try:
            Scaled(keys=keys)
        except kind as error:
            caught.append(type(error).__name__)
    return {
        "composed": composed(array),
        "transposed": transforms.Transpose((1, 0, 2))(paddle.to_tensor(array)),
        "of bytes": transforms.ToTensor()((array * 255).astype("uint8")),
        "of bytes without channels": transforms.ToTensor("HWC")((array[..., 0] * 255).astype("uint8")),
        "of floats": transforms.ToTensor()(array),
        "both": both,
        "caught": caught,
        "repr": repr(transforms.Compose([])),
    }


@check(f"{T}.crop", f"{T}.center_crop", f"{T}.normalize", f"{T}.to_tensor")
def arrays_are_cut_and_normalised(paddle, np, rng):
    transforms = paddle.vision.transforms
    array = rng.integers(0, 256, (6, 7, 3)).astype("uint8")
    return {
        "crop": transforms.crop(array, 1, 2, 3, 4),
        "center": transforms.center_crop(array, (4, 3)),
        "normalised": transforms.normalize(array, [1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "HWC"),
        "turned around": transforms.normalize(array, [1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "HWC", True),
        "by channel first": transforms.normalize(array.transpose(2, 0, 1), [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]),
        "tensor": transforms.to_tensor(array),
    }
