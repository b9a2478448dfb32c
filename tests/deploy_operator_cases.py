"""Operators of deployed models with inputs and attributes, as in `operator_cases.py`: few bits, spectra, regions, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.operator_cases import Case, normal, positive

CASES: list[Case] = []


def case(type: str, attrs: dict[str, Any] | None = None, out: str = "Out", **inputs: Any) -> None:
    slots = {slot: value if isinstance(value, list) else [value] for slot, value in inputs.items()}
    CASES.append(Case(type, slots, dict(attrs or {}), tuple(out.split())))


# --- few bits

ROW = normal(3, 8)
AVERAGE = {"InScale": np.float32([1.3]), "InAccum": np.float32([2.5]), "InState": np.float32([1.9])}
HALVES = np.float32([[-1.3, -0.25, 0.0, 0.005, 0.25, 0.75, 1.3, 9.0]])
for ties in (0, 1):
    for name in ("fake_quantize_dequantize_moving_average_abs_max", "fake_quantize_moving_average_abs_max"):
        case(name, {"is_test": True, "round_type": ties}, X=ROW, InScale=np.float32([1.3]))
        case(name, {"is_test": True, "round_type": ties, "bit_length": 4}, X=HALVES, InScale=np.float32([0.7]))
        case(name, {"round_type": ties, "moving_rate": 0.7}, "Out OutScale OutState OutAccum", X=ROW, **AVERAGE)
    for name in ("fake_quantize_dequantize_abs_max", "fake_quantize_abs_max"):
        case(name, {"round_type": ties}, "Out OutScale", X=ROW)
        case(name, {"round_type": ties, "bit_length": 12}, "Out OutScale", X=normal(2, 3, 2))
        case(name, {"round_type": ties}, "Out OutScale", X=np.zeros((2, 2), "float32"))
    for name in ("fake_channel_wise_quantize_dequantize_abs_max", "fake_channel_wise_quantize_abs_max"):
        for axis in (0, 1):
            case(name, {"round_type": ties, "quant_axis": axis}, "Out OutScale", X=normal(3, 4, 2, 2))
            case(name, {"round_type": ties, "quant_axis": axis, "bit_length": 5}, "Out OutScale", X=ROW)
    case("fake_quantize_range_abs_max", {"is_test": True, "round_type": ties}, X=ROW, InScale=np.float32([0.9]))
case("fake_channel_wise_dequantize_max_abs", {"quant_bits": [8], "quant_axis": 1}, X=ROW, Scales=positive(8))
case("fake_channel_wise_dequantize_max_abs", {"quant_bits": [8, 8]}, X=ROW, Scales=[positive(8), positive(1)])
case("moving_average_abs_max_scale", {"is_test": True}, X=ROW)
case("moving_average_abs_max_scale", out="Out OutScale OutState OutAccum", X=ROW, InAccum=np.float32([2.5]), InState=np.float32([1.9]))

# --- spectra

COMPLEX = (np.arange(24).reshape(2, 3, 4) % 7 - 1j * (np.arange(24).reshape(2, 3, 4) % 5)).astype("complex64")
for name in ("real", "imag", "conj", "as_real"):
    case(name, X=COMPLEX)
case("as_complex", X=normal(2, 3, 2))
case("complex", X=normal(2, 3), Y=normal(2, 1))
for norm in ("backward", "forward", "ortho"):
    for forward in (True, False):
        attrs = {"normalization": norm, "forward": forward}
        case("fft_c2c", {"axes": [2], **attrs}, X=COMPLEX)
        case("fft_c2c", {"axes": [0, 1], **attrs}, X=COMPLEX)
        for onesided in (True, False):
            case("fft_r2c", {"axes": [1], "onesided": onesided, **attrs}, X=normal(2, 5, 3))
            case("fft_r2c", {"axes": [2, 1], "onesided": onesided, **attrs}, X=normal(2, 6, 3))
        case("fft_c2r", {"axes": [2], **attrs}, X=COMPLEX)
        case("fft_c2r", {"axes": [0, 2], "last_dim_size": 7, **attrs}, X=COMPLEX)
case("fft_r2c", {"axes": [1], "normalization": "backward", "forward": True, "onesided": True}, X=normal(2, 134))
case("fft_r2c", {"axes": [1], "normalization": "backward", "forward": True, "onesided": True}, X=normal(2, 90))
for axis, shape in ((-1, (2, 11)), (0, (11, 2)), (-1, (11,)), (0, (11,))):
    for length, hop in ((4, 2), (3, 4), (5, 1)):
        case("frame", {"frame_length": length, "hop_length": hop, "axis": axis}, X=normal(*shape))
for axis in (-1, 0):
    for hop in (1, 2, 3):
        case("overlap_add", {"hop_length": hop, "axis": axis}, X=normal(4, 4))
        case("overlap_add", {"hop_length": hop, "axis": axis}, X=normal(3, 4, 2))
case("overlap_add", {"hop_length": 1}, X=normal(35, 3))

# --- regions of images

IMAGES = normal(2, 4, 9, 11)
BOXES = np.float32([
    [0, 0, 6, 7], [1.3, 2.1, 8.7, 5.2], [-3, -4, 4, 4], [5, 5, 20, 30], [3, 3, 3, 3], [0, 0, 10, 8], [2, 1, 2.5, 1.5],
    [-30, -30, -20, -20],
])  # fmt: skip
PER_IMAGE = np.int32([3, 5])
for ratio in (-1, 1, 2):
    for aligned in (True, False):
        regions = BOXES[:4] if aligned and ratio < 0 else BOXES
        numbers = np.int32([4, 0]) if aligned and ratio < 0 else PER_IMAGE
        attrs = {"pooled_height": 3, "pooled_width": 2, "sampling_ratio": ratio, "aligned": aligned}
        case("roi_align", attrs, X=IMAGES, ROIs=regions, RoisNum=numbers)
        case("roi_align", {**attrs, "spatial_scale": 0.25}, X=IMAGES, ROIs=regions, RoisNum=numbers)
case("roi_align", X=IMAGES, ROIs=BOXES, RoisNum=PER_IMAGE)
case("roi_align", {"sampling_ratio": 2}, X=normal(1, 2, 1, 1), ROIs=BOXES, RoisNum=np.int32([8]))
for attrs in ({}, {"pooled_height": 3, "pooled_width": 2}, {"pooled_height": 2, "pooled_width": 5, "spatial_scale": 0.5}):
    case("roi_pool", attrs, "Out Argmax", X=IMAGES, ROIs=BOXES, RoisNum=PER_IMAGE)
    channels = 2 * attrs.get("pooled_height", 1) * attrs.get("pooled_width", 1)
    case("psroi_pool", {"output_channels": 2, **attrs}, X=normal(2, channels, 9, 11), ROIs=BOXES, RoisNum=PER_IMAGE)

FILTER = {"Input": normal(2, 4, 7, 6), "Filter": normal(6, 4, 3, 2)}
case("deformable_conv", out="Output", Offset=normal(2, 12, 5, 5), Mask=positive(2, 6, 5, 5), **FILTER)
case("deformable_conv_v1", out="Output", Offset=normal(2, 12, 5, 5), **FILTER)
case("deformable_conv", {"deformable_groups": 2}, "Output", Offset=normal(2, 24, 5, 5), Mask=positive(2, 12, 5, 5), **FILTER)
attrs = {"strides": [2, 1], "paddings": [1, 2], "dilations": [2, 1], "groups": 2, "deformable_groups": 2}
case(
    "deformable_conv", attrs, "Output", Offset=normal(2, 24, 3, 9), Mask=positive(2, 12, 3, 9), Input=normal(2, 4, 7, 6),
    Filter=normal(6, 2, 3, 2),
)  # fmt: skip
case("deformable_conv_v1", {"paddings": [1, 1]}, "Output", Offset=normal(1, 18, 2, 3), Input=normal(1, 2, 2, 3), Filter=normal(3, 2, 3, 3))

# --- boxes by anchors

GRID = {"Input": normal(1, 2, 3, 5), "Image": normal(1, 3, 24, 40)}
PRIORS = {"min_sizes": [4.0, 9.0], "variances": [0.1, 0.1, 0.2, 0.2]}
for attrs in (
    {}, {"flip": False, "aspect_ratios": [1.0, 2.0, 0.5]}, {"aspect_ratios": [2.0, 3.0], "max_sizes": [7.0, 12.0]}, {"clip": False},
    {"clip": False, "aspect_ratios": [2.0], "max_sizes": [7.0, 12.0], "min_max_aspect_ratios_order": True},
    {"step_w": 3.0, "step_h": 5.0, "offset": 0.25}, {"step_w": 3.0},
):  # fmt: skip
    case("prior_box", {**PRIORS, **attrs}, "Boxes Variances", **GRID)

SAID = {"X": normal(2, 21, 3, 4), "ImgSize": np.int32([[60, 90], [33, 32]])}
ANCHORS = {"anchors": [10, 13, 16, 30, 33, 23], "class_num": 2}
for attrs in (
    {}, {"conf_thresh": 0.5}, {"clip_bbox": False, "scale_x_y": 1.2}, {"downsample_ratio": 8, "conf_thresh": 0.0},
):  # fmt: skip
    case("yolo_box", {**ANCHORS, **attrs}, "Boxes Scores", **SAID)
attrs = {**ANCHORS, "iou_aware": True, "iou_aware_factor": 0.3, "conf_thresh": 0.4}
case("yolo_box", attrs, "Boxes Scores", X=normal(2, 24, 3, 4), ImgSize=np.int32([[60, 90], [33, 32]]))

PRIOR, TARGET = np.float32([[0, 0, 4, 8], [2, 1, 5, 3], [1, 1, 9, 2]]), np.float32([[1, 1, 6, 4], [0, 2, 3, 9]])
for whole in (True, False):
    for extra in ({"variance": [0.1, 0.2, 0.3, 0.4]}, {}):
        case("box_coder", {"box_normalized": whole, **extra}, "OutputBox", PriorBox=PRIOR, TargetBox=TARGET)
        attrs = {"box_normalized": whole, "code_type": "decode_center_size", **extra}
        case("box_coder", attrs, "OutputBox", PriorBox=PRIOR, TargetBox=normal(2, 3, 4))
        case("box_coder", {**attrs, "axis": 1}, "OutputBox", PriorBox=PRIOR, TargetBox=normal(3, 2, 4))
    case("box_coder", {"box_normalized": whole}, "OutputBox", PriorBox=PRIOR, PriorBoxVar=positive(3, 4), TargetBox=TARGET)
    attrs = {"box_normalized": whole, "code_type": "decode_center_size"}
    case("box_coder", attrs, "OutputBox", PriorBox=PRIOR, PriorBoxVar=positive(3, 4), TargetBox=normal(2, 3, 4))
    case("box_coder", {**attrs, "axis": 1}, "OutputBox", PriorBox=PRIOR, PriorBoxVar=positive(3, 4), TargetBox=normal(3, 2, 4))

TRUE = {
    "GTBox": np.float32([
        [[0.3, 0.4, 0.2, 0.3], [0.7, 0.1, 0.05, 0.1], [0, 0, 0, 0]], [[0.31, 0.42, 0.1, 0.3], [0.3, 0.45, 0.12, 0.2], [0.9, 0.9, 0.5, 0.6]],
    ]),
    "GTLabel": np.int32([[0, 1, 0], [2, 1, 0]]),
}  # fmt: skip
LEARNT = {"anchors": [10, 13, 16, 30, 33, 23, 30, 61], "anchor_mask": [1, 2], "class_num": 3, "downsample_ratio": 16}
for attrs in ({}, {"ignore_thresh": 0.2, "use_label_smooth": False}, {"scale_x_y": 1.2, "ignore_thresh": 0.1, "anchor_mask": [0, 3]}):
    case("yolov3_loss", {**LEARNT, **attrs}, "Loss ObjectnessMask GTMatchMask", X=normal(2, 16, 5, 5), **TRUE)
case("yolov3_loss", LEARNT, "Loss ObjectnessMask GTMatchMask", X=normal(2, 16, 4, 4), GTScore=positive(2, 3), **TRUE)

# --- volumes

VOLUME = {"Input": normal(1, 4, 3, 2, 3), "Filter": normal(4, 2, 2, 3, 2)}
case("conv3d_transpose", {"data_format": "NCDHW"}, "Output", **VOLUME)
attrs = {"data_format": "NCDHW", "strides": [2, 1, 2], "paddings": [1, 1, 0], "groups": 2, "dilations": [1, 2, 1]}
case("conv3d_transpose", attrs, "Output", **VOLUME)
