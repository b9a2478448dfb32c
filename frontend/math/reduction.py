"""Reductions: sums, means, extremes, norms."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import apart, as_one, operator
from polyreme.dialects import host
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.ir.core import Op
from polyreme.ir.dims import product
from polyreme.ir.types import f32, i1, i32, i64
from polyreme.math.common import axes_of, cast_to, check_elements, floating, tensor_arg
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import add, divide, exp, log, pow, sqrt, square, subtract
from polyreme.math.elementwise import isnan as isnan_
from polyreme.math.manipulation import squeeze, unsqueeze
from polyreme.tensor import Tensor

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "norm",
    "numel",
    "prod",
    "std",
    "sum",
    "var",
]
METHODS = list(__all__)


def _reduce(cls: type[Op], x: Tensor, axis: Any, keepdim: bool, name: str) -> Tensor:
    return dispatch.call(cls, tensor_arg(x, name), axis=axes_of(axis, x.ndim, name), keepdims=bool(keepdim))


def _extreme(cls: type[Op], x: Tensor, axis: Any, keepdim: bool, name: str) -> Tensor:
    """As `_reduce`, by an op that needs elements."""
    zero = check_elements(x, axes_of(axis, x.ndim, name) or range(x.ndim)) if isinstance(x, Tensor) else None
    made = _reduce(cls, x, axis, keepdim, name)
    return made if zero is None else dispatch.call(ops.Sub, made, cast_to(zero, made.type.dtype))


def sum(x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Sum over `axis` (all axes for None); bools and int32 are summed in int64."""
    tensor_arg(x, "sum")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    elif x.type.dtype in (i1, i32):
        x = cast_to(x, i64)
    return _reduce(ops.Sum, x, axis, keepdim, "sum")


def mean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None, *, dtype: Any = None) -> Tensor:
    """Mean over `axis` (all axes for None), of `x` in `dtype` if given."""
    tensor_arg(x, "mean")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    if x.type.dtype == i1:
        x = cast_to(x, f32)
    if x.type.dtype.kind in "iu":
        # Paddle's integer mean: the sum divided, rounded towards zero.
        total = sum(x, axis, keepdim=keepdim)
        count = dispatch.full((), product(x.type.shape) // product(total.type.shape), total.type.dtype)
        return cast_to(dispatch.call(ops.Div, total, count), x.type.dtype)
    if x.type.dtype.kind == "c":
        parts = (_reduce(ops.Mean, dispatch.call(part, x), axis, keepdim, "mean") for part in (ops.Real, ops.Imag))
        return dispatch.call(ops.Complex, *parts)
    return _reduce(ops.Mean, x, axis, keepdim, "mean")


def max(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The largest element over `axis` (all axes for None); nan when there is one."""
    return _extreme(ops.Max, x, axis, keepdim, "max")


def min(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The smallest element over `axis` (all axes for None); nan when there is one."""
    return _extreme(ops.Min, x, axis, keepdim, "min")


amax, amin = max, min


def prod(
    x: Tensor, axis: Any = None, keepdim: bool = False, dtype: Any = None, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """Product over `axis` (all axes for None)."""
    tensor_arg(x, "prod")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    elif x.type.dtype == i1:
        x = cast_to(x, i64)
    result = _reduce(ops.Prod, x, axis, keepdim, "prod")
    return result if out is None else dispatch.assign(out, result)


def all(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Whether all elements over `axis` are true (not zero)."""
    return _reduce(ops.All, cast_to(tensor_arg(x, "all"), i1), axis, keepdim, "all")


def any(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Whether any element over `axis` is true (not zero)."""
    return _reduce(ops.Any, cast_to(tensor_arg(x, "any"), i1), axis, keepdim, "any")


@apart
def var(
    x: Tensor, axis: Any = None, unbiased: bool | None = None, keepdim: bool = False, name: str | None = None, *, correction: float = 1
) -> Tensor:
    """Variance over `axis`: the squared distances from the mean, divided by n - `correction`, in floats. `unbiased` True is a correction of
    1, False one of 0.
    """
    x = floating(tensor_arg(x, "var"))
    centre = mean(x, axis, keepdim=True)
    total = sum(square(subtract(x, centre)), axis, keepdim=keepdim)
    count = product([x.type.shape[a] for a in axes_of(axis, x.ndim, "var") or range(x.ndim)])
    taken = correction if unbiased is None else int(unbiased)
    if isinstance(count, int):
        # One element has no unbiased variance: 0 / 0 is nan, as in Paddle.
        return divide(total, dispatch.full((), builtins.max(count - taken, 0), x.type.dtype))
    number = dispatch.call(ops.DimValue, size=count, dtype=x.type.dtype)
    left = dispatch.call(ops.Relu, subtract(number, dispatch.full((), taken, x.type.dtype))) if taken else number
    return divide(total, left)


def std(x: Tensor, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Standard deviation over `axis`: the root of `var`."""
    return sqrt(var(x, axis, unbiased, keepdim))


@operator("logsumexp")
def logsumexp(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """log(sum(exp(x))) over `axis`, without overflow."""
    x = floating(tensor_arg(x, "logsumexp"))
    axes = list(axes_of(axis, x.ndim, "logsumexp") or range(x.ndim))
    if 0 in [x.type.shape[a] for a in axes]:  # of no elements there is no largest
        return log(sum(exp(x), axis, keepdim=keepdim))
    peak = _reduce(ops.Max, x, axis, True, "logsumexp").detach()  # of none where a run finds no elements
    result = add(log(sum(exp(subtract(x, peak)), axis, keepdim=True)), peak)
    return result if keepdim else squeeze(result, axes)


def nansum(x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Sum over `axis` with nan counted as 0."""
    return sum(dispatch.call(ops.Where, isnan_(x), dispatch.full((), 0, x.type.dtype), x), axis, dtype, keepdim)


def nanmean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Mean over `axis` of the elements that are not nan; nan where there are none."""
    total = nansum(tensor_arg(x, "nanmean"), axis, keepdim=keepdim)
    known = dispatch.call(ops.LogicalNot, isnan_(x))
    return divide(total, cast_to(sum(known, axis, keepdim=keepdim), x.type.dtype))


def count_nonzero(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """How many elements over `axis` are not zero, in int64."""
    return sum(cast_to(cast_to(x, i1), i64), axis, keepdim=keepdim)


def norm(
    x: Tensor, p: Any = None, axis: Any = None, keepdim: bool = False, out: Tensor | None = None, dtype: Any = None, name: str | None = None
) -> Tensor:
    """The p-norm over `axis`, of all elements for None; `x` in `dtype` if given.

    "fro" or None is the root of the sum of squares. Over one axis (or all) p may be any number, infinite or 0 too: 0 counts, without a
    gradient. Over two axes p says a norm of matrices: 1 and -1 are the largest and the smallest sum of a column, infinity and -infinity
    those of a row, 2 and -2 the largest and the smallest singular value, and "nuc" is the sum of these.
    """
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    kind = tensor_arg(x, "norm").type
    axes_of(axis, kind.rank, "norm")  # so that an axis that is not there is one of norm, and not of what it is made of
    whole = p in (None, "fro") and (axis is None or isinstance(axis, (list, tuple)) and len(axis) == 2)
    result = as_one("frobenius_norm" if whole else "p_norm", _norm, abs_(x) if kind.dtype.kind == "c" else x, p, axis, keepdim)
    return result if out is None else dispatch.assign(out, result)


def _norm(x: Tensor, p: Any, axis: Any, keepdim: bool) -> Tensor:
    if p == "nuc" and axis is None and x.ndim == 2:
        axis = [0, 1]
    if isinstance(axis, (list, tuple)) and len(axis) == 2 and p not in (None, "fro"):
        return _matrix_norm(x, p, axis, keepdim)
    if p is None or p == "fro" or p == 2:
        return _root(sum(square(x), axis, keepdim=keepdim), sqrt)
    if not isinstance(p, (int, float)):
        raise ValueError(f"expected p to be 'fro', 'nuc' (over two axes) or a number but got {p!r}")
    if p == float("inf"):
        return max(abs_(x), axis, keepdim)
    if p == -float("inf"):
        return min(abs_(x), axis, keepdim)
    if p == 0:
        return cast_to(count_nonzero(x, axis, keepdim), x.type.dtype if x.type.dtype.kind == "f" else f32)
    if p == 1:
        return sum(abs_(x), axis, keepdim=keepdim)
    # Paddle keeps p, and 1 / p, in float32.
    inverse = float(np.float32(1) / np.float32(p))
    return _root(sum(pow(abs_(x), float(p)), axis, keepdim=keepdim), lambda total: pow(total, inverse))


def _root(total: Tensor, root: Callable[[Tensor], Tensor]) -> Tensor:
    """The root of what is not negative (nan stays nan), with the gradient 0 where it is 0."""
    zero = dispatch.full((), 0, total.type.dtype)
    some = dispatch.call(ops.NotEqual, total, zero)
    return dispatch.call(ops.Where, some, root(dispatch.call(ops.Where, some, total, dispatch.full((), 1, total.type.dtype))), zero)


def _matrix_norm(x: Tensor, p: Any, axis: Any, keepdim: bool) -> Tensor:
    rows, columns = axes_of(axis, x.ndim, "norm")
    if p in (1, -1, float("inf"), -float("inf")):
        first, second = (rows, columns) if p in (1, -1) else (columns, rows)
        result = (max if p > 0 else min)(sum(abs_(x), first, keepdim=True), second, keepdim=True)
    elif p in (2, -2, "nuc"):
        others = [axis for axis in range(x.ndim) if axis not in (rows, columns)]
        values = dispatch.call(host.SingularValues, dispatch.call(ops.Transpose, x, perm=(*others, rows, columns)))
        result = sum(values, -1) if p == "nuc" else (max if p > 0 else min)(values, -1)
        return unsqueeze(result, sorted((rows, columns))) if keepdim else result
    else:
        raise ValueError(f"just support p value 'fro','nuc',1,-1,inf,-inf,2,-2 if axis is 2D, found {p}")
    return result if keepdim else squeeze(result, [rows, columns])


def numel(x: Tensor, name: str | None = None) -> Tensor:
    """The number of elements, as a 0-D int64 tensor."""
    if isinstance(x.size, int):
        return dispatch.full((), x.size, i64)
    return dispatch.call(ops.DimValue, size=x.size, dtype=i64)
