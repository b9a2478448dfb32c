"""Regions of images given to the levels of a pyramid by their sizes, and collected from them."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import math
from polyreme.boxes.found import check_shape, size
from polyreme.boxes.lists import count_of, kept_places, numbers, order_of, put_back, take
from polyreme.boxes.suppression import Boxes
from polyreme.ir.types import i32
from polyreme.math.common import cast_to, number_like, select
from polyreme.regions.places import image_of_rows
from polyreme.tensor import Tensor

__all__ = ["collect_fpn_proposals", "distribute_fpn_proposals"]


def _images(rois_num: Tensor, rows: Tensor) -> Tensor:
    """The number of the image of each row, int32."""
    return cast_to(image_of_rows(rois_num, rows.type.shape[0]), i32)


def _per_image(rois_num: Tensor, image: Tensor, mask: Tensor | None = None) -> Tensor:
    """How many rows each image has, int32, of those where a mask holds."""
    own = math.equal(math.reshape(numbers(rois_num.type.shape[0], i32), [-1, 1]), image)
    return count_of(own if mask is None else math.logical_and(own, mask), (1,))


def distribute_fpn_proposals(
    rois: Tensor,
    rois_num: Tensor | None,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool,
) -> tuple[list[Tensor], list[Tensor] | None, Tensor]:
    """The regions [n, 4] of each level from `min_level` to `max_level`; of each level how many each image has, None without `rois_num`;
    and, int32 [n, 1], where each region stands among those of all levels.

    Regions as large as `refer_scale` go to `refer_level`, twice as large ones to the next.
    """
    rois = rois.detach()
    check_shape(rois, [rois.type.shape[0], 4], "regions")
    boxes = Boxes.of([rois[:, i] for i in range(4)], not pixel_offset)
    scale = math.sqrt(boxes.area)
    exact = math.log2(scale / number_like(scale, refer_scale) + number_like(scale, 1e-6)) + float(refer_level)
    # What has a size that is no number goes to the first level, as in Paddle.
    exact = select(math.isfinite(exact), exact, number_like(exact, float(min_level)))
    level = cast_to(math.clip(math.floor(exact), min_level, max_level), i32)
    image = None if rois_num is None else _images(rois_num, rois)
    parts, counts = [], []
    for number in range(min_level, max_level + 1):
        mask = math.equal(level, number_like(level, number))
        parts.append(take(rois, kept_places(mask)))
        if rois_num is not None and image is not None:
            counts.append(_per_image(rois_num, image, mask))
    order = order_of(level)
    restore = put_back(numbers(order.type.shape[0]), order)
    return parts, counts if rois_num is not None else None, math.unsqueeze(cast_to(restore, i32), 1)


def collect_fpn_proposals(
    rois: Sequence[Tensor], scores: Sequence[Tensor], rois_num: Sequence[Tensor], post_nms_topn: int
) -> tuple[Tensor, Tensor]:
    """The `post_nms_topn` regions of the highest scores of all levels, the images in order, and how many each image has, int32.

    Of equal scores the one that comes last stands first.
    """
    for rows, part in zip(rois, scores, strict=True):
        check_shape(rows, [part.type.shape[0], 4], "regions")
    image = math.concat([_images(number, rows) for number, rows in zip(rois_num, rois, strict=True)], 0)
    boxes = math.concat([rows.detach() for rows in rois], 0)
    score = math.concat([math.reshape(part.detach(), [-1]) for part in scores], 0)
    last = size(score.type.shape[0]) - 1
    best = last - order_of(math.flip(score, [0]), post_nms_topn, True)
    chosen = take(image, best)
    order = order_of(chosen)
    counts = _per_image(rois_num[0], chosen)
    return take(boxes, take(best, order)), counts
