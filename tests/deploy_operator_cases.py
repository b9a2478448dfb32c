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
