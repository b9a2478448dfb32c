"""Values from nothing, or from a shape alone: constants, counting, sizes; and the same value again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.dtypes import of_scalar
from polyreme.ir.dims import Expr, product
from polyreme.ir.types import ScalarType, f32, f64, i32, i64
from polyreme.math.common import cast_to, check_within
from polyreme.math.creation import spaced
from polyreme.math.fed import sizes as fed_sizes
from polyreme.operators.arguments import Extents, Number, Scalar, Sizes, UnsupportedError, check_count, converted
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

# What a file may ask for where each one costs us memory while the model loads.
MOST_PLACES = 1 << 24

# A constant that a file asks for may be no larger: a few bytes of text must not take all memory.
MAX_ELEMENTS = 1 << 28


# --- constants


def filled(shape: Sequence[Any], value: Any, dtype: ScalarType) -> Tensor:
    """`value` everywhere; sizes are checked, since they come from a file."""
    for d in shape:
        if not isinstance(d, (int, Expr)) or isinstance(d, int) and d < 0:
            raise UnsupportedError(f"expected sizes of 0 or more but got {list(shape)}")
    count = product(shape)
    if isinstance(count, int) and count > MAX_ELEMENTS:
        raise UnsupportedError(f"expected at most {MAX_ELEMENTS} elements but got the shape {list(shape)}")
    if isinstance(value, Expr):
        return math.expand(dispatch.call(nn.DimValue, size=value, dtype=dtype), list(shape))
    if dtype.is_integer and isinstance(value, float):
        if not value.is_integer():
            raise UnsupportedError(f"expected a whole number for {dtype} but got {value}")
        value = int(value)
    return dispatch.full(tuple(shape), bool(value) if dtype.kind == "b" else value, dtype)


@operator("full")
def full(*, shape: Sizes, value: Number = 0.0, dtype: ScalarType | None = f32) -> Tensor:
    return filled(shape, value, dtype or f32)


@operator("empty", legacy=spelled("empty", {"ShapeTensor": "shape", "ShapeTensorList": "shape"}, types={"shape": "LONGS"}))
def empty(shape: Extents, *, dtype: ScalarType | None = f32) -> Tensor:
    """Elements of any value: zeros here."""
    return filled(shape, 0, dtype or f32)


@operator("full_int_array")
def full_int_array(*, value: Sizes, dtype: ScalarType | None = i64) -> Tensor:
    return dispatch.constant(np.array(value, (dtype or i64).np))


@operator("full_like", legacy=spelled("fill_any_like fill_zeros_like"))
def full_like(x: Tensor, value: Scalar = 0.0, *, dtype: ScalarType | None = None) -> Tensor:
    return _spread(value, x.type.shape, dtype or x.type.dtype)


@operator("full_with_tensor")
def full_with_tensor(value: Scalar, shape: Extents, *, dtype: ScalarType | None = f32) -> Tensor:
    return _spread(value, shape, dtype or f32)


@operator(
    legacy=spelled(
        "fill_constant",
        {"ShapeTensor": "shape", "ShapeTensorList": "shape", "ValueTensor": "value_tensor"},
        types={"shape": "LONGS"},
        without="value_tensor",
    ),
    nn=nn.Full,
)
def fill_constant(
    shape: Extents, value_tensor: Scalar | None = None, *, value: Number = 0.0, str_value: str = "", dtype: ScalarType | None = f32
) -> Tensor:
    """What a tensor holds, or the number that `str_value` spells exactly, or `value`, everywhere."""
    if value_tensor is None:
        try:
            value_tensor = float(str_value) if str_value else value
        except ValueError:
            raise UnsupportedError(f"expected a number as 'str_value' but got {str_value!r}") from None
    if isinstance(value_tensor, float) and value_tensor.is_integer() and abs(value_tensor) < 2**53:
        value_tensor = int(value_tensor)
    return _spread(value_tensor, shape, dtype or f32)


def _spread(value: Scalar, shape: Sequence[Any], dtype: ScalarType) -> Tensor:
    if isinstance(value, Tensor):
        return math.expand(math.reshape(cast_to(value, dtype), [1] * len(shape)), list(shape))
    return filled(shape, value, dtype)


@operator(
    "full_batch_size_like",
    legacy=spelled(
        "fill_constant_batch_size_like", {"Input": "input", "Input@LOD": "levels"}, "Out Out@LOD", ignored="str_value"
    ),
)  # fmt: skip
def full_batch_size_like(
    input: Tensor,
    levels: list[Tensor] | None = None,
    *,
    shape: Sizes,
    dtype: ScalarType | None = f32,
    value: Number = 0.0,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
) -> tuple[Tensor, list[Tensor]]:
    """The size of axis 0 of sequences is how many they are, of those of the innermost level."""
    sizes = list(shape)
    for place, rank, name in ((input_dim_idx, input.ndim, "input_dim_idx"), (output_dim_idx, len(sizes), "output_dim_idx")):
        if not -rank <= place < rank:
            raise UnsupportedError(f"expected '{name}' in [{-rank}, {rank}) but got {place}")
    counts_sequences = levels and input_dim_idx == 0 and levels[-1].ndim == 1
    sizes[output_dim_idx] = levels[-1].type.shape[0] - 1 if levels and counts_sequences else input.type.shape[input_dim_idx]
    return filled(sizes, value, dtype or f32), []


@operator("assign_value", legacy=spelled("assign_value", {}), nn=nn.Constant)
def assign_value(
    output: Tensor | None = None,
    *,
    shape: Sizes,
    dtype: ScalarType | None,
    values: Any = (),
    bool_values: Any = (),
    int32_values: Any = (),
    int64_values: Any = (),
    fp32_values: Any = (),
    fp64_values: Any = (),
) -> Tensor:
    """The numbers in the program itself; older ones have them in an attribute per type, of which one holds something."""
    values = first_given(values, bool_values, fp32_values, int32_values, int64_values, fp64_values)
    kind = dtype or f32
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, (bool, int, float)) for v in values):
        raise UnsupportedError("expected numbers as 'values'")
    count = product(shape)
    if count != len(values) or any(not isinstance(d, int) or d < 0 for d in shape):
        raise UnsupportedError(f"expected {count} values for the shape {list(shape)} but got {len(values)}")
    try:
        array = np.array(values).astype(kind.np) if values else np.zeros(0, kind.np)
    except (OverflowError, ValueError):
        raise UnsupportedError(f"expected values that fit {kind}") from None
    return dispatch.constant(array.reshape([int(d) for d in shape]))


def first_given(*lists: Any) -> Any:
    """The first that is not empty, or none."""
    return next((v for v in lists if v), [])


# --- counting


@operator("arange")
def arange(start: Scalar, end: Scalar, step: Scalar, *, dtype: ScalarType | None = i64) -> Tensor:
    """Numbers from `start` on, below `end`. A symbolic number of them is counted when the program runs."""
    kind = dtype or i64
    numbers = (start, end, step)
    if fed_sizes.are_fed(numbers):
        integral = [v.type.dtype.is_integer if isinstance(v, Tensor) else isinstance(v, Expr) or float(v).is_integer() for v in numbers]
        if not all(integral):
            return fed_sizes.floats(*(_number(v, kind) for v in numbers))
        first, last, by = (v if isinstance(v, (Tensor, Expr)) else int(v) for v in numbers)
        return fed_sizes.numbers(first, last, by, kind)
    if not any(isinstance(v, Expr) for v in numbers):
        if step == 0 or (float(end) - float(start)) / float(step) > MAX_ELEMENTS:
            raise UnsupportedError(f"expected at most {MAX_ELEMENTS} numbers but got start {start}, end {end}, step {step}")
        whole = not kind.is_float and all(float(v).is_integer() for v in numbers)
        return dispatch.constant(np.arange(start, end, step, dtype=np.int64 if whole else np.float64).astype(kind.np))
    return math.arange(start, end, step, kind)


def _number(value: Scalar, dtype: ScalarType) -> Tensor:
    """A number as a tensor without axes."""
    return cast_to(math.reshape(value, []), dtype) if isinstance(value, Tensor) else dispatch.full((), value, dtype)


@operator(legacy=spelled("range", {"Start": "start", "End": "end", "Step": "step"}, without="end step dtype"))
def range(start: Tensor, end: Scalar, step: Scalar, *, dtype: ScalarType | None = None) -> Tensor:
    """As `arange`, by default in the dtype of the first number."""
    first = converted(start, "Scalar", "start")
    return arange(first, end, step, dtype=dtype or start.type.dtype)


@operator("linspace", legacy=spelled("linspace", {"Start": "start", "Stop": "stop", "Num": "number"}, without="start stop number"))
def linspace(start: Scalar, stop: Scalar, number: Scalar, *, dtype: ScalarType | None = f32) -> Tensor:
    number = fed_sizes.extent(number, "number", 1)
    if fed_sizes.are_fed([start, stop]):
        return spaced(start, stop, number, dtype or f32)
    if any(isinstance(v, Expr) for v in (start, stop, number)):
        return math.linspace(start, stop, number, dtype or f32)
    if not 0 < number <= MAX_ELEMENTS:
        raise UnsupportedError(f"expected between 1 and {MAX_ELEMENTS} numbers but got {number}")
    return dispatch.constant(np.linspace(start, stop, int(number)).astype((dtype or f32).np))


@operator(
    "logspace",
    legacy=spelled("logspace", {"Start": "start", "Stop": "stop", "Num": "num", "Base": "base"}, without="start stop num base"),
)
def logspace(start: Scalar, stop: Scalar, num: Scalar, base: Scalar, *, dtype: ScalarType | None) -> Tensor:
    """`base` to the powers that `linspace` gives, computed in the dtype of the result, but whole numbers in float64."""
    kind = dtype or f32
    working = kind if kind.is_float else f64
    return cast_to(math.pow(_number(base, working), linspace(start, stop, num, dtype=working)), kind)


@operator("eye", legacy=spelled("eye", {}, types={"num_rows": "LONG", "num_columns": "LONG"}))
def eye(num_rows: Scalar, num_columns: Scalar = -1, *, dtype: ScalarType | None = f32) -> Tensor:
    num_rows = fed_sizes.extent(num_rows, "num_rows")
    columns = num_rows if not isinstance(num_columns, Tensor) and num_columns == -1 else fed_sizes.extent(num_columns, "num_columns")
    if isinstance(num_rows, Expr) or isinstance(columns, Expr):
        return math.eye(num_rows, columns, of_scalar(dtype or f32))
    if num_rows * columns > MAX_ELEMENTS:
        raise UnsupportedError(f"expected at most {MAX_ELEMENTS} elements but got the shape {[num_rows, columns]}")
    return dispatch.constant(np.eye(int(num_rows), int(columns), dtype=(dtype or f32).np))


@operator(
    "one_hot",
    legacy=spelled(
        "one_hot_v2", {"X": "x", "depth_tensor": "num_classes"}, attributes={"depth": "num_classes"}, types={"depth": "INT"}
    ),
)
def one_hot(x: Tensor, num_classes: Scalar, *, allow_out_of_range: bool = False, dtype: ScalarType | None = f32) -> Tensor:
    """A new last axis with 1 at each position and 0 elsewhere."""
    count = fed_sizes.extent(num_classes, "num_classes")
    if not allow_out_of_range and x.type.dtype.kind in "iu":
        x = check_within(
            x,
            count if isinstance(count, Expr) else int(count),
            lambda low, high, size: ValueError(f"one_hot expected positions in [0, {size}) but got values from {low} to {high}"),
            wraps=False,
        )
    places = dispatch.call(nn.Iota, shape=(count if isinstance(count, Expr) else int(count),), axis=0, dtype=x.type.dtype)
    return cast_to(math.equal(math.unsqueeze(x, -1), places), dtype or f32)


@operator(legacy=spelled("one_hot", {"X": "x", "depth_tensor": "num_classes"}, attributes={"depth": "num_classes"}))
def one_hot_of_column(x: Tensor, num_classes: Scalar, *, allow_out_of_range: bool = False, dtype: ScalarType | None = f32) -> Tensor:
    """As `one_hot`, of positions whose last axis, of size 1, gives way."""
    return one_hot(math.squeeze(x, -1), num_classes, allow_out_of_range=allow_out_of_range, dtype=dtype)


def _indices(rows: int, columns: int, offset: int, lower: bool, dtype: ScalarType | None) -> Tensor:
    check_count(rows * columns, MOST_PLACES, "places of a triangle")
    triangle = np.tri(rows, columns, offset, bool) if lower else ~np.tri(rows, columns, offset - 1, bool)
    return cast_to(dispatch.constant(np.stack(np.nonzero(triangle)).astype(np.int64)), dtype or i64)


@operator("tril_indices", legacy=spelled("tril_indices", {}, "out", types={"dtype": "INT"}))
def tril_indices(*, rows: int = 0, cols: int = 0, offset: int = 0, dtype: ScalarType | None = i64) -> Tensor:
    return _indices(rows, cols, offset, True, dtype)


@operator("triu_indices", legacy=spelled("triu_indices", {}, "out", types={"dtype": "INT"}))
def triu_indices(*, row: int = 0, col: int = 0, offset: int = 0, dtype: ScalarType | None = i64) -> Tensor:
    return _indices(row, col, offset, False, dtype)


@operator("tril")
def tril(x: Tensor, *, diagonal: int = 0) -> Tensor:
    return _triangle(x, diagonal, True)


@operator("triu")
def triu(x: Tensor, *, diagonal: int = 0) -> Tensor:
    return _triangle(x, diagonal, False)


@operator(legacy=spelled("tril_triu"))
def tril_triu(x: Tensor, *, diagonal: int = 0, lower: bool = False) -> Tensor:
    return _triangle(x, diagonal, lower)


def _triangle(x: Tensor, diagonal: int, lower: bool) -> Tensor:
    rows, columns = (dispatch.call(nn.Iota, shape=x.type.shape[-2:], axis=axis, dtype=i64) for axis in (0, 1))
    limit = math.scale(rows, 1, diagonal)
    kept = math.less_equal(columns, limit) if lower else math.greater_equal(columns, limit)
    return math.where(kept, x, dispatch.full((), False if x.type.dtype.kind == "b" else 0, x.type.dtype))


# --- sizes


@operator("shape", legacy=spelled("shape", {"Input": "input"}))
def shape(input: Tensor) -> Tensor:
    return cast_to(math.shape(input), i32)


@operator("shape64")
def shape64(input: Tensor) -> Tensor:
    return math.shape(input)


@operator("numel", legacy=spelled("size", {"Input": "x"}))
def numel(x: Tensor) -> Tensor:
    return dispatch.call(nn.DimValue, size=product(x.type.shape), dtype=i64)


@operator("is_empty", legacy=spelled("is_empty"))
def is_empty(x: Tensor) -> Tensor:
    return math.equal(numel(x), dispatch.full((), 0, i64))


# --- the same value


@operator("assign", legacy=spelled("assign rnn_memory_helper", ignored="dtype"))
def assign(x: Tensor) -> Tensor:
    """The same value."""
    return x


@operator(
    "share_data",
    "memcpy_d2h",
    "memcpy_h2d",
    "memcpy",
    "shadow_feed",
    legacy=spelled("share_data memcpy memcpy_d2h memcpy_h2d"),
    nn=nn.StopGradient,
)
def share_data(x: Tensor) -> Tensor:
    """The same value, on another device."""
    return x


@operator("c_identity", legacy=spelled("c_identity"))
def c_identity(x: Tensor, *, ring_id: int = 0) -> Tensor:
    """The same value, for all ranks of a group."""
    return x


@operator(legacy=spelled("delete_var", outputs=""))
def delete_var(x: list[Tensor]) -> tuple[()]:
    """Nothing: it says that nobody needs these values any more, which the compiler knows by itself."""
    return ()
