"""The distinct elements or slices of a tensor: `unique` and `unique_consecutive`.

Both mark where a run of equal elements begins, and take the places of the marks: how many there are is known once the program has run.
"""

from __future__ import annotations

from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype, of_scalar
from polyreme.ir.dims import product
from polyreme.ir.types import TensorType, i64
from polyreme.math.common import axis_of, cast_to, tensor_arg
from polyreme.math.creation import clone
from polyreme.math.manipulation import concat, reshape, span, transpose
from polyreme.math.search import argsort, nonzero
from polyreme.tensor import Tensor

__all__ = ["unique", "unique_consecutive"]
METHODS = list(__all__)


def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    sorted: bool = True,
    name: str | None = None,
) -> Any:
    """The distinct elements of `x`, or with `axis` its distinct slices, in order (also with `sorted=False`), with what else is asked for:
    where each comes first, where each part of `x` went, and how often each comes; int32 or int64, as `dtype` says. No nan equals another.
    """
    indices = _index_dtype(dtype, "unique")
    if _is_empty(tensor_arg(x, "unique")):
        return _of_nothing(x, indices, return_index + return_inverse + return_counts)
    asked = {"Indices": return_index, "Index": return_inverse, "Counts": return_counts}
    attributes = {"return_index": bool(return_index), "return_inverse": bool(return_inverse), "return_counts": bool(return_counts)}
    if made := _operator("unique", x, axis, indices, asked, {**attributes, "is_sorted": True}):
        return made[0] if len(made) == 1 else tuple(made)
    rows = _rows(x, axis, "unique")
    order = _order_of_rows(rows)
    starts = _starts(rows, order)
    first = nonzero(starts)[:, 0]
    place = _take(order, first)
    made = [_values(x, place, axis)]
    if return_index:
        made.append(cast_to(place, indices))
    if return_inverse:
        inverse = dispatch.call(ops.Scatter, order, _number_of_run(starts), order, axis=0)
        made.append(cast_to(inverse, indices))
    if return_counts:
        made.append(cast_to(_lengths(first, order), indices))
    return made[0] if len(made) == 1 else tuple(made)


def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The first of each run of equal elements of `x`, or with `axis` of equal slices, with what else is asked for: the number of the run
    that each part of `x` belongs to, and the lengths of the runs; int32 or int64, as `dtype` says. No nan equals another.
    """
    indices = _index_dtype(dtype, "unique_consecutive")
    if _is_empty(tensor_arg(x, "unique_consecutive")):
        return _of_nothing(reshape(x, [0]) if axis is None else x, indices, return_inverse + return_counts)
    attributes = {"return_inverse": bool(return_inverse), "return_counts": bool(return_counts)}
    if made := _operator("unique_consecutive", x, axis, indices, {"Index": return_inverse, "Counts": return_counts}, attributes):
        return made[0] if len(made) == 1 else tuple(made)
    rows = _rows(x, axis, "unique_consecutive")
    order = dispatch.call(ops.Iota, shape=(rows.type.shape[0],), axis=0, dtype=i64)
    starts = _starts(rows, order)
    first = nonzero(starts)[:, 0]
    made = [_values(x, first, axis)]
    if return_inverse:
        made.append(cast_to(_number_of_run(starts), indices))
    if return_counts:
        made.append(cast_to(_lengths(first, order), indices))
    return made[0] if len(made) == 1 else tuple(made)


def _operator(type: str, x: Tensor, axis: int | None, indices: Any, asked: dict[str, Any], attributes: dict[str, Any]) -> list[Tensor]:
    """In a static Program the results of Paddle's operator, those that are asked for; none elsewhere."""
    recorder = dispatch.active_trace()
    if recorder is None:
        return []
    parts = product(x.type.shape) if axis is None else x.type.shape[axis_of(axis, x.ndim, type)]
    rows = recorder.fresh_size()
    shape = (rows,) if axis is None else tuple(rows if i == axis % x.ndim else size for i, size in enumerate(x.type.shape))
    outputs = {"Out": TensorType(shape, x.type.dtype)}
    outputs |= {slot: TensorType((parts if slot == "Index" else rows,), indices) for slot, wanted in asked.items() if wanted}
    attributes |= {"axis": [] if axis is None else [int(axis)], "dtype": of_scalar(indices)}
    made = recorder.operator(type, {"X": x}, outputs, attributes) or {}
    for result in made.values():
        result.stop_gradient = True
    return list(made.values())


def in_order_of_coming(x: Tensor, dtype: Any = "int64") -> tuple[Tensor, Tensor, Tensor]:
    """The distinct elements of `x` in the order in which they come first, which of them each element is, and how often each comes."""
    indices = _index_dtype(dtype, "unique")
    out, place, inverse, counts = unique(x, True, True, True)
    order = argsort(place, 0)
    number = argsort(order, 0)
    return _take(out, order), cast_to(_take(number, inverse), indices), cast_to(_take(counts, order), indices)


def _index_dtype(dtype: Any, function: str) -> Any:
    chosen = as_dtype(dtype)
    if chosen.name not in ("int32", "int64"):
        raise TypeError(f"{function} expected dtype int32 or int64 but got {chosen.name}")
    return chosen.scalar


def _is_empty(x: Tensor) -> bool:
    """Whether it is known to have no elements."""
    return 0 in x.type.shape


def _of_nothing(x: Tensor, indices: Any, others: int) -> Any:
    """As Paddle has it: `x` as it is, and no positions."""
    made = [clone(x.detach()), *(dispatch.full((0,), 0, indices) for _ in range(others))]
    return made[0] if len(made) == 1 else tuple(made)


def _rows(x: Tensor, axis: int | None, function: str) -> Tensor:
    """What is compared: [elements], or [slices, elements of each]."""
    x = x.detach()
    if axis is None:
        return reshape(x, [-1])
    front = _to_front(x, axis_of(axis, x.ndim, function))
    return reshape(front, [front.type.shape[0], -1])


def _to_front(x: Tensor, axis: int) -> Tensor:
    """`x` with its first axis and `axis` exchanged: of axes in this order slices are compared."""
    order = list(range(x.ndim))
    order[0], order[axis] = axis, 0
    return transpose(x, order) if axis else x


def _take(x: Tensor, places: Tensor, axis: int = 0) -> Tensor:
    return dispatch.call(ops.Gather, x, places, axis=axis)


def _values(x: Tensor, places: Tensor, axis: int | None) -> Tensor:
    x = x.detach()
    if axis is not None:
        return _take(x, places, axis_of(axis, x.ndim, "unique"))
    return _take(reshape(x, [-1]), places)


def _order_of_rows(rows: Tensor) -> Tensor:
    """The positions that sort rows, by their first element, then the second, and so on; equal rows keep their order."""
    if rows.ndim == 1:
        return argsort(rows, 0)
    from polyreme.control_flow import steps

    order = dispatch.call(ops.Iota, shape=(rows.type.shape[0],), axis=0, dtype=i64)
    columns = transpose(rows, [1, 0])
    (made,) = steps(lambda column, order: [_take(order, argsort(_take(column, order), 0))], [order], [columns], reverse=True)
    return made


def _starts(rows: Tensor, order: Tensor) -> Tensor:
    """Whether each row, in this order, is the first one or differs from the one before it: bools [rows]."""
    count = rows.type.shape[0]
    number = dispatch.call(ops.Iota, shape=(count,), axis=0, dtype=i64)
    zero = dispatch.full((), 0, i64)
    before = dispatch.call(ops.Maximum, number - 1, zero)
    here, there = _take(rows, order), _take(rows, _take(order, before))
    differs = dispatch.call(ops.NotEqual, here, there)
    if rows.ndim == 2:
        differs = dispatch.call(ops.Any, differs, axis=(1,), keepdims=False)
    return dispatch.call(ops.LogicalOr, differs, dispatch.call(ops.Equal, number, zero))


def _number_of_run(starts: Tensor) -> Tensor:
    return dispatch.call(ops.Cumsum, cast_to(starts, i64), axis=0) - 1


def _lengths(first: Tensor, order: Tensor) -> Tensor:
    """How long runs are, by where each begins."""
    end = dispatch.full((1,), order.type.shape[0], i64)
    ends = span(concat([first, end]), 0, 1, first.type.shape[0] + 1)
    return ends - first
