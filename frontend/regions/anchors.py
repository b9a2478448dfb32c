"""Boxes by anchors: those of a grid (`prior_box`), what a network says of each (`yolo_box`), and boxes as differences from others."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.math import abs as magnitude
from polyreme.math import add, clip, concat, divide, exp, expand, log, multiply, pow, reshape, stack, subtract, transpose
from polyreme.regions.places import number, single
from polyreme.tensor import Tensor

__all__ = ["box_coder", "prior_box", "yolo_box"]


# --- boxes of a grid


def prior_box(
    input: Tensor,
    image: Tensor,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float],
    aspect_ratios: Sequence[float],
    variances: Sequence[float],
    flip: bool,
    clip_boxes: bool,
    steps: tuple[float, float],
    offset: float,
    min_max_first: bool,
) -> tuple[Tensor, Tensor]:
    """Boxes [H, W, priors, 4] (x1, y1, x2, y2) of an image with 1 as its width and height, around each place of `input` [N, C, H, W], and
    the variances of each.
    """
    if input.ndim != 4 or image.ndim != 4 or not input.type.dtype.is_float:
        raise ValueError(f"prior_box expected features and images [N, C, H, W] in floats but got {input.type} and {image.type}")
    if not min_sizes or (max_sizes and len(max_sizes) != len(min_sizes)) or len(variances) != 4:
        raise ValueError(
            f"prior_box expected some least sizes, none or as many greatest ones, and four variances but got {list(min_sizes)}, "
            f"{list(max_sizes)}, {list(variances)}"
        )
    if any(ratio <= 0 for ratio in aspect_ratios):
        raise ValueError(f"prior_box expected positive aspect ratios but got {list(aspect_ratios)}")
    dtype = input.type.dtype
    min_sizes, max_sizes, aspect_ratios, variances = (
        [single(v) for v in given] for given in (min_sizes, max_sizes, aspect_ratios, variances)
    )
    steps, offset = (single(steps[0]), single(steps[1])), single(offset)
    height, width = input.type.shape[2:]
    image_height, image_width = image.type.shape[2:]
    halves = _half_sizes(min_sizes, max_sizes, _ratios(aspect_ratios, flip), min_max_first)
    given = steps[0] != 0 and steps[1] != 0
    sides = []
    for axis, (count, whole, step) in enumerate(((width, image_width, steps[0]), (height, image_height, steps[1]))):
        size = number(whole, dtype)
        apart = number(step, dtype) if given else divide(size, number(count, dtype))
        places = dispatch.call(ops.Iota, shape=(1, count, 1) if axis == 0 else (count, 1, 1), axis=1 - axis, dtype=dtype)
        middle = multiply(add(places, number(offset, dtype)), apart)
        half = dispatch.constant(np.array(halves[axis], dtype.np).reshape(1, 1, -1))
        sides.append([divide(function(middle, half), size) for function in (subtract, add)])
    shape: list[Dim] = [height, width, len(halves[0])]
    (left, right), (top, bottom) = ([expand(v, shape) for v in side] for side in sides)
    boxes = stack([left, top, right, bottom], -1)
    if clip_boxes:
        boxes = clip(boxes, 0.0, 1.0)
    kept = dispatch.constant(np.array(variances, dtype.np).reshape(1, 1, 1, 4))
    return boxes, expand(kept, [*shape, 4])


def _ratios(given: Sequence[float], flip: bool) -> list[float]:
    """1, and those given that are not there yet; with `flip` their inverses, too."""
    found = [1.0]
    for ratio in given:
        if all(abs(ratio - other) >= 1e-6 for other in found):
            found += [ratio, 1.0 / ratio] if flip else [ratio]
    return found


def _half_sizes(
    min_sizes: Sequence[float], max_sizes: Sequence[float], ratios: Sequence[float], min_max_first: bool
) -> tuple[list[float], list[float]]:
    """Half the widths and half the heights of the boxes around a place."""
    widths, heights = [], []
    for i, size in enumerate(min_sizes):
        by_ratio = [(size * numbers.sqrt(r) / 2, size / numbers.sqrt(r) / 2) for r in ratios]
        middle = numbers.sqrt(size * max_sizes[i]) / 2 if max_sizes else None
        between = [] if middle is None else [(middle, middle)]
        if min_max_first:
            others = [box for box, r in zip(by_ratio, ratios, strict=True) if abs(r - 1.0) >= 1e-6]
            boxes = [(size / 2, size / 2), *between, *others]
        else:
            boxes = [*by_ratio, *between]
        widths += [w for w, _ in boxes]
        heights += [h for _, h in boxes]
    return widths, heights


# --- what a network says of a grid


def yolo_box(
    x: Tensor,
    img_size: Tensor,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool,
    scale_x_y: float,
    iou_aware: bool,
    iou_aware_factor: float,
) -> tuple[Tensor, Tensor]:
    """Boxes [N, anchors * H * W, 4] and scores [N, anchors * H * W, class_num] of what YOLO says, `x` [N, anchors * (5 + class_num), H, W].

    `img_size` [N, 2] has heights and widths. Boxes that it trusts less than `conf_thresh` are zeros, and so are their scores.
    """
    if x.ndim != 4 or img_size.ndim != 2 or not x.type.dtype.is_float:
        raise ValueError(f"yolo_box expected features [N, C, H, W] in floats and sizes [N, 2] but got {x.type} and {img_size.type}")
    dtype, (images, channels, height, width) = x.type.dtype, x.type.shape
    x = x.detach()  # no gradient passes it, as in Paddle
    conf_thresh, scale_x_y, iou_aware_factor = single(conf_thresh), single(scale_x_y), single(iou_aware_factor)
    count, each = len(anchors) // 2, 5 + class_num + (1 if iou_aware else 0)
    if not count or len(anchors) % 2 or class_num < 1 or channels != count * each:
        raise ValueError(
            f"yolo_box expected anchors as pairs and {each} channels for each of them but got {list(anchors)} and {channels} channels"
        )
    ious = None
    if iou_aware:
        ious = reshape(x[:, :count], [images, count, height, width])
        x = reshape(x[:, count:], [images, channels - count, height, width])
    said = reshape(x, [images, count, 5 + class_num, height, width])
    trust = _sigmoid(said[:, :, 4])  # [N, anchors, H, W]
    if ious is not None:
        trust = multiply(pow(trust, 1.0 - iou_aware_factor), pow(_sigmoid(ious), iou_aware_factor))
    doubted = dispatch.call(ops.Less, trust, number(conf_thresh, dtype))

    sizes = reshape(dispatch.call(ops.Cast, img_size, dtype=dtype), [images, 2, 1, 1, 1])
    tall, wide = (reshape(sizes[:, i], [images, 1, 1, 1]) for i in range(2))
    sides = []
    for i, (cells, whole, axis) in enumerate(((width, wide, 3), (height, tall, 2))):
        shape: list[Dim] = [1, 1, 1, 1]
        shape[axis] = cells
        cell = dispatch.call(ops.Iota, shape=tuple(shape), axis=axis, dtype=dtype)
        within = add(multiply(_sigmoid(said[:, :, i]), number(scale_x_y, dtype)), number(-0.5 * (scale_x_y - 1.0), dtype))
        middle = divide(multiply(add(cell, within), whole), number(cells, dtype))
        anchor = dispatch.constant(np.array(anchors[i::2], dtype.np).reshape(1, count, 1, 1))
        size = divide(multiply(multiply(exp(said[:, :, 2 + i]), anchor), whole), number(downsample_ratio * cells, dtype))
        half = multiply(size, number(0.5, dtype))
        low, high = subtract(middle, half), add(middle, half)
        if clip_bbox:
            low = dispatch.call(ops.Maximum, low, number(0, dtype))
            high = dispatch.call(ops.Minimum, high, subtract(whole, number(1, dtype)))
        sides.append((low, high))
    boxes = stack([sides[0][0], sides[1][0], sides[0][1], sides[1][1]], -1)
    scores = multiply(reshape(trust, [images, count, 1, height, width]), _sigmoid(said[:, :, 5:]))
    scores = transpose(scores, [0, 1, 3, 4, 2])
    unknown, none = reshape(doubted, [*doubted.type.shape, 1]), number(0, dtype)
    rows = count * height * width
    return (
        reshape(dispatch.call(ops.Where, unknown, none, boxes), [images, rows, 4]),
        reshape(dispatch.call(ops.Where, unknown, none, scores), [images, rows, class_num]),
    )


def _sigmoid(x: Tensor) -> Tensor:
    return dispatch.call(ops.Sigmoid, x)


# --- boxes as differences


def box_coder(
    prior_box: Tensor,
    prior_box_var: Tensor | None,
    target_box: Tensor,
    encode: bool,
    normalized: bool,
    axis: int,
    variance: Sequence[float],
) -> Tensor:
    """The differences [N, M, 4] of boxes [N, 4] from priors [M, 4], by their sizes and divided by variances; or, where not `encode`, boxes
    of differences [N, M, 4] from priors that are along `axis` 1 - axis of them.
    """
    if prior_box.ndim != 2 or target_box.ndim != (2 if encode else 3) or prior_box.shape[1] != 4 or target_box.shape[-1] != 4:
        raise ValueError(
            f"box_coder expected priors [M, 4] and boxes {'[N, 4]' if encode else '[N, M, 4]'} but got shapes {list(prior_box.shape)} and "
            f"{list(target_box.shape)}"
        )
    if axis not in (0, 1) or (variance and len(variance) != 4):
        raise ValueError(f"box_coder expected the axis 0 or 1 and none or four variances but got {axis} and {list(variance)}")
    # No gradient passes it, as in Paddle.
    prior_box, target_box = prior_box.detach(), target_box.detach()
    prior_box_var = None if prior_box_var is None else prior_box_var.detach()
    dtype = target_box.type.dtype
    more = number(0.0 if normalized else 1.0, dtype)
    shape: list[Dim] = [1, -1, 1] if encode or axis == 0 else [-1, 1, 1]
    prior_middle, prior_size = _middles(reshape(prior_box, [*shape[:2], 4]), more)
    if prior_box_var is not None:
        by = reshape(prior_box_var, [*shape[:2], 4])
    else:
        by = dispatch.constant(np.array([single(v) for v in variance or [1.0] * 4], dtype.np).reshape(1, 1, 4))
    if encode:
        target = reshape(target_box, [-1, 1, 4])
        _, size = _middles(target, more)
        # Of boxes that are given by whole pixels, too, Paddle takes the middle between the two corners here.
        middle = multiply(add(target[:, :, 2:], target[:, :, :2]), number(0.5, dtype))
        moved = divide(subtract(middle, prior_middle), prior_size)
        grown = log(magnitude(divide(size, prior_size)))
        return divide(concat([moved, grown], 2), by)
    middle = add(multiply(multiply(by[:, :, :2], target_box[:, :, :2]), prior_size), prior_middle)
    half = multiply(multiply(exp(multiply(by[:, :, 2:], target_box[:, :, 2:])), prior_size), number(0.5, dtype))
    return concat([subtract(middle, half), subtract(add(middle, half), more)], 2)


def _middles(boxes: Tensor, more: Tensor) -> tuple[Tensor, Tensor]:
    """The middles (x, y) and sizes (width, height) of boxes [..., 4]."""
    low = boxes[:, :, :2]
    size = add(subtract(boxes[:, :, 2:], low), more)
    return add(low, multiply(size, number(0.5, size))), size
