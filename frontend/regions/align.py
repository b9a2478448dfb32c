"""Regions of images in few pixels: means of places between pixels (`roi_align`), as Mask R-CNN reads them."""

from __future__ import annotations

from itertools import product as cartesian

from polyreme import dispatch
from polyreme.control_flow import loop
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import i64
from polyreme.math import add, cast, concat, divide, max, multiply, reshape, subtract, sum, transpose
from polyreme.regions.places import between, both, check_regions, images_of_boxes, number, pixel_rows, read, single
from polyreme.tensor import Tensor

__all__ = ["roi_align"]

# Pixels below and above along an axis, their shares, and whether the place is in the image.
Neighbours = tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor]


def roi_align(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None, height: int, width: int, spatial_scale: float, sampling_ratio: int, aligned: bool
) -> Tensor:
    """[boxes, C, height, width] of images [N, C, H, W] and boxes [boxes, 4] (x1, y1, x2, y2): each element is the mean of
    `sampling_ratio`**2 places in its part of the box, or of as many as that part has pixels.
    """
    check_regions(x, boxes, height, width, "roi_align")
    region = _Region(x, boxes, boxes_num, height, width, spatial_scale, aligned)
    return transpose(region.even(sampling_ratio) if sampling_ratio > 0 else region.by_size(), [0, 3, 1, 2])


class _Region:
    """The parts of boxes, and what is read at places in them."""

    def __init__(
        self, x: Tensor, boxes: Tensor, boxes_num: Tensor | None, height: int, width: int, spatial_scale: float, aligned: bool
    ):
        images, _, self.image_height, self.image_width = x.type.shape
        self.count: Dim = boxes.type.shape[0]
        self.height, self.width = height, width
        self.rows = pixel_rows(x)
        image = images_of_boxes(boxes_num, self.count, images)
        self.first = multiply(image, number(self.image_height * self.image_width, i64))
        boxes = boxes.detach()
        placed = multiply(boxes, number(single(spatial_scale), boxes))
        if aligned:
            placed = subtract(placed, number(0.5, boxes))
        left, top, right, bottom = (reshape(placed[:, i], [self.count]) for i in range(4))
        across, down = subtract(right, left), subtract(bottom, top)
        if not aligned:
            across, down = (dispatch.call(ops.Maximum, size, number(1, boxes)) for size in (across, down))
        self.top, self.left = top, left
        self.down, self.across = divide(down, number(height, boxes)), divide(across, number(width, boxes))

    def even(self, ratio: int) -> Tensor:
        """Equally many places in each part."""
        step = dispatch.call(ops.Iota, shape=(1, 1, ratio), axis=2, dtype=self.top.type.dtype)
        ratios = number(ratio, self.top)
        ys = self._along(self.top, self.down, self.height, self.image_height, step, ratios)
        xs = self._along(self.left, self.across, self.width, self.image_width, step, ratios)
        found = self._read(ys, xs, (self.count, self.height, ratio, 1, 1), (self.count, 1, 1, self.width, ratio))
        return divide(sum(found, axis=[2, 4]), number(ratio * ratio, found))

    def by_size(self) -> Tensor:
        """As many places as a part has pixels, downwards and across: in the n-th round the n-th place of each part."""
        like, shape = self.top, [self.count, 1, 1]
        rows, columns = (dispatch.call(ops.Ceil, size) for size in (self.down, self.across))
        none = number(0, like)
        there = both(dispatch.call(ops.Greater, rows, none), dispatch.call(ops.Greater, columns, none))
        one = number(1, like)
        count = dispatch.call(ops.Where, there, multiply(rows, columns), none)
        columns = dispatch.call(ops.Maximum, columns, one)
        # At least one round, so that gradients know the images.
        rounds = cast(max(_with_one(count)), "int64")

        def again(n: Tensor, total: Tensor) -> Tensor:
            return dispatch.call(ops.Less, n, rounds)

        def add_place(n: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            at = cast(n, self.top.dtype)
            row = dispatch.call(ops.Floor, divide(at, columns))
            column = subtract(at, multiply(row, columns))
            ys = self._along(self.top, self.down, self.height, self.image_height, reshape(row, shape), reshape(rows, shape))
            xs = self._along(self.left, self.across, self.width, self.image_width, reshape(column, shape), reshape(columns, shape))
            here = dispatch.call(ops.Less, at, reshape(count, shape))
            found = self._read(ys, xs, (self.count, self.height, 1), (self.count, 1, self.width), here)
            return add(n, number(1, i64)), add(total, found)

        start = dispatch.full((self.count, self.height, self.width, self.rows.type.shape[1]), 0, self.rows.type.dtype)
        _, total = loop(again, add_place, [number(0, i64), start])
        return divide(total, reshape(dispatch.call(ops.Maximum, count, one), [self.count, 1, 1, 1]))

    def _along(self, start: Tensor, part: Tensor, parts: int, size: Dim, step: Tensor, steps: Tensor) -> Neighbours:
        """The neighbours of the place `step` of `steps` in each of the parts of each box along an axis, [boxes, parts, steps]."""
        start, part = (reshape(v, [self.count, 1, 1]) for v in (start, part))
        index = dispatch.call(ops.Iota, shape=(1, parts, 1), axis=1, dtype=start.type.dtype)
        within = divide(multiply(add(step, number(0.5, start)), part), steps)
        place = add(add(start, multiply(index, part)), within)
        inside = both(
            dispatch.call(ops.GreaterEqual, place, number(-1, start)), dispatch.call(ops.LessEqual, place, number(size, start))
        )
        low, high, low_share, high_share = between(place, size)
        return (low, high), (low_share, high_share), inside

    def _read(
        self, ys: Neighbours, xs: Neighbours, of_y: tuple[Dim, ...], of_x: tuple[Dim, ...], counts: Tensor | None = None
    ) -> Tensor:
        """What is at each place, [boxes, …, C], for neighbours that broadcast in these shapes."""
        first = reshape(self.first, [self.count, *(1,) * (len(of_y) - 1)])
        inside = both(reshape(ys[2], list(of_y)), reshape(xs[2], list(of_x)))
        if counts is not None:
            inside = both(inside, counts)
        total: Tensor | None = None
        for i, j in cartesian((0, 1), repeat=2):
            above = multiply(reshape(ys[0][i], list(of_y)), number(self.image_width, i64))
            at = add(add(first, above), reshape(xs[0][j], list(of_x)))
            share = multiply(reshape(ys[1][i], list(of_y)), reshape(xs[1][j], list(of_x)))
            found = read(self.rows, at, share, inside)
            total = found if total is None else add(total, found)
        assert total is not None
        return total


def _with_one(count: Tensor) -> Tensor:
    """`count` and a 1, so that no boxes have a maximum."""
    return concat([count, dispatch.full((1,), 1, count.type.dtype)], 0)
