"""Functions of `static.nn` that are products of matrices: `fc`, `bilinear_tensor_product`, embeddings, `row_conv`."""

from __future__ import annotations

from typing import Any

from polyreme import math as functions
from polyreme.ir.dims import product
from polyreme.ir.types import TensorType
from polyreme.nn import functional as F
from polyreme.static.nn.parameters import activated, known_size, layer_name, parameter
from polyreme.static.recorder import RECORDER
from polyreme.tensor import Tensor

__all__ = ["bilinear_tensor_product", "embedding", "fc", "row_conv", "sparse_embedding"]


def fc(
    x: Any,
    size: int,
    num_flatten_dims: int = 1,
    weight_attr: Any = None,
    bias_attr: Any = None,
    activation: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Fully connected: x @ weight + bias, of `x` as a matrix whose columns are the axes from `num_flatten_dims` on. Several inputs get a
    weight each and are summed.
    """
    layer = layer_name("fc", name)
    given = list(x) if isinstance(x, (list, tuple)) else [x]
    attrs = weight_attr if isinstance(weight_attr, (list, tuple)) else [weight_attr] * len(given)
    parts = []
    for tensor, attr in zip(given, attrs, strict=True):
        rank = tensor.ndim
        axis = num_flatten_dims + rank if num_flatten_dims < 0 else num_flatten_dims
        if not 0 < axis < rank:
            raise ValueError(f"fc expected num_flatten_dims in [1, {rank}) for an input of {rank} axes but got {num_flatten_dims}")
        shape = tensor.type.shape
        columns = product(shape[axis:])
        if not isinstance(columns, int):
            raise ValueError(f"fc expected known sizes from axis {axis} on but the input has shape {list(tensor.shape)}")
        weight = parameter(layer, "w", [columns, size], attr, tensor.dtype)
        flat = tensor if rank == axis + 1 else functions.reshape(tensor, [*shape[:axis], columns])
        parts.append((flat, weight))
    bias = parameter(layer, "b", [size], bias_attr, given[0].dtype)
    if len(parts) == 1:
        return activated(F.linear(*parts[0], bias), activation)
    total = functions.add_n([functions.matmul(flat, weight) for flat, weight in parts])
    return activated(total if bias is None else total + bias, activation)


def embedding(
    input: Tensor,
    size: Any,
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Tensor:
    """Rows of a new table of shape `size` at the positions in `input`.

    With `is_sparse` the gradient of the table is that of the rows that were read, and optimizers step as Paddle 2 does on such.
    """
    weight = parameter(layer_name("embedding", None), "w", list(size), param_attr, dtype)
    if not is_sparse:
        return F.embedding(input, weight, padding_idx)
    return read_by_rows(input, weight, -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx)


def read_by_rows(ids: Tensor, table: Tensor, padding: int = -1) -> Tensor:
    """The rows of a table at these positions in a program, where the gradient of the table is that of the rows that were read."""
    made = TensorType((*ids.type.shape, table.type.shape[1]), table.type.dtype)
    attributes = {"is_sparse": True, "is_distributed": False, "padding_idx": padding}
    found: Tensor = RECORDER.operator("lookup_table_v2", {"Ids": ids, "W": table}, {"Out": made}, attributes)["Out"]
    return found


def sparse_embedding(
    input: Tensor,
    size: Any,
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: Any = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: Any = "float32",
    slot: int | None = None,
) -> Tensor:
    """As `embedding`, with the table in this process.

    Paddle keeps such a table on parameter servers; rules on which rows a server admits (`entry`) are an error here.
    """
    if table_class not in ("CommonSparseTable", "SSDSparseTable", "MemorySparseTable"):
        raise ValueError("table_class must be in [CommonSparseTable, SSDSparseTable, MemorySparseTable]")
    if entry is not None:
        raise NotImplementedError(
            f"sparse_embedding expected entry=None but got {type(entry).__name__}: it says which rows a parameter server admits, and here "
            f"the table is in the process, whole; leave it out"
        )
    weight = parameter(layer_name("sparse_embedding", None), "w", list(size), param_attr, dtype)
    return F.embedding(input, weight, padding_idx)


def bilinear_tensor_product(
    x: Tensor, y: Tensor, size: int, act: str | None = None, name: str | None = None, param_attr: Any = None, bias_attr: Any = None
) -> Tensor:
    """x W_i y of each row, for `size` matrices W_i: [N, A] and [N, B] give [N, size]. A bias is [1, size]."""
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError(
            f"Input x and y should be 2D tensor, but received x with the shape of {list(x.shape)}, y with the shape of {list(y.shape)}"
        )
    layer = layer_name("bilinear_tensor_product", name)
    columns = [known_size(t, 1, "bilinear_tensor_product", "number of columns") for t in (x, y)]
    weight = parameter(layer, "w", [size, *columns], param_attr, x.dtype)
    bias = parameter(layer, "b", [1, size], bias_attr, x.dtype)
    return activated(F.bilinear(x, y, weight, bias), act)


def row_conv(input: Tensor, future_context_size: int, param_attr: Any = None, act: str | None = None) -> Tensor:
    """Each step plus a weighted sum of the next ones, channel by channel: sum over i of input[:, t + i] * weight[i], of [N, T, C].

    `weight` is [future_context_size + 1, C]; steps behind the end count as zeros.
    """
    if input.ndim != 3:
        raise ValueError(f"row_conv expected an input [batch, steps, channels] but got shape {list(input.shape)}")
    channels = known_size(input, 2, "row_conv", "number of channels")
    weight = parameter(layer_name("row_conv", None), "w", [future_context_size + 1, channels], param_attr, input.dtype)
    steps = input.shape[1]
    behind = functions.concat([input, functions.zeros_like(input)[:, :1].expand([-1, future_context_size, -1])], 1)
    parts = [functions.multiply(behind[:, i : i + steps], weight[i]) for i in range(future_context_size + 1)]
    return activated(functions.add_n(parts), act)
