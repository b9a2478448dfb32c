"""`matrix_nms`: boxes whose scores fall by how far better ones cover them."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.boxes.found import Found, above, check_shape, columns_of, of_classes, rows_of, size
from polyreme.boxes.lists import along, best_first, count_of, flat, kept_places, numbers, single, take
from polyreme.boxes.suppression import Boxes, Rounds
from polyreme.math.common import number_like, select
from polyreme.tensor import Tensor

__all__ = ["matrix_nms"]


def matrix_nms(
    boxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    post_threshold: float = 0.0,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
) -> Found:
    """Of boxes [images, boxes, 4] with scores [images, classes, boxes]: those whose scores, fallen, are above `post_threshold`, the highest
    of an image first.

    Only scores above the first threshold count, and of each class the `nms_top_k` highest; of an image's classes together `keep_top_k`
    stay. -1 is no limit. The index counts the boxes of all images.
    """
    boxes, scores = boxes.detach(), scores.detach()
    images, classes, count = scores.type.shape
    check_shape(boxes, [images, count, 4], "boxes")
    wanted = math.logical_and(above(scores, score_threshold), of_classes(classes, background_label))
    order, held = best_first(scores, wanted, nms_top_k)
    places = order + math.reshape(numbers(images), [-1, 1, 1]) * size(count)
    edges = [take(flat(boxes[:, :, i]), places) for i in range(4)]
    fallen = along(scores, order) * _decay(Boxes.of(edges, normalized), held, single(gaussian_sigma) if use_gaussian else None)
    stays = math.logical_and(held, above(fallen, post_threshold))
    lists = [images, -1]
    best, there = best_first(math.reshape(fallen, lists), math.reshape(stays, lists), keep_top_k)
    kept = kept_places(flat(there))
    label = math.broadcast_to(math.reshape(numbers(classes), [1, -1, 1]), list(order.type.shape))
    label, fallen, places, *edges = (along(math.reshape(x, lists), best) for x in (label, fallen, places, *edges))
    return Found(columns_of(kept, label, fallen, edges), rows_of(kept, places), count_of(there, (1,)))


def _decay(boxes: Boxes, held: Tensor, sigma: float | None) -> Tensor:
    """By what each score is multiplied: the least that a better box of its list makes of it, at most 1.

    A box that a better one covers in turn makes less of others.
    """
    rounds = Rounds.of_lists(held)
    one = number_like(boxes.area, 1.0)

    def fall(i: Tensor, decay: Tensor, peak: Tensor) -> list[Tensor]:
        """`peak` is the most by which each box overlaps a better one."""
        overlap = boxes.each(lambda x: rounds.current(x, i)).overlap(boxes)
        own = rounds.current(peak, i)
        made = (one - overlap) / (one - own) if sigma is None else math.exp((own * own - overlap * overlap) * sigma)
        behind = math.greater_than(rounds.rank, i)
        lowers, rises = math.less_than(made, decay), math.greater_than(overlap, peak)
        return [select(math.logical_and(behind, lowers), made, decay), select(math.logical_and(behind, rises), overlap, peak)]

    shape, dtype = held.type.shape, boxes.area.type.dtype
    return rounds.run(fall, [dispatch.full(shape, 1.0, dtype), dispatch.full(shape, 0.0, dtype)])[0]
