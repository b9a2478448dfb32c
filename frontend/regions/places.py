"""Pixels at places between them, and the images that boxes are of: what regions and deformed windows are read with."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import ScalarType, i64
from polyreme.math import add, cast, cumsum, multiply, reshape, subtract, sum, transpose
from polyreme.math.common import check_within, same_sizes
from polyreme.tensor import Tensor

__all__ = [
    "between", "both", "check_regions", "either", "image_of_rows", "images_of_boxes", "number", "pixel_rows", "read", "rounded_away",
    "single", "whole",
]  # fmt: skip


def number(value: Any, like: Tensor | ScalarType) -> Tensor:
    """A number, or a size, in the dtype of a tensor."""
    return dispatch.full((), value, like.type.dtype if isinstance(like, Tensor) else like)


def single(value: float) -> float:
    """A number as Paddle's attributes keep it, in float32."""
    return float(np.float32(value))


def whole(x: Tensor) -> Tensor:
    """Whole numbers in floats as places."""
    return cast(x, "int64")


def both(x: Tensor, y: Tensor) -> Tensor:
    return dispatch.call(ops.LogicalAnd, x, y)


def either(x: Tensor, y: Tensor) -> Tensor:
    return dispatch.call(ops.LogicalOr, x, y)


def pixel_rows(x: Tensor, groups: int = 1) -> Tensor:
    """Images [N, groups * C, H, W] as rows of channels, [N * groups * H * W, C]."""
    n, channels, height, width = x.type.shape
    apart = reshape(x, [n, groups, channels // groups, height, width])
    return reshape(transpose(apart, [0, 1, 3, 4, 2]), [n * groups * height * width, channels // groups])


def read(rows: Tensor, at: Tensor, share: Tensor, counts: Tensor | None = None) -> Tensor:
    """The rows at places, times their share; 0 where `counts` does not hold."""
    found = multiply(dispatch.call(ops.Gather, rows, at, axis=0), reshape(share, [*share.type.shape, 1]))
    if counts is None:
        return found
    return dispatch.call(ops.Where, reshape(counts, [*counts.type.shape, 1]), found, number(0, rows))


def images_of_boxes(boxes_num: Tensor | None, boxes: Dim, images: Dim) -> Tensor:
    """The image that each of so many boxes is of, int64 [boxes]; `boxes_num` has the number of boxes of each image, in order.

    `ValueError` where there are not as many numbers as images, or where these do not add up to the boxes.
    """
    if boxes_num is None:
        if images != 1:
            raise ValueError(f"expected the number of boxes of each image, boxes_num, of {images} images")
        return dispatch.full((boxes,), 0, i64)
    counted = product(boxes_num.type.shape)
    # Where nothing can be learned of free sizes, a wrong number of them is not found.
    if not same_sizes([counted], [images]) and isinstance(counted, int) and isinstance(images, int):
        raise ValueError(f"expected the number of boxes of each of {images} images, boxes_num, but got the shape {list(boxes_num.shape)}")
    return dispatch.call(ops.Minimum, image_of_rows(boxes_num, boxes), number(images - 1, i64))


def image_of_rows(counts: Tensor, rows: Dim) -> Tensor:
    """The number of the image of each of so many rows, int64 [rows], where the first `counts[0]` are those of image 0, and so on.

    `ValueError`, as soon as the counts are known, where they are not those of all rows.
    """
    ends = cumsum(cast(reshape(counts.detach(), [-1]), "int64"), 0)

    def differ(low: int, high: int, one: int) -> ValueError:
        got = f"{high} more" if high > 0 else f"{-low} fewer"
        return ValueError(f"expected as many regions as the numbers of regions per image add up to but got {got}")

    check_within(subtract(number(rows, i64), ends[-1:]), 1, differ, False)
    row = dispatch.call(ops.Iota, shape=(rows, 1), axis=0, dtype=i64)
    return sum(cast(dispatch.call(ops.GreaterEqual, row, reshape(ends, [1, -1])), "int64"), axis=1)


def between(place: Tensor, size: Dim) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The pixels below and above places along an axis, and their shares; places outside are at the first or last pixel."""
    last = number(size - 1, place)
    held = dispatch.call(ops.Minimum, dispatch.call(ops.Maximum, place, number(0, place)), last)
    low = dispatch.call(ops.Floor, held)
    share = subtract(held, low)
    high = dispatch.call(ops.Minimum, add(low, number(1, place)), last)
    return whole(low), whole(high), subtract(number(1, place), share), share


def rounded_away(x: Tensor) -> Tensor:
    """The nearest whole number in floats, of halves the one further from 0."""
    cut = dispatch.call(ops.Trunc, x)
    beyond = dispatch.call(ops.GreaterEqual, dispatch.call(ops.Abs, subtract(x, cut)), number(0.5, x))
    return add(cut, dispatch.call(ops.Where, beyond, dispatch.call(ops.Sign, x), number(0, x)))


def check_regions(x: Tensor, boxes: Tensor, height: int, width: int, function: str) -> None:
    """A ValueError where these are no images [N, C, H, W] and boxes [boxes, 4] in floats of one dtype, or a region has no pixels."""
    if x.ndim != 4 or boxes.ndim != 2 or not same_sizes(boxes.type.shape[1:], [4]):
        raise ValueError(f"{function} expected images [N, C, H, W] and boxes [boxes, 4] but got {x.type} and {boxes.type}")
    if x.type.dtype != boxes.type.dtype or not x.type.dtype.is_float:
        raise ValueError(f"{function} expected images and boxes in floats of one dtype but got {x.dtype.name} and {boxes.dtype.name}")
    if height <= 0 or width <= 0:
        raise ValueError(f"{function} expected a region of at least one pixel but got {height} x {width}")
