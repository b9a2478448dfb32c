"""Regions of images in few pixels."""

from __future__ import annotations

from polyreme.operators.arguments import UnsupportedError, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.regions.align import roi_align as align
from polyreme.tensor import Tensor

_SLOTS = {"X": "x", "ROIs": "boxes", "RoisNum": "boxes_num"}


def _check(x: Tensor, boxes: Tensor, height: int, width: int) -> None:
    if x.ndim != 4 or boxes.ndim != 2 or boxes.type.shape[1] != 4:
        raise UnsupportedError(f"expected images [N, C, H, W] and boxes [boxes, 4] but got {x.type} and {boxes.type}")
    if x.type.dtype != boxes.type.dtype or not x.type.dtype.is_float:
        raise UnsupportedError(f"expected images and boxes in floats of one dtype but got {x.type} and {boxes.type}")
    if height <= 0 or width <= 0:
        raise UnsupportedError(f"expected a region of at least one pixel but got {height} x {width}")
    check_count(height * width, 1 << 20, "pixels of a region")


@operator("roi_align", legacy=spelled("roi_align", _SLOTS))
def roi_align(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None = None, *,
    pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False,
) -> Tensor:  # fmt: skip
    _check(x, boxes, pooled_height, pooled_width)
    return align(x, boxes, boxes_num, pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned)
