"""Operators that select, so that values tell how large their results are, with inputs and attributes, as in `operator_cases.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.operator_cases import Array, Case, Draw


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
    CASES.append(Case(type, {slot: [value] for slot, value in inputs.items()}, attrs, tuple(out.split())))


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
