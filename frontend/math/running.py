"""What goes along an axis in order, beside running sums: products, extremes, sums of exponentials; and places in what is sorted."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.ir.core import Op
from polyreme.ir.types import f64, i32, i64
from polyreme.math.common import axis_of, cast_to, same_sizes, tensor_arg
from polyreme.math.creation import clone
from polyreme.math.elementwise import add, exp, in_place, isnan, log1p, maximum, minimum, subtract, where
from polyreme.math.logic import equal, logical_not, logical_or
from polyreme.math.manipulation import moveaxis, reshape, unsqueeze
from polyreme.math.reduction import sum as sum_
from polyreme.tensor import Tensor

__all__ = ["bucketize", "cummax", "cummin", "cumprod", "logcumsumexp", "searchsorted"]
METHODS = list(__all__)


def _along(x: Tensor, axis: Any, dtype: Any, function: str) -> tuple[Tensor, int]:
    """`x` of the dtype, flat for an axis of None, and which axis it is."""
    tensor_arg(x, function)
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    if axis is None:
        return reshape(x, [-1]), 0
    return x, axis_of(int(axis), x.ndim, function)


def cumprod(x: Tensor, dim: Any = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Products of all elements up to each one along `dim` (of the flattened tensor for None)."""
    x, place = _along(x, dim, dtype, "cumprod")
    return dispatch.call(ops.Cumprod, x, axis=place) if x.ndim else clone(x)


cumprod_ = in_place(cumprod)
__all__ += ["cumprod_"]
METHODS += ["cumprod_"]


def cummax(x: Tensor, axis: Any = None, dtype: Any = "int64", name: str | None = None) -> tuple[Tensor, Tensor]:
    """The largest of all elements up to each one along `axis` (of the flattened tensor for None), and where it is, the last of equals.

    From the first nan on both are those of the last nan.
    """
    return _extremes(ops.Cummax, x, axis, dtype, "cummax")


def cummin(x: Tensor, axis: Any = None, dtype: Any = "int64", name: str | None = None) -> tuple[Tensor, Tensor]:
    """As `cummax`, of the least elements."""
    return _extremes(ops.Cummin, x, axis, dtype, "cummin")


def _extremes(cls: type[Op], x: Tensor, axis: Any, dtype: Any, function: str) -> tuple[Tensor, Tensor]:
    chosen = as_dtype(dtype).scalar
    if chosen not in (i32, i64):
        raise ValueError(f"{function} expected dtype int32 or int64 but got {as_dtype(dtype).name}")
    x, place = _along(x, axis, None, function)
    if x.ndim == 0:
        return clone(x), dispatch.full((), 0, chosen)
    values = dispatch.call(cls, x, axis=place)
    reached = equal(x, values)
    if x.type.dtype.is_float:
        reached = logical_or(reached, isnan(x))
    at = dispatch.call(ops.Iota, shape=x.type.shape, axis=place, dtype=chosen)
    return values, dispatch.call(ops.Cummax, where(reached, at, dispatch.full((), 0, chosen)), axis=place)


def logcumsumexp(x: Tensor, axis: Any = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Logarithms of the sums of exp(x) up to each element along `axis` (of the flattened tensor for None). None of them overflows."""
    from polyreme.control_flow import gathered_steps

    x, place = _along(x, axis, dtype, "logcumsumexp")
    if x.ndim == 0 or x.type.elements == 0:
        return clone(x)
    rows = moveaxis(x, place, 0)
    nothing = dispatch.full(rows.type.shape[1:], float("-inf"), x.type.dtype)

    def step(row: Tensor, before: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        both = _log_of_sum(before, row)
        return [both], [both]

    _, (made,) = gathered_steps(step, [nothing], [rows])
    return moveaxis(made, 0, place)


def _log_of_sum(a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)), also of infinities."""
    larger, smaller = maximum(a, b), minimum(a, b)
    gap = where(equal(smaller, larger), dispatch.full((), 0, a.type.dtype), subtract(smaller, larger))
    return add(larger, log1p(exp(gap)))


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, out_int32: bool = False, right: bool = False, name: str | None = None
) -> Tensor:
    """How many elements of a sorted sequence stand in front of each value, or with `right` in front of it and of its equals.

    sorted_sequence [n] with values of any shape, or [*batch, n] with values [*batch, m]. nan is behind all numbers.
    """
    tensor_arg(sorted_sequence, "searchsorted", "sorted_sequence")
    tensor_arg(values, "searchsorted", "values")
    if sorted_sequence.ndim == 0 or (
        sorted_sequence.ndim > 1
        and not (sorted_sequence.ndim == values.ndim and same_sizes(sorted_sequence.type.shape[:-1], values.type.shape[:-1]))
    ):
        raise ValueError(
            f"The dimensions except the last dimension of 'SortedSequence' and 'Values' should be the same, but got "
            f"{list(sorted_sequence.shape)} and {list(values.shape)}"
        )
    if sorted_sequence.type.dtype != values.type.dtype:
        sorted_sequence, values = cast_to(sorted_sequence, f64), cast_to(values, f64)
    row = unsqueeze(sorted_sequence, -2) if sorted_sequence.ndim > 1 else sorted_sequence
    column = unsqueeze(values, -1)
    # A nan among the values finds nothing that is not in front of it.
    behind = dispatch.call(ops.Greater if right else ops.GreaterEqual, row, column)
    return sum_(cast_to(logical_not(behind), i32 if out_int32 else i64), -1, dtype="int32" if out_int32 else "int64")


def bucketize(x: Tensor, sorted_sequence: Tensor, out_int32: bool = False, right: bool = False, name: str | None = None) -> Tensor:
    """`searchsorted` of `x` in a sorted sequence [n]."""
    if tensor_arg(sorted_sequence, "bucketize", "sorted_sequence").ndim != 1:
        raise ValueError(f"sorted_sequence tensor must be 1 dimension, but got dim {sorted_sequence.ndim}")
    return searchsorted(sorted_sequence, x, out_int32, right)
