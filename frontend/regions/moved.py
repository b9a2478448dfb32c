"""Regions of images whose parts are moved by what a network says (Dai and others, "Deformable convolutional networks", 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import i64
from polyreme.math import add, divide, multiply, reshape, subtract, sum, transpose
from polyreme.regions.places import between, both, check_regions, images_of_boxes, number, read, rounded_away, single
from polyreme.tensor import Tensor

__all__ = ["deformable_roi_pool"]

# How many parts, and how they lie in two grids: of the groups of channels, and of the moves.
Grid = Sequence[int]


def deformable_roi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None, moves: Tensor | None, height: int, width: int, channels: int,
    spatial_scale: float, groups: Grid, parts: Grid, samples: int, factor: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """[boxes, channels, height, width] of images [N, channels * groups, H, W]: the mean of `samples`**2 places between pixels in each part
    of a box, and how many of these lie in the image; where none does the mean is 0. A part reads the channels of its group.

    `moves` [boxes, 2 * classes, parts] say how far each part lies to the right and down, in widths and heights of its box times `factor`;
    the channels are those of so many classes.
    """
    check_regions(x, boxes, height, width, "deformable_roi_pooling")
    images, given, image_height, image_width = x.type.shape
    count: Dim = boxes.type.shape[0]
    many, classes = groups[0] * groups[1], 1 if moves is None else int(moves.shape[1]) // 2
    if isinstance(given, int) and given != channels * many or classes < 1 or channels % classes:
        raise ValueError(
            f"deformable_roi_pooling expected images of {channels * many} channels, {channels} for each of {many} groups, and moves of "
            f"classes that divide {channels} but got {given} channels and {classes} classes"
        )
    if samples < 1:
        raise ValueError(f"deformable_roi_pooling expected at least one sample in a part but got {samples}")
    each = channels // classes
    # The pixels of each class and group as rows of their channels.
    apart = reshape(x, [images, classes, each, many, image_height * image_width])
    rows = reshape(transpose(apart, [0, 1, 3, 4, 2]), [images * classes * many * image_height * image_width, each])

    wide = [count, classes, height, width]
    image = reshape(images_of_boxes(boxes_num, count, images), [count, 1, 1, 1])
    plane = add(multiply(image, number(classes, i64)), dispatch.call(ops.Iota, shape=(1, classes, 1, 1), axis=1, dtype=i64))
    group = np.add.outer(_spread(height, groups[0]) * groups[1], _spread(width, groups[1])).reshape(1, 1, height, width)
    plane = add(multiply(plane, number(many, i64)), dispatch.constant(group))
    first = reshape(multiply(plane, number(image_height * image_width, i64)), [*plane.type.shape, 1, 1])

    placed, sides = rounded_away(boxes.detach()), []
    for axis, size, cells in ((1, image_height, height), (0, image_width, width)):
        moved = None if moves is None else _moves(moves, axis, classes, (height, width), parts)
        sides.append(_places(placed, axis, cells, size, samples, spatial_scale, moved, factor, wide))
    (ys, y_inside), (xs, x_inside) = sides
    inside = both(y_inside, x_inside)
    total: Tensor | None = None
    for i, j in cartesian((0, 1), repeat=2):
        at = add(add(first, multiply(ys[i], number(image_width, i64))), xs[j])
        found = read(rows, at, multiply(ys[2 + i], xs[2 + j]), inside)
        total = found if total is None else add(total, found)
    assert total is not None
    hits = sum(dispatch.call(ops.Cast, inside, dtype=x.type.dtype), axis=[4, 5])
    some = reshape(dispatch.call(ops.Maximum, hits, number(1, hits)), [*hits.type.shape, 1])
    made = divide(sum(total, axis=[4, 5]), some)  # [boxes, classes, height, width, each]
    made = reshape(transpose(made, [0, 1, 4, 2, 3]), [count, channels, height, width])
    each_hits = dispatch.call(ops.BroadcastTo, reshape(hits, [count, classes, 1, height, width]), shape=(
        count, classes, each, height, width,
    ))  # fmt: skip
    return made, reshape(each_hits, [count, channels, height, width])


def _spread(cells: int, parts: int) -> np.ndarray:
    """Which of so many parts each cell lies in, as float32 has it."""
    place = np.floor(np.arange(cells, dtype=np.float32) / np.float32(cells) * np.float32(parts)).astype(np.int64)
    return np.clip(place, 0, parts - 1)


def _moves(moves: Tensor, axis: int, classes: int, cells: tuple[int, int], parts: Grid) -> Tensor:
    """How far each cell is moved along an axis of the image, [boxes, classes, height, width, 1, 1]."""
    count, _, *given = moves.type.shape
    if list(given) != list(parts):
        raise ValueError(f"deformable_roi_pooling expected moves of {list(parts)} parts but got the shape {list(moves.shape)}")
    own = reshape(moves, [count, classes, 2, *given])[:, :, axis]
    for at, (size, part) in enumerate(zip(cells, parts, strict=True), 2):
        own = dispatch.call(ops.Gather, own, dispatch.constant(_spread(size, part)), axis=at)
    return reshape(own, [count, classes, *cells, 1, 1])


def _places(
    placed: Tensor, axis: int, cells: int, size: Dim, samples: int, spatial_scale: float, moved: Tensor | None, factor: float,
    wide: Sequence[Dim],
) -> tuple[tuple[Tensor, ...], Tensor]:  # fmt: skip
    """The pixels around the places that are read along an axis and their shares, and which places lie in the image."""
    like, half, scale = placed.type.dtype, number(0.5, placed), number(single(spatial_scale), placed)
    start = subtract(multiply(placed[:, axis], scale), half)
    end = subtract(multiply(add(placed[:, axis + 2], number(1, like)), scale), half)
    extent = dispatch.call(ops.Maximum, subtract(end, start), number(0.1, like))
    start, extent = (reshape(v, [-1, 1, 1, 1, 1, 1]) for v in (start, extent))
    part = divide(extent, number(cells, like))
    cell_shape = tuple(cells if i == 3 - axis else 1 for i in range(6))
    step_shape = tuple(samples if i == 5 - axis else 1 for i in range(6))
    cell = dispatch.call(ops.Iota, shape=cell_shape, axis=3 - axis, dtype=like)
    step = dispatch.call(ops.Iota, shape=step_shape, axis=5 - axis, dtype=like)
    begin = add(multiply(cell, part), start)
    if moved is not None:
        begin = add(begin, multiply(multiply(moved, number(single(factor), like)), extent))
    place = add(begin, multiply(step, divide(part, number(samples, like))))
    shape = [*wide, *(samples if i == 1 - axis else 1 for i in range(2))]
    place = dispatch.call(ops.BroadcastTo, place, shape=tuple(shape))
    inside = both(
        dispatch.call(ops.GreaterEqual, place, number(-0.5, like)),
        dispatch.call(ops.LessEqual, place, subtract(number(size, like), half)),
    )
    low, high, low_share, high_share = between(place, size)
    return (low, high, low_share, high_share), inside
