"""Boxes that detectors before Paddle 2 find: a sequence of rows for each image, or one number, -1, where there are none."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch, math
from polyreme.boxes import finding
from polyreme.boxes.lists import ends_of
from polyreme.boxes.multiclass import multiclass_nms
from polyreme.ir import dims
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

__all__ = ["or_nothing"]


def or_nothing(rows: Tensor, offsets: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Rows [n, 6] and their offsets; where there are none, -1 [1, 1], which is a sequence by itself, whatever number of images there is."""
    some = dims.minimum(rows.type.shape[0], 1)
    nothing = dispatch.full((1 - some, 6), -1, rows.type.dtype)
    ends = math.concat([offsets[: offsets.type.shape[0] * some], dispatch.constant(np.array([0, 1]))[: 2 - 2 * some]], 0)
    return math.concat([rows, nothing], 0)[:, : 1 + 5 * some], [ends]


@operator(legacy=spelled("locality_aware_nms", {"BBoxes": "bboxes", "Scores": "scores"}, "Out Out@LOD"))
def locality_aware_nms(
    bboxes: Tensor,
    scores: Tensor,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
) -> tuple[Tensor, list[Tensor]]:
    """What is chosen of one class after neighbours were merged."""
    if bboxes.ndim != 3 or bboxes.type.shape[2] != 4 or scores.ndim != 3 or scores.type.shape[1] != 1:
        raise UnsupportedError(
            f"expected boxes [images, n, 4] and scores [images, 1, n] for 'locality_aware_nms' but got {list(bboxes.shape)} and "
            f"{list(scores.shape)}"
        )
    boxes, weights = finding.merged_neighbours(bboxes.detach(), scores.detach()[:, 0], nms_threshold, normalized)
    found = multiclass_nms(
        boxes, math.unsqueeze(weights, 1), score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label
    )
    return or_nothing(found.rows, ends_of(found.counts))


_LEVELS = {"BBoxes": "bboxes", "Scores": "scores", "Anchors": "anchors", "ImInfo": "im_info"}


@operator(legacy=spelled("retinanet_detection_output", _LEVELS, "Out Out@LOD"))
def retinanet_detection_output(
    bboxes: list[Tensor],
    scores: list[Tensor],
    anchors: list[Tensor],
    im_info: Tensor,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float,
    nms_eta: float = 1.0,
) -> tuple[Tensor, list[Tensor]]:
    """What is chosen on all levels of a pyramid."""
    if not len(bboxes) == len(scores) == len(anchors):
        raise UnsupportedError(f"expected as many differences and anchors as scores but got {len(bboxes)}, {len(anchors)}, {len(scores)}")
    boxes, weights, priors = ([part.detach() for part in given] for given in (bboxes, scores, anchors))
    found = finding.retinanet_detection_output(
        boxes, weights, priors, im_info.detach(), score_threshold, nms_top_k, keep_top_k, nms_threshold, nms_eta
    )
    return or_nothing(found.rows, ends_of(found.counts))
