"""`nms`: boxes of one image, of which those stay that no better one covers."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import math
from polyreme.boxes.found import check_shape
from polyreme.boxes.lists import kept_places, order_of, single, take
from polyreme.boxes.suppression import Rounds, strike
from polyreme.math.common import number_like
from polyreme.tensor import Tensor

__all__ = ["kept_boxes", "kept_by_score", "kept_of_classes"]


def kept_boxes(boxes: Tensor, threshold: float) -> Tensor:
    """The places of the boxes [n, 4], int64, that overlap none before them that stays by more than the threshold."""
    boxes = boxes.detach()
    check_shape(boxes, [boxes.type.shape[0], 4], "boxes")
    return kept_places(_stays(boxes, math.ones([boxes.type.shape[0]], "bool"), threshold, None))


def kept_by_score(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """The places of the boxes [n, 4] that stay, the highest score first."""
    check_shape(boxes, [scores.type.shape[0], 4], "boxes")
    order = order_of(scores.detach(), descending=True)
    held = math.ones([boxes.type.shape[0]], "bool")
    return take(order, kept_places(_stays(take(boxes.detach(), order), held, threshold, None)))


def kept_of_classes(
    boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float, wanted: Sequence[int], most: int | None
) -> Tensor:
    """As `kept_by_score`, of the boxes of the wanted classes, of which those of different ones do not meet, and at most `most`."""
    check_shape(boxes, [scores.type.shape[0], 4], "boxes")
    order = order_of(scores.detach(), descending=True)
    check_shape(classes, scores.type.shape, "category_idxs")
    own = take(classes.detach(), order)
    held = math.zeros([boxes.type.shape[0]], "bool")
    for number in wanted:
        held = math.logical_or(held, math.equal(own, number_like(own, number)))
    stays = _stays(take(boxes.detach(), order), held, threshold, own)
    if most is not None:
        so_far = math.cumsum(math.cast(stays, "int64"), 0)
        stays = math.logical_and(stays, math.less_equal(so_far, number_like(so_far, most)))
    return take(order, kept_places(stays))


def _stays(boxes: Tensor, held: Tensor, threshold: float, classes: Tensor | None) -> Tensor:
    x1, y1, x2, y2 = edges = [boxes[:, i] for i in range(4)]
    area = (x2 - x1) * (y2 - y1)
    rounds = Rounds.of_lists(held)

    def over(i: Tensor) -> Tensor:
        u1, v1, u2, v2 = (rounds.current(edge, i) for edge in edges)
        wide, high = math.minimum(x2, u2) - math.maximum(x1, u1), math.minimum(y2, v2) - math.maximum(y1, v1)
        nothing = number_like(area, 0.0)
        both = math.maximum(wide, nothing) * math.maximum(high, nothing)
        met = math.greater_than(both / (area + rounds.current(area, i) - both), number_like(area, single(threshold)))
        return met if classes is None else math.logical_and(met, math.equal(classes, rounds.current(classes, i)))

    return strike(over, held, rounds)
