"""`paddle.static.nn`: layers as functions, which make their parameters in the current programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from polyreme import math as functions
from polyreme.ir.dims import product
from polyreme.names import listed
from polyreme.nn import functional as F
from polyreme.nn import initializer as init
from polyreme.nn.attributes import make_parameter
from polyreme.nn.functional.conv import is_channel_last, sizes_of
from polyreme.static.control_flow import case, cond, switch_case, while_loop
from polyreme.static.host_function import py_func
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["case", "cond", "conv2d", "embedding", "fc", "py_func", "switch_case", "while_loop"]


def _activation(x: Tensor, name: str | None) -> Tensor:
    if name is None:
        return x
    function: Callable[..., Any] | None = getattr(F, name, None) or getattr(functions, name, None)
    if function is None:
        raise ValueError(f"expected the name of an activation but got '{name}'")
    result: Tensor = function(x)
    return result


def _layer_name(kind: str, name: str | None) -> str:
    return unique_name.generate(kind) if name is None else name


def _parameter(layer: str, suffix: str, shape: Any, attr: Any, dtype: Any, default: Any = None) -> Any:
    return make_parameter(shape, attr, dtype, suffix == "b", default, unique_name.generate(f"{layer}.{suffix}"))


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
    layer = _layer_name("fc", name)
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
        weight = _parameter(layer, "w", [columns, size], attr, tensor.dtype)
        flat = tensor if rank == axis + 1 else functions.reshape(tensor, [*shape[:axis], columns])
        parts.append((flat, weight))
    bias = _parameter(layer, "b", [size], bias_attr, given[0].dtype)
    if len(parts) == 1:
        return _activation(F.linear(*parts[0], bias), activation)
    total = functions.add_n([functions.matmul(flat, weight) for flat, weight in parts])
    return _activation(total if bias is None else total + bias, activation)


def conv2d(
    input: Tensor,
    num_filters: int,
    filter_size: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """2-D convolution with filters [num_filters, channels / groups, *filter_size], normal with deviation sqrt(2 / (channels * filter
    elements)).
    """
    layer = _layer_name("conv2d", name)
    channels = input.shape[-1 if is_channel_last(data_format, 2, "conv2d") else 1]
    if not isinstance(channels, int):
        raise ValueError(f"conv2d expected a known number of channels but the input has shape {list(input.shape)}")
    split = groups or 1
    if channels % split or num_filters % split:
        raise ValueError(f"conv2d expected channels and filters that {split} groups divide but got {channels} and {num_filters}")
    window = list(sizes_of(filter_size, 2, "filter_size"))
    deviation = math.sqrt(2.0 / (math.prod(window) * channels))
    weight = _parameter(layer, "w", [num_filters, channels // split, *window], param_attr, input.dtype, init.Normal(0.0, deviation))
    bias = _parameter(layer, "b", [num_filters], bias_attr, input.dtype)
    made = F.conv2d(input, weight, bias, stride, padding, dilation, split, data_format)
    return _activation(made, act)


def embedding(
    input: Tensor,
    size: Any,
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Tensor:
    """Rows of a new table of shape `size` at the positions in `input`."""
    weight = _parameter(_layer_name("embedding", None), "w", list(size), param_attr, dtype)
    return F.embedding(input, weight, padding_idx)

__dir__ = listed(__name__)
