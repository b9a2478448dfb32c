"""Boxes of detectors that are chosen among many: how many there are is known once the program has run."""

from __future__ import annotations

from polyreme.boxes import levels, matrix, plain, proposals
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


@operator("nms", legacy=spelled("nms", {"Boxes": "x"}, "KeepBoxesIdxs", attributes={"iou_threshold": "threshold"}))
def nms(x: Tensor, *, threshold: float = 1.0) -> Tensor:
    """The places of the boxes that stay, int64; they stand in the order of their scores."""
    return plain.kept_boxes(x, threshold)


_ANCHORS = {"Scores": "scores", "BboxDeltas": "bbox_deltas", "Anchors": "anchors", "Variances": "variances"}
_TOPS = {"pre_nms_topN": "pre_nms_top_n", "post_nms_topN": "post_nms_top_n"}
_PROPOSED = "RpnRois RpnRoiProbs RpnRoisNum"


@operator(
    "generate_proposals", legacy=spelled("generate_proposals_v2", {**_ANCHORS, "ImShape": "im_shape"}, _PROPOSED, attributes=_TOPS)
)
def generate_proposals(
    scores: Tensor,
    bbox_deltas: Tensor,
    im_shape: Tensor,
    anchors: Tensor,
    variances: Tensor,
    *,
    pre_nms_top_n: int,
    post_nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
    pixel_offset: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes, their scores, and how many each image has."""
    return proposals.generate_proposals(
        scores, bbox_deltas, im_shape, anchors, variances, pre_nms_top_n, post_nms_top_n, nms_thresh, min_size, eta, pixel_offset
    )


@operator(legacy=spelled("generate_proposals", {**_ANCHORS, "ImInfo": "im_info"}, _PROPOSED, attributes=_TOPS))
def generate_proposals_of_scaled_images(
    scores: Tensor,
    bbox_deltas: Tensor,
    im_info: Tensor,
    anchors: Tensor,
    variances: Tensor,
    *,
    pre_nms_top_n: int,
    post_nms_top_n: int,
    nms_thresh: float,
    min_size: float,
    eta: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes of pixels of images that were scaled by the third number of `im_info`."""
    return proposals.generate_proposals(
        scores, bbox_deltas, im_info, anchors, variances, pre_nms_top_n, post_nms_top_n, nms_thresh, min_size, eta, True, True
    )


@operator(
    "distribute_fpn_proposals",
    legacy=spelled(
        "distribute_fpn_proposals", {"FpnRois": "fpn_rois", "RoisNum": "rois_num"}, "MultiFpnRois MultiLevelRoIsNum RestoreIndex",
        defaults={"pixel_offset": True},
    ),
)  # fmt: skip
def distribute_fpn_proposals(
    fpn_rois: Tensor,
    rois_num: Tensor | None = None,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool,
) -> tuple[list[Tensor], list[Tensor] | None, Tensor]:
    """The regions of each level, how many each image has there, and where each stands among those of all levels."""
    if not 0 < min_level < max_level < min_level + 99:
        raise UnsupportedError(f"expected levels from one above 0 to a higher one, below 100 of them, but got {min_level} and {max_level}")
    return levels.distribute_fpn_proposals(fpn_rois, rois_num, min_level, max_level, refer_level, refer_scale, pixel_offset)


@operator(
    "collect_fpn_proposals",
    legacy=spelled(
        "collect_fpn_proposals",
        {"MultiLevelRois": "multi_level_rois", "MultiLevelScores": "multi_level_scores", "MultiLevelRoIsNum": "multi_level_rois_num"},
        "FpnRois RoisNum",
        attributes={"post_nms_topN": "post_nms_topn"},
    ),
)
def collect_fpn_proposals(
    multi_level_rois: list[Tensor],
    multi_level_scores: list[Tensor],
    multi_level_rois_num: list[Tensor] | None = None,
    *,
    post_nms_topn: int,
) -> tuple[Tensor, Tensor]:
    """The regions of the highest scores of all levels, and how many each image has."""
    given = multi_level_rois, multi_level_scores, multi_level_rois_num or []
    if len({len(part) for part in given}) > 1:
        raise UnsupportedError(f"expected regions, scores and numbers of regions of equally many levels but got {[len(p) for p in given]}")
    return levels.collect_fpn_proposals(*given, post_nms_topn)
