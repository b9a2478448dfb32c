"""Boxes that are chosen by their scores and by how far they overlap."""

from __future__ import annotations

from polyreme.boxes import matrix, plain
from polyreme.boxes.found import Found
from polyreme.boxes.lists import ends_of
from polyreme.boxes.multiclass import multiclass_nms, multiclass_nms_of_regions
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.boxes.found import or_nothing
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_SLOTS = {"BBoxes": "bboxes", "Scores": "scores"}


def _check_boxes(bboxes: Tensor, what: str) -> None:
    size = bboxes.type.shape[-1]
    if isinstance(size, int) and size != 4:
        raise UnsupportedError(f"expected boxes of 4 edges for '{what}' but got {size} numbers each, of shape {list(bboxes.shape)}")


def _lengths(levels: list[Tensor] | None, what: str) -> Tensor:
    """How many boxes each image has, by the offsets of the last level."""
    if not levels:
        raise UnsupportedError(f"expected {what} but got neither these nor levels of detail, beside scores [boxes, classes]")
    return levels[-1][1:] - levels[-1][:-1]


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
    return multiclass_nms_of_regions(bboxes, scores, _lengths(None, "'rois_num'") if rois_num is None else rois_num, *attributes)


_LEVELS = {**_SLOTS, "BBoxes@LOD": "levels"}


@operator(legacy=spelled("multiclass_nms2", _LEVELS, "Out Index Out@LOD Index@LOD"))
def multiclass_nms2(
    bboxes: Tensor,
    scores: Tensor,
    levels: list[Tensor] | None = None,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """Rows of class, score and edges, a sequence for each image, and the place of each among the boxes."""
    lengths = _lengths(levels, "levels of detail of 'BBoxes'") if scores.ndim == 2 else None
    attributes = score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label
    rows, places, counts = multiclass_nms3(bboxes, scores, lengths, **dict(zip(_ATTRIBUTES, attributes, strict=True)))
    offsets = [ends_of(counts)]
    return rows, places, offsets, offsets


_ATTRIBUTES = "score_threshold", "nms_top_k", "keep_top_k", "nms_threshold", "normalized", "nms_eta", "background_label"


@operator(legacy=spelled("multiclass_nms", _LEVELS, "Out Out@LOD"))
def multiclass_nms1(
    bboxes: Tensor,
    scores: Tensor,
    levels: list[Tensor] | None = None,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> tuple[Tensor, list[Tensor]]:
    """Rows of class, score and edges, a sequence for each image. Where no box is left, it is one number, -1."""
    attributes = score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label
    rows, _, offsets, _ = multiclass_nms2(bboxes, scores, levels, **dict(zip(_ATTRIBUTES, attributes, strict=True)))
    return or_nothing(rows, offsets[0])


@operator("matrix_nms", legacy=spelled("matrix_nms", _SLOTS, "Out Index RoisNum Out@LOD Index@LOD"))
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
) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor]]:
    """Rows of class, fallen score and edges, the place of each among the boxes, and how many there are in each image."""
    _check_boxes(bboxes, "matrix_nms")
    found = matrix.matrix_nms(
        bboxes, scores, score_threshold, nms_top_k, keep_top_k, post_threshold, use_gaussian, gaussian_sigma, background_label, normalized
    )
    offsets = [ends_of(found.counts)]
    return *found, offsets, offsets


@operator("nms", legacy=spelled("nms", {"Boxes": "x"}, "KeepBoxesIdxs", attributes={"iou_threshold": "threshold"}))
def nms(x: Tensor, *, threshold: float = 1.0) -> Tensor:
    """The places of the boxes that stay, int64; they stand in the order of their scores."""
    return plain.kept_boxes(x, threshold)
