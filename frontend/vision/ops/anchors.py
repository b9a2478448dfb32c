"""Boxes by anchors, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.math.common import tensor_arg
from polyreme.regions import anchors as boxes
from polyreme.regions.yolo_loss import yolo_loss as loss
from polyreme.tensor import Tensor

__all__ = ["box_coder", "prior_box", "yolo_box", "yolo_loss"]


def prior_box(
    input: Tensor,
    image: Tensor,
    min_sizes: Any,
    max_sizes: Any = None,
    aspect_ratios: Any = (1.0,),
    variance: Any = (0.1, 0.1, 0.2, 0.2),
    flip: bool = False,
    clip: bool = False,
    steps: Any = (0.0, 0.0),
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Boxes [H, W, priors, 4] (x1, y1, x2, y2), of an image with 1 as its width and height, around each place of `input` [N, C, H, W], and
    the variances of each: squares of the least sizes and between those and the greatest, and boxes of the same areas in other ratios.

    `steps` are the width and height of a place in pixels of `image`, by default the image's divided by the input's.
    """
    tensor_arg(input, "prior_box", "input")
    tensor_arg(image, "prior_box", "image")
    step = _numbers(steps)
    if len(step) != 2:
        raise ValueError("steps should be (step_w, step_h)")
    least, ratios = _numbers(min_sizes), _numbers(aspect_ratios)
    greatest = [] if max_sizes is None else _numbers(max_sizes)
    return boxes.prior_box(
        input, image, least, greatest, ratios, _numbers(variance), flip, clip, (step[0], step[1]), offset, min_max_aspect_ratios_order
    )


def _numbers(given: Any) -> list[float]:
    return [float(v) for v in given] if isinstance(given, (list, tuple)) else [float(given)]


def yolo_box(
    x: Tensor,
    img_size: Tensor,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Boxes [N, anchors * H * W, 4] (x1, y1, x2, y2) and scores [N, anchors * H * W, class_num] of what YOLOv3 says of places of a grid,
    `x` [N, anchors * (5 + class_num), H, W], for images of `img_size` [N, 2] (height, width).

    Boxes that it trusts less than `conf_thresh` are zeros, and so are their scores. With `iou_aware` each anchor has a channel more, and
    these are in front.
    """
    tensor_arg(x, "yolo_box")
    tensor_arg(img_size, "yolo_box", "img_size")
    return boxes.yolo_box(
        x, img_size, list(anchors), class_num, conf_thresh, downsample_ratio, clip_bbox, scale_x_y, iou_aware, iou_aware_factor
    )


def yolo_loss(
    x: Tensor,
    gt_box: Tensor,
    gt_label: Tensor,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Tensor | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Tensor:
    """The loss [N] of what YOLOv3 says of a grid, `x` [N, masked anchors * (5 + class_num), H, W], for true boxes [N, B, 4] (middle, width
    and height, of an image with sides of 1), labels and, if given, scores [N, B].

    A true box is looked for at the place that its middle is in, with the anchor of all `anchors` that is most like it, if that is in
    `anchor_mask`. Boxes that share more than `ignore_thresh` with a true one are not asked whether they are one.
    """
    for what, given in (("x", x), ("gt_box", gt_box), ("gt_label", gt_label)):
        tensor_arg(given, "yolo_loss", what)
    return loss(
        x, gt_box, gt_label, gt_score, list(anchors), list(anchor_mask), class_num, ignore_thresh, downsample_ratio, use_label_smooth,
        scale_x_y,
    )[0]  # fmt: skip


def box_coder(
    prior_box: Tensor,
    prior_box_var: Any,
    target_box: Tensor,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    name: str | None = None,
) -> Tensor:
    """Boxes [N, 4] as differences [N, M, 4] from each of the priors [M, 4], in the middle, and in the logarithm of the size; or, for
    "decode_center_size", boxes of such differences from priors that stand along `axis` 1 - axis of them.

    Differences are divided by the variances: a tensor [M, 4], or four numbers. Boxes in whole pixels are no `box_normalized`.
    """
    tensor_arg(prior_box, "box_coder", "prior_box")
    tensor_arg(target_box, "box_coder", "target_box")
    given, fixed = (prior_box_var, []) if isinstance(prior_box_var, Tensor) else (None, prior_box_var)
    if not isinstance(fixed, (list, tuple)):
        raise TypeError("Input prior_box_var must be Variable or list|tuple")
    assert given is not None or len(fixed) == 4, "Input prior_box_var must be Variable or list|tuple with 4 elements."
    if code_type not in ("encode_center_size", "decode_center_size"):
        raise ValueError(f"box_coder expected the code_type 'encode_center_size' or 'decode_center_size' but got {code_type!r}")
    return boxes.box_coder(prior_box, given, target_box, code_type == "encode_center_size", box_normalized, axis, list(fixed))
