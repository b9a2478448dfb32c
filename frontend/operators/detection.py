"""Boxes of detectors that are chosen among many: how many there are is known once the program has run."""

from __future__ import annotations

from polyreme.boxes import matrix
from polyreme.boxes.found import Found
from polyreme.boxes.multiclass import multiclass_nms, multiclass_nms_of_regions
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_SLOTS = {"BBoxes": "bboxes", "Scores": "scores"}


def _check_boxes(bboxes: Tensor, what: str) -> None:
    size = bboxes.type.shape[-1]
    if isinstance(size, int) and size != 4:
        raise UnsupportedError(f"expected boxes of 4 edges for '{what}' but got {size} numbers each, of shape {list(bboxes.shape)}")


@operator("multiclass_nms3", legacy=spelled("multiclass_nms3", {**_SLOTS, "RoisNum": "rois_num"}, "Out Index NmsRoisNum"))
def multiclass_nms3(
    bboxes: Tensor,
    scores: Tensor,
    rois_num: Tensor | None = None,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> Found:
    """Rows of class, score and edges, the place of each among the boxes, and how many there are in each image."""
    _check_boxes(bboxes, "multiclass_nms3")
    attributes = score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label
    if scores.ndim == 3:
        return multiclass_nms(bboxes, scores, *attributes)
    if rois_num is None:
        raise UnsupportedError("expected 'rois_num', how many boxes each image has, beside scores [boxes, classes] but got none")
    return multiclass_nms_of_regions(bboxes, scores, rois_num, *attributes)


@operator("matrix_nms", legacy=spelled("matrix_nms", _SLOTS, "Out Index RoisNum"))
def matrix_nms(
    bboxes: Tensor,
    scores: Tensor,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    post_threshold: float = 0.0,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
) -> Found:
    """Rows of class, fallen score and edges, the place of each among the boxes, and how many there are in each image."""
    _check_boxes(bboxes, "matrix_nms")
    return matrix.matrix_nms(
        bboxes, scores, score_threshold, nms_top_k, keep_top_k, post_threshold, use_gaussian, gaussian_sigma, background_label, normalized
    )
