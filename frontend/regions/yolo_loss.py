"""What YOLOv3 is trained by (Redmon and Farhadi, "YOLOv3: an incremental improvement", 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim
from polyreme.ir.types import i32, i64
from polyreme.math import add, argmax, concat, divide, exp, log, max, multiply, reshape, scatter, subtract, sum, transpose
from polyreme.regions.places import both, either, number, single, whole
from polyreme.tape import no_grad
from polyreme.tensor import Tensor

__all__ = ["yolo_loss"]

# Sides that are shorter than this are those of no box.
_LEAST = 1e-6


def yolo_loss(
    x: Tensor,
    gt_box: Tensor,
    gt_label: Tensor,
    gt_score: Tensor | None,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    use_label_smooth: bool,
    scale_x_y: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss [N] of what is said of a grid, `x` [N, masked anchors * (5 + class_num), H, W], for true boxes [N, B, 4] (middle, width and
    height, of an image with sides of 1), labels and scores [N, B].

    Also what each place is taken for [N, masked anchors, H, W] (the score of the box that it is for, 0 for nothing, -1 where it is not
    asked), and the place in `anchor_mask` that each box is for [N, B], -1 for none.
    """
    wanted = len(anchor_mask) * (5 + class_num)
    if x.ndim != 4 or gt_box.ndim != 3 or x.shape[1] != wanted or gt_box.shape[2] != 4 or len(anchors) % 2 or not anchor_mask:
        raise ValueError(
            f"yolo_loss expected features [N, {wanted}, H, W], true boxes [N, B, 4], and anchors as pairs but got {x.type}, {gt_box.type} "
            f"and {list(anchors)}"
        )
    if any(not 0 <= place < len(anchors) // 2 for place in anchor_mask):
        raise ValueError(f"yolo_loss expected places of {len(anchors) // 2} anchors in anchor_mask but got {list(anchor_mask)}")
    images, _, height, width = x.type.shape
    count, parts = gt_box.type.shape[1], len(anchor_mask)
    said = reshape(x, [images, parts, 5 + class_num, height, width])
    with no_grad():
        score = dispatch.full((images, count), 1, x.type.dtype) if gt_score is None else gt_score.detach()
        true = _True(gt_box.detach(), anchors, anchor_mask, (height, width), number(downsample_ratio * height, x))
        predicted = _predicted(said.detach(), anchors, anchor_mask, downsample_ratio, single(scale_x_y))
        ignored = true.overlapped(predicted, single(ignore_thresh))
        places = images * parts * height * width
        spare = dispatch.full((1,), 0, x.type.dtype)
        base = dispatch.call(ops.Where, ignored, number(-1, x), number(0, x))
        target = concat([reshape(base, [places]), spare], 0)
        # Where a box is for no anchor here, its score goes behind the last place. Of several boxes at one place the last one counts.
        at = dispatch.call(ops.Where, true.here, true.place, number(places, i64))
        target = scatter(target, reshape(at, [-1]), reshape(score, [-1]))[:places]
        target = reshape(target, [images, parts, height, width])
        asked = dispatch.call(ops.Greater, target, number(-0.5, x))
        is_box = dispatch.call(ops.Greater, target, number(1e-5, x))
        share = dispatch.call(ops.Where, is_box, target, dispatch.call(ops.Where, asked, number(1, x), number(0, x)))
        kind = dispatch.call(ops.Cast, is_box, dtype=x.type.dtype)
        held = dispatch.call(ops.Minimum, true.place, number(places - 1, i64))
        weight = dispatch.call(ops.Where, true.here, score, number(0, x))
        by_size = multiply(weight, subtract(number(2, x), multiply(true.sides[2], true.sides[3])))
        smooth = min(1.0 / class_num, 1.0 / 40) if use_label_smooth else 0.0
        classes = dispatch.call(ops.Iota, shape=(1, 1, class_num), axis=2, dtype=i64)
        is_label = dispatch.call(ops.Equal, reshape(whole(gt_label), [images, count, 1]), classes)
        labels = dispatch.call(ops.Where, is_label, number(1.0 - smooth, x), number(smooth, x))

    objects = multiply(_cross_entropy(reshape(said[:, :, 4], [images, parts, height, width]), kind), share)
    rows = reshape(transpose(said, [0, 1, 3, 4, 2]), [places, 5 + class_num])
    found = dispatch.call(ops.Gather, rows, held, axis=0)  # [N, B, 5 + class_num]
    location = add(_cross_entropy(found[:, :, 0], true.within[0]), _cross_entropy(found[:, :, 1], true.within[1]))
    for i in range(2):
        location = add(location, dispatch.call(ops.Abs, subtract(true.growth[i], found[:, :, 2 + i])))
    kinds = multiply(_cross_entropy(found[:, :, 5:], labels), reshape(weight, [images, count, 1]))
    loss = add(sum(objects, axis=[1, 2, 3]), add(sum(multiply(location, by_size), axis=1), sum(kinds, axis=[1, 2])))
    return loss, target, dispatch.call(ops.Cast, true.part, dtype=i32)


class _True:
    """True boxes, and where in the grid each of them is looked for."""

    def __init__(
        self, boxes: Tensor, anchors: Sequence[int], anchor_mask: Sequence[int], grid: tuple[Dim, Dim], size: Tensor
    ):
        images, count = boxes.type.shape[:2]
        height, width = grid
        dtype = boxes.type.dtype
        self.sides = [reshape(boxes[:, :, i], [images, count]) for i in range(4)]
        x, y, w, h = self.sides
        least = number(_LEAST, dtype)
        self.valid = both(dispatch.call(ops.GreaterEqual, w, least), dispatch.call(ops.GreaterEqual, h, least))

        pairs = np.array(anchors, dtype.np).reshape(-1, 2)
        wide, tall = (divide(dispatch.constant(np.ascontiguousarray(pairs[:, i])), size) for i in range(2))
        apart = [reshape(v, [images, count, 1]) for v in (w, h)]
        common = [dispatch.call(ops.Minimum, side, other) for side, other in zip(apart, (wide, tall), strict=True)]
        best = argmax(_shared(apart[0], apart[1], wide, tall, *common), 2)
        masked = np.full(len(pairs), -1, np.int64)
        for i in reversed(range(len(anchor_mask))):
            masked[anchor_mask[i]] = i
        found = dispatch.call(ops.Gather, dispatch.constant(masked), best, axis=0)
        self.part = dispatch.call(ops.Where, self.valid, found, number(-1, i64))
        self.here = dispatch.call(ops.GreaterEqual, self.part, number(0, i64))

        column, row = (
            _held(whole(multiply(v, number(n, dtype))), n) for v, n in ((x, width), (y, height))
        )
        image = dispatch.call(ops.Iota, shape=(images, 1), axis=0, dtype=i64)
        part = dispatch.call(ops.Maximum, self.part, number(0, i64))
        cell = add(multiply(row, number(width, i64)), column)
        plane = add(multiply(image, number(len(anchor_mask), i64)), part)
        self.place = add(multiply(plane, number(height * width, i64)), cell)
        across = number(height, dtype)
        self.within = [subtract(multiply(v, across), dispatch.call(ops.Cast, at, dtype=dtype)) for v, at in ((x, column), (y, row))]
        self.growth = []
        for i, side in enumerate((w, h)):
            anchor = dispatch.call(ops.Gather, dispatch.constant(np.ascontiguousarray(pairs[:, i])), best, axis=0)
            grown = dispatch.call(ops.Where, self.here, divide(multiply(side, size), anchor), number(1, dtype))
            self.growth.append(log(grown))

    def overlapped(self, predicted: list[Tensor], threshold: float) -> Tensor:
        """Which predicted boxes [N, anchors, H, W] share more than `threshold` of both with a true one."""
        images, count = self.valid.type.shape
        mine = [reshape(v, [*v.type.shape, 1]) for v in predicted]
        true = [reshape(v, [images, 1, 1, 1, count]) for v in self.sides]
        half = number(0.5, mine[0])
        common = []
        for i in range(2):
            halves = [multiply(sides[2 + i], half) for sides in (mine, true)]
            high = dispatch.call(ops.Minimum, add(mine[i], halves[0]), add(true[i], halves[1]))
            common.append(subtract(high, dispatch.call(ops.Maximum, subtract(mine[i], halves[0]), subtract(true[i], halves[1]))))
        shared = _shared(mine[2], mine[3], true[2], true[3], *common)
        shared = dispatch.call(ops.Where, reshape(self.valid, [images, 1, 1, 1, count]), shared, number(0, shared))
        return dispatch.call(ops.Greater, max(shared, axis=4), number(threshold, shared))


def _shared(w: Tensor, h: Tensor, other_w: Tensor, other_h: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """What two boxes that overlap by so much share of both."""
    none = number(0, across)
    apart = either(dispatch.call(ops.Less, across, none), dispatch.call(ops.Less, down, none))
    common = dispatch.call(ops.Where, apart, none, multiply(across, down))
    return divide(common, subtract(add(multiply(w, h), multiply(other_w, other_h)), common))


def _held(place: Tensor, size: Dim) -> Tensor:
    return dispatch.call(ops.Minimum, dispatch.call(ops.Maximum, place, number(0, i64)), number(size - 1, i64))


def _predicted(said: Tensor, anchors: Sequence[int], anchor_mask: Sequence[int], ratio: int, scale: float) -> list[Tensor]:
    """The middles, widths and heights [N, anchors, H, W] of the boxes that are said, of an image with sides of 1."""
    dtype, (_, parts, _, height, width) = said.type.dtype, said.type.shape
    cells: list[Tensor] = []
    for i, (axis, cell_count) in enumerate(((3, width), (2, height))):
        cell = dispatch.call(ops.Iota, shape=tuple(cell_count if j == axis else 1 for j in range(4)), axis=axis, dtype=dtype)
        within = add(multiply(dispatch.call(ops.Sigmoid, said[:, :, i]), number(scale, dtype)), number(-0.5 * (scale - 1.0), dtype))
        cells.append(divide(add(cell, within), number(height, dtype)))
    for i in range(2):
        sides = np.array([anchors[2 * place + i] for place in anchor_mask], dtype.np).reshape(1, parts, 1, 1)
        size = number(ratio * height, dtype)
        cells.append(divide(multiply(exp(said[:, :, 2 + i]), dispatch.constant(sides)), size))
    return cells


def _cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """max(x, 0) - x target + log(1 + exp(-|x|))"""
    far = dispatch.call(ops.Log1p, exp(dispatch.call(ops.Neg, dispatch.call(ops.Abs, x))))
    return add(subtract(dispatch.call(ops.Maximum, x, number(0, x)), multiply(x, target)), far)

