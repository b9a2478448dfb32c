"""Boxes of the places of a grid, as detectors before Paddle 2 have them."""

from __future__ import annotations

from polyreme import math
from polyreme.boxes.matching import image_of
from polyreme.operators.arguments import Numbers, Sizes, UnsupportedError, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.regions import grids
from polyreme.tensor import Tensor

_MOST = 1 << 16


@operator(legacy=spelled("density_prior_box", {"Input": "input", "Image": "image"}, "Boxes Variances"))
def density_prior_box(
    input: Tensor, image: Tensor, *, variances: Numbers = (), clip: bool = False, flatten_to_2d: bool = False,
    step_w: float = 0.0, step_h: float = 0.0, offset: float = 0.5, fixed_sizes: Numbers = (), fixed_ratios: Numbers = (),
    densities: Sizes = (),
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Boxes and variances [H, W, priors, 4], or [H * W * priors, 4]."""
    dense = [int(density) for density in densities]
    check_count(sum(density * density for density in dense) * len(fixed_ratios), _MOST, "boxes of a place")
    made = grids.density_prior_box(
        input, image, dense, fixed_sizes, fixed_ratios, variances, clip, (step_w, step_h), offset
    )
    return (math.reshape(made[0], [-1, 4]), math.reshape(made[1], [-1, 4])) if flatten_to_2d else made


@operator(legacy=spelled("anchor_generator", {"Input": "input"}, "Anchors Variances"))
def anchor_generator(
    input: Tensor, *, anchor_sizes: Numbers = (), aspect_ratios: Numbers = (), variances: Numbers = (), stride: Numbers = (),
    offset: float = 0.5,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    check_count(len(anchor_sizes) * len(aspect_ratios), _MOST, "boxes of a place")
    return grids.anchor_generator(input, anchor_sizes, aspect_ratios, variances, stride, offset)


@operator(legacy=spelled("box_clip", {"Input": "boxes", "ImInfo": "im_info", "Input@LOD": "levels"}, "Output"))
def box_clip(boxes: Tensor, im_info: Tensor, levels: list[Tensor] | None = None) -> Tensor:
    """Boxes held within their images: a sequence for each."""
    if not levels:
        raise UnsupportedError("expected boxes as sequences, one for each image, as 'Input' of 'box_clip' but got no levels of detail")
    return grids.box_clip(boxes, im_info, image_of(levels[-1], boxes))


@operator(legacy=spelled("polygon_box_transform", {"Input": "x"}, "Output"))
def polygon_box_transform(x: Tensor) -> Tensor:
    return grids.polygon_box_transform(x)


_DECODED = {"PriorBox": "prior_box", "PriorBoxVar": "prior_box_var", "TargetBox": "target_box", "BoxScore": "box_score"}


@operator(legacy=spelled("box_decoder_and_assign", _DECODED, "DecodeBox OutputAssignBox"))
def box_decoder_and_assign(
    prior_box: Tensor, prior_box_var: Tensor, target_box: Tensor, box_score: Tensor, *, box_clip: float = 4.135
) -> tuple[Tensor, Tensor]:
    return grids.box_decoder_and_assign(prior_box, prior_box_var, target_box, box_score, box_clip)
