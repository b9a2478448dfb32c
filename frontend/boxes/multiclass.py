"""`multiclass_nms`: boxes of several classes, of which those stay that no better one of their class covers."""

from __future__ import annotations

from polyreme import math
from polyreme.boxes.found import Found, above, check_shape, columns_of, of_classes, rows_of, size
from polyreme.boxes.lists import along, best_first, count_of, flat, kept_places, numbers, order_of, put_back, take
from polyreme.boxes.suppression import Boxes, Rounds, longest, suppress
from polyreme.ir.types import f32, i32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.tensor import Tensor

__all__ = ["multiclass_nms", "multiclass_nms_of_regions"]


def multiclass_nms(
    boxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> Found:
    """Of boxes [images, boxes, 4] with scores [images, classes, boxes], image by image and class by class, the best one first.

    Only scores above the threshold count, and of each class the `nms_top_k` highest; of an image's classes together the `keep_top_k`
    highest stay. -1 is no limit. The index counts the boxes of all images.
    """
    boxes, scores = boxes.detach(), scores.detach()
    images, classes, count = scores.type.shape
    check_shape(boxes, [images, count, 4], "boxes")
    wanted = math.logical_and(above(scores, score_threshold), of_classes(classes, background_label))
    order, held = best_first(_key(scores), wanted, nms_top_k)
    places = order + math.reshape(numbers(images), [-1, 1, 1]) * size(count)
    edges = [take(flat(boxes[:, :, i]), places) for i in range(4)]
    stays = suppress(Boxes.of(edges, normalized), held, Rounds.of_lists(held), nms_threshold, nms_eta)
    label = math.broadcast_to(math.reshape(numbers(classes), [1, -1, 1]), list(order.type.shape))
    mask, label, values, places, *edges = (math.reshape(x, [images, -1]) for x in (stays, label, along(scores, order), places, *edges))
    if keep_top_k >= 0:
        best, mask = best_first(_key(values), mask, keep_top_k)
        # Those that stay stand class by class again, in front of others.
        by_class = order_of(select(mask, best, number_like(best, 2**62)))
        best, mask = along(best, by_class), along(mask, by_class)
        label, values, places, *edges = (along(x, best) for x in (label, values, places, *edges))
    kept = kept_places(flat(mask))
    return Found(columns_of(kept, label, values, edges), rows_of(kept, places), count_of(mask, (1,)))


def multiclass_nms_of_regions(
    boxes: Tensor,
    scores: Tensor,
    rois_num: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> Found:
    """As `multiclass_nms`, of boxes [boxes, classes, 4] with scores [boxes, classes], of which the first `rois_num[0]` are those of the
    first image, and so on.

    Of a class the boxes stand in their own order. The index counts the boxes of all classes.
    """
    boxes, scores = boxes.detach(), math.transpose(scores.detach(), [1, 0])
    classes, count = scores.type.shape
    check_shape(boxes, [count, classes, 4], "boxes")
    ends = math.cumsum(cast_to(rois_num.detach(), i64), 0)
    images = ends.type.shape[0]
    starts = ends - cast_to(rois_num, i64)
    image = count_of(math.greater_equal(numbers(count), math.unsqueeze(ends, -1)), (0,))
    # Boxes behind those of the last image belong to one more, of which nothing is wanted.
    starts = math.concat([starts, ends[-1:]], 0)
    wanted = math.logical_and(above(scores, score_threshold), math.less_than(image, size(images, i32)))
    wanted = math.logical_and(wanted, math.reshape(of_classes(classes, background_label), [-1, 1]))
    order, _ = best_first(_key(scores), wanted, -1)
    order = along(order, order_of(take(image, order)))
    here = take(image, order)
    start = take(starts, here)
    rank = numbers(count) - start
    held = along(wanted, order)
    if nms_top_k >= 0:
        held = math.logical_and(held, math.less_than(rank, number_like(rank, nms_top_k)))
    rows = order * size(classes) + math.reshape(numbers(classes), [-1, 1])
    edges = [take(flat(boxes[:, :, i]), rows) for i in range(4)]
    first = math.reshape(numbers(classes), [-1, 1]) * size(count) + start
    last = size(flat(scores).type.shape[0]) - 1
    last_held = longest(select(held, rank + 1, number_like(rank, 0)))
    rounds = Rounds(last_held, rank, lambda x, i: take(flat(x), math.minimum(first + i, last)))
    stays = suppress(Boxes.of(edges, normalized), held, rounds, nms_threshold, nms_eta)
    mask = flat(put_back(stays, order))
    # From here on lists are of all classes of an image, and stand image by image.
    image = flat(math.broadcast_to(image, list(scores.type.shape)))
    by_image = order_of(image)
    if keep_top_k >= 0:
        best, _ = best_first(_key(flat(scores)), mask, -1)
        best = take(best, order_of(take(image, best)))
        rank = numbers(mask.type.shape[0]) - take(starts, take(image, best)) * size(classes)
        mask = math.logical_and(mask, put_back(math.less_than(rank, number_like(rank, keep_top_k)), best))
    kept = take(by_image, kept_places(take(mask, by_image)))
    label = math.broadcast_to(math.reshape(numbers(classes), [-1, 1]), list(scores.type.shape))
    rows = numbers(count) * size(classes) + label
    edges = [math.transpose(boxes[:, :, i], [1, 0]) for i in range(4)]
    counts = count_of(math.logical_and(math.equal(image, math.reshape(numbers(images, i32), [-1, 1])), mask), (1,))
    return Found(columns_of(kept, label, scores, edges), rows_of(kept, rows), counts)


def _key(scores: Tensor) -> Tensor:
    """What scores are compared by."""
    return cast_to(scores, f32)
