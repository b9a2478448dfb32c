"""What networks that propose regions learn of anchors, of proposals, and of the masks of these."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.boxes import region_targets
from polyreme.boxes.lists import ends_of, flat, kept_places, numbers, take
from polyreme.boxes.mask_targets import Polygons, masks
from polyreme.boxes.matching import image_of
from polyreme.boxes.region_targets import AnchorTargets, Drawn, TrueBoxes
from polyreme.ir.types import i1, i32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.operators.arguments import Numbers, UnsupportedError
from polyreme.operators.definition import REQUIRED, operator, spelled
from polyreme.operators.sequence.pooling import last_level, lengths, peaks
from polyreme.tensor import Tensor


def _true(boxes: Tensor, crowd: Tensor, levels: list[Tensor] | None, scales: Tensor | None = None) -> TrueBoxes:
    """The true boxes of a `GtBoxes`, a sequence for each image, of which crowds do not count; scaled by [images, 1]."""
    offsets = last_level(levels or [], "GtBoxes")
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise UnsupportedError(f"expected true boxes [n, 4] but got the shape {list(boxes.shape)}")
    counts = math.equal(flat(crowd), number_like(crowd, 0))
    boxes = boxes.detach()
    return TrueBoxes(boxes if scales is None else boxes * take(scales, image_of(offsets, boxes)), counts, offsets)


def _scales(im_info: Tensor) -> Tensor:
    return im_info.detach()[:, 2:3]


_RPN = {"Anchor": "anchors", "GtBoxes": "boxes", "IsCrowd": "crowd", "ImInfo": "im_info", "GtBoxes@LOD": "levels"}
_TARGETS = "LocationIndex ScoreIndex TargetLabel TargetBBox BBoxInsideWeight"
_TARGETS_WITH_LEVELS = f"{_TARGETS} LocationIndex@LOD ScoreIndex@LOD TargetLabel@LOD TargetBBox@LOD BBoxInsideWeight@LOD"


def _results(found: AnchorTargets) -> tuple[Tensor, ...]:
    return found.located, found.scored, found.labels, found.differences, found.weights


def _levels(found: AnchorTargets) -> tuple[list[Tensor], ...]:
    located, scored = [found.located_ends], [found.scored_ends]
    return located, scored, scored, located, located


@operator(
    legacy=spelled(
        "rpn_target_assign", _RPN, _TARGETS_WITH_LEVELS, without="levels",
        attributes={
            "rpn_batch_size_per_im": "most", "rpn_straddle_thresh": "beyond", "rpn_fg_fraction": "share",
            "rpn_positive_overlap": "positive", "rpn_negative_overlap": "negative", "use_random": "randomly",
        },
    )
)  # fmt: skip
def rpn_target_assign(
    anchors: Tensor,
    boxes: Tensor,
    crowd: Tensor,
    im_info: Tensor,
    levels: list[Tensor] | None = None,
    *,
    most: int = 256,
    beyond: float = 0.0,
    share: float = 0.5,
    positive: float = 0.7,
    negative: float = 0.3,
    randomly: bool = True,
) -> tuple[Tensor | list[Tensor], ...]:
    """What is learned of anchors that lie within the images, or `beyond` them by so much; of all of them where that is negative."""
    info, anchors = im_info.detach(), anchors.detach()
    true = _true(boxes, crowd, levels, _scales(info))
    inside = dispatch.full((true.images, anchors.type.shape[0]), True, i1)
    if beyond >= 0:
        edge = number_like(anchors, float(beyond))
        high, wide = (cast_to(info[:, i : i + 1], anchors.type.dtype) + edge for i in range(2))
        low = math.greater_equal(math.min(anchors[:, :2], 1), math.scale(edge, -1))
        below = math.less_than(math.unsqueeze(anchors[:, 2], 0), wide), math.less_than(math.unsqueeze(anchors[:, 3], 0), high)
        inside = math.logical_and(math.logical_and(*below), math.unsqueeze(low, 0))
    drawn = Drawn(most, share, randomly)
    found = region_targets.anchor_targets(anchors, true, None, inside, positive, negative, drawn)
    return *_results(found), *_levels(found)


@operator(
    legacy=spelled(
        "retinanet_target_assign", {**_RPN, "GtLabels": "labels"},
        f"{_TARGETS} ForegroundNumber {_TARGETS_WITH_LEVELS.removeprefix(_TARGETS)} ForegroundNumber@LOD", without="levels",
        attributes={"positive_overlap": "positive", "negative_overlap": "negative"},
    )
)  # fmt: skip
def retinanet_target_assign(
    anchors: Tensor,
    boxes: Tensor,
    labels: Tensor,
    crowd: Tensor,
    im_info: Tensor,
    levels: list[Tensor] | None = None,
    *,
    positive: float = 0.5,
    negative: float = 0.4,
) -> tuple[Tensor | list[Tensor], ...]:
    """What is learned of all anchors, and how many of each image are boxes, plus one."""
    anchors = anchors.detach()
    true = _true(boxes, crowd, levels, _scales(im_info))
    inside = dispatch.full((true.images, anchors.type.shape[0]), True, i1)
    found = region_targets.anchor_targets(anchors, true, labels, inside, positive, negative, None)
    count = cast_to(math.unsqueeze(lengths(found.located_ends), 1) + 1, i32)
    each = math.arange(0, 1, 1, "int64") if true.images == 0 else math.cumsum(math.ones([true.images + 1], "int64"), 0) - 1
    return *_results(found), count, *_levels(found), [each]


_PROPOSED = {
    "RpnRois": "rois", "GtClasses": "classes", "IsCrowd": "crowd", "GtBoxes": "boxes", "ImInfo": "im_info", "RpnRois@LOD": "own",
    "GtBoxes@LOD": "levels",
}  # fmt: skip
_LEARNED = "Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights"


@operator(
    legacy=spelled(
        "generate_proposal_labels", _PROPOSED, f"{_LEARNED} {' '.join(slot + '@LOD' for slot in _LEARNED.split())}",
        attributes={"use_random": "randomly"},
    )
)  # fmt: skip
def generate_proposal_labels(
    rois: Tensor,
    classes: Tensor,
    crowd: Tensor,
    boxes: Tensor,
    im_info: Tensor,
    own: list[Tensor] | None = None,
    levels: list[Tensor] | None = None,
    *,
    batch_size_per_im: int,
    fg_fraction: float,
    fg_thresh: float,
    bg_thresh_hi: float,
    bg_thresh_lo: float,
    bbox_reg_weights: Numbers,
    class_nums: int = REQUIRED,
    randomly: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
) -> tuple[Tensor | list[Tensor], ...]:
    """Regions that are learned, as boxes of a class or as background, a sequence for each image."""
    offsets = last_level(own or [], "RpnRois")
    if rois.ndim != 2 or rois.shape[1] != 4 or len(bbox_reg_weights) != 4:
        raise UnsupportedError(f"expected regions [n, 4] and 4 'bbox_reg_weights' but got {list(rois.shape)} and {list(bbox_reg_weights)}")
    drawn = Drawn(batch_size_per_im, fg_fraction, randomly)
    found, ends = region_targets.proposal_targets(
        rois.detach(), offsets, classes, _true(boxes, crowd, levels), cast_to(_scales(im_info), rois.type.dtype), drawn, fg_thresh,
        bg_thresh_lo, bg_thresh_hi, [float(w) for w in bbox_reg_weights], class_nums, is_cls_agnostic, is_cascade_rcnn,
    )  # fmt: skip
    return *found, *([ends] for _ in found)


_MASKS = {
    "ImInfo": "im_info", "GtClasses": "classes", "IsCrowd": "crowd", "GtSegms": "points", "Rois": "rois", "LabelsInt32": "labels",
    "GtSegms@LOD": "levels", "Rois@LOD": "own",
}  # fmt: skip
_MASKED = "MaskRois RoiHasMaskInt32 MaskInt32"


@operator(
    legacy=spelled("generate_mask_labels", _MASKS, f"{_MASKED} {' '.join(slot + '@LOD' for slot in _MASKED.split())}")
)
def generate_mask_labels(
    im_info: Tensor,
    classes: Tensor,
    crowd: Tensor,
    points: Tensor,
    rois: Tensor,
    labels: Tensor,
    levels: list[Tensor] | None = None,
    own: list[Tensor] | None = None,
    *,
    num_classes: int,
    resolution: int,
) -> tuple[Tensor | list[Tensor], ...]:
    """Regions with a class, where each stands in its image, and masks [regions, classes * resolution**2] of the object that each overlaps
    most: at the place of its class, -1 elsewhere. An image without such a region or object has its first region of the background.
    """
    offsets = last_level(own or [], "Rois")
    if len(levels or []) != 3 or points.ndim != 2 or points.shape[1] != 2 or rois.ndim != 2 or rois.shape[1] != 4:
        raise UnsupportedError(
            f"expected points [n, 2] with three levels of detail, of objects, polygons and points, and regions [n, 4] for "
            f"'generate_mask_labels' but got {list(points.shape)} with {len(levels or [])} levels and {list(rois.shape)}"
        )
    of_images, of_objects, of_polygons = levels or []
    points, rois = points.detach(), rois.detach()
    ends = math.gather(of_polygons, of_objects, 0)
    edges = math.concat([math.scale(peaks(math.scale(points, -1.0), ends), -1.0), peaks(points, ends)], 1)
    counts = math.logical_and(math.greater_than(flat(classes), number_like(classes, 0)), math.equal(flat(crowd), number_like(crowd, 0)))
    true = TrueBoxes(cast_to(edges, rois.type.dtype), counts, of_images)
    image, label = image_of(offsets, rois), cast_to(flat(labels), i64)
    placed = rois / take(cast_to(_scales(im_info), rois.type.dtype), image)
    _, matched = region_targets.nearest_of_own_image(placed, image, true, counting=True)
    is_box = math.logical_and(
        math.greater_than(label, number_like(label, 0)), math.less_than(matched, dispatch.full((), edges.type.shape[0], i64))
    )
    none = math.equal(region_targets.sum_of_images(is_box, image, true.images), number_like(matched, 0))
    is_none = math.equal(label, number_like(label, 0))
    starts = region_targets.starts_of_images(image, true.images)
    first = math.equal(region_targets.count_before(is_none, image, starts), number_like(label, 0))
    instead = math.logical_and(math.logical_and(is_none, first), take(none, image))
    chosen = kept_places(math.logical_or(is_box, instead))
    there, label = take(is_box, chosen), take(label, chosen)
    objects = select(there, take(matched, chosen), number_like(matched, 0))
    mask = masks(Polygons(points, of_polygons, of_objects), take(placed, chosen), objects, there, resolution)
    mine = math.equal(math.unsqueeze(label, 1), math.unsqueeze(numbers(num_classes), 0))
    mine = math.unsqueeze(math.logical_and(mine, math.unsqueeze(there, 1)), 2)
    pixels = resolution * resolution
    laid = math.expand(select(mine, math.unsqueeze(mask, 1), number_like(mask, -1)), [chosen.type.shape[0], num_classes, pixels])
    number = math.unsqueeze(cast_to(chosen - take(offsets[:-1], take(image, chosen)), i32), 1)
    found = [take(rois, chosen), number, math.reshape(laid, [chosen.type.shape[0], num_classes * pixels])]
    each = ends_of(region_targets.sum_of_images(math.full([chosen.type.shape[0]], True, "bool"), take(image, chosen), true.images))
    return *found, *([each] for _ in found)
