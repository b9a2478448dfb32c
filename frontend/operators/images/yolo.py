"""What YOLOv3 is trained by."""

from __future__ import annotations

from polyreme.operators.arguments import Sizes
from polyreme.operators.definition import operator, spelled
from polyreme.regions.yolo_loss import yolo_loss as loss
from polyreme.tensor import Tensor

_SLOTS = {"X": "x", "GTBox": "gt_box", "GTLabel": "gt_label", "GTScore": "gt_score"}


@operator(
    "yolo_loss", misdeclared=True,
    legacy=spelled("yolov3_loss", _SLOTS, "Loss ObjectnessMask GTMatchMask", constant="GTBox GTLabel GTScore"),
)  # fmt: skip
def yolo_loss(
    x: Tensor, gt_box: Tensor, gt_label: Tensor, gt_score: Tensor | None = None, *,
    anchors: Sizes = (), anchor_mask: Sizes = (), class_num: int = 1, ignore_thresh: float = 0.7, downsample_ratio: int = 32,
    use_label_smooth: bool = True, scale_x_y: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    sizes, mask = ([int(v) for v in given] for given in (anchors, anchor_mask))
    return loss(
        x, gt_box, gt_label, gt_score, sizes, mask, class_num, ignore_thresh, downsample_ratio, use_label_smooth, scale_x_y
    )
