"""Regions of images: proposed, given to levels of a pyramid, read in few pixels; windows that have places of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.fluid.initializer import Normal
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import made, made_all, takes
from polyreme.fluid.layers.images import _many
from polyreme.names import listed

__all__ = [
    "collect_fpn_proposals", "deformable_conv", "distribute_fpn_proposals", "generate_proposals", "psroi_pool", "roi_align", "roi_pool",
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
