"""Variables, constants, joining, and what is made of shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dtypes
from polyreme.fluid.core import VarDesc
from polyreme.fluid.framework import in_dygraph_mode, runs_at_once
from polyreme.fluid.initializer import Constant
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.names import listed
from polyreme.static.variable import named_variable
from polyreme.tensor import Tensor

__all__ = [
    "argmax", "argmin", "argsort", "assign", "cast", "concat", "create_global_var", "create_parameter", "create_tensor", "diag", "eye",
    "fill_constant", "fill_constant_batch_size_like", "get_tensor_from_selected_rows", "has_inf", "has_nan", "is_empty", "isfinite",
    "linspace", "merge_selected_rows", "ones", "ones_like", "range", "reverse", "sums", "zeros", "zeros_like",
]  # fmt: skip

_VALUES = {"bool": "bool_values", "float32": "fp32_values", "int32": "int32_values", "int64": "int64_values", "float64": "fp64_values"}


def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Any:
    """A variable that holds nothing yet."""
    if in_dygraph_mode():
        return Tensor()
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(
    shape: Sequence[int], dtype: Any, name: str | None = None, attr: Any = None, is_bias: bool = False, default_initializer: Any = None
) -> Any:
    """A parameter of no layer."""
    from polyreme.fluid.param_attr import ParamAttr

    helper = LayerHelper("create_parameter", name=name)
    return helper.create_parameter(ParamAttr(name=name) if attr is None else attr, shape, dtype, is_bias, default_initializer)


def create_global_var(
    shape: Sequence[int], value: float, dtype: Any, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Any:
    """A variable of the first block that the startup program fills with `value`."""
    helper = LayerHelper("global_var", name=name)
    made = helper.create_global_variable(persistable=True, name=helper.name, shape=list(shape), dtype=dtype)
    return helper.set_variable_initializer(made, Constant(float(value), force_cpu))


@takes("x")
def cast(x: Any, dtype: Any) -> Any:
    """`x` with another element type."""
    helper = LayerHelper("cast")
    out = helper.create_variable_for_type_inference(dtype)
    attrs = {"in_dtype": dtypes.as_dtype(x.dtype), "out_dtype": dtypes.as_dtype(dtype)}
    helper.append_op("cast", {"X": x}, {"Out": out}, attrs)
    return out


@takes("input", many=True)
def concat(input: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Tensors one behind the other along `axis`."""
    helper = LayerHelper("concat", input=input, name=name)
    given = helper.multiple_input()
    out = helper.create_variable_for_type_inference(given[0].dtype)
    by_variable = isinstance(axis, Tensor)
    slots = {"X": given, "AxisTensor": axis if by_variable else None}
    helper.append_op("concat", slots, {"Out": out}, {} if by_variable else {"axis": axis})
    return out


@takes("input", many=True)
def sums(input: Any, out: Any = None) -> Any:
    """The sum of several tensors, in `out` where one is given."""
    helper = LayerHelper("sum", input=input)
    given = helper.multiple_input()
    out = helper.create_variable_for_type_inference(given[0].dtype) if out is None else out
    helper.append_op("sum", {"X": given}, {"Out": out}, {"use_mkldnn": False})
    return out


def assign(input: Any, output: Any = None) -> Any:
    """Let `output`, a new variable by default, have the value of a variable, or of an array."""
    helper = LayerHelper("assign")
    if isinstance(input, Tensor):
        output = helper.create_variable_for_type_inference(input.dtype) if output is None else output
        helper.append_op("assign", {"X": input}, {"Out": output})
        return output
    array = np.asarray(input)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    name = dtypes.of_numpy(array.dtype).name
    if name not in _VALUES:
        raise TypeError(f"When the type of 'input' in assign is numpy.ndarray, the data type of 'input' must be bool, float32, int32 or "
                        f"int64, but received {array.dtype}.")
    if array.size > 1024 * 1024:
        raise ValueError("The size of input is too big. Please consider saving it to file and 'load_op' to load it")
    output = helper.create_variable_for_type_inference(name) if output is None else output
    attrs = {"dtype": name, "shape": list(array.shape), _VALUES[name]: array.reshape(-1).tolist()}
    helper.append_op("assign_value", {}, {"Out": output}, attrs)
    return output


def _sized(shape: Any) -> tuple[dict[str, Any], list[Any]]:
    """A shape as slots and an attribute: its sizes may be variables, and so may the whole of it."""
    if isinstance(shape, Tensor):
        return {"ShapeTensor": shape}, []
    if any(isinstance(size, Tensor) and named_variable(size) is not None for size in shape):
        helper = LayerHelper("fill_constant")
        sizes = [size if isinstance(size, Tensor) else helper.constant([1], "int64", size) for size in shape]
        return {"ShapeTensorList": sizes}, []
    return {}, [int(size) for size in shape]


def fill_constant(shape: Any, dtype: Any, value: Any, force_cpu: bool = False, out: Any = None, name: str | None = None) -> Any:
    """`value` everywhere. Sizes, and the value, may be variables."""
    helper = LayerHelper("fill_constant", name=name)
    kind = dtypes.as_dtype(dtype)
    slots, sizes = _sized(shape)
    attrs: dict[str, Any] = {"dtype": kind, "force_cpu": force_cpu or None, "shape": sizes if not slots else None}
    if isinstance(value, Tensor):
        slots["ValueTensor"] = value
    else:
        attrs |= {"value": float(value), "str_value": str(int(value)) if kind.scalar.is_integer else str(float(value))}
    out = helper.create_variable_for_type_inference(kind, stop_gradient=True) if out is None else out
    helper.append_op("fill_constant", slots, {"Out": out}, attrs, stop_gradient=True)
    return out


@takes("input")
def fill_constant_batch_size_like(
    input: Any, shape: Any, dtype: Any, value: float, input_dim_idx: int = 0, output_dim_idx: int = 0, force_cpu: bool = False
) -> Any:
    """`value` everywhere, in the shape `shape` whose size along `output_dim_idx` is that of `input` along `input_dim_idx`."""
    helper = LayerHelper("fill_constant_batch_size_like")
    kind = dtypes.as_dtype(dtype)
    out = helper.create_variable_for_type_inference(kind, stop_gradient=True)
    attrs = {
        "shape": list(shape), "dtype": kind, "value": float(value), "input_dim_idx": input_dim_idx, "output_dim_idx": output_dim_idx,
        "force_cpu": force_cpu or None, "str_value": str(int(value)) if kind.scalar.is_integer else str(float(value)),
    }  # fmt: skip
    helper.append_op("fill_constant_batch_size_like", {"Input": input}, {"Out": out}, attrs, stop_gradient=True)
    return out


def ones(shape: Any, dtype: Any, force_cpu: bool = False) -> Any:
    """Ones."""
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape: Any, dtype: Any, force_cpu: bool = False, name: str | None = None) -> Any:
    """Zeros."""
    return fill_constant(shape, dtype, 0.0, force_cpu, name=name)


def _like(x: Any, value: float, out: Any) -> Any:
    helper = LayerHelper("ones_like" if value else "zeros_like")
    out = helper.create_variable_for_type_inference(x.dtype, stop_gradient=True) if out is None else out
    helper.append_op("fill_any_like", {"X": x}, {"Out": out}, {"value": value, "dtype": dtypes.as_dtype(x.dtype)}, stop_gradient=True)
    return out


@takes("x")
def ones_like(x: Any, out: Any = None) -> Any:
    """Ones, as many as `x` has elements."""
    return _like(x, 1.0, out)


@takes("x")
def zeros_like(x: Any, out: Any = None) -> Any:
    """Zeros, as many as `x` has elements."""
    return _like(x, 0.0, out)


def _places(type: str, x: Any, axis: int) -> Any:
    helper = LayerHelper(type)
    out = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    helper.append_op(type, {"X": x}, {"Out": out}, {"axis": axis}, stop_gradient=True)
    return out


@takes("x")
def argmin(x: Any, axis: int = 0) -> Any:
    """Where the least elements stand along `axis`, int64."""
    return _places("arg_min", x, axis)


@takes("x")
def argmax(x: Any, axis: int = 0) -> Any:
    """Where the greatest elements stand along `axis`, int64."""
    return _places("arg_max", x, axis)


@takes("input")
def argsort(input: Any, axis: int = -1, descending: bool = False, name: str | None = None) -> tuple[Any, Any]:
    """The elements in order along `axis`, and where they stood, int64. In programs no gradient flows through either; at once it does."""
    helper = LayerHelper("argsort", name=name)
    out = helper.create_variable_for_type_inference(input.dtype, stop_gradient=not runs_at_once())
    indices = helper.create_variable_for_type_inference("int64", stop_gradient=True)
    attrs = {"axis": axis, "descending": descending}
    helper.append_op("argsort", {"X": input}, {"Out": out, "Indices": indices}, attrs, stop_gradient=not runs_at_once())
    return out, indices


@takes("x")
def reverse(x: Any, axis: Any) -> Any:
    """The elements in the other order along the axes."""
    helper = LayerHelper("reverse")
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("reverse", {"X": x}, {"Out": out}, {"axis": [axis] if isinstance(axis, int) else list(axis)})
    return out


def range(start: Any, end: Any, step: Any, dtype: Any) -> Any:
    """The numbers from `start` up to but without `end`."""
    helper = LayerHelper("range")
    bounds = [v if isinstance(v, Tensor) else fill_constant([1], dtype, v) for v in (start, end, step)]
    out = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op("range", dict(zip(("Start", "End", "Step"), bounds, strict=True)), {"Out": out}, stop_gradient=True)
    return out


def linspace(start: Any, stop: Any, num: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """`num` numbers from `start` to `stop`, evenly."""
    helper = LayerHelper("linspace", name=name)
    bounds = [v if isinstance(v, Tensor) else fill_constant([1], dtype, v) for v in (start, stop)]
    count = num if isinstance(num, Tensor) else fill_constant([1], "int32", num)
    out = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op("linspace", {"Start": bounds[0], "Stop": bounds[1], "Num": count}, {"Out": out}, {"dtype": dtypes.as_dtype(dtype)})
    return out


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = "float32") -> Any:
    """Ones on the diagonal and zeros elsewhere; with `batch_shape` so many such matrices."""
    helper = LayerHelper("eye")
    out = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    columns = num_rows if num_columns is None else num_columns
    attrs = {"num_rows": num_rows, "num_columns": columns, "dtype": dtypes.as_dtype(dtype)}
    helper.append_op("eye", {}, {"Out": out}, attrs, stop_gradient=True)
    if batch_shape is None:
        return out
    wide = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op("expand_v2", {"X": out}, {"Out": wide}, {"shape": [*batch_shape, num_rows, columns]}, stop_gradient=True)
    return wide


def diag(diagonal: Any) -> Any:
    """A square matrix with these numbers on its diagonal."""
    helper = LayerHelper("diag")
    given = diagonal if isinstance(diagonal, Tensor) else assign(diagonal)
    out = helper.create_variable_for_type_inference(given.dtype)
    helper.append_op("diag_v2", {"X": given}, {"Out": out})
    return out


def _any_is(type: str, x: Any) -> Any:
    helper = LayerHelper(type)
    out = helper.create_variable_for_type_inference("bool", stop_gradient=True, shape=[1])
    helper.append_op(type, {"X": x}, {"Out": out}, stop_gradient=True)
    return out


@takes("x")
def has_inf(x: Any) -> Any:
    """Whether an element is infinite, [1]."""
    return _any_is("isinf", x)


@takes("x")
def has_nan(x: Any) -> Any:
    """Whether an element is no number, [1]."""
    return _any_is("isnan", x)


@takes("x")
def isfinite(x: Any) -> Any:
    """Whether all elements are finite, [1]."""
    return _any_is("isfinite", x)


@takes("x")
def is_empty(x: Any, cond: Any = None) -> Any:
    """Whether `x` has no elements, bool [1]; written to `cond` where that is given."""
    helper = LayerHelper("is_empty")
    out = helper.create_variable_for_type_inference("bool", stop_gradient=True, shape=[1]) if cond is None else cond
    helper.append_op("is_empty", {"X": x}, {"Out": out})
    return out


@takes("x")
def merge_selected_rows(x: Any, name: str | None = None) -> Any:
    """The gradient of a table, with rows that were read several times as one with their sum."""
    helper = LayerHelper("merge_selected_rows", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("merge_selected_rows", {"X": x}, {"Out": out})
    return out


@takes("x")
def get_tensor_from_selected_rows(x: Any, name: str | None = None) -> Any:
    """The gradient of a table as a tensor: here all of its rows, zeros where none was read."""
    if x.type != VarDesc.VarType.SELECTED_ROWS:
        raise TypeError("The type of 'x' in get_tensor_from_selected_rows must be SELECTED_ROWS.")
    helper = LayerHelper("get_tensor_from_selected_rows", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op("get_tensor_from_selected_rows", {"X": x}, {"Out": out})
    return out


__dir__ = listed(__name__)
