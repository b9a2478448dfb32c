"""What is read between pixels: regions of images in few pixels, windows that have places of their own."""

from __future__ import annotations

from polyreme.operators.arguments import Sizes, UnsupportedError, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.operators.sequence.pooling import with_as_many
from polyreme.regions import pool
from polyreme.regions.align import roi_align as align
from polyreme.regions.deformable import deformable_conv as conv
from polyreme.regions.moved import deformable_roi_pool
from polyreme.regions.perspective import roi_perspective_transform as perspective
from polyreme.regions.precise import prroi_pool as precise
from polyreme.tensor import Tensor

_SLOTS = {"X": "x", "ROIs": "boxes", "RoisNum": "boxes_num", "ROIs@LOD": "levels", "RoisLod": "levels"}
_FIXED = "ROIs RoisNum RoisLod"


def _counts(boxes_num: Tensor | None, levels: list[Tensor] | None, x: Tensor) -> Tensor | None:
    """How many boxes each of the images `x` has; where that is not given, by the levels of the boxes, a sequence for each image."""
    if boxes_num is not None or not levels:
        return boxes_num
    counts = levels[-1][1:] - levels[-1][:-1]
    return with_as_many(counts, x.type.shape[0], counts.type.shape[0], "expected a sequence of regions for each image")


def _check(height: int, width: int) -> None:
    check_count(height * width, 1 << 20, "pixels of a region")


@operator("roi_align", legacy=spelled("roi_align", _SLOTS, constant=_FIXED))
def roi_align(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None = None, levels: list[Tensor] | None = None, *,
    pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0, sampling_ratio: int = -1, aligned: bool = False,
) -> Tensor:  # fmt: skip
    _check(pooled_height, pooled_width)
    return align(x, boxes, _counts(boxes_num, levels, x), pooled_height, pooled_width, spatial_scale, sampling_ratio, aligned)


@operator("roi_pool", legacy=spelled("roi_pool", _SLOTS, "Out Argmax", constant=_FIXED))
def roi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None = None, levels: list[Tensor] | None = None, *,
    pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _check(pooled_height, pooled_width)
    return pool.roi_pool(x, boxes, _counts(boxes_num, levels, x), pooled_height, pooled_width, spatial_scale)


@operator("psroi_pool", legacy=spelled("psroi_pool", _SLOTS, constant=_FIXED))
def psroi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None = None, levels: list[Tensor] | None = None, *,
    pooled_height: int = 1, pooled_width: int = 1, output_channels: int = 1, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    _check(pooled_height, pooled_width)
    return pool.psroi_pool(x, boxes, _counts(boxes_num, levels, x), pooled_height, pooled_width, output_channels, spatial_scale)


@operator(legacy=spelled("prroi_pool", {**_SLOTS, "BatchRoINums": "boxes_num"}, constant="BatchRoINums RoisNum RoisLod"))
def prroi_pool(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None = None, levels: list[Tensor] | None = None, *,
    pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    _check(pooled_height, pooled_width)
    return precise(x, boxes, _counts(boxes_num, levels, x), pooled_height, pooled_width, spatial_scale)


_MOVED = {"Input": "x", "ROIs": "boxes", "Trans": "moves", "ROIs@LOD": "levels"}


@operator(legacy=spelled("deformable_psroi_pooling", _MOVED, "Output TopCount", constant="ROIs"))
def deformable_psroi_pooling(
    x: Tensor, boxes: Tensor, moves: Tensor, levels: list[Tensor] | None = None, *,
    no_trans: bool = False, spatial_scale: float = 1.0, output_dim: int = 1, group_size: Sizes = (1, 1), pooled_height: int = 1,
    pooled_width: int = 1, part_size: Sizes = (1, 1), sample_per_part: int = 1, trans_std: float = 0.1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The means of the parts of regions, which are moved, and how many places were read for each, without gradients."""
    _check(pooled_height * sample_per_part, pooled_width * sample_per_part)
    groups, parts = ([int(v) for v in values] for values in (group_size, part_size))
    if len(groups) != 2 or len(parts) != 2 or min(groups + parts) < 1:
        raise UnsupportedError(f"expected two numbers of groups and of parts but got {list(group_size)} and {list(part_size)}")
    made, hits = deformable_roi_pool(
        x, boxes, _counts(None, levels, x), None if no_trans else moves, pooled_height, pooled_width, output_dim, spatial_scale, groups,
        parts, sample_per_part, trans_std,
    )  # fmt: skip
    return made, hits.detach()


@operator(
    legacy=spelled("roi_perspective_transform", _SLOTS, "Out Mask TransformMatrix Out2InIdx Out2InWeights Out@LOD", constant=_FIXED)
)
def roi_perspective_transform(
    x: Tensor, boxes: Tensor, boxes_num: Tensor | None = None, levels: list[Tensor] | None = None, *,
    transformed_height: int = 1, transformed_width: int = 1, spatial_scale: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor, None, None, list[Tensor]]:  # fmt: skip
    """Regions as rectangles, a sequence for each image; where they come from their images, and their matrices."""
    _check(transformed_height, transformed_width)
    counts = _counts(boxes_num, levels, x)
    made, mask, matrix = perspective(x, boxes, counts, transformed_height, transformed_width, spatial_scale)
    return made, mask, matrix.detach(), None, None, list(levels or [])


# --- convolutions with windows between pixels

_CONV = {"Input": "x", "Offset": "offset", "Filter": "filter", "Mask": "mask"}
_CONV_DEFAULTS = {
    "strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1, "deformable_groups": 1, "im2col_step": 64,
}  # fmt: skip


@operator(
    "deformable_conv",
    legacy=[
        spelled("deformable_conv", _CONV, "Output", defaults=_CONV_DEFAULTS),
        spelled("deformable_conv_v1", {k: v for k, v in _CONV.items() if v != "mask"}, "Output", defaults=_CONV_DEFAULTS),
    ],
)
def deformable_conv(
    x: Tensor, offset: Tensor, filter: Tensor, mask: Tensor | None = None, *,
    strides: Sizes, paddings: Sizes, dilations: Sizes, deformable_groups: int, groups: int, im2col_step: int,
) -> Tensor:  # fmt: skip
    steps, edges, apart = ([int(v) for v in values] for values in (strides, paddings, dilations))
    if any(len(pair) != 2 for pair in (steps, edges, apart)) or min(steps + apart) < 1:
        raise UnsupportedError(f"expected two strides, paddings and dilations but got {list(strides)}, {list(paddings)}, {list(dilations)}")
    return conv(x, offset, filter, mask, steps, edges, apart, deformable_groups, groups)
