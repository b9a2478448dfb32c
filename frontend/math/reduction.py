"""Reductions: sums, means, extremes, norms."""

from __future__ import annotations

from typing import Any

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.ir.core import Op
from polyreme.ir.dims import product
from polyreme.ir.types import f32, i1, i64
from polyreme.math.common import axes_of, cast_to, tensor_arg
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import add, divide, exp, log, pow, sqrt, square, subtract
from polyreme.math.elementwise import isnan as isnan_
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


def sum(x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Sum over `axis` (all axes for None); bools and 32-bit integers are summed in int64."""
    tensor_arg(x, "sum")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    elif x.type.dtype == i1 or x.type.dtype.kind in "iu" and x.type.dtype.bits <= 32:
        x = cast_to(x, i64)
    return _reduce(ops.Sum, x, axis, keepdim, "sum")


def mean(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Mean over `axis` (all axes for None)."""
    tensor_arg(x, "mean")
    if x.type.dtype.kind in "iu":
        # Paddle's integer mean: the sum divided, rounded towards zero.
        total = sum(x, axis, keepdim=keepdim)
        count = dispatch.full((), product(x.type.shape) // product(total.type.shape), total.type.dtype)
        return cast_to(dispatch.call(ops.Div, total, count), x.type.dtype)
    return _reduce(ops.Mean, x, axis, keepdim, "mean")


def max(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The largest element over `axis` (all axes for None); nan when there is one."""
    return _reduce(ops.Max, x, axis, keepdim, "max")


def min(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The smallest element over `axis` (all axes for None); nan when there is one."""
    return _reduce(ops.Min, x, axis, keepdim, "min")


amax, amin = max, min


def prod(x: Tensor, axis: Any = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> Tensor:
    """Product over `axis` (all axes for None)."""
    tensor_arg(x, "prod")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    elif x.type.dtype == i1 or x.type.dtype.kind in "iu" and x.type.dtype.bits <= 32:
        x = cast_to(x, i64)
    return _reduce(ops.Prod, x, axis, keepdim, "prod")


def all(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Whether all elements over `axis` are true (not zero)."""
    return _reduce(ops.All, cast_to(tensor_arg(x, "all"), i1), axis, keepdim, "all")


def any(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Whether any element over `axis` is true (not zero)."""
    return _reduce(ops.Any, cast_to(tensor_arg(x, "any"), i1), axis, keepdim, "any")


def var(x: Tensor, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Variance over `axis`: the mean squared distance from the mean, with n - 1 for n when `unbiased`."""
    centre = mean(x, axis, keepdim=True)
    total = sum(square(subtract(x, centre)), axis, keepdim=keepdim)
    count = product(x.type.shape) // product(centre.type.shape)
    if unbiased and isinstance(count, int):
        # One element has no unbiased variance: 0 / 0 is nan, as in Paddle.
        return divide(total, dispatch.full((), count - 1, x.type.dtype))
    if unbiased:
        return divide(total, dispatch.call(ops.DimValue, size=count - 1, dtype=x.type.dtype))
    if isinstance(count, int):
        return divide(total, dispatch.full((), count, x.type.dtype))
    return divide(total, dispatch.call(ops.DimValue, size=count, dtype=x.type.dtype))


def std(x: Tensor, axis: Any = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Standard deviation over `axis`: the root of `var`."""
    return sqrt(var(x, axis, unbiased, keepdim))


def logsumexp(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """log(sum(exp(x))) over `axis`, without overflow."""
    from polyreme.math.manipulation import squeeze

    peak = max(x, axis, keepdim=True).detach()
    result = add(log(sum(exp(subtract(x, peak)), axis, keepdim=True)), peak)
    if keepdim:
        return result
    return squeeze(result, list(axes_of(axis, x.ndim, "logsumexp") or range(x.ndim)))


def nansum(x: Tensor, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """Sum over `axis` with nan counted as 0."""
    return sum(dispatch.call(ops.Where, isnan_(x), dispatch.full((), 0, x.type.dtype), x), axis, dtype, keepdim)


def count_nonzero(x: Tensor, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """How many elements over `axis` are not zero, in int64."""
    return sum(cast_to(cast_to(x, i1), i64), axis, keepdim=keepdim)


def norm(x: Tensor, p: Any = None, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The p-norm over `axis`, of all elements for None; "fro" or None is the root of the sum of squares, p may be infinite or 0."""
    if p is None or p == "fro" or p == 2:
        return sqrt(sum(square(x), axis, keepdim=keepdim))
    if not isinstance(p, (int, float)):
        raise ValueError(f"expected p to be 'fro' or a number but got {p!r}")
    if p == float("inf"):
        return max(abs_(x), axis, keepdim)
    if p == -float("inf"):
        return min(abs_(x), axis, keepdim)
    if p == 0:
        return cast_to(count_nonzero(x, axis, keepdim), x.type.dtype if x.type.dtype.kind == "f" else f32)
    if p == 1:
        return sum(abs_(x), axis, keepdim=keepdim)
    return pow(sum(pow(abs_(x), float(p)), axis, keepdim=keepdim), 1.0 / p)


def numel(x: Tensor, name: str | None = None) -> Tensor:
    """The number of elements, as a 0-D int64 tensor."""
    if isinstance(x.size, int):
        return dispatch.full((), x.size, i64)
    return dispatch.call(ops.DimValue, size=x.size, dtype=i64)
