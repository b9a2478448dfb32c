"""Boxes by anchors."""

from __future__ import annotations

from polyreme.operators.arguments import Numbers, Sizes, UnsupportedError, check_count
from polyreme.operators.definition import REQUIRED, operator, spelled
from polyreme.regions import anchors as boxes
from polyreme.tensor import Tensor

_MOST = 1 << 16


@operator("prior_box", legacy=spelled("prior_box", {"Input": "input", "Image": "image"}, "Boxes Variances"))
def prior_box(
    input: Tensor, image: Tensor, *, min_sizes: Numbers, max_sizes: Numbers = (), aspect_ratios: Numbers = (), variances: Numbers = (),
    flip: bool = True, clip: bool = True, step_w: float = 0.0, step_h: float = 0.0, offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    check_count(len(min_sizes) * (len(aspect_ratios) + 1), _MOST, "boxes of a place")
    steps = step_w, step_h
    return boxes.prior_box(
        input, image, min_sizes, max_sizes, aspect_ratios, variances, flip, clip, steps, offset, min_max_aspect_ratios_order
    )


@operator("yolo_box", legacy=spelled("yolo_box", {"X": "x", "ImgSize": "img_size"}, "Boxes Scores"))
def yolo_box(
    x: Tensor, img_size: Tensor, *, anchors: Sizes = (), class_num: int = 1, conf_thresh: float = 0.01, downsample_ratio: int = 32,
    clip_bbox: bool = True, scale_x_y: float = 1.0, iou_aware: bool = False, iou_aware_factor: float = 0.5,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    given = [int(size) for size in anchors]
    return boxes.yolo_box(
        x, img_size, given, class_num, conf_thresh, downsample_ratio, clip_bbox, scale_x_y, iou_aware, iou_aware_factor
    )


_CODED = {"PriorBox": "prior_box", "PriorBoxVar": "prior_box_var", "TargetBox": "target_box"}


@operator("box_coder", legacy=spelled("box_coder", _CODED, "OutputBox"))
def box_coder(
    prior_box: Tensor, prior_box_var: Tensor | None = None, target_box: Tensor = REQUIRED, *,
    code_type: str = "encode_center_size", box_normalized: bool = True, axis: int = 0, variance: Numbers = (),
) -> Tensor:  # fmt: skip
    encode = code_type == "encode_center_size"
    if not encode and code_type != "decode_center_size":
        raise UnsupportedError(f"expected the code_type 'encode_center_size' or 'decode_center_size' but got {code_type!r}")
    return boxes.box_coder(prior_box, prior_box_var, target_box, encode, box_normalized, axis, variance)
