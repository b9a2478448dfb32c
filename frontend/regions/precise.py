"""Regions of images as exact means (Jiang and others, "Acquisition of localization confidence", 2018): integrals of what lies between
pixels by bilinear interpolation, over the parts of boxes. Gradients go to the edges of the boxes, too.
"""

from __future__ import annotations

from polyreme import dispatch
from polyreme.control_flow import loop
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import i64
from polyreme.math import add, concat, divide, max, multiply, reshape, subtract, transpose
from polyreme.regions.places import both, check_regions, images_of_boxes, number, pixel_rows, read, single, whole
from polyreme.tensor import Tensor

__all__ = ["prroi_pool"]


def prroi_pool(x: Tensor, boxes: Tensor, boxes_num: Tensor | None, height: int, width: int, spatial_scale: float) -> Tensor:
    """[boxes, C, height, width] of images [N, C, H, W] and boxes [boxes, 4] (x1, y1, x2, y2): the mean over each part of a box, where the
    image is 0 outside of its pixels; 0 for a box without an area.
    """
    check_regions(x, boxes, height, width, "prroi_pool")
    images, channels, image_height, image_width = x.type.shape
    count: Dim = boxes.type.shape[0]
    rows = pixel_rows(x)
    first = multiply(images_of_boxes(boxes_num, count, images), number(image_height * image_width, i64))
    first = reshape(first, [count, 1, 1])
    placed = multiply(boxes, number(single(spatial_scale), boxes))
    down = _Side(placed[:, 1], placed[:, 3], height, image_height)
    across = _Side(placed[:, 0], placed[:, 2], width, image_width)
    columns = across.most()
    rounds = multiply(down.most(), columns)

    def add_pixel(n: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        row = dispatch.call(ops.FloorDivide, n, columns)
        y, y_share = down.pixel(row)
        z, z_share = across.pixel(subtract(n, multiply(row, columns)))
        at = add(add(first, reshape(multiply(y, number(image_width, i64)), [count, height, 1])), reshape(z, [count, 1, width]))
        share = multiply(reshape(y_share, [count, height, 1]), reshape(z_share, [count, 1, width]))
        return add(n, number(1, i64)), add(total, read(rows, at, share))

    start = dispatch.full((count, height, width, channels), 0, rows.type.dtype)
    _, total = loop(lambda n, total: dispatch.call(ops.Less, n, rounds), add_pixel, [number(0, i64), start])
    area = reshape(multiply(down.size, across.size), [count, 1, 1, 1])
    some = dispatch.call(ops.Greater, area, number(0, area))
    made = divide(total, dispatch.call(ops.Where, some, area, number(1, area)))
    return transpose(dispatch.call(ops.Where, some, made, number(0, made)), [0, 3, 1, 2])


class _Side:
    """The parts of boxes along an axis, [boxes, parts], and the pixels that they reach."""

    def __init__(self, start: Tensor, end: Tensor, parts: int, size: Dim):
        like = start.type.dtype
        extent = dispatch.call(ops.Maximum, subtract(end, start), number(0, like))
        self.size = divide(extent, number(parts, like))
        index = dispatch.call(ops.Iota, shape=(1, parts), axis=1, dtype=like)
        self.start = add(reshape(start, [-1, 1]), multiply(index, reshape(self.size, [-1, 1])))
        self.end = add(self.start, reshape(self.size, [-1, 1]))
        none, last = number(0, like), number(size - 1, like)
        low = dispatch.call(ops.Maximum, dispatch.call(ops.Floor, self.start.detach()), none)
        high = dispatch.call(ops.Minimum, dispatch.call(ops.Ceil, self.end.detach()), last)
        self.low, self.last = whole(low), number(size - 1, i64)
        self.count = whole(add(subtract(high, low), number(1, like)))

    def most(self) -> Tensor:
        """The most pixels that a part reaches, at least 1."""
        return max(concat([reshape(self.count, [-1]), dispatch.full((1,), 1, i64)], 0))

    def pixel(self, n: Tensor) -> tuple[Tensor, Tensor]:
        """The n-th pixel of each part, and how much of what it weighs lies in the part; 0 where a part reaches no n-th one."""
        at = add(self.low, n)
        there = both(dispatch.call(ops.Less, n, self.count), dispatch.call(ops.LessEqual, at, self.last))
        held = dispatch.call(ops.Minimum, at, self.last)
        pixel = dispatch.call(ops.Cast, held, dtype=self.start.type.dtype)
        share = subtract(_weight_up_to(subtract(self.end, pixel)), _weight_up_to(subtract(self.start, pixel)))
        return held, dispatch.call(ops.Where, there, share, number(0, share))


def _weight_up_to(t: Tensor) -> Tensor:
    """The integral of max(0, 1 - |s|) over s up to `t`: 1/2 + t - t |t| / 2 between -1 and 1."""
    one = number(1, t)
    t = dispatch.call(ops.Minimum, dispatch.call(ops.Maximum, t, number(-1, t)), one)
    half = multiply(multiply(t, dispatch.call(ops.Abs, t)), number(0.5, t))
    return subtract(add(t, number(0.5, t)), half)
