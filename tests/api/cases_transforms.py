"""Transforms of images as tensors. Those of arrays and of Pillow's images, for which Paddle asks other packages, are in
tests/frontend/test_transforms.py.
"""

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
    c(image(1, 7, 9, dtype="float64").strided(), (5, 3))


@cases(f"{T}.pad")
def _(c):
    c(image(), 2)
    c(image(), (1, 2), 0.5)
    c(image(), [1, 0, 2, 3], 3)
    c(image(1, 5, 4, dtype="float64").strided(), (1, 2), 0.5)
    for mode in ("edge", "reflect"):
        c(image(), (2, 1), 0, mode)
    c(image(), 1, 0, "symmetric", _raises=True)
    c(image(), (1, 2, 3), _raises=True)
    c(image(), 1, 0, "nearest", _raises=True)


@cases(f"{T}.normalize")
def _(c):
    c(image(), [0.1, 0.2, 0.3], [0.5, 2.0, 3.0])
    c(image(6, 7, 3), [0.1, 0.2, 0.3], [0.5, 2.0, 3.0], "HWC")
    c(image(3, 1, 5, dtype="float64").strided(), [0.1, 0.2, 0.3], [0.5, 2.0, 3.0])
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
    c(image(1, 5, 4, dtype="float64").strided())


@cases(f"{T}.adjust_brightness")
def _(c):
    for factor in (0, 0.4, 1.0, 1.7):
        c(image(), factor)
    c(image(3, 5, 1, dtype="float64").strided(), 0.5)
    c(image(1, 4, 5), 0.5)
    c(image(), -1.0, _raises=True)
    c(image(2, 4, 5), 0.5, _raises=True)


@cases(f"{T}.adjust_contrast")
def _(c):
    for factor in (0, 0.4, 1.0, 1.7):
        c(image(), factor)
    c(image(3, 5, 1, dtype="float64").strided(), 0.5)
    c(image(1, 4, 5), 0.5)
    c(image(), -1.0, _raises=True)
    c(image(2, 4, 5), 0.5, _raises=True)


@cases(f"{T}.functional.adjust_saturation", f"{T}.adjust_saturation")
def _(c):
    for factor in (0, 0.4, 1.0, 1.7):
        c(image(), factor)
    c(image(3, 5, 1, dtype="float64").strided(), 0.5)
    c(image(1, 4, 5), 0.5)
    c(image(), -1.0, _raises=True)


@cases(f"{T}.adjust_hue")
def _(c):
    for factor in (-0.5, -0.2, 0.0, 0.3, 0.5):
        c(image(), factor)
    c(image(3, 5, 1, dtype="float64").strided(), 0.3)
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


@cases(f"{T}.resize")
def _(c):
    for how in ("nearest", "bilinear", "bicubic", "area"):
        c(image(), (4, 9), how)
    c(image(), 4)
    c(image(), 6)
    c(image(dtype="float64"), (3, 3))
    c(image(1, 5, 4).strided(), (7, 3), "bilinear")
    c(image(), (3, 4), "lanczos", _raises=True)
    c(image(), (1, 2, 3), _raises=True)


@cases(f"{T}.rotate")
def _(c):
    for how in ("nearest", "bilinear"):
        c(image(), 30, how)
        c(image(), -100, how, True)
        c(image(), 30, how, False, (1, 2), [1, 2, 3])
    c(image(1, 5, 6), 45, "bilinear", fill=0.5)
    c(image(1, 5, 7).strided(), 45, "bilinear")


@cases(f"{T}.affine")
def _(c):
    for how in ("nearest", "bilinear"):
        c(image(), 20, (1, -1), 1.2, (4, 8), how)
        # Square, as Paddle takes the height for the width here.
        c(image(3, 6, 6), -20, (0, 1), 0.8, 5, how, (1, 2, 3), (2, 4))
    c(image(2, 3, 5, 6), 20, (0, 0), 1.0, (0, 0), "bilinear")
    c(image(), 20, (1, 2, 3), 1.0, 0, _raises=True)
    c(image(), 20, (1, 2), 0.0, 0, _raises=True)


@cases(f"{T}.perspective")
def _(c):
    corners, moved = [[0, 0], [6, 0], [6, 5], [0, 5]], [[1, 0], [5, 1], [6, 4], [1, 5]]
    for how in ("nearest", "bilinear"):
        c(image(), corners, moved, how)
        c(image(), corners, moved, how, (1, 2, 3))


@cases(f"{T}.erase")
def _(c):
    c.expr("paddle.vision.transforms.erase(x, 1, 2, 3, 4, v)", x=image(), v=normal(3, 1, 1))
    c.expr("paddle.vision.transforms.erase(x, 1, 2, 9, 9, v)", x=image(), v=normal(1))


@check(f"{T}.Resize", f"{T}.RandomResizedCrop", f"{T}.RandomRotation", f"{T}.RandomAffine", f"{T}.RandomPerspective", f"{T}.RandomErasing")
def places_are_drawn_as_paddle_draws_them(paddle, np, rng):
    transforms = paddle.vision.transforms
    x = paddle.to_tensor(rng.random(IMAGE).astype("float32"))
    made = {
        "resize": transforms.Resize((4, 5)),
        "resized crop": transforms.RandomResizedCrop(5),
        "narrow crop": transforms.RandomResizedCrop((4, 5), (1.0, 1.0), (3.0, 4.0)),
        "rotation": transforms.RandomRotation(40, "bilinear"),
        "rotation with room": transforms.RandomRotation((-80, -20), "bilinear", True, fill=(1, 2, 3)),
        "affine": transforms.RandomAffine(30, (0.2, 0.3), (0.8, 1.2), (1, 2, 3, 4), "bilinear"),
        "perspective": transforms.RandomPerspective(0.9, interpolation="bilinear"),
        "erasing": transforms.RandomErasing(0.9, value=(1, 2, 3)),
    }
    return {name: [seeded(lambda: transform(x), seed) for seed in range(3)] for name, transform in made.items()}


OF_FLOATS = (
    "BrightnessTransform", "ContrastTransform", "SaturationTransform", "HueTransform", "ColorJitter", "Grayscale", "CenterCrop", "Pad",
    "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Resize", "RandomResizedCrop", "RandomRotation",
)  # fmt: skip


@check(*[f"{T}.{name}" for name in OF_FLOATS], traits=("float32", "float64", "one", "odd", "strided"))
def transforms_take_both_floats_and_any_shape(paddle, np, rng):
    transforms = paddle.vision.transforms
    # Paddle turns images of float32 only.
    made = {
        "brightness": transforms.BrightnessTransform(0.4), "contrast": transforms.ContrastTransform(0.4),
        "saturation": transforms.SaturationTransform(0.4),
        "hue": transforms.HueTransform(0.4), "jitter": transforms.ColorJitter(0.4, 0.3, 0.2, 0.1), "gray": transforms.Grayscale(3),
        "centre": transforms.CenterCrop(3), "pad": transforms.Pad((1, 2), 0.5), "crop": transforms.RandomCrop((3, 1), pad_if_needed=True),
        "mirror": transforms.RandomHorizontalFlip(0.5), "upside down": transforms.RandomVerticalFlip(0.5),
        "resize": transforms.Resize((4, 1)),
        "resized crop": transforms.RandomResizedCrop(5), "rotation": transforms.RandomRotation(40, "bilinear"),
    }  # fmt: skip
    found = {}
    for dtype in ("float32", "float64"):
        for shape in ((3, 5, 7), (3, 9, 5)):
            x = paddle.to_tensor(rng.random(shape[::-1]).astype(dtype)).transpose([2, 1, 0])
            for name, transform in made.items():
                if name != "rotation" or dtype == "float32":
                    found[f"{name} {dtype} {shape}"] = seeded(lambda: transform(x))
    return found
