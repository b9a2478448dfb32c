"""Which elements: greatest ones, sorted order, those that a mask or a value chooses."""

from __future__ import annotations

from polyreme import math
from polyreme.dialects import nn
from polyreme.ir.types import ScalarType, i32, i64
from polyreme.operators.arguments import Number
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_AXIS = {"X": "x", "AxisTensor": "axis"}


@operator("argmax", legacy=spelled("arg_max", _AXIS, types={"axis": "LONG"}), nn=nn.ArgMax)
def argmax(x: Tensor, axis: Number, *, keepdims: bool = False, flatten: bool = False, dtype: ScalarType | None = i64) -> Tensor:
    """Where the greatest elements stand, the first of equals."""
    return math.argmax(x, None if flatten else int(axis), keepdims, _name_of(dtype))


@operator("argmin", legacy=spelled("arg_min", _AXIS, types={"axis": "LONG"}), nn=nn.ArgMin)
def argmin(x: Tensor, axis: Number, *, keepdims: bool = False, flatten: bool = False, dtype: ScalarType | None = i64) -> Tensor:
    """Where the least elements stand, the first of equals."""
    return math.argmin(x, None if flatten else int(axis), keepdims, _name_of(dtype))


def _name_of(dtype: ScalarType | None) -> str:
    return "int32" if dtype == i32 else "int64"


@operator(
    "topk",
    legacy=[
        spelled("top_k_v2", {"X": "x", "K": "k"}, "Out Indices", types={"k": "INT"}),
        spelled("top_k", {"X": "x", "K": "k"}, "Out Indices", types={"k": "INT"}, without="axis largest sorted"),
    ],
)
def topk(x: Tensor, k: Number = 1, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis` and where they stand, the first of equals first."""
    return math.topk(x, k, axis, largest)


@operator("argsort", legacy=spelled("argsort", outputs="Out Indices"))
def argsort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    """Sorted along `axis`, and where the elements stood."""
    index = math.argsort(x, axis, descending)
    return (x if x.ndim == 0 else math.take_along_axis(x, index, axis, broadcast=False)), index


@operator("nonzero", legacy=spelled("where_index", {"Condition": "condition"}))
def nonzero(condition: Tensor) -> Tensor:
    return math.nonzero(condition)


@operator("masked_select", legacy=spelled("masked_select", {"X": "x", "Mask": "mask"}, "Y"))
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    return math.masked_select(x, mask)
