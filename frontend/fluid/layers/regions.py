"""Regions of images: proposed, given to levels of a pyramid, learned, read in few pixels; windows that have places of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.fluid.initializer import Normal
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import made, made_all, takes
from polyreme.fluid.layers.images import _many
from polyreme.fluid.layers.nn import gather, reshape
from polyreme.names import listed

__all__ = [
    "collect_fpn_proposals", "deformable_conv", "deformable_roi_pooling", "distribute_fpn_proposals", "generate_mask_labels",
    "generate_proposal_labels", "generate_proposals", "prroi_pool", "psroi_pool", "retinanet_target_assign", "roi_align",
    "roi_perspective_transform", "roi_pool", "rpn_target_assign",
]  # fmt: skip


# --- proposed


@takes("scores", "bbox_deltas", "im_info", "anchors", "variances")
def generate_proposals(
    scores: Any, bbox_deltas: Any, im_info: Any, anchors: Any, variances: Any, pre_nms_top_n: int = 6000, post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5, min_size: float = 0.1, eta: float = 1.0, name: str | None = None, return_rois_num: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Boxes [rois, 4] of the best of scores [N, anchors, H, W] and differences [N, 4 * anchors, H, W] from anchors [H, W, anchors, 4], and
    their scores [rois, 1], a sequence for each image; with `return_rois_num`, and where those of each image end, [N].
    """
    slots = {"Scores": scores, "BboxDeltas": bbox_deltas, "ImInfo": im_info, "Anchors": anchors, "Variances": variances}
    attrs = {
        "pre_nms_topN": pre_nms_top_n, "post_nms_topN": post_nms_top_n, "nms_thresh": nms_thresh, "min_size": min_size, "eta": eta,
    }  # fmt: skip
    outputs = {"RpnRois": bbox_deltas.dtype, "RpnRoiProbs": scores.dtype, "RpnRoisLod": "int64"}
    found = made_all("generate_proposals", slots, attrs, outputs, name=name, fixed=True)
    return found if return_rois_num else found[:2]


@takes("fpn_rois")
def distribute_fpn_proposals(
    fpn_rois: Any, min_level: int, max_level: int, refer_level: int, refer_scale: int, name: str | None = None
) -> tuple[list[Any], Any]:
    """The boxes of each level by their sizes, a sequence for each image, and where each box stands among those of all levels, int32
    [rois, 1]. Boxes of the size `refer_scale` go to `refer_level`, twice as large ones to the next.
    """
    helper = LayerHelper("distribute_fpn_proposals", name=name)
    parts = [helper.create_variable_for_type_inference(fpn_rois.dtype) for _ in range(min_level, max_level + 1)]
    order = helper.create_variable_for_type_inference("int32", stop_gradient=True)
    attrs = {"min_level": min_level, "max_level": max_level, "refer_level": refer_level, "refer_scale": refer_scale}
    outputs = {"MultiFpnRois": parts, "RestoreIndex": order}
    helper.append_op("distribute_fpn_proposals", {"FpnRois": fpn_rois}, outputs, attrs)
    return parts, order


def collect_fpn_proposals(
    multi_rois: Sequence[Any], multi_scores: Sequence[Any], min_level: int, max_level: int, post_nms_top_n: int, name: str | None = None
) -> Any:
    """The boxes of all levels with the `post_nms_top_n` highest scores, a sequence for each image."""
    count = max_level - min_level + 1
    slots = {"MultiLevelRois": list(multi_rois[:count]), "MultiLevelScores": list(multi_scores[:count])}
    attrs = {"post_nms_topN": post_nms_top_n}
    return made("collect_fpn_proposals", slots, attrs, multi_rois[0].dtype, "FpnRois", name=name, fixed=True)


# --- learned


_INDICES = {"LocationIndex": "int32", "ScoreIndex": "int32", "TargetLabel": "int32"}


def _assigned(type: str, bbox_pred: Any, cls_logits: Any, classes: int, slots: Any, attrs: Any, more: Any) -> tuple[Any, ...]:
    """What is said of the anchors that are learned, and what they are to be."""
    dtype = slots["Anchor"].dtype
    outputs = {**_INDICES, "TargetBBox": dtype, "BBoxInsideWeight": dtype, **more}
    located, scored, *targets = made_all(type, slots, attrs, outputs, fixed=True)
    return gather(reshape(cls_logits, (-1, classes)), scored), gather(reshape(bbox_pred, (-1, 4)), located), *targets


@takes("bbox_pred", "cls_logits", "anchor_box", "anchor_var", "gt_boxes", "is_crowd", "im_info")
def rpn_target_assign(
    bbox_pred: Any, cls_logits: Any, anchor_box: Any, anchor_var: Any, gt_boxes: Any, is_crowd: Any, im_info: Any,
    rpn_batch_size_per_im: int = 256, rpn_straddle_thresh: float = 0.0, rpn_fg_fraction: float = 0.5, rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3, use_random: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """What a network that proposes regions learns of anchors [M, 4]: scores [F + B, 1] and differences [F, 4] of the anchors that are
    chosen, of `cls_logits` [N, M, 1] and `bbox_pred` [N, M, 4]; labels [F + B, 1] int32, 1 for a box and 0 for background, differences
    [F, 4], and weights [F, 4] of these.

    `gt_boxes` [boxes, 4] of images before they were scaled, and `is_crowd`, are a sequence for each image; `im_info` [N, 3] has heights,
    widths and scales. An anchor is a box where it overlaps a true one by `rpn_positive_overlap` or more than all others, and background
    where it overlaps all by less than `rpn_negative_overlap`. Of each image at most `rpn_batch_size_per_im` are chosen, of these a share of
    `rpn_fg_fraction` as boxes at most: drawn, or without `use_random` the first ones. `anchor_var` does not count, as in Paddle.
    """
    slots = {"Anchor": anchor_box, "GtBoxes": gt_boxes, "IsCrowd": is_crowd, "ImInfo": im_info}
    attrs = {
        "rpn_batch_size_per_im": rpn_batch_size_per_im, "rpn_straddle_thresh": rpn_straddle_thresh,
        "rpn_fg_fraction": rpn_fg_fraction, "rpn_positive_overlap": rpn_positive_overlap, "rpn_negative_overlap": rpn_negative_overlap,
        "use_random": use_random,
    }  # fmt: skip
    return _assigned("rpn_target_assign", bbox_pred, cls_logits, 1, slots, attrs, {})


@takes("bbox_pred", "cls_logits", "anchor_box", "anchor_var", "gt_boxes", "gt_labels", "is_crowd", "im_info")
def retinanet_target_assign(
    bbox_pred: Any, cls_logits: Any, anchor_box: Any, anchor_var: Any, gt_boxes: Any, gt_labels: Any, is_crowd: Any, im_info: Any,
    num_classes: int = 1, positive_overlap: float = 0.5, negative_overlap: float = 0.4,
) -> tuple[Any, ...]:  # fmt: skip
    """As `rpn_target_assign`, of all anchors and of `num_classes` scores each: labels are those of `gt_labels` [boxes, 1] for boxes and 0
    for background. Last comes how many anchors of each image are boxes, plus one, int32 [N, 1].
    """
    slots = {"Anchor": anchor_box, "GtBoxes": gt_boxes, "GtLabels": gt_labels, "IsCrowd": is_crowd, "ImInfo": im_info}
    attrs = {"positive_overlap": positive_overlap, "negative_overlap": negative_overlap}
    return _assigned("retinanet_target_assign", bbox_pred, cls_logits, num_classes, slots, attrs, {"ForegroundNumber": "int32"})


@takes("rpn_rois", "gt_classes", "is_crowd", "gt_boxes", "im_info")
def generate_proposal_labels(
    rpn_rois: Any, gt_classes: Any, is_crowd: Any, gt_boxes: Any, im_info: Any, batch_size_per_im: int = 256, fg_fraction: float = 0.25,
    fg_thresh: float = 0.25, bg_thresh_hi: float = 0.5, bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Sequence[float] = (0.1, 0.1, 0.2, 0.2), class_nums: int | None = None, use_random: bool = True,
    is_cls_agnostic: bool = False, is_cascade_rcnn: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """What a detector learns of regions [n, 4]: those that are chosen, [rois, 4], their classes [rois, 1] int32 (0 for background), the
    differences of the true boxes from them [rois, 4 * class_nums], at the place of their class, and weights of these, inside and outside.

    Regions, true boxes and their classes, and `is_crowd`, are a sequence for each image; true boxes are regions, too. A region is a box
    where it overlaps a true one by `fg_thresh`, background where it overlaps none by more than something in [`bg_thresh_lo`,
    `bg_thresh_hi`). Of each image at most `batch_size_per_im` are chosen, of these a share of `fg_fraction` as boxes at most: drawn, or
    without `use_random` the first ones. With `is_cascade_rcnn` all are, and true boxes are no regions. With `is_cls_agnostic` differences
    stand at the place of class 1.
    """
    slots = {"RpnRois": rpn_rois, "GtClasses": gt_classes, "IsCrowd": is_crowd, "GtBoxes": gt_boxes, "ImInfo": im_info}
    attrs = {
        "batch_size_per_im": batch_size_per_im, "fg_fraction": fg_fraction, "fg_thresh": fg_thresh, "bg_thresh_hi": bg_thresh_hi,
        "bg_thresh_lo": bg_thresh_lo, "bbox_reg_weights": list(bbox_reg_weights), "class_nums": class_nums, "use_random": use_random,
        "is_cls_agnostic": is_cls_agnostic, "is_cascade_rcnn": is_cascade_rcnn,
    }  # fmt: skip
    outputs = {"Rois": rpn_rois.dtype, "LabelsInt32": gt_classes.dtype} | dict.fromkeys(
        ("BboxTargets", "BboxInsideWeights", "BboxOutsideWeights"), rpn_rois.dtype
    )
    return made_all("generate_proposal_labels", slots, attrs, outputs, fixed=True)


@takes("im_info", "gt_classes", "is_crowd", "gt_segms", "rois", "labels_int32")
def generate_mask_labels(
    im_info: Any, gt_classes: Any, is_crowd: Any, gt_segms: Any, rois: Any, labels_int32: Any, num_classes: int, resolution: int
) -> tuple[Any, ...]:
    """What a network learns of the masks of regions [n, 4] with labels [n, 1] above 0: these regions, [masks, 4], where each stands in its
    image, int32 [masks, 1], and int32 [masks, num_classes * resolution**2]: at the place of the label 1 in the object that the region
    overlaps most and 0 around it, -1 elsewhere. An image without any has its first region of the background.

    `gt_segms` [points, 2] have a level for the objects of each image, one for the polygons of each object, and one for the points of each
    polygon, of images before they were scaled; `gt_classes` and `is_crowd` [objects, 1] and regions are a sequence for each image.
    """
    slots = {
        "ImInfo": im_info, "GtClasses": gt_classes, "IsCrowd": is_crowd, "GtSegms": gt_segms, "Rois": rois, "LabelsInt32": labels_int32,
    }  # fmt: skip
    outputs = {"MaskRois": rois.dtype, "RoiHasMaskInt32": "int32", "MaskInt32": "int32"}
    return made_all("generate_mask_labels", slots, {"num_classes": num_classes, "resolution": resolution}, outputs, fixed=True)


# --- read in few pixels


@takes("input", "rois")
def roi_pool(
    input: Any, rois: Any, pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0, rois_lod: Any = None
) -> Any:
    """The greatest elements of the parts of boxes [rois, 4], [rois, C, height, width]. Boxes are a sequence for each image, or `rois_lod`
    has the offsets of these.
    """
    attrs = {"pooled_height": pooled_height, "pooled_width": pooled_width, "spatial_scale": spatial_scale}
    slots = {"X": input, "ROIs": rois, "RoisLod": rois_lod}
    return made_all("roi_pool", slots, attrs, {"Out": input.dtype, "Argmax": "int64"})[0]


@takes("input", "rois")
def roi_align(
    input: Any, rois: Any, pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0, sampling_ratio: int = -1,
    name: str | None = None, rois_lod: Any = None,
) -> Any:  # fmt: skip
    """The means of places between pixels in the parts of boxes [rois, 4], [rois, C, height, width]."""
    attrs = {
        "pooled_height": pooled_height, "pooled_width": pooled_width, "spatial_scale": spatial_scale, "sampling_ratio": sampling_ratio,
    }  # fmt: skip
    return made("roi_align", {"X": input, "ROIs": rois, "RoisLod": rois_lod}, attrs, input.dtype, name=name)


@takes("input", "rois")
def psroi_pool(
    input: Any, rois: Any, output_channels: int, spatial_scale: float, pooled_height: int, pooled_width: int, name: str | None = None
) -> Any:
    """The means of the parts of boxes [rois, 4], each of channels of its own, [rois, output_channels, height, width]."""
    given = {"output_channels": output_channels, "pooled_height": pooled_height, "pooled_width": pooled_width}
    for what, value in given.items():
        if not isinstance(value, int):
            raise TypeError(f"{what} must be int type")
    if not isinstance(spatial_scale, float):
        raise TypeError("spatial_scale must be float type")
    return made("psroi_pool", {"X": input, "ROIs": rois}, {**given, "spatial_scale": spatial_scale}, input.dtype, name=name)


@takes("input", "rois")
def prroi_pool(
    input: Any, rois: Any, spatial_scale: float = 1.0, pooled_height: int = 1, pooled_width: int = 1, batch_roi_nums: Any = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """The exact means over the parts of boxes [rois, 4] of what lies between pixels, [rois, C, height, width]; gradients go to the boxes,
    too. Boxes are a sequence for each image, or `batch_roi_nums` [N] has how many each image has.
    """
    for what, value, kind in (("spatial_scale", spatial_scale, float), ("pooled_height", pooled_height, int), (
        "pooled_width", pooled_width, int,
    )):  # fmt: skip
        if not isinstance(value, kind):
            raise TypeError(f"{what} must be {kind.__name__} type")
    attrs = {"spatial_scale": spatial_scale, "pooled_height": pooled_height, "pooled_width": pooled_width}
    return made("prroi_pool", {"X": input, "ROIs": rois, "BatchRoINums": batch_roi_nums}, attrs, input.dtype, name=name)


@takes("input", "rois", "trans")
def deformable_roi_pooling(
    input: Any, rois: Any, trans: Any, no_trans: bool = False, spatial_scale: float = 1.0, group_size: Sequence[int] = (1, 1),
    pooled_height: int = 1, pooled_width: int = 1, part_size: Sequence[int] | None = None, sample_per_part: int = 1,
    trans_std: float = 0.1, position_sensitive: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """The means of `sample_per_part`**2 places between pixels in each part of boxes [rois, 4], [rois, C, height, width]; with
    `position_sensitive` each part is read in channels of its own, C / height / width of them.

    `trans` [rois, 2 * classes, *part_size] says how far parts are moved to the right and down, in widths and heights of the box times
    `trans_std`; with `no_trans` they are where they are.
    """
    for what, value in (("group_size", group_size), ("part_size", part_size)):
        if not isinstance(value, (list, tuple)) and not (value is None and what == "part_size"):
            raise TypeError(f"The type of '{what}' in deformable_roi_pooling must be list or tuple, but received {type(value)}.")
    channels = input.shape[1] // (pooled_height * pooled_width) if position_sensitive else input.shape[1]
    attrs = {
        "no_trans": no_trans, "spatial_scale": spatial_scale, "output_dim": channels, "group_size": _many(group_size, 2, "group_size"),
        "pooled_height": pooled_height, "pooled_width": pooled_width,
        "part_size": [pooled_height, pooled_width] if part_size is None else _many(part_size, 2, "part_size"),
        "sample_per_part": sample_per_part, "trans_std": trans_std,
    }  # fmt: skip
    outputs = {"Output": input.dtype, "TopCount": input.dtype}
    return made_all("deformable_psroi_pooling", {"Input": input, "ROIs": rois, "Trans": trans}, attrs, outputs, name=name)[0]


@takes("input", "rois")
def roi_perspective_transform(
    input: Any, rois: Any, transformed_height: int, transformed_width: int, spatial_scale: float = 1.0, name: str | None = None
) -> tuple[Any, ...]:
    """Quadrilaterals of images as rectangles [rois, C, height, width]; ones where these come from the quadrilateral and its image, int32
    [rois, 1, height, width]; and the projective maps that say from where, [rois, 9]. `rois` [rois, 8] have the corners (x, y), from the
    left upper one on clockwise, a sequence for each image.
    """
    for what, value, kind in (("transformed_height", transformed_height, int), ("transformed_width", transformed_width, int), (
        "spatial_scale", spatial_scale, float,
    )):  # fmt: skip
        if not isinstance(value, kind):
            raise TypeError(f"The type of '{what}' in roi_perspective_transform must be {kind.__name__}, but received {type(value)}.")
    attrs = {"transformed_height": transformed_height, "transformed_width": transformed_width, "spatial_scale": spatial_scale}
    outputs = {"Out": input.dtype, "Mask": "int32", "TransformMatrix": input.dtype}
    return made_all("roi_perspective_transform", {"X": input, "ROIs": rois}, attrs, outputs, name=name)


# --- windows that have places of their own


@takes("input", "offset")
def deformable_conv(
    input: Any, offset: Any, mask: Any, num_filters: int, filter_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int | None = None, deformable_groups: int | None = None, im2col_step: int | None = None, param_attr: Any = None,
    bias_attr: Any = None, modulated: bool = True, name: str | None = None,
) -> Any:  # fmt: skip
    """A convolution whose elements are read at places that `offset` moves, times `mask` where it is `modulated`, plus a bias per filter."""
    channels, split = input.shape[1], 1 if groups is None else groups
    if param_attr is False:
        raise ValueError("param_attr should not be False here.")
    if channels % split:
        raise ValueError("num_channels must be divisible by groups.")
    helper = LayerHelper("deformable_conv", param_attr=param_attr, bias_attr=bias_attr, name=name)
    window = _many(filter_size, 2, "filter_size")
    start = Normal(0.0, (2.0 / (window[0] * window[1] * channels)) ** 0.5, 0)
    weight = helper.create_parameter(
        helper.param_attr, [num_filters, channels // split, *window], input.dtype, default_initializer=start
    )
    attrs = {
        "strides": _many(stride, 2, "stride"), "paddings": _many(padding, 2, "padding"), "dilations": _many(dilation, 2, "dilation"),
        "groups": groups, "deformable_groups": deformable_groups, "im2col_step": im2col_step,
    }  # fmt: skip
    slots = {"Input": input, "Filter": weight, "Offset": offset, **({"Mask": mask} if modulated else {})}
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("deformable_conv" if modulated else "deformable_conv_v1", slots, {"Output": out}, attrs)
    return helper.append_bias_op(out, 1, 2)


__dir__ = listed(__name__)
