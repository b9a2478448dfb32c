"""Sizes, paddings and matrices, for images of every kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from polyreme.vision.transforms.base import pair_of

__all__ = ["affine_matrix", "centred", "check_padding", "perspective_matrix", "resized", "sides_of"]

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


def resized(width: int, height: int, size: Any) -> tuple[int, int]:
    """Width and height to come: `size` is (height, width), or the length of the shorter side, the other of which follows in proportion."""
    if isinstance(size, int):
        if (width <= height and width == size) or (height <= width and height == size):
            return width, height
        return (size, int(size * height / width)) if width < height else (int(size * width / height), size)
    if not (isinstance(size, Iterable) and len(list(size)) == 2):
        raise TypeError(f"Got inappropriate size arg: {size}: expected one length or (height, width)")
    new_height, new_width = size
    return new_width, new_height


def centred(width: int, height: int, size: Any) -> tuple[int, int, int, int]:
    """Top, left, height and width of the middle of an image; `size` is (height, width), or one length for both."""
    new_height, new_width = pair_of(size)
    return int(round((height - new_height) / 2.0)), int(round((width - new_width) / 2.0)), new_height, new_width


def check_padding(padding: Any, fill: Any, padding_mode: Any) -> None:
    """TypeError, ValueError or AssertionError unless these can be arguments of `pad`."""
    if not isinstance(padding, (Real, list, tuple)):
        raise TypeError(f"Got inappropriate padding arg: {padding!r}: expected a length, or 2 or 4 of them")
    if not isinstance(fill, (Real, str, list, tuple)):
        raise TypeError(f"Got inappropriate fill arg: {fill!r}: expected a number or one for each channel")
    if not isinstance(padding_mode, str):
        raise TypeError(f"Got inappropriate padding_mode arg: {padding_mode!r}: expected one of {', '.join(PADDING_MODES)}")
    if isinstance(padding, (list, tuple)) and len(padding) not in (2, 4):
        raise ValueError(f"Padding must be an int or a 2, or 4 element tuple, not a {len(padding)} element tuple")
    if padding_mode not in PADDING_MODES:
        raise AssertionError(f"Padding mode should be either constant, edge, reflect or symmetric but got {padding_mode!r}")


def sides_of(padding: Any) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a `padding`: one length for all sides, (left and right, top and bottom), or all four."""
    if isinstance(padding, Real):
        return (padding,) * 4  # type: ignore[return-value]
    if len(padding) == 2:
        return padding[0], padding[1], padding[0], padding[1]
    left, top, right, bottom = padding
    return left, top, right, bottom


def affine_matrix(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:  # fmt: skip
    """[a, b, c, d, e, f] that leads from a place (x, y) of the new image to (a x + b y + c, d x + e y + f) of the old one.

    The new image is the old one sheared by `shear` degrees, turned by `angle` degrees, scaled, all about `center`, and then moved by
    `translate`: the inverse of translate * rotate * shear * scale.
    """
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    (x, y), (move_x, move_y) = center, translate
    # The turned and sheared axes have a determinant of 1, so that the inverse is found by exchange of elements.
    matrix = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    matrix[2] = matrix[0] * (-x - move_x) + matrix[1] * (-y - move_y) + x
    matrix[5] = matrix[3] * (-x - move_x) + matrix[4] * (-y - move_y) + y
    return matrix


def perspective_matrix(startpoints: Sequence[Sequence[float]], endpoints: Sequence[Sequence[float]]) -> list[float]:
    """[a, ..., h] such that each end point (x, y) comes from its start point ((a x + b y + c) / w, (d x + e y + f) / w), where w = g x + h
    y + 1.
    """
    rows = []
    for (x, y), (old_x, old_y) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -old_x * x, -old_x * y])
        rows.append([0, 0, 0, x, y, 1, -old_y * x, -old_y * y])
    found: list[float] = np.linalg.lstsq(np.array(rows, float), np.array(startpoints, float).reshape(8), rcond=None)[0].tolist()
    return found
