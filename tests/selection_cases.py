"""Operators that select, so that values tell how large their results are, with inputs and attributes, as in `operator_cases.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.operator_cases import Array, Case, Draw, normal


@dataclass(frozen=True)
class Few(Draw):
    """Whole numbers of which many are equal, in any dtype."""

    dtype: str = "int64"
    count: int = 4

    def draw(self, rng: np.random.Generator) -> Array:
        return rng.integers(0, self.count, self.shape).astype(self.dtype)

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}below{self.count}"


CASES: list[Case] = []


def few(*shape: int, dtype: str = "int64", count: int = 4) -> Few:
    return Few("few", shape, dtype, count)


def case(type: str, attrs: dict[str, Any], out: str, **inputs: Any) -> None:
    slots = {slot: value if isinstance(value, list) else [value] for slot, value in inputs.items()}
    CASES.append(Case(type, slots, attrs, tuple(out.split())))


# --- distinct elements

ALL = {"return_index": True, "return_inverse": True, "return_counts": True, "dtype": 3, "is_sorted": True}
for dtype in ("float32", "float64", "int32", "int64"):
    case("unique", ALL, "Out Indices Index Counts", X=few(15, dtype=dtype))
case("unique", {**ALL, "dtype": 2}, "Out Indices Index Counts", X=few(3, 4))
case("unique", {"dtype": 3, "is_sorted": True}, "Out", X=few(3, 4))
for axis in (0, 1, 2):
    case("unique", {**ALL, "axis": [axis]}, "Out Indices Index Counts", X=few(5, 4, 3, count=2))
case("unique", {"dtype": 3}, "Out Index", X=few(20))
case("unique", {"dtype": 2, "is_sorted": False}, "Out Index", X=few(20, dtype="float32"))
RUNS = {"return_inverse": True, "return_counts": True, "dtype": 3}
for dtype in ("float32", "int32"):
    case("unique_consecutive", RUNS, "Out Index Counts", X=few(25, dtype=dtype, count=2))
case("unique_consecutive", {**RUNS, "dtype": 2}, "Out Index Counts", X=few(3, 4, count=2))
case("unique_consecutive", {"dtype": 3}, "Out", X=np.float32([1, np.nan, np.nan, 2, 2]))
for axis in (0, 1):
    case("unique_consecutive", {**RUNS, "axis": [axis]}, "Out Index Counts", X=few(6, 6, count=1))
    case("unique_consecutive", {**RUNS, "axis": [axis]}, "Out Index Counts", X=few(12, 1, count=2))

# --- boxes


@dataclass(frozen=True)
class Boxes(Draw):
    """Edges x1, y1, x2, y2 of boxes that meet, of pixels; a tenth of that where they are `small`."""

    small: bool = False

    def draw(self, rng: np.random.Generator) -> Array:
        near, size = rng.random((2, *self.shape, 2)) * 50
        return (np.concatenate([near, near + size], -1) * (0.01 if self.small else 1.0)).astype("float32")

    def __repr__(self) -> str:
        return f"boxes{list(self.shape)}{'small' if self.small else ''}"


def boxes(*shape: int, small: bool = False) -> Boxes:
    return Boxes("boxes", shape, small)


@dataclass(frozen=True)
class Scores(Draw):
    """Between 0 and 1, all different unless there are `steps` of them."""

    steps: int = 0

    def draw(self, rng: np.random.Generator) -> Array:
        made = rng.random(self.shape)
        return (np.round(made * self.steps) / self.steps if self.steps else made).astype("float32")

    def __repr__(self) -> str:
        return f"scores{list(self.shape)}{f'in{self.steps}' if self.steps else ''}"


def scores(*shape: int, steps: int = 0) -> Scores:
    return Scores("scores", shape, steps)


LIMITS = {"score_threshold": 0.2, "nms_top_k": 15, "keep_top_k": 12, "nms_threshold": 0.3}
FOUND = "Out Index NmsRoisNum"
case("multiclass_nms3", LIMITS, FOUND, BBoxes=boxes(2, 30), Scores=scores(2, 3, 30))
case("multiclass_nms3", {**LIMITS, "nms_top_k": -1, "keep_top_k": -1}, FOUND, BBoxes=boxes(2, 30), Scores=scores(2, 3, 30))
case("multiclass_nms3", {**LIMITS, "background_label": -1}, FOUND, BBoxes=boxes(1, 30), Scores=scores(1, 3, 30, steps=4))
case("multiclass_nms3", {**LIMITS, "normalized": False, "background_label": 2}, FOUND, BBoxes=boxes(1, 30), Scores=scores(1, 3, 30))
case("multiclass_nms3", {**LIMITS, "nms_threshold": 0.8, "nms_eta": 0.8}, FOUND, BBoxes=boxes(2, 30, small=True), Scores=scores(2, 2, 30))
case("multiclass_nms3", {**LIMITS, "score_threshold": 1.0}, FOUND, BBoxes=boxes(2, 5), Scores=scores(2, 2, 5))
case("multiclass_nms3", {**LIMITS, "keep_top_k": 0}, FOUND, BBoxes=boxes(2, 5), Scores=scores(2, 2, 5))
REGIONS = {"BBoxes": boxes(30, 3), "RoisNum": np.int32([9, 0, 21])}
for attrs in ({}, {"nms_top_k": -1, "keep_top_k": -1}, {"keep_top_k": 4, "background_label": 1}, {"nms_threshold": 0.7, "nms_eta": 0.9}):
    case("multiclass_nms3", {**LIMITS, **attrs}, FOUND, Scores=scores(30, 3), **REGIONS)
case("multiclass_nms3", LIMITS, FOUND, Scores=scores(30, 3, steps=5), **REGIONS)
case("multiclass_nms", LIMITS, "Out", BBoxes=boxes(2, 30), Scores=scores(2, 3, 30))
case("multiclass_nms", {**LIMITS, "score_threshold": 1.0}, "Out", BBoxes=boxes(2, 5), Scores=scores(2, 2, 5))
FALLING = {"score_threshold": 0.2, "post_threshold": 0.1, "nms_top_k": 15, "keep_top_k": 12}
for attrs in (
    {}, {"use_gaussian": True}, {"use_gaussian": True, "gaussian_sigma": 0.5, "keep_top_k": -1}, {"normalized": False, "nms_top_k": -1},
    {"score_threshold": 1.0}, {"background_label": -1, "keep_top_k": 3},
):  # fmt: skip
    case("matrix_nms", {**FALLING, **attrs}, "Out Index RoisNum", BBoxes=boxes(2, 20), Scores=scores(2, 3, 20))
for threshold in (0.0, 0.3, 0.7):
    case("nms", {"iou_threshold": threshold}, "KeepBoxesIdxs", Boxes=boxes(25))

# --- regions

ANCHORED = {"Scores": scores(2, 3, 4, 5), "BboxDeltas": normal(2, 12, 4, 5), "Anchors": boxes(4, 5, 3), "Variances": scores(4, 5, 3, 4)}
PROPOSALS = {"pre_nms_topN": 30, "post_nms_topN": 10, "nms_thresh": 0.5, "min_size": 3.0, "eta": 1.0}
PROPOSED = "RpnRois RpnRoiProbs RpnRoisNum"
for attrs in (
    {}, {"pixel_offset": False}, {"pre_nms_topN": -1, "post_nms_topN": -1}, {"min_size": 500.0}, {"nms_thresh": 0.8, "eta": 0.8},
    {"pre_nms_topN": -1, "nms_thresh": 0.0},
):  # fmt: skip
    case("generate_proposals_v2", {**PROPOSALS, **attrs}, PROPOSED, ImShape=np.float32([[90, 70], [40, 60]]), **ANCHORED)
case("generate_proposals", PROPOSALS, PROPOSED, ImInfo=np.float32([[90, 70, 0.5], [40, 60, 2.0]]), **ANCHORED)
PYRAMID = {"min_level": 2, "max_level": 4, "refer_level": 3, "refer_scale": 30, "pixel_offset": False}
LEVELS = "MultiFpnRois RestoreIndex MultiLevelRoIsNum"
for attrs in ({}, {"pixel_offset": True}, {"min_level": 1, "max_level": 3, "refer_scale": 10}):
    case("distribute_fpn_proposals", {**PYRAMID, **attrs}, LEVELS, FpnRois=boxes(20), RoisNum=np.int32([7, 0, 13]))
COUNTS = {"MultiLevelRoIsNum": [np.int32([4, 2]), np.int32([3, 5])]}
for count in (8, 100):
    for steps in (0, 3):
        collected = {"MultiLevelRois": [boxes(6), boxes(8)], "MultiLevelScores": [scores(6, 1, steps=steps), scores(8, 1, steps=steps)]}
        case("collect_fpn_proposals", {"post_nms_topN": count}, "FpnRois RoisNum", **collected, **COUNTS)
