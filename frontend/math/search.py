"""Finding and ordering: argmax, sort, topk, nonzero, running sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import host
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.ir.core import Op
from polyreme.ir.dims import Expr
from polyreme.ir.types import ScalarType, i64
from polyreme.math.common import axis_of, cast_to, check_elements, number_of, tensor_arg
from polyreme.math.creation import clone
from polyreme.math.elementwise import in_place
from polyreme.math.manipulation import concat, reshape, span, squeeze, take_along_axis, unsqueeze
from polyreme.provided import provides
from polyreme.tensor import Tensor

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "cumsum",
    "diff",
    "index_sample",
    "kthvalue",
    "mode",
    "msort",
    "nonzero",
    "sort",
    "topk",
]
METHODS = list(__all__)

Array = np.ndarray[Any, Any]


def _extreme(cls: type[Op], x: Tensor, axis: Any, keepdim: bool, dtype: Any, name: str) -> Tensor:
    tensor_arg(x, name)
    chosen = as_dtype(dtype)
    if chosen.name not in ("int32", "int64"):
        raise ValueError(f"{name} expected dtype int32 or int64 but got {chosen.name}")
    if axis is None:
        flat = _place(cls, reshape(x, [-1]), 0, False, chosen.scalar)
        return reshape(flat, [1] * x.ndim) if keepdim else flat
    if x.ndim == 0:
        x = reshape(x, [1])
    return _place(cls, x, axis_of(axis, x.ndim, name), bool(keepdim), chosen.scalar)


def _place(cls: type[Op], x: Tensor, axis: int, keepdim: bool, dtype: ScalarType) -> Tensor:
    zero = check_elements(x, [axis])
    made: Tensor = dispatch.call(cls, x, axis=axis, keepdims=keepdim, dtype=dtype)
    return made if zero is None else dispatch.call(ops.Sub, made, cast_to(zero, dtype))


def argmax(x: Tensor, axis: Any = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """Where the largest element is along `axis` (in the flattened tensor for None), the first one of equals."""
    return _extreme(ops.ArgMax, x, axis, keepdim, dtype, "argmax")


def argmin(x: Tensor, axis: Any = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """Where the smallest element is along `axis` (in the flattened tensor for None), the first one of equals."""
    return _extreme(ops.ArgMin, x, axis, keepdim, dtype, "argmin")


def argsort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = False, name: str | None = None) -> Tensor:
    """The positions that would sort along `axis`, int64; equal elements keep their order."""
    if tensor_arg(x, "argsort").ndim == 0:
        return dispatch.constant(np.zeros((), np.int64))
    return dispatch.call(ops.Argsort, x, axis=axis_of(axis, x.ndim, "argsort"), descending=bool(descending))


@operator("argsort")
def sort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = False, name: str | None = None) -> Tensor:
    """Sorted along `axis`."""
    place = axis_of(axis, tensor_arg(x, "sort").ndim, "sort")
    if x.ndim == 0 or 0 in x.shape:
        return clone(x)
    return take_along_axis(x, argsort(x, place, descending), place, broadcast=False)


def msort(input: Tensor, name: str | None = None) -> Tensor:
    """Sorted along the first axis."""
    return sort(input, 0)


def diff(
    x: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None, name: str | None = None
) -> Tensor:
    """The differences of neighbours along `axis`, `n` times over; of bools whether they differ. `prepend` and `append` stand before and
    behind `x`.
    """
    place = axis_of(axis, tensor_arg(x, "diff").ndim, "diff")
    if x.ndim == 0:
        raise ValueError("diff expected a tensor with an axis but got a number")
    if n < 1:
        raise ValueError(f"diff expected n of 1 or more but got {n}")
    ends = [t for t in (prepend, x, append) if t is not None]
    x = concat(ends, place) if len(ends) > 1 else x
    for _ in range(n):
        size = x.type.shape[place]
        last = 0 if isinstance(size, int) and size < 1 else size - 1
        behind, ahead = span(x, place, size - last, size), span(x, place, 0, last)
        x = dispatch.call(ops.NotEqual if x.type.dtype.kind == "b" else ops.Sub, behind, ahead)
    return x


class TopKRetType(NamedTuple):
    """What `topk` gives: the elements, and their positions."""

    values: Tensor
    indices: Tensor


@operator("top_k_v2")
def topk(x: Tensor, k: Any, axis: int | None = None, largest: bool = True, sorted: bool = True, name: str | None = None) -> TopKRetType:
    """The `k` largest (or smallest) elements along `axis` (the last for None) in order, and their positions; of equal elements the first.
    """
    count = number_of(k)
    count = count if isinstance(count, Expr) else int(count)
    place = axis_of(-1 if axis is None else axis, tensor_arg(x, "topk").ndim, "topk")
    if x.ndim == 0 and (isinstance(count, Expr) or count > 0):
        return TopKRetType(clone(x), dispatch.full((), 0, i64))
    size = x.type.shape[place] if x.ndim else 1
    if isinstance(count, Expr):
        index = span(argsort(x, place, largest), place, 0, count)
        return TopKRetType(take_along_axis(x, index, place, broadcast=False), index)
    if count < 1 or isinstance(size, int) and count > size:
        raise ValueError(f"topk expected k in [1, {size}] but got {count}")
    index = dispatch.call(ops.Argsort, x, axis=place, descending=bool(largest), count=count)
    if index.type.shape[place] != count:
        index = span(index, place, 0, count)  # of a size that is not known: each call checks that there are so many
    return TopKRetType(take_along_axis(x, index, place, broadcast=False), index)


def kthvalue(x: Tensor, k: Any, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The `k`-th smallest element along `axis` (the last for None), counted from 1, and its position (int64)."""
    count = int(number_of(k))
    place = axis_of(-1 if axis is None else axis, tensor_arg(x, "kthvalue").ndim, "kthvalue")
    size = x.type.shape[place] if x.ndim else 1
    if count < 1 or isinstance(size, int) and count > size:
        raise ValueError(f"kthvalue expected k in [1, {size}] but got {count}")
    if x.ndim == 0:
        return clone(x), dispatch.full((), 0, i64)
    first = dispatch.call(ops.Argsort, x, axis=place, descending=False, count=count)
    return _picked(x, span(first, place, count - 1, count), place, keepdim)


def mode(x: Tensor, axis: int = -1, keepdim: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The element that comes most often along `axis`, the smallest of several, and the position (int64) where it comes last."""
    place = axis_of(axis, tensor_arg(x, "mode").ndim, "mode")
    if x.ndim == 0:
        return clone(x), dispatch.full((), 0, i64)
    if x.type.shape[place] == 0:
        raise ValueError(f"mode expected elements along axis {place} but got shape {list(x.shape)}")
    # Of equal elements the last one in the sorted tensor is the last one in `x`. How many there are, each is told by a comparison with all.
    order = dispatch.call(ops.Argsort, x, axis=place, descending=False)
    if isinstance(order._value, np.ndarray):
        index = dispatch.constant(_ends_of_longest_runs(x._array("mode()"), order._value, place))
    else:
        ordered = take_along_axis(x.detach(), order, place, broadcast=False)
        same = dispatch.call(ops.Equal, unsqueeze(ordered, place + 1), unsqueeze(ordered, place))
        often = dispatch.call(ops.Sum, cast_to(same, i64), axis=(place + 1,), keepdims=False)
        first = dispatch.call(ops.ArgMax, often, axis=place, keepdims=True, dtype=i64)
        most = dispatch.call(ops.Max, often, axis=(place,), keepdims=True)
        index = take_along_axis(order, first + most - 1, place, broadcast=False)
    return _picked(x, index, place, keepdim)


def _ends_of_longest_runs(values: Array, order: Array, axis: int) -> Array:
    """Of what `order` sorts along `axis`: where the last element stands of the first of the longest runs of equal ones, with the axis kept
    at size 1.
    """
    order = np.moveaxis(order, axis, -1)
    ordered = np.take_along_axis(np.moveaxis(values, axis, -1), order, -1)
    count = order.shape[-1]
    number = np.arange(count)
    begins = np.concatenate([np.ones_like(ordered[..., :1], bool), ordered[..., 1:] != ordered[..., :-1]], -1)
    length = number - np.maximum.accumulate(np.where(begins, number, 0), -1)
    return np.ascontiguousarray(np.moveaxis(np.take_along_axis(order, length.argmax(-1)[..., None], -1), -1, axis))


def _picked(x: Tensor, index: Tensor, axis: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The elements of `x` at `index`, of size 1 along `axis`, and the index; without that axis unless `keepdim`."""
    found = take_along_axis(x, index, axis, broadcast=False)
    return (found, index) if keepdim else (squeeze(found, axis), squeeze(index, axis))


@provides
def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """The places of elements that are not zero: a row of coordinates each, or a tensor per axis."""
    recorder = dispatch.active_trace()
    if recorder is not None and not isinstance(tensor_arg(x, "nonzero")._held(), np.ndarray):
        found = dispatch.call(host.NonZero, x, count=recorder.fresh_size())
        return tuple(found[:, i] for i in range(x.ndim)) if as_tuple else found
    places = np.nonzero(np.atleast_1d(tensor_arg(x, "nonzero")._array("nonzero()")))
    if as_tuple:
        return tuple(dispatch.constant(p.astype(np.int64)) for p in places)
    return dispatch.constant(np.stack(places, 1).astype(np.int64) if x.ndim else np.zeros((len(places[0]), 0), np.int64))


def index_sample(x: Tensor, index: Tensor) -> Tensor:
    """From each row of a matrix the elements at the positions in the same row of `index`."""
    return take_along_axis(x, index, 1, broadcast=False)


def cumsum(x: Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Sums of all elements up to each one along `axis` (of the flattened tensor for None); of whole numbers and bools in int64."""
    tensor_arg(x, "cumsum")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    elif x.type.dtype.kind in "iub":
        x = cast_to(x, i64)
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    place = axis_of(axis, x.ndim, "cumsum")
    if x.ndim == 0:
        return clone(x)
    return dispatch.call(ops.Cumsum, x, axis=place)


cumsum_ = in_place(cumsum)
__all__ += ["cumsum_"]
METHODS += ["cumsum_"]
