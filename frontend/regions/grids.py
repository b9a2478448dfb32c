"""Boxes around the places of a grid (`density_prior_box`, `anchor_generator`), held within images, decoded for each class, and quadrangles
as differences from places.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.math import argmax, clip, concat, exp, expand, maximum, minimum, reshape, stack, subtract
from polyreme.math.common import cast_to, select
from polyreme.regions.places import number, rounded_away, single
from polyreme.tensor import Tensor

__all__ = ["anchor_generator", "box_clip", "box_decoder_and_assign", "density_prior_box", "polygon_box_transform"]


def _along(count: Dim, axis: int, like: Tensor, rank: int = 3) -> Tensor:
    """0, 1, … along one axis of so many."""
    shape: list[Dim] = [1] * rank
    shape[axis] = count
    return dispatch.call(ops.Iota, shape=tuple(shape), axis=axis, dtype=like.type.dtype)


def _per_box(values: Sequence[float], like: Tensor) -> Tensor:
    return dispatch.constant(np.array(values, like.type.dtype.np).reshape(1, 1, -1))


def _with_variances(boxes: Tensor, variances: Sequence[float]) -> tuple[Tensor, Tensor]:
    if len(variances) != 4:
        raise ValueError(f"expected four variances but got {list(variances)}")
    kept = dispatch.constant(np.array([single(v) for v in variances], boxes.type.dtype.np).reshape(1, 1, 1, 4))
    return boxes, expand(kept, list(boxes.type.shape))


def density_prior_box(
    input: Tensor,
    image: Tensor,
    densities: Sequence[int],
    sizes: Sequence[float],
    ratios: Sequence[float],
    variances: Sequence[float],
    clip_boxes: bool,
    steps: tuple[float, float],
    offset: float,
) -> tuple[Tensor, Tensor]:
    """Boxes [H, W, priors, 4] (x1, y1, x2, y2) of an image with 1 as its width and height, around each place of `input` [N, C, H, W], and
    the variances of each. Of each size and ratio there are density x density boxes, spread evenly over the step from place to place.
    """
    if input.ndim != 4 or image.ndim != 4 or len(densities) != len(sizes) or any(density < 1 for density in densities):
        raise ValueError(
            f"density_prior_box expected features and images [N, C, H, W] and a density of 1 or more for each size but got {input.type}, "
            f"{image.type}, {list(densities)} and {list(sizes)}"
        )
    height, width = input.type.shape[2:]
    whole = image.type.shape[2:]
    given = steps[0] != 0 and steps[1] != 0
    if not given and not all(isinstance(size, int) for size in (height, width, *whole)):
        raise ValueError("density_prior_box expected steps, or features and images of known sizes")
    step_x, step_y = (
        (single(steps[0]), single(steps[1])) if given else (int(whole[1]) / int(width), int(whole[0]) / int(height))
    )
    average = int((np.float32(step_x) + np.float32(step_y)) * 0.5)
    halves: tuple[list[float], list[float]] = ([], [])
    moved: tuple[list[float], list[float]] = ([], [])
    for size, density in zip(sizes, densities, strict=True):
        shift = average // density
        for ratio in ratios:
            root = numbers.sqrt(single(ratio))
            for down in range(density):
                for right in range(density):
                    for axis, (half, place) in enumerate(((single(size) * root, right), (single(size) / root, down))):
                        halves[axis].append(half / 2)
                        moved[axis].append(place * shift - average / 2 + shift / 2)
    sides = []
    for axis, (count, step, extent) in enumerate(((width, step_x, whole[1]), (height, step_y, whole[0]))):
        middle = (_along(count, 1 - axis, input) + number(single(offset), input)) * number(step, input) + _per_box(moved[axis], input)
        around, all_of_it = _per_box(halves[axis], input), number(extent, input)
        low = maximum((middle - around) / all_of_it, number(0, input))
        high = minimum((middle + around) / all_of_it, number(1, input))
        sides.append((low, high))
    shape: list[Dim] = [height, width, len(halves[0])]
    boxes = stack([expand(sides[axis][end], shape) for end in range(2) for axis in range(2)], -1)
    return _with_variances(clip(boxes, 0.0, 1.0) if clip_boxes else boxes, variances)


def anchor_generator(
    input: Tensor, sizes: Sequence[float], ratios: Sequence[float], variances: Sequence[float], stride: Sequence[float], offset: float
) -> tuple[Tensor, Tensor]:
    """Boxes [H, W, anchors, 4] of pixels around each place of `input` [N, C, H, W], and the variances of each; of each ratio, height by
    width, one for each size.
    """
    if input.ndim != 4 or len(stride) != 2:
        raise ValueError(f"anchor_generator expected features [N, C, H, W] and two strides but got {input.type} and {list(stride)}")
    height, width = input.type.shape[2:]
    apart = [np.float32(step) for step in stride]
    halves: tuple[list[float], list[float]] = ([], [])
    for ratio in ratios:
        wide = _rounded(numbers.sqrt(float(apart[0] * apart[1] / np.float32(ratio))))
        for size in sizes:
            for axis, edge in enumerate((wide, _rounded(float(np.float32(wide) * np.float32(ratio))))):
                halves[axis].append(float(np.float32(0.5) * (np.float32(size) / apart[axis] * np.float32(edge) - np.float32(1))))
    sides = []
    for axis, count in enumerate((width, height)):
        step = float(apart[axis])
        middle = _along(count, 1 - axis, input) * number(step, input) + number(single(offset) * (step - 1), input)
        half = _per_box(halves[axis], input)
        sides.append((subtract(middle, half), middle + half))
    shape: list[Dim] = [height, width, len(halves[0])]
    return _with_variances(stack([expand(sides[axis][end], shape) for end in range(2) for axis in range(2)], -1), variances)


def _rounded(value: float) -> float:
    return numbers.floor(value + 0.5)


def box_clip(boxes: Tensor, im_info: Tensor, image: Tensor) -> Tensor:
    """Boxes [n, ..., 4] of pixels held within the images that they are of: `image`, int64 [n], says which. `im_info` [images, 3] has
    heights, widths and by how much the images were scaled.
    """
    last = rounded_away(im_info[:, :2] / im_info[:, 2:]) - number(1, im_info)
    edges = math.gather(concat([last[:, 1:], last[:, :1]], 1), image, 0)
    edges = reshape(concat([edges, edges], 1), [-1, *[1] * (boxes.ndim - 2), 4])
    return maximum(minimum(boxes, cast_to(edges, boxes.type.dtype)), number(0, boxes))


def polygon_box_transform(x: Tensor) -> Tensor:
    """[N, channels, H, W] of differences from places, x and y by turns, as places in an image with four pixels for each."""
    _, channels, height, width = x.type.shape
    even = math.equal(_along(channels, 1, x, 4) - math.floor(_along(channels, 1, x, 4) / 2.0) * 2.0, number(0, x))
    return select(even, _along(width, 3, x, 4) * number(4, x) - x, _along(height, 2, x, 4) * number(4, x) - x)


def box_decoder_and_assign(
    priors: Tensor, variances: Tensor, differences: Tensor, scores: Tensor, most: float
) -> tuple[Tensor, Tensor]:
    """Boxes of pixels [n, 4 * classes] of differences from priors [n, 4], one for each class; and of each prior the one of its class with
    the highest score [n, classes], which is none of the first, the background.
    """
    count, classes, one = priors.type.shape[0], scores.type.shape[1], number(1, priors)
    said = reshape(differences, [count, classes, 4]) * reshape(variances, [1, 1, 4])
    corner = reshape(priors, [count, 1, 4])
    size = corner[:, :, 2:] - corner[:, :, :2] + one
    middle = corner[:, :, :2] + size * number(0.5, priors) + said[:, :, :2] * size
    half = exp(minimum(said[:, :, 2:], number(single(most), priors))) * size * number(0.5, priors)
    boxes = concat([middle - half, middle + half - one], 2)
    best = argmax(scores[:, 1:], 1) + 1
    row = dispatch.call(ops.Iota, shape=(count,), axis=0, dtype=best.type.dtype)
    chosen = math.gather(reshape(boxes, [-1, 4]), row * number(classes, best) + best, 0)
    return reshape(boxes, [count, -1]), chosen
