"""What networks that propose regions learn (Ren and others, "Faster R-CNN", 2015; Lin and others, "Focal loss", 2017): which anchors or
proposals are boxes, which are background, and how far the boxes are from them.

True boxes of all images stand one behind the other, image by image; `offsets`, int64 [images + 1], say where those of an image begin and
end. Edges are pixels that belong to their boxes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyreme import dispatch, math
from polyreme.boxes.lists import ends_of, flat, kept_places, numbers, order_of, put_back, single, take
from polyreme.boxes.matching import image_of, overlaps
from polyreme.boxes.suppression import longest
from polyreme.control_flow import loop
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import f32, i1, i32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.random import default_generator
from polyreme.tensor import Tensor

__all__ = [
    "AnchorTargets", "Drawn", "TrueBoxes", "anchor_targets", "count_before", "nearest_of_own_image", "proposal_targets", "starts_of_images",
    "sum_of_images",
]  # fmt: skip

# Anchors that are so near to the nearest one of a box are as near.
_ALIKE = 1e-5


@dataclass(frozen=True)
class TrueBoxes:
    """Boxes [rows, 4] of all images as the network sees these, which of them count, [rows], and the offsets of the images."""

    boxes: Tensor
    counts: Tensor
    offsets: Tensor

    @property
    def images(self) -> Dim:
        return self.offsets.type.shape[0] - 1

    @property
    def sizes(self) -> Tensor:
        return self.offsets[1:] - self.offsets[:-1]


# --- differences and choices


def _differences(priors: Tensor, boxes: Tensor) -> Tensor:
    """Boxes [n, 4] as differences from priors: of the middles in sizes of the priors, and the logarithms of relative sizes."""
    parts: list[list[Tensor]] = []
    for x in (priors, boxes):
        low, high = x[:, :2], x[:, 2:]
        size = high - low + 1.0
        parts.append([size, low + size * 0.5])
    (size, middle), (wanted, at) = parts
    return math.concat([(at - middle) / size, math.log(wanted / size)], 1)


def _chosen(mask: Tensor, most: Tensor, randomly: bool) -> Tensor:
    """At most so many [images, 1] of those for which the mask [images, n] holds: the first ones, or some that are drawn."""
    if not randomly:
        return math.logical_and(mask, math.less_equal(math.cumsum(cast_to(mask, i64), 1), most))
    draw = default_generator().uniform(mask.type.shape, 0.0, 1.0, f32)
    order = order_of(select(mask, draw, number_like(draw, 2.0)))
    rank = math.broadcast_to(math.unsqueeze(numbers(mask.type.shape[1]), 0), list(mask.type.shape))
    return math.logical_and(mask, math.less_than(put_back(rank, order), most))


def _rows_of(mask: Tensor, values: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    """What the mask [images, parts, n] holds for of values of its shape, image by image and there part by part; and the offsets."""
    kept = kept_places(flat(mask))
    return [take(flat(value), kept) for value in values], ends_of(math.sum(cast_to(mask, i64), [1, 2]))


# --- anchors


@dataclass(frozen=True)
class AnchorTargets:
    """Numbers, int32, of the anchors of all images whose differences are learned, [f], and whose scores are, [s]; labels [s, 1] int32,
    differences and weights [f, 4]; the offsets of images among both, and how many anchors of each image are boxes.
    """

    located: Tensor
    scored: Tensor
    labels: Tensor
    differences: Tensor
    weights: Tensor
    located_ends: Tensor
    scored_ends: Tensor


@dataclass(frozen=True)
class Drawn:
    """How many anchors of an image are learned at most, which share of these as boxes, and whether they are drawn."""

    count: int
    share: float
    randomly: bool


def anchor_targets(
    anchors: Tensor, true: TrueBoxes, labels: Tensor | None, inside: Tensor, positive: float, negative: float, drawn: Drawn | None
) -> AnchorTargets:
    """What is to be learned of anchors [n, 4] in each image, of those that are `inside`, [images, n].

    An anchor is a box if it overlaps one by `positive` or no other one overlaps this box by more, and background if it overlaps all boxes
    by less than `negative`. One that is both is background, and the first anchor that is a box then stands in its place with a weight of
    0.
    """
    images, count = true.images, anchors.type.shape[0]
    best, which, nearest = _nearest_boxes(anchors, true, inside)
    is_box = math.logical_and(inside, math.logical_or(nearest, math.greater_equal(best, number_like(best, single(positive)))))
    is_none = math.logical_and(inside, math.less_than(best, number_like(best, single(negative))))
    if drawn is not None:
        most = dispatch.full((images, 1), int(drawn.count * single(drawn.share)), i64)
        is_box = _chosen(is_box, most, drawn.randomly)
        boxes = math.sum(cast_to(is_box, i64), [1], keepdim=True)
        is_none = _chosen(is_none, dispatch.full((), drawn.count, i64) - boxes, drawn.randomly)
    both, only = math.logical_and(is_box, is_none), math.logical_and(is_box, math.logical_not(is_none))
    image = math.unsqueeze(numbers(images), 1) * dispatch.full((), count, i64)
    place = image + math.unsqueeze(numbers(count), 0)
    first = math.broadcast_to(image + math.argmax(cast_to(is_box, i32), 1, keepdim=True), [images, count])
    kind = [math.zeros_like(place), math.ones_like(place)]
    (located, weight), located_ends = _rows_of(math.stack([both, only], 1), [math.stack([first, place], 1), math.stack(kind, 1)])
    said = math.ones_like(place) if labels is None else take(_with_spare(flat(cast_to(labels, i64))), which)
    (scored, label), scored_ends = _rows_of(math.stack([only, is_none], 1), [
        math.stack([place, place], 1), math.stack([said, math.zeros_like(said)], 1)
    ])  # fmt: skip
    prior = take(anchors, math.mod(located, dispatch.full((), count, i64)))
    differences = _differences(prior, take(_with_spare(true.boxes), take(flat(which), located)))
    weights = math.expand(math.unsqueeze(cast_to(weight, anchors.type.dtype), 1), [located.type.shape[0], 4])
    return AnchorTargets(
        cast_to(located, i32), cast_to(scored, i32), math.unsqueeze(cast_to(label, i32), 1), differences, weights, located_ends, scored_ends
    )


def _with_spare(x: Tensor) -> Tensor:
    """One more row of zeros, which is read where an image has no box."""
    return math.concat([x, dispatch.full((1, *x.type.shape[1:]), 0, x.type.dtype)], 0)


def _nearest_boxes(anchors: Tensor, true: TrueBoxes, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each anchor in each image, [images, n]: the most by which it overlaps a box, -1 where there is none; the row of that box, and
    whether a box of the image has no nearer one.
    """
    images, count, dtype = true.images, anchors.type.shape[0], anchors.type.dtype
    starts, sizes = true.offsets[:-1], true.sizes
    table, counted = _with_spare(overlaps(true.boxes, anchors, False)), _with_spare(true.counts)
    spare = dispatch.full((), true.boxes.type.shape[0], i64)

    def look(j: Tensor, best: Tensor, which: Tensor, nearest: Tensor) -> list[Tensor]:
        row = select(math.less_than(j, sizes), starts + j, spare)
        here = take(table, row)
        there = math.logical_and(math.unsqueeze(take(counted, row), 1), inside)
        most = math.max(select(there, here, number_like(here, -1.0)), 1, keepdim=True)
        alike = math.less_than(math.abs(here - most), number_like(here, _ALIKE))
        better = math.logical_and(there, math.greater_than(here, best))
        nearest = math.logical_or(nearest, math.logical_and(there, alike))
        return [j + 1, select(better, here, best), select(better, math.unsqueeze(row, 1), which), nearest]

    rounds = longest(sizes)
    state = [
        dispatch.full((), 0, i64), dispatch.full((images, count), -1, dtype), math.broadcast_to(spare, [images, count]),
        dispatch.full((images, count), False, i1),
    ]  # fmt: skip
    _, best, which, nearest = loop(lambda j, *now: math.less_than(j, rounds), look, state)
    return best, which, nearest


# --- proposals


def proposal_targets(
    rois: Tensor, roi_offsets: Tensor, classes: Tensor, true: TrueBoxes, scales: Tensor, drawn: Drawn, least: float, low: float,
    high: float, weights: Sequence[float], class_nums: int, one_class: bool, cascade: bool,
) -> tuple[list[Tensor], Tensor]:  # fmt: skip
    """Regions [n, 4], their classes [n, 1] int32, differences [n, 4 * classes], and twice the weights of these; and the offsets of images.

    The true boxes come first among the regions of an image; an image without regions gives nothing. A region that overlaps a box by
    `least` is one of its class, and one whose overlap is in [low, high) is background; a true box that does not count is neither. Regions
    `rois` are those of images that were scaled by `scales` [images, 1]. With `cascade` the regions alone are asked, all of them; as in
    Paddle as many as there are true boxes are those of images that were not scaled, and are neither where their true box does not count.
    """
    own = image_of(roi_offsets, rois)
    number = numbers(rois.type.shape[0]) - take(roi_offsets[:-1], own)
    few = take(true.sizes, own)
    scale = take(scales, own)
    if cascade:
        at_first = math.unsqueeze(math.less_than(number, few), 1)
        rows, image = select(at_first, rois, rois / scale), own
        wide, high_ = rows[:, 2] - rows[:, 0] + 1.0, rows[:, 3] - rows[:, 1] + 1.0
        valid = math.logical_and(*(math.greater_than(size, number_like(size, 0.0)) for size in (wide, high_)))
    else:
        rows = math.concat([true.boxes, rois / scale], 0)
        image = math.concat([image_of(true.offsets, true.boxes), own], 0)
        order = math.argsort(image, stable=True)
        rows, image = take(rows, order), take(image, order)
        valid = math.greater_than(take(roi_offsets[1:] - roi_offsets[:-1], image), dispatch.full((), 0, i64))
    best, which = nearest_of_own_image(rows, image, true)
    # Where a region stands in its image, of those that are valid.
    starts = starts_of_images(image, true.images)
    number = count_before(valid, image, starts)
    at = select(math.less_than(number, take(true.sizes, image)), take(true.offsets[:-1], image) + number, dispatch.full((), -1, i64))
    last = dispatch.full((), true.boxes.type.shape[0], i64)
    passed = math.logical_not(take(math.concat([true.counts, math.full([1], True, "bool")], 0), select(math.less_than(at, 0), last, at)))
    valid = math.logical_and(valid, math.logical_not(passed))
    is_box = math.logical_and(valid, math.greater_equal(best, number_like(best, single(least))))
    best = math.maximum(best, number_like(best, 0.0))  # nothing to overlap is no overlap
    within = math.logical_and(
        math.greater_equal(best, number_like(best, single(low))), math.less_than(best, number_like(best, single(high)))
    )
    is_none = math.logical_and(math.logical_and(valid, within), math.logical_not(is_box))
    if not cascade:
        most = dispatch.full((), int(np.floor(drawn.count * np.float32(drawn.share))), i64)
        is_box = _chosen_of_images(is_box, image, starts, most, drawn.randomly)
        boxes = sum_of_images(is_box, image, true.images)
        is_none = _chosen_of_images(is_none, image, starts, dispatch.full((), drawn.count, i64) - take(boxes, image), drawn.randomly)
    places = kept_places(math.logical_or(is_box, is_none))
    kind = take(image, places) * 2 + cast_to(take(is_none, places), i64)
    places = take(places, math.argsort(kind, stable=True))
    image, region = take(image, places), take(rows, places)
    foreground = take(is_box, places)
    matched = take(which, places)
    label = select(foreground, take(_with_spare(flat(cast_to(classes, i64))), matched), number_like(matched, 0))
    found = _differences(region, take(_with_spare(true.boxes), matched))
    found = found / dispatch.constant(np.array(weights, region.type.dtype.np).reshape(1, 4))
    target, weight = _by_class(found, label, class_nums, one_class)
    ends = ends_of(sum_of_images(math.full([image.type.shape[0]], True, "bool"), image, true.images))
    scaled = region * take(scales, image)
    return [scaled, math.unsqueeze(cast_to(label, i32), 1), target, weight, weight], ends


def _by_class(found: Tensor, label: Tensor, class_nums: int, one_class: bool) -> tuple[Tensor, Tensor]:
    """Differences at the place of their class, [n, 4 * class_nums], and ones there; zeros for the background."""
    there = math.greater_than(label, number_like(label, 0))
    place = math.ones_like(label) if one_class else label
    mine = math.equal(math.unsqueeze(place, 1), math.unsqueeze(numbers(class_nums), 0))
    mine = math.unsqueeze(math.logical_and(mine, math.unsqueeze(there, 1)), 2)
    sizes = [label.type.shape[0], class_nums, 4]
    target = math.expand(select(mine, math.unsqueeze(found, 1), number_like(found, 0.0)), sizes)
    weight = math.expand(cast_to(mine, found.type.dtype), sizes)
    target, weight = (math.reshape(x, [label.type.shape[0], 4 * class_nums]) for x in (target, weight))
    return target, weight


def nearest_of_own_image(rows: Tensor, image: Tensor, true: TrueBoxes, counting: bool = False) -> tuple[Tensor, Tensor]:
    """The most by which each row overlaps a box of its image, with `counting` one that counts, and the row of that box: the first one of
    equals. Where there is none these are -1 and the number of boxes.
    """
    starts, sizes, spare = take(true.offsets[:-1], image), take(true.sizes, image), dispatch.full((), true.boxes.type.shape[0], i64)
    boxes, count, counted = _with_spare(true.boxes), rows.type.shape[0], _with_spare(true.counts)

    def area(x: Tensor) -> Tensor:
        return (x[:, 2] - x[:, 0] + 1.0) * (x[:, 3] - x[:, 1] + 1.0)

    def look(j: Tensor, best: Tensor, which: Tensor) -> list[Tensor]:
        there = math.less_than(j, sizes)
        row = select(there, starts + j, spare)
        if counting:
            there = math.logical_and(there, take(counted, row))
        other = take(boxes, row)
        extent = math.minimum(rows[:, 2:], other[:, 2:]) - math.maximum(rows[:, :2], other[:, :2]) + 1.0
        extent = math.maximum(extent, number_like(extent, 0.0))
        both = extent[:, 0] * extent[:, 1]
        here = both / (area(rows) + area(other) - both)
        better = math.logical_and(there, math.greater_than(here, best))
        return [j + 1, select(better, here, best), select(better, row, which)]

    rounds = longest(true.sizes)
    state = [dispatch.full((), 0, i64), dispatch.full((count,), -1, rows.type.dtype), math.broadcast_to(spare, [count])]
    _, best, which = loop(lambda j, *now: math.less_than(j, rounds), look, state)
    return best, which


def sum_of_images(mask: Tensor, image: Tensor, images: Dim) -> Tensor:
    """How many of the mask [n] hold in each image, int64 [images]; rows stand image by image."""
    return math.index_add(dispatch.full((images,), 0, i64), image, 0, cast_to(mask, i64))


def starts_of_images(image: Tensor, images: Dim) -> Tensor:
    return ends_of(sum_of_images(math.full([image.type.shape[0]], True, "bool"), image, images))[:-1]


def count_before(mask: Tensor, image: Tensor, starts: Tensor) -> Tensor:
    """How many before each row of its image hold, int64 [n]; rows stand image by image."""
    so_far = math.concat([math.zeros([1], "int64"), math.cumsum(cast_to(mask, i64), 0)], 0)
    return so_far[:-1] - take(so_far, take(starts, image))


def _chosen_of_images(mask: Tensor, image: Tensor, starts: Tensor, most: Tensor, randomly: bool) -> Tensor:
    """At most so many of each image for which the mask [n] holds: the first ones, or some that are drawn."""
    if not randomly:
        return math.logical_and(mask, math.less_than(count_before(mask, image, starts), most))
    order = math.argsort(default_generator().uniform(mask.type.shape, 0.0, 1.0, f32), stable=True)
    order = take(order, math.argsort(take(image, order), stable=True))
    rank = put_back(count_before(take(mask, order), image, starts), order)
    return math.logical_and(mask, math.less_than(rank, most))
