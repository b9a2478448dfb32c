"""Elements by their order, and how many there are of each size."""

from __future__ import annotations

from typing import Any

from polyreme import math
from polyreme.operators.arguments import Number, Sizes
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator("kthvalue", legacy=spelled("kthvalue", outputs="Out Indices"))
def kthvalue(x: Tensor, *, k: int = 1, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return math.kthvalue(x, k, axis, keepdim)


@operator("mode", legacy=spelled("mode", outputs="Out Indices"))
def mode(x: Tensor, *, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return math.mode(x, axis, keepdim)


_AXES = {"x": "x", "AxisTensor": "axis", "AxisTensorList": "axis"}


@operator("median", legacy=spelled("median", _AXES, "out medians", types={"axis": "LONGS"}))
def median(x: Tensor, *, axis: Sizes = (), keepdim: bool = True, mode: str = "avg") -> tuple[Tensor, Tensor | None]:
    made = math.median(x, int(axis[0]) if axis else None, keepdim, mode)  # it is along one axis or of all
    return _with_places(made)


@operator("nanmedian", legacy=spelled("nanmedian", outputs="Out MedianIndex"))
def nanmedian(x: Tensor, *, axis: Sizes = (), keepdim: bool = True, mode: str = "avg") -> tuple[Tensor, Tensor | None]:
    one = len(axis) == 1
    return _with_places(math.nanmedian(x, int(axis[0]) if one else list(map(int, axis)) or None, keepdim, mode))


def _with_places(made: Any) -> tuple[Tensor, Tensor | None]:
    """Which elements were taken is for gradients, but of a median that is one of them."""
    return made if isinstance(made, tuple) else (made, None)


@operator("histogram", legacy=spelled("histogram", {"X": "input", "Weight": "weight"}, types={"bins": "LONG"}))
def histogram(
    input: Tensor, weight: Tensor | None = None, *, bins: int = 100, min: Number = 0.0, max: Number = 0.0, density: bool = False
) -> Tensor:
    return math.histogram(input, bins, min, max, weight, density)
