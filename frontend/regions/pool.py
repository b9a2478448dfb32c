"""Regions of images in few pixels: greatest elements of parts of boxes (`roi_pool`, Fast R-CNN), and means of parts that have channels of
their own (`psroi_pool`, R-FCN).
"""

from __future__ import annotations

import numpy as np

from polyreme import dispatch
from polyreme.control_flow import loop
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import f64, i64
from polyreme.math import add, concat, cumsum, divide, max, multiply, reshape, subtract, transpose
from polyreme.regions.places import both, check_regions, either, images_of_boxes, number, pixel_rows, rounded_away, single, whole
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

__all__ = ["psroi_pool", "roi_pool"]


def roi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None, height: int, width: int, spatial_scale: float
) -> tuple[Tensor, Tensor]:
    """[boxes, C, height, width] of images [N, C, H, W] and boxes [boxes, 4] (x1, y1, x2, y2): the greatest element of each part, and its
    place in the image, y W + x. 0 and -1 where a part is outside of the image.
    """
    check_regions(x, boxes, height, width, "roi_pool")
    images, channels, image_height, image_width = x.type.shape
    count = boxes.type.shape[0]
    rows = pixel_rows(x)
    image = images_of_boxes(boxes_num, count, images)
    first = reshape(multiply(image, number(image_height * image_width, i64)), [count, 1, 1])
    with no_grad():
        placed = rounded_away(multiply(boxes.detach(), number(single(spatial_scale), boxes)))
        tops, bottoms = _whole_parts(placed[:, 1], placed[:, 3], height, image_height)
        lefts, rights = _whole_parts(placed[:, 0], placed[:, 2], width, image_width)
        tall, wide = (_greatest(subtract(ends, starts)) for starts, ends in ((tops, bottoms), (lefts, rights)))
        rounds = multiply(tall, wide)
        tops, bottoms = (reshape(v, [count, height, 1]) for v in (tops, bottoms))
        lefts, rights = (reshape(v, [count, 1, width]) for v in (lefts, rights))
        lowest = dispatch.full((), float(np.finfo(rows.type.dtype.np).min), rows.type.dtype)
        read = rows.detach()

        def again(n: Tensor, best: Tensor, place: Tensor) -> Tensor:
            return dispatch.call(ops.Less, n, rounds)

        def look(n: Tensor, best: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            down = dispatch.call(ops.FloorDivide, n, wide)
            y, right = add(tops, down), add(lefts, subtract(n, multiply(down, wide)))
            inside = both(dispatch.call(ops.Less, y, bottoms), dispatch.call(ops.Less, right, rights))
            at = add(multiply(y, number(image_width, i64)), right)
            held = dispatch.call(ops.Where, inside, at, number(0, i64))
            found = dispatch.call(ops.Gather, read, add(first, held), axis=0)
            better = both(reshape(inside, [*inside.type.shape, 1]), dispatch.call(ops.Greater, found, best))
            place = dispatch.call(ops.Where, better, reshape(held, [*held.type.shape, 1]), place)
            return add(n, number(1, i64)), dispatch.call(ops.Where, better, found, best), place

        shape = (count, height, width, channels)
        start = dispatch.call(ops.BroadcastTo, lowest, shape=shape)
        _, _, place = loop(again, look, [number(0, i64), start, dispatch.full(shape, -1, i64)])
        nothing = either(dispatch.call(ops.LessEqual, bottoms, tops), dispatch.call(ops.LessEqual, rights, lefts))
        unseen = dispatch.call(ops.Less, place, number(0, i64))
        pixel = add(reshape(first, [count, 1, 1, 1]), dispatch.call(ops.Maximum, place, number(0, i64)))
        channel = dispatch.call(ops.Iota, shape=(1, 1, 1, channels), axis=3, dtype=i64)
        element = add(multiply(pixel, number(channels, i64)), channel)
    found = dispatch.call(ops.Gather, reshape(rows, [-1]), element, axis=0)
    otherwise = dispatch.call(ops.Where, reshape(nothing, [*nothing.type.shape, 1]), number(0, rows), lowest)
    made = dispatch.call(ops.Where, unseen, otherwise, found)
    return transpose(made, [0, 3, 1, 2]), transpose(place, [0, 3, 1, 2])


def _whole_parts(start: Tensor, end: Tensor, parts: int, size: Dim) -> tuple[Tensor, Tensor]:
    """The first pixel of each part of boxes [boxes] along an axis, and the one behind its last, [boxes, parts]."""
    like = start.type.dtype
    extent = dispatch.call(ops.Maximum, add(subtract(end, start), number(1, like)), number(1, like))
    part = reshape(divide(extent, number(parts, like)), [-1, 1])
    index = dispatch.call(ops.Iota, shape=(1, parts), axis=1, dtype=like)
    low = dispatch.call(ops.Floor, multiply(index, part))
    high = dispatch.call(ops.Ceil, multiply(add(index, number(1, like)), part))
    return _held(low, start, size), _held(high, start, size)


def _held(place: Tensor, start: Tensor, size: Dim) -> Tensor:
    moved = add(place, reshape(start, [-1, 1]))
    return whole(dispatch.call(ops.Minimum, dispatch.call(ops.Maximum, moved, number(0, moved)), number(size, moved)))


def _greatest(count: Tensor) -> Tensor:
    """The greatest of whole numbers, at least 1; of none, too."""
    return max(concat([reshape(count, [-1]), dispatch.full((1,), 1, i64)], 0))


def psroi_pool(x: Tensor, boxes: Tensor, boxes_num: Tensor | None, height: int, width: int, channels: int, spatial_scale: float) -> Tensor:
    """[boxes, channels, height, width] of images [N, channels * height * width, H, W]: the mean of each part of a box in the channel that
    belongs to it, 0 where it is outside of the image.

    A sum over a part is the difference of four sums from the corner of the image on, kept in float64.
    """
    check_regions(x, boxes, height, width, "psroi_pool")
    images, given, image_height, image_width = x.type.shape
    if isinstance(given, int) and given != channels * height * width:
        raise ValueError(
            f"psroi_pool expected images of {channels * height * width} channels, {channels} for each of {height} x {width} parts, but got "
            f"{given}"
        )
    count, like = boxes.type.shape[0], boxes.type.dtype
    sums = cumsum(cumsum(dispatch.call(ops.Cast, x, dtype=f64), 2), 3)
    sums = concat([dispatch.full((*sums.type.shape[:3], 1), 0, f64), sums], 3)
    sums = reshape(concat([dispatch.full((*sums.type.shape[:2], 1, sums.type.shape[3]), 0, f64), sums], 2), [-1])

    placed = rounded_away(boxes.detach())
    sides = []
    for i, parts, size in ((1, height, image_height), (0, width, image_width)):
        start = multiply(placed[:, i], number(single(spatial_scale), like))
        end = multiply(add(placed[:, i + 2], number(1, like)), number(single(spatial_scale), like))
        part = divide(dispatch.call(ops.Maximum, subtract(end, start), number(0.1, like)), number(parts, like))
        part, start = reshape(part, [-1, 1]), reshape(start, [-1, 1])
        index = dispatch.call(ops.Iota, shape=(1, parts), axis=1, dtype=like)
        low = dispatch.call(ops.Floor, add(multiply(index, part), start))
        high = dispatch.call(ops.Ceil, add(multiply(add(index, number(1, like)), part), start))
        shape = [count, 1, parts, 1] if i else [count, 1, 1, parts]
        none = number(0, like)
        sides.append([reshape(_held(v, none, size), shape) for v in (low, high)])
    (tops, bottoms), (lefts, rights) = sides

    image = reshape(images_of_boxes(boxes_num, count, images), [count, 1, 1, 1])
    channel = dispatch.call(ops.Reshape, dispatch.call(ops.Iota, shape=(channels * height * width,), axis=0, dtype=i64), shape=(
        1, channels, height, width,
    ))  # fmt: skip
    plane = add(multiply(image, number(channels * height * width, i64)), channel)
    row = multiply(plane, number(image_height + 1, i64))

    def upto(y: Tensor, right: Tensor) -> Tensor:
        return dispatch.call(ops.Gather, sums, add(multiply(add(row, y), number(image_width + 1, i64)), right), axis=0)

    total = add(subtract(upto(bottoms, rights), upto(tops, rights)), subtract(upto(tops, lefts), upto(bottoms, lefts)))
    tall, wide = subtract(bottoms, tops), subtract(rights, lefts)
    nothing = either(dispatch.call(ops.LessEqual, tall, number(0, i64)), dispatch.call(ops.LessEqual, wide, number(0, i64)))
    area = dispatch.call(ops.Cast, dispatch.call(ops.Maximum, multiply(tall, wide), number(1, i64)), dtype=f64)
    return dispatch.call(ops.Cast, dispatch.call(ops.Where, nothing, number(0, f64), divide(total, area)), dtype=x.type.dtype)
