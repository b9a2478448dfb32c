"""Transforms of Pillow's images and of arrays under either module.

`python -m tests.frontend.image_transforms FILE` writes what Paddle makes of them; it needs a python that has Paddle, Pillow and OpenCV.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

BOX = [[0, 0], [12, 0], [12, 9], [0, 9]]
MOVED = [[1, 0], [10, 2], [12, 9], [2, 8]]

Calls = Iterator[tuple[str, Callable[[Any], Any]]]


def pictures(kind: str) -> dict[str, Any]:
    """Images of 10 x 13 pixels, by name: of Pillow's modes, or arrays."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (10, 13, 3)).astype(np.uint8)
    if kind == "arrays":
        return {"bytes": colours, "floats": (colours / 255).astype(np.float32)}
    from PIL import Image

    picture = Image.fromarray(colours)
    modes = {mode: picture.convert(mode) for mode in ("RGB", "L", "RGBA", "P", "1", "I", "F", "YCbCr")}
    return modes | {"I;16": Image.fromarray(rng.integers(0, 60000, (10, 13)).astype(np.uint16))}


def calls(paddle: Any, kind: str, picture: str) -> Calls:
    """Calls that Paddle takes for a picture."""
    t = paddle.vision.transforms
    f = t.functional
    yield "to_tensor", t.to_tensor
    yield "to_tensor last", lambda x: t.to_tensor(x, "HWC")
    if picture not in ("RGB", "bytes", "floats", "L", "RGBA"):
        return
    interpolations = ("nearest", "bilinear", "bicubic") + (("area", "lanczos") if kind == "arrays" else ("box", "lanczos", "hamming"))
    for how in interpolations:
        yield f"resize {how}", lambda x, how=how: t.resize(x, (7, 8), how)
        yield f"enlarge {how}", lambda x, how=how: t.resize(x, (17, 20), how)
    yield "resize shorter side", lambda x: t.resize(x, 5)
    for mode in ("edge", "reflect", "symmetric"):
        yield f"pad {mode}", lambda x, mode=mode: t.pad(x, (1, 2, 3, 4), 0, mode)
    yield "pad", lambda x: t.pad(x, (2, 1), 7)
    yield "hflip", t.hflip
    yield "vflip", t.vflip
    yield "crop", lambda x: t.crop(x, 2, 1, 5, 6)
    yield "center", lambda x: t.center_crop(x, (5, 6))
    if picture == "RGBA" or picture == "L":
        return
    if picture != "floats":
        for factor in (0, 0.4, 1.6):
            yield f"brightness {factor}", lambda x, factor=factor: t.adjust_brightness(x, factor)
            yield f"contrast {factor}", lambda x, factor=factor: t.adjust_contrast(x, factor)
        for factor in (-0.5, -0.1, 0.3):
            yield f"hue {factor}", lambda x, factor=factor: t.adjust_hue(x, factor)
        yield "jitter", t.ColorJitter(0.4, 0.3, 0.2, 0.1)
    yield "saturation", lambda x: f.adjust_saturation(x, 0.4)
    yield "gray", t.to_grayscale
    yield "gray in three", lambda x: t.to_grayscale(x, 3)
    yield "normalize", lambda x: t.normalize(x, [1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "HWC")
    yield "transpose", t.Transpose()
    yield "erase", lambda x: t.erase(x, 2, 3, 4, 5, 9)
    # Paddle forgets the fill on its way to Pillow here.
    fill: Any = 0 if kind == "pillow" else (3, 4, 5)
    for how in ("nearest", "bilinear", "bicubic"):
        yield f"rotate {how}", lambda x, how=how: t.rotate(x, 30, how)
        yield f"rotate all {how}", lambda x, how=how: t.rotate(x, -50, how, True, None, (3, 4, 5))
        yield f"rotate about {how}", lambda x, how=how: t.rotate(x, 30, how, False, (2, 3), (3, 4, 5))
        yield f"affine {how}", lambda x, how=how: t.affine(x, 20, (2, -1), 1.3, (5, 10), how, fill, (5, 4))
        yield f"perspective {how}", lambda x, how=how: t.perspective(x, BOX, MOVED, how, fill)
    yield "random flip", t.RandomHorizontalFlip()
    yield "random vertical flip", t.RandomVerticalFlip()
    yield "random crop", t.RandomCrop((4, 5), 1)
    yield "random resized crop", t.RandomResizedCrop(6)
    yield "random narrow crop", t.RandomResizedCrop((6, 5), (1.0, 1.0), (3.0, 4.0), "nearest")
    yield "random rotation", t.RandomRotation((-40, 20), "bilinear", center=(3, 3), fill=(3, 4, 5))
    yield "random affine", t.RandomAffine(30, (0.2, 0.3), (0.8, 1.2), (1, 2, 3, 4), "bilinear")
    yield "random perspective", t.RandomPerspective(0.9, fill=fill)
    yield "random erasing", t.RandomErasing(0.9, value=(1, 2, 3))
    yield "random noise", t.RandomErasing(0.9, value="random")


def outcomes(paddle: Any, kind: str) -> dict[str, np.ndarray[Any, Any]]:
    """What comes of all calls, as arrays; the generators are seeded before each."""
    found = {}
    for picture, image in pictures(kind).items():
        for name, function in calls(paddle, kind, picture):
            random.seed(7)
            np.random.seed(7)
            result = function(image.copy())
            found[f"{kind}, {picture}, {name}"] = result.numpy() if isinstance(result, paddle.Tensor) else np.asarray(result)
    return found


if __name__ == "__main__":
    import paddle

    np.savez_compressed(sys.argv[1], **outcomes(paddle, "pillow"), **outcomes(paddle, "arrays"))
