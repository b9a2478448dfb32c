"""`paddle.vision.ops`: what models for images are built of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyreme.boxes.functions import distribute_fpn_proposals, generate_proposals, matrix_nms, nms
from polyreme.names import absent_from, listed
from polyreme.vision.ops.anchors import box_coder, prior_box, yolo_box, yolo_loss
from polyreme.vision.ops.deformable import DeformConv2D, deform_conv2d
from polyreme.vision.ops.files import decode_jpeg, read_file
from polyreme.vision.ops.norm_activation import ConvNormActivation
from polyreme.vision.ops.regions import PSRoIPool, RoIAlign, RoIPool, psroi_pool, roi_align, roi_pool

__all__ = [
    "ConvNormActivation",
    "DeformConv2D",
    "PSRoIPool",
    "RoIAlign",
    "RoIPool",
    "box_coder",
    "decode_jpeg",
    "deform_conv2d",
    "distribute_fpn_proposals",
    "generate_proposals",
    "matrix_nms",
    "nms",
    "prior_box",
    "psroi_pool",
    "read_file",
    "roi_align",
    "roi_pool",
    "yolo_box",
    "yolo_loss",
]

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
