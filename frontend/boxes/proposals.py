"""`generate_proposals`: anchors moved by what a network says, of which the best stay."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.boxes.found import check_shape
from polyreme.boxes.lists import along, best_first, count_of, flat, kept_places, numbers, single, take
from polyreme.boxes.suppression import Boxes, Rounds, suppress
from polyreme.ir.types import i1
from polyreme.math.common import number_like, select
from polyreme.tensor import Tensor

__all__ = ["generate_proposals"]

# A box becomes at most so many times as large as its anchor, as a power of e.
MOST_GROWTH = float(np.log(1000.0 / 16.0))


def generate_proposals(
    scores: Tensor,
    deltas: Tensor,
    image_shapes: Tensor,
    anchors: Tensor,
    variances: Tensor,
    pre_nms_top_n: int,
    post_nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
    pixel_offset: bool,
    scaled: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes [n, 4], their scores [n, 1], and how many each image has, int32, the best of an image first.

    `scores` are [images, anchors, height, width], `deltas` [images, 4 * anchors, height, width], `anchors` and `variances`
    [height, width, anchors, 4], or as many rows of 4. `image_shapes` are heights and widths, and with `scaled` factors in the third
    column, by which sizes are divided before they are compared with `min_size`. An image without a box that is large enough has one of
    zeros, and with `scaled`, as in Paddle 1.8.5, none.
    """
    scores, deltas, shapes = scores.detach(), deltas.detach(), image_shapes.detach()
    images, count, high, wide = scores.type.shape
    check_shape(deltas, [images, count * 4, high, wide], "bbox_deltas")
    check_shape(shapes, [images, 3 if scaled else 2], "the shapes of images")
    for given, what in ((anchors, "anchors"), (variances, "variances")):
        check_shape(given, [high, wide, count, 4] if given.ndim == 4 else [high * wide * count, 4], what)
    score = math.reshape(math.transpose(scores, [0, 2, 3, 1]), [images, -1])
    moves = math.reshape(math.transpose(deltas, [0, 2, 3, 1]), [images, -1, 4])
    everything = dispatch.full(tuple(score.type.shape), True, i1)
    order, _ = best_first(score, everything, pre_nms_top_n if pre_nms_top_n > 0 else -1)
    score = along(score, order)
    move = [along(moves[:, :, i], order) for i in range(4)]
    anchor, variance = ([take(flat(v.detach()[..., i]), order) for i in range(4)] for v in (anchors, variances))
    offset = 1.0 if pixel_offset else 0.0
    edges = _clipped(_moved(anchor, variance, move, offset), shapes, offset)
    large = _large(edges, shapes, max(single(min_size), 1.0), offset, scaled)
    stays = large
    if nms_thresh > 0:
        stays = suppress(Boxes.of(edges, not pixel_offset), large, Rounds.of_lists(large), nms_thresh, eta)
        if post_nms_top_n > 0:
            so_far = math.cumsum(math.cast(stays, "int64"), 1)
            stays = math.logical_and(stays, math.less_equal(so_far, number_like(so_far, post_nms_top_n)))
    if not scaled:
        none = math.logical_not(math.any(large, 1, keepdim=True))
        first = math.equal(numbers(order.type.shape[1]), number_like(order, 0))
        stays = math.logical_or(stays, math.logical_and(none, first))
        score, *edges = (select(none, number_like(x, 0.0), x) for x in (score, *edges))
    kept = kept_places(flat(stays))
    rows = math.stack([take(flat(edge), kept) for edge in edges], 1)
    return rows, math.unsqueeze(take(flat(score), kept), 1), count_of(stays, (1,))


def _moved(anchor: list[Tensor], variance: list[Tensor], move: list[Tensor], offset: float) -> list[Tensor]:
    """The edges of anchors whose centers and sizes are moved by what the network says times the variances."""
    x1, y1, x2, y2 = anchor
    wide, high = x2 - x1 + offset, y2 - y1 + offset
    dx, dy, dw, dh = (v * m for v, m in zip(variance, move, strict=True))
    x, y = dx * wide + (x1 + wide * 0.5), dy * high + (y1 + high * 0.5)
    half, tall = (math.exp(math.minimum(d, number_like(d, MOST_GROWTH))) * s * 0.5 for d, s in ((dw, wide), (dh, high)))
    return [x - half, y - tall, x + half - offset, y + tall - offset]


def _clipped(edges: list[Tensor], shapes: Tensor, offset: float) -> list[Tensor]:
    """Edges that lie within the images."""
    ends = [shapes[:, 1:2] - offset, shapes[:, 0:1] - offset] * 2
    return [math.maximum(math.minimum(edge, end), number_like(edge, 0.0)) for edge, end in zip(edges, ends, strict=True)]


def _large(edges: list[Tensor], shapes: Tensor, least: float, offset: float, scaled: bool) -> Tensor:
    """Which boxes are large enough; of pixels also those whose centers lie within the images alone."""
    x1, y1, x2, y2 = edges
    wide, high = x2 - x1 + offset, y2 - y1 + offset
    inside = None
    if offset:
        inside = math.logical_and(
            math.less_equal(x1 + wide * 0.5, shapes[:, 1:2]), math.less_equal(y1 + high * 0.5, shapes[:, 0:1])
        )
    if scaled:
        factor = shapes[:, 2:3]
        wide, high = (x2 - x1) / factor + 1.0, (y2 - y1) / factor + 1.0
    large = math.logical_and(*(math.greater_equal(s, number_like(s, least)) for s in (wide, high)))
    return large if inside is None else math.logical_and(large, inside)
