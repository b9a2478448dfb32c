"""Transforms of Pillow's images and of arrays against what Paddle made of them, and what Paddle leaves open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.vision import transforms as T
from tests.frontend.image_transforms import outcomes

FIXTURE = Path(__file__).parents[1] / "fixtures" / "transforms.npz"


@pytest.mark.parametrize("kind", ["arrays", "pillow"])
def test_a_transform_gives_what_paddle_gave(kind: str) -> None:
    if kind == "pillow":
        pytest.importorskip("PIL")
    expected = {key: value for key, value in np.load(FIXTURE).items() if key.startswith(kind)}
    got = outcomes(paddle, kind)
    assert list(got) == list(expected)
    for key, value in got.items():
        assert (value.shape, value.dtype) == (expected[key].shape, expected[key].dtype), key
        if np.issubdtype(value.dtype, np.floating):
            np.testing.assert_allclose(value, expected[key], rtol=1e-5, atol=2e-6, err_msg=key)
        else:
            # OpenCV sums four taps of bytes in another order on some processors.
            apart = np.abs(value.astype(np.int64) - expected[key].astype(np.int64))
            far = apart > (1 if "bicubic" in key else 0)
            # LAPACK solves for a perspective in another order there, which may turn a pixel that lies between two into the other one.
            assert far.any(axis=-1).sum() <= (1 if "perspective" in key else 0) and (apart > 0).mean() < 0.1, key


def test_no_other_package_is_loaded_for_arrays_and_tensors() -> None:
    program = """
import sys, numpy as np, polyreme as paddle
T = paddle.vision.transforms
x = np.zeros((5, 6, 3), "uint8")
T.Compose([T.Resize(4), T.RandomRotation(10), T.ColorJitter(0.1, 0.1, 0.1, 0.1), T.ToTensor(), T.Normalize(0.5, 0.5)])(x)
assert not {"PIL", "cv2"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_flips_keep_the_axis_of_a_single_channel() -> None:
    x = np.arange(6).reshape(2, 3, 1)
    assert T.hflip(x).shape == T.vflip(x).shape == (2, 3, 1)
    assert T.hflip(x)[..., 0].tolist() == [[2, 1, 0], [5, 4, 3]]


def test_what_lies_outside_an_image_of_pillows_is_filled() -> None:
    images = pytest.importorskip("PIL.Image")
    for mode, fill in (("RGB", (9, 9, 9)), ("L", 9)):
        moved = np.asarray(T.affine(images.new(mode, (4, 4)), 0, (4, 0), 1.0, (0, 0), fill=9))
        assert (moved == np.array(fill)).all()
        assert T.rotate(images.new(mode, (4, 4)), 30, expand=True, fill=9).getpixel((0, 0)) == fill


def test_tensors_of_bytes_are_changed_as_floats_are() -> None:
    values = np.random.default_rng(0).integers(0, 256, (3, 5, 6))
    tensor = paddle.to_tensor(values.astype("uint8"))
    for function in (lambda x: T.adjust_brightness(x, 0.5), lambda x: T.adjust_contrast(x, 0.5), T.to_grayscale, T.hflip):
        got = function(tensor)
        assert got.dtype == paddle.uint8
        expected = function(paddle.to_tensor((values / 255).astype("float32"))).numpy() * 255
        assert np.abs(got.numpy() - expected).max() <= 1.5


def test_batches_are_cut_at_their_rows_and_columns() -> None:
    x = paddle.arange(48).reshape([2, 1, 4, 6])
    assert T.crop(x, 1, 2, 2, 3).shape == [2, 1, 2, 3]
    assert T.center_crop(x, 2).flatten().tolist() == [8, 9, 14, 15, 32, 33, 38, 39]


def test_an_error_within_a_composition_says_which_transform_raised_it() -> None:
    composed = T.Compose([T.ToTensor(), T.RandomCrop(9)])
    with pytest.raises(ValueError, match="at least 9 x 9 but got 4 x 4; pad_if_needed=True widens it") as caught:
        composed(np.zeros((4, 4, 3), "uint8"))
    assert "RandomCrop" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: T.hflip([1, 2]), TypeError, "PIL Image or Tensor Image or ndarray"),
        (lambda x: T.hflip(np.zeros(3)), TypeError, r"ndarray'> of shape \(3,\)"),
        (lambda x: T.resize(x, (1, 2, 3)), TypeError, "expected one length or"),
        (lambda x: T.resize(x, 3, "box"), KeyError, "nearest, area, bilinear, bicubic, lanczos but got 'box'"),
        (lambda x: T.pad(x, (1, 2, 3)), ValueError, "2, or 4 element tuple, not a 3 element tuple"),
        (lambda x: T.pad(x, 1, padding_mode="mirror"), AssertionError, "constant, edge, reflect or symmetric but got 'mirror'"),
        (lambda x: T.adjust_hue(x, 0.7), ValueError, "hue_factor:0.7 is not in"),
        (lambda x: T.adjust_hue(x[..., 0], 0.1), ValueError, r"expected an array \[H, W, 3\] but got shape \[4, 5\]"),
        (lambda x: T.adjust_contrast(x.astype("float32"), 0.1), TypeError, r"expected an array of uint8 but got float32; convert it"),
        (lambda x: T.affine(x, 0, (1, 2, 3), 1.0, 0), ValueError, "a sequence of length 2 but got"),
        (lambda x: T.affine(x, 0, (1, 2), -1.0, 0), ValueError, "should be positive but got -1.0"),
        (lambda x: T.to_tensor(x, "NCHW"), ValueError, "should be CHW or HWC. Got NCHW"),
        (lambda x: T.RandomRotation(-1), ValueError, "must be positive, but got -1"),
        (lambda x: T.BrightnessTransform(-1), ValueError, "must be non negative, but got -1"),
        (lambda x: T.HueTransform((0.4, 0.6)), ValueError, r"between \(-0.5, 0.5\) but got \(0.4, 0.6\)"),
        (lambda x: T.RandomErasing(value=(1, 2))(x), ValueError, "length equals to image's channel but got"),
        (lambda x: T.Resize((1, 2, 3)), AssertionError, r"expected a size or \(height, width\) but got \(1, 2, 3\)"),
    ],
)
def test_arguments_without_a_meaning_are_refused(call: Any, error: type[Exception], message: str) -> None:
    import random

    random.seed(0)
    with pytest.raises(error, match=message):
        for _ in range(10):
            call(np.zeros((4, 5, 3), np.uint8))
