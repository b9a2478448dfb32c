"""Regions of images: proposed, given to the levels of a pyramid, collected from them."""

from __future__ import annotations

from polyreme.boxes import levels, proposals
from polyreme.boxes.lists import ends_of
from polyreme.operators.arguments import UnsupportedError
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_ANCHORS = {"Scores": "scores", "BboxDeltas": "bbox_deltas", "Anchors": "anchors", "Variances": "variances"}
_TOPS = {"pre_nms_topN": "pre_nms_top_n", "post_nms_topN": "post_nms_top_n"}
_PROPOSED = "RpnRois RpnRoiProbs RpnRoisNum"
_PROPOSED_WITH_LEVELS = f"{_PROPOSED} RpnRois@LOD RpnRoiProbs@LOD RpnRoisLod"


@operator(
    "generate_proposals",
    legacy=spelled("generate_proposals_v2", {**_ANCHORS, "ImShape": "im_shape"}, _PROPOSED, attributes=_TOPS),
    misdeclared=True,
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


@operator(legacy=spelled("generate_proposals", {**_ANCHORS, "ImInfo": "im_info"}, _PROPOSED_WITH_LEVELS, attributes=_TOPS))
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
) -> tuple[Tensor, Tensor, Tensor, list[Tensor], list[Tensor], Tensor]:
    """Boxes of pixels of images that were scaled by the third number of `im_info`, a sequence for each image."""
    rois, scores, counts = proposals.generate_proposals(
        scores, bbox_deltas, im_info, anchors, variances, pre_nms_top_n, post_nms_top_n, nms_thresh, min_size, eta, True, True
    )
    offsets = ends_of(counts)
    return rois, scores, counts, [offsets], [offsets], offsets[1:]


@operator(
    "distribute_fpn_proposals",
    legacy=spelled(
        "distribute_fpn_proposals", {"FpnRois": "fpn_rois", "RoisNum": "rois_num", "FpnRois@LOD": "of_images"},
        "MultiFpnRois MultiLevelRoIsNum RestoreIndex MultiFpnRois@LOD RestoreIndex@LOD", defaults={"pixel_offset": True},
    ),
)  # fmt: skip
def distribute_fpn_proposals(
    fpn_rois: Tensor,
    rois_num: Tensor | None = None,
    of_images: list[Tensor] | None = None,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool,
) -> tuple[list[Tensor], list[Tensor] | None, Tensor, list[Tensor] | None, list[Tensor]]:
    """The regions of each level, how many each image has there, and where each stands among those of all levels. Regions with levels of
    detail, a sequence for each image, have them on each level, too.
    """
    if not 0 < min_level < max_level < min_level + 99:
        raise UnsupportedError(f"expected levels from one above 0 to a higher one, below 100 of them, but got {min_level} and {max_level}")
    if rois_num is None and of_images:
        rois_num = of_images[-1][1:] - of_images[-1][:-1]
    parts, counts, order = levels.distribute_fpn_proposals(
        fpn_rois, rois_num, min_level, max_level, refer_level, refer_scale, pixel_offset
    )
    return parts, counts, order, None if counts is None else [ends_of(count) for count in counts], []


@operator(
    "collect_fpn_proposals",
    legacy=spelled(
        "collect_fpn_proposals",
        {
            "MultiLevelRois": "multi_level_rois", "MultiLevelScores": "multi_level_scores", "MultiLevelRoIsNum": "multi_level_rois_num",
            "MultiLevelRois@LOD": "of_images",
        },
        "FpnRois RoisNum FpnRois@LOD",
        attributes={"post_nms_topN": "post_nms_topn"},
    ),
)
def collect_fpn_proposals(
    multi_level_rois: list[Tensor],
    multi_level_scores: list[Tensor],
    multi_level_rois_num: list[Tensor] | None = None,
    of_images: list[Tensor] | None = None,
    *,
    post_nms_topn: int,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The regions of the highest scores of all levels, and how many each image has, as a sequence for each image."""
    if post_nms_topn < 1:
        raise UnsupportedError(f"expected 'post_nms_topn' of 1 or more but got {post_nms_topn}")
    if multi_level_rois_num is None and of_images:
        multi_level_rois_num = [offsets[1:] - offsets[:-1] for offsets in of_images]
    given = multi_level_rois, multi_level_scores, multi_level_rois_num or []
    if len({len(part) for part in given}) > 1:
        raise UnsupportedError(f"expected regions, scores and numbers of regions of equally many levels but got {[len(p) for p in given]}")
    rois, counts = levels.collect_fpn_proposals(*given, post_nms_topn)
    return rois, counts, [ends_of(counts)]
