"""Finding and ordering: argmax, sort, topk, nonzero, unique, running sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import host
from polyreme.dialects import nn as ops
from polyreme.dtypes import as_dtype
from polyreme.ir.core import Op
from polyreme.ir.types import i1, i32, i64
from polyreme.math.common import axis_of, cast_to, number_of, tensor_arg
from polyreme.math.elementwise import in_place
from polyreme.math.manipulation import reshape, take_along_axis
from polyreme.tensor import Tensor

__all__ = ["argmax", "argmin", "argsort", "cumsum", "index_sample", "nonzero", "sort", "topk", "unique"]
METHODS = list(__all__)


def _extreme(cls: type[Op], x: Tensor, axis: Any, keepdim: bool, dtype: Any, name: str) -> Tensor:
    tensor_arg(x, name)
    chosen = as_dtype(dtype)
    if chosen.name not in ("int32", "int64"):
        raise ValueError(f"{name} expected dtype int32 or int64 but got {chosen.name}")
    if axis is None:
        flat = dispatch.call(cls, reshape(x, [-1]), axis=0, keepdims=False, dtype=chosen.scalar)
        return reshape(flat, [1] * x.ndim) if keepdim else flat
    if x.ndim == 0:
        x = reshape(x, [1])
    return dispatch.call(cls, x, axis=axis_of(axis, x.ndim, name), keepdims=bool(keepdim), dtype=chosen.scalar)


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


def sort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = False, name: str | None = None) -> Tensor:
    """Sorted along `axis`."""
    return x if tensor_arg(x, "sort").ndim == 0 or 0 in x.shape else take_along_axis(x, argsort(x, axis, descending), axis, broadcast=False)


def topk(
    x: Tensor, k: Any, axis: int | None = None, largest: bool = True, sorted: bool = True, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) elements along `axis` (the last for None) in order, and their positions."""
    count = int(number_of(k))
    place = axis_of(-1 if axis is None else axis, tensor_arg(x, "topk").ndim, "topk")
    size = x.type.shape[place]
    if count < 1 or isinstance(size, int) and count > size:
        raise ValueError(f"topk expected k in [1, {size}] but got {count}")
    index = dispatch.call(ops.Argsort, x, axis=place, descending=bool(largest), count=count)
    return take_along_axis(x, index, place, broadcast=False), index


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
    """The distinct elements in order (also with `sorted=False`, which asks for no order), with what else is asked for."""
    found: Any = np.unique(
        x._array("unique()"), return_index=return_index, return_inverse=return_inverse, return_counts=return_counts, axis=axis
    )  # type: ignore[call-overload]
    if not isinstance(found, tuple):
        return dispatch.constant(found)
    chosen = as_dtype(dtype).np
    return dispatch.constant(found[0]), *[dispatch.constant(np.asarray(v).reshape(-1).astype(chosen)) for v in found[1:]]


def cumsum(x: Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Sums of all elements up to each one along `axis` (of the flattened tensor for None)."""
    tensor_arg(x, "cumsum")
    if dtype is not None:
        x = cast_to(x, as_dtype(dtype).scalar)
    elif x.type.dtype in (i1, i32):
        x = cast_to(x, i64)
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    place = axis_of(axis, x.ndim, "cumsum")
    if x.ndim == 0:
        return x
    return dispatch.call(ops.Cumsum, x, axis=place)


cumsum_ = in_place(cumsum)
__all__ += ["cumsum_"]
METHODS += ["cumsum_"]
