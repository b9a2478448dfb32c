"""Elements at places that other tensors tell: read, written, added to."""

from __future__ import annotations

from polyreme import math
from polyreme.math.fed import axes as fed_axes
from polyreme.nn import functional
from polyreme.operators.arguments import Scalar, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

# What a file may ask for where each one costs us memory while the model loads.
MOST_INDICES = 1 << 24
# How tables are kept that are spread over many machines.
_TABLES = "entry_config entry table_class table_names trainer_id slot grad_inplace epmap height_sections auto_grown_table"


# --- read


@operator(
    "gather",
    legacy=spelled("gather", {"X": "x", "Index": "index", "Axis": "axis"}, ignored="overwrite", types={"axis": "INT"}),
    misdeclared=True,
)
def gather(x: Tensor, index: Tensor, axis: Scalar = 0) -> Tensor:
    """Files have it that an axis that is a tensor is the first one."""
    flat = math.reshape(index, [-1]) if index.ndim == 2 and index.type.shape[1] == 1 else index
    if isinstance(axis, Tensor):
        return fed_axes.gathered(x, flat, axis)
    return math.gather(x, flat, int(axis))


@operator("index_select", legacy=spelled("index_select", {"X": "x", "Index": "index"}, attributes={"dim": "axis"}))
def index_select(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    return math.index_select(x, index, axis)


@operator("gather_nd", legacy=spelled("gather_nd", {"X": "x", "Index": "index"}))
def gather_nd(x: Tensor, index: Tensor) -> Tensor:
    return math.gather_nd(x, index)


@operator("index_sample", legacy=spelled("index_sample", {"X": "x", "Index": "index"}))
def index_sample(x: Tensor, index: Tensor) -> Tensor:
    return math.index_sample(x, index)


@operator(
    "take_along_axis", legacy=spelled("take_along_axis", {"Input": "arr", "Index": "indices"}, "Result", attributes={"Axis": "axis"})
)
def take_along_axis(arr: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    return math.take_along_axis(arr, indices, axis, broadcast=False)


@operator("embedding", legacy=spelled("lookup_table_v2", {"Ids": "x", "W": "weight"}, types={"padding_idx": "LONG"}, ignored=_TABLES))
def embedding(x: Tensor, weight: Tensor, *, padding_idx: int = -1) -> Tensor:
    return functional.embedding(x, weight, None if padding_idx == -1 else padding_idx)


@operator(legacy=spelled("lookup_table", {"Ids": "x", "W": "weight"}, types={"padding_idx": "LONG"}, ignored=_TABLES))
def embedding_of_column(x: Tensor, weight: Tensor, *, padding_idx: int = -1) -> Tensor:
    """As `embedding`, of positions whose last axis, of size 1, becomes the rows."""
    return embedding(math.squeeze(x, -1), weight, padding_idx=padding_idx)


@operator("diag", legacy=spelled("diag_v2"))
def diag(x: Tensor, *, offset: int = 0, padding_value: float = 0.0) -> Tensor:
    check_count(x.size, MOST_INDICES, "elements")
    return math.diag(x, offset, padding_value)


@operator("diagonal", legacy=spelled("diagonal", {"Input": "x"}))
def diagonal(x: Tensor, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return math.diagonal(x, offset, axis1, axis2)


# --- written


@operator("fill_diagonal_tensor", legacy=spelled("fill_diagonal_tensor", {"X": "x", "Y": "y"}, types={"offset": "LONG"}))
def fill_diagonal_tensor(x: Tensor, y: Tensor, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return math.matrices.with_diagonal(x, y, offset, dim1, dim2)


@operator("scatter", legacy=spelled("scatter", {"X": "x", "Ids": "index", "Updates": "updates"}))
def scatter(x: Tensor, index: Tensor, updates: Tensor, *, overwrite: bool = True) -> Tensor:
    return math.scatter(x, index, updates, overwrite)


@operator("scatter_nd_add", legacy=spelled("scatter_nd_add", {"X": "x", "Index": "index", "Updates": "updates"}))
def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return math.scatter_nd_add(x, index, updates)


@operator(
    "put_along_axis",
    legacy=spelled(
        "put_along_axis",
        {"Input": "arr", "Index": "indices", "Value": "values"},
        "Result",
        attributes={"Axis": "axis", "Reduce": "reduce", "Include_self": "include_self"},
    ),
)
def put_along_axis(arr: Tensor, indices: Tensor, values: Tensor, *, axis: int, reduce: str = "assign", include_self: bool = True) -> Tensor:
    return math.put_along_axis(arr, indices, values, axis, reduce, include_self, False)


@operator("index_put", legacy=spelled("index_put", {"x": "x", "indices": "indices", "value": "value"}, "out"))
def index_put(x: Tensor, indices: list[Tensor], value: Tensor, *, accumulate: bool = False) -> Tensor:
    return math.index_put(x, indices, value, accumulate)


@operator("index_add", legacy=spelled("index_add", {"X": "x", "Index": "index", "AddValue": "add_value"}))
def index_add(x: Tensor, index: Tensor, add_value: Tensor, *, axis: int = 0) -> Tensor:
    return math.index_add(x, index, axis, add_value)
