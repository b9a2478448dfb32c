"""Boxes that are chosen as `multiclass_nms` chooses: after their neighbours were merged (EAST), or from all levels of a pyramid
(RetinaNet).
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch, math
from polyreme.boxes.found import Found
from polyreme.boxes.lists import along, best_first, flat, numbers, order_of, single, take
from polyreme.boxes.multiclass import multiclass_nms
from polyreme.boxes.suppression import Boxes
from polyreme.control_flow import loop
from polyreme.dialects import nn
from polyreme.ir.types import i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.regions.places import image_of_rows, rounded_away
from polyreme.tensor import Tensor

__all__ = ["merged_neighbours", "retinanet_detection_output"]


def merged_neighbours(boxes: Tensor, scores: Tensor, threshold: float, normalized: bool) -> tuple[Tensor, Tensor]:
    """Boxes [images, n, 4] and scores [images, n], where each box that overlaps the one before it by more than the threshold is merged with
    that: means weighed by scores, whose sum is the score. A box that is merged into a later one has the score -inf.
    """
    images, count = scores.type.shape
    image = numbers(images)
    limit = single(threshold)

    def merge(i: Tensor, at: Tensor, box: Tensor, score: Tensor, made: Tensor, weights: Tensor) -> list[Tensor]:
        place = math.broadcast_to(math.reshape(i, [1, 1]), [images, 1])
        other, weight = _rows_at(boxes, place), along(scores, place)
        first, second = (Boxes.of([part[:, e : e + 1] for e in range(4)], normalized) for part in (other, box))
        meets = first.overlap(second)
        near = math.logical_and(math.greater_than(meets, number_like(meets, limit)), math.greater_equal(at, number_like(at, 0)))
        total = weight + score
        box = select(near, (other * weight + box * score) / total, other)
        score, at = select(near, total, weight), select(near, at, place)
        # What was merged so far stands where its first box does.
        here = flat(at) + image * dispatch.full((), count, i64)
        made = dispatch.call(nn.Scatter, made, box, here, axis=0)
        return [i + 1, at, box, score, made, dispatch.call(nn.Scatter, weights, flat(score), here, axis=0)]

    size = images * count
    dtype = boxes.type.dtype
    state = [
        dispatch.full((), 0, i64), dispatch.full((images, 1), -1, i64), dispatch.full((images, 4), 0, dtype),
        dispatch.full((images, 1), 0, scores.type.dtype), dispatch.full((size, 4), 0, dtype),
        dispatch.full((size,), float("-inf"), scores.type.dtype),
    ]  # fmt: skip
    rounds = dispatch.full((), count, i64)
    *_, made, weights = loop(lambda i, *now: math.less_than(i, rounds), merge, state)
    return math.reshape(made, [images, count, 4]), math.reshape(weights, [images, count])


def _rows_at(x: Tensor, places: Tensor) -> Tensor:
    """The row of each list [lists, n, size] at its place [lists, 1]."""
    lists, count, size = x.type.shape
    at = flat(places) + numbers(lists) * dispatch.full((), count, i64)
    return dispatch.call(nn.Gather, math.reshape(x, [lists * count, size]), at, axis=0)


def retinanet_detection_output(
    boxes: Sequence[Tensor],
    scores: Sequence[Tensor],
    anchors: Sequence[Tensor],
    im_info: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    nms_eta: float,
) -> Found:
    """What is found on all levels: differences [images, n, 4], scores [images, n, classes] and anchors [n, 4] of each.

    The best score of an image stands first. Of each level the `nms_top_k` best scores above the threshold count, and on the last one those
    above 0. Boxes are of images before these were scaled, within these, whose heights, widths and scales are `im_info`. Classes are
    counted from 1.
    """
    found, weights, labels = [], [], []
    for level, (said, score, anchor) in enumerate(zip(boxes, scores, anchors, strict=True)):
        images, count, classes = score.type.shape
        every = math.reshape(score, [images, count * classes])
        least = single(score_threshold) if level < len(scores) - 1 else 0.0
        order, held = best_first(every, math.greater_than(every, number_like(every, least)), nms_top_k)
        each = dispatch.full((), classes, i64)
        at = math.floor_divide(order, each)
        labels.append(order - at * each)
        weights.append(select(held, along(every, order), number_like(every, float("-inf"))))
        found.append(_decoded(_rows_of_each(said, at), dispatch.call(nn.Gather, anchor, at, axis=0), im_info))
    together, weight, label = math.concat(found, 1), math.concat(weights, 1), math.concat(labels, 1)
    classes = scores[0].type.shape[2]
    own = math.equal(math.unsqueeze(label, 1), math.reshape(numbers(classes), [1, -1, 1]))
    by_class = select(own, math.unsqueeze(weight, 1), number_like(weight, float("-inf")))
    rows, places, counts = multiclass_nms(
        together, by_class, float("-1e30"), -1, keep_top_k, nms_threshold, False, nms_eta, -1
    )
    best = order_of(rows[:, 1], descending=True)
    order = take(best, order_of(take(image_of_rows(counts, rows.type.shape[0]), best)))
    rows = take(rows, order)
    return Found(math.concat([rows[:, :1] + number_like(rows, 1.0), rows[:, 1:]], 1), take(places, order), counts)


def _rows_of_each(x: Tensor, places: Tensor) -> Tensor:
    """The rows of each list [lists, n, size] at its places [lists, k]."""
    lists, count, size = x.type.shape
    at = places + math.unsqueeze(numbers(lists), 1) * dispatch.full((), count, i64)
    return dispatch.call(nn.Gather, math.reshape(x, [lists * count, size]), at, axis=0)


def _decoded(said: Tensor, anchors: Tensor, im_info: Tensor) -> Tensor:
    """The boxes [images, n, 4] of pixels that differences from anchors [images, n, 4] are, in images before these were scaled."""
    one, half = number_like(said, 1.0), number_like(said, 0.5)
    size = anchors[:, :, 2:] - anchors[:, :, :2] + one
    middle = said[:, :, :2] * size + anchors[:, :, :2] + size * half
    extent = math.exp(said[:, :, 2:]) * size * half
    scale = math.reshape(cast_to(im_info[:, 2], said.type.dtype), [-1, 1, 1])
    made = math.concat([middle - extent, middle + extent - one], 2) / scale
    last = rounded_away(im_info[:, :2] / im_info[:, 2:]) - number_like(im_info, 1.0)
    edges = math.concat([last[:, 1:], last[:, :1]] * 2, 1)
    return math.maximum(math.minimum(made, math.unsqueeze(cast_to(edges, said.type.dtype), 1)), number_like(said, 0.0))
