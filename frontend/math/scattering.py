"""Writing to places that tensors name: scatter and its relatives, and `multiplex`, which picks rows.

Where a place is named more than once, the last write wins and sums are added up in the order of the index: results do not depend on
threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Expr, UnknownSize, product
from polyreme.ir.types import f32, i64
from polyreme.math.common import axis_of, cast_to, check_within, same_sizes, tensor_arg
from polyreme.math.creation import zeros, zeros_like
from polyreme.math.elementwise import add, divide, floor_divide, in_place, maximum, minimum, multiply, scale
from polyreme.math.logic import greater_than
from polyreme.math.manipulation import check_positions, concat, expand, flat_positions, positions_along, reshape, stack
from polyreme.math.programs import recorded
from polyreme.tensor import Tensor

__all__ = ["index_add", "multiplex", "put_along_axis", "scatter", "scatter_nd", "scatter_nd_add"]
METHODS = list(__all__)


def _integers(index: Tensor, function: str, argument: str = "index") -> Tensor:
    if tensor_arg(index, function, argument).dtype.name not in ("int32", "int64"):
        raise TypeError(f"{function} expected {argument} of int32 or int64 but got {index.dtype.name}")
    return index


def _same_dtype(x: Tensor, updates: Tensor, function: str) -> None:
    if tensor_arg(x, function).type.dtype != tensor_arg(updates, function, "updates").type.dtype:
        raise TypeError(f"{function} expected x and updates of one dtype but got {x.dtype.name} and {updates.dtype.name}")


def gradient_of_rows(ids: Tensor, table: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of a table [height, width] whose rows at `ids` were read, out of the gradient [*ids, width] of what was read.

    It is as large as the table, and that of `padding_idx` is in it, too, as in Paddle. As rows: `tensor_kinds/selected_rows.py`.
    """
    height, *row = table.type.shape
    flat = dispatch.call(ops.Reshape, gradient, shape=(product(ids.type.shape), *row))
    positions = dispatch.call(ops.Reshape, ids, shape=(product(ids.type.shape),))
    made: Tensor = dispatch.call(ops.ScatterAdd, flat, positions, axis=0, size=height)
    return made


def rows_that_were_read(positions: Sequence[Tensor], table: Tensor) -> Tensor:
    """Whether each row of a table [rows, ...] is at one of the positions: bool [rows, 1, ...]."""
    places = [reshape(position, [-1]) for position in positions]
    place = places[0] if len(places) == 1 else concat([cast_to(p, i64) for p in places], 0)
    ones = dispatch.full(place.type.shape, 1, f32)
    counts = dispatch.call(ops.ScatterAdd, ones, place, axis=0, size=table.type.shape[0])
    return reshape(greater_than(counts, zeros_like(counts)), [-1] + [1] * (table.ndim - 1))


@operator("scatter")
def scatter(x: Tensor, index: Tensor, updates: Tensor, overwrite: bool = True, name: str | None = None) -> Tensor:
    """`x` with the rows at `index` replaced by those of `updates` (the last one wins), or set to the sum of them with `overwrite=False`."""
    tensor_arg(x, "scatter")
    _integers(index, "scatter")
    index = check_positions(index, x.type.shape[0], "scatter", by_op=True)
    rows = reshape(index, [-1])
    wanted = (*rows.type.shape, *x.type.shape[1:])
    if updates.ndim < x.ndim:
        updates = reshape(updates, list(wanted))
    if not rows.size if isinstance(rows.size, int) else False:
        return dispatch.call(ops.Reshape, x, shape=x.type.shape)
    if overwrite:
        return dispatch.call(ops.Scatter, x, updates, rows, axis=0)
    if made := recorded("scatter", {"X": x, "Ids": rows, "Updates": updates}, {"Out": x.type}, {"overwrite": False}):
        return made[0]
    nothing = dispatch.call(ops.Scatter, x, dispatch.full(wanted, 0, x.type.dtype), rows, axis=0)
    return add(nothing, dispatch.call(ops.ScatterAdd, updates, rows, axis=0, size=x.type.shape[0]))


@operator("scatter_nd_add")
def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor, name: str | None = None) -> Tensor:
    """`x` with `updates` added to the slices at the coordinates along the last axis of `index`.

    index [*batch, depth] and updates [*batch, *x.shape[depth:]]; negative coordinates count from the end.
    """
    _same_dtype(x, updates, "scatter_nd_add")
    _integers(index, "scatter_nd_add")
    shape, depth = x.type.shape, index.type.shape[-1]
    if index.size == 0:
        return add(x, updates)
    if isinstance(depth, Expr):
        raise UnknownSize(f"expected a known number of coordinates along the last axis of index but got the symbolic size '{depth}'", depth)
    if depth > x.ndim:
        raise ValueError(f"scatter_nd_add expected at most {x.ndim} coordinates along the last axis of index but got {depth}")
    wanted = (*index.type.shape[:-1], *shape[depth:])
    if len(wanted) != updates.ndim or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(wanted, updates.type.shape, strict=True)
    ):
        raise ValueError(
            f"scatter_nd_add expected updates of shape {list(wanted)} (index without its last axis, then the rest of x) but got "
            f"{list(updates.shape)}"
        )
    if made := recorded("scatter_nd_add", {"X": x, "Index": index, "Updates": updates}, {"Out": x.type}, {}):
        return made[0]
    flat = reshape(flat_positions(index, shape, "scatter_nd_add"), [-1])
    count, rest = product(shape[:depth]), product(shape[depth:])
    rows = dispatch.call(ops.Reshape, updates, shape=(*flat.type.shape, rest))
    total = dispatch.call(ops.ScatterAdd, rows, flat, axis=0, size=count)
    return add(x, dispatch.call(ops.Reshape, total, shape=shape))


def scatter_nd(index: Tensor, updates: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """Zeros of `shape` with `updates` added as `scatter_nd_add` does."""
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates)


@operator("index_add")
def index_add(x: Tensor, index: Tensor, axis: int, value: Tensor, alpha: Any = 1, name: str | None = None) -> Tensor:
    """`x` with the slices of `value`, times `alpha`, added to those at the positions of a 1-D `index` along `axis`."""
    _same_dtype(x, value, "index_add")
    place = axis_of(axis, x.ndim, "index_add")
    if _integers(index, "index_add").ndim != 1:
        raise ValueError(f"index_add expected a 1-D index but got shape {list(index.shape)}")
    index = check_positions(index, x.type.shape[place], "index_add", by_op=True)
    value = value if alpha == 1 else scale(value, alpha)
    if made := recorded("index_add", {"X": x, "Index": index, "AddValue": value}, {"Out": x.type}, {"axis": place}):
        return made[0]
    return add(x, dispatch.call(ops.ScatterAdd, value, index, axis=place, size=x.type.shape[place]))


@operator("put_along_axis")
def put_along_axis(
    arr: Tensor, indices: Tensor, values: Any, axis: int, reduce: str = "assign", include_self: bool = True, broadcast: bool = True
) -> Tensor:
    """`arr` with `values` brought in along `axis` at positions that differ from place to place.

    `reduce` says how: "assign", "add", "mul" or "multiply", "mean", "amin" or "amax", of what is written to a place and, with
    `include_self`, what stands there. With `broadcast`, indices and values are repeated to the shape of `arr` along all other axes.
    """
    if reduce not in ("assign", *_REDUCTIONS):
        raise ValueError(f"put_along_axis expected reduce 'assign', {', '.join(map(repr, _REDUCTIONS))} but got {reduce!r}")
    place = axis_of(axis, tensor_arg(arr, "put_along_axis").ndim, "put_along_axis")
    _integers(indices, "put_along_axis", "indices")
    if arr.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions!")
    if not isinstance(values, Tensor):
        values = dispatch.full((), values, arr.type.dtype)
    values = cast_to(values, arr.type.dtype)
    if broadcast:
        shape = list(np.broadcast_shapes(*[tuple(1 if i == place else d for i, d in enumerate(v.shape)) for v in (arr, indices)]))
        indices = expand(indices, [indices.shape[place] if i == place else d for i, d in enumerate(shape)])
    if values.ndim == 0 or broadcast:
        values = expand(values, indices.type.shape)
    elif values.ndim != arr.ndim:
        raise ValueError("`indices` and `values` must have the same number of dimensions!")
    elif values.shape != indices.shape:
        values = values[tuple(slice(0, n) for n in indices.shape)]
    if indices.size == 0:
        return dispatch.call(ops.Reshape, arr, shape=arr.type.shape)
    if reduce == "assign" or reduce == "add" and include_self:
        given = {"Input": arr, "Index": indices, "Value": values}
        how = {"Axis": place, "Reduce": reduce, "Include_self": bool(include_self)}
        if made := recorded("put_along_axis", given, {"Result": arr.type}, how):
            return made[0]
    indices = check_positions(indices, arr.shape[place], "put_along_axis")
    flat = reshape(positions_along(indices, arr.type.shape, place), [-1])
    whole, flat_values = reshape(arr, [-1]), reshape(values, [-1])
    if reduce != "assign" and (reduce != "add" or not include_self):
        return reshape(_brought_in(whole, flat_values, flat, reduce, include_self), arr.type.shape)
    if reduce == "add":
        return reshape(add(whole, dispatch.call(ops.ScatterAdd, flat_values, flat, axis=0, size=arr.size)), arr.type.shape)
    return reshape(dispatch.call(ops.Scatter, whole, flat_values, flat, axis=0), arr.type.shape)


_REDUCTIONS = {"add": add, "mul": multiply, "multiply": multiply, "mean": add, "amin": minimum, "amax": maximum}


def _brought_in(whole: Tensor, given: Tensor, flat: Tensor, reduce: str, include_self: bool) -> Tensor:
    """The vector `whole`, each of whose places `flat` is reduced with what is given for it: first the first of each place, then the second,
    and so on.
    """
    if not isinstance(flat._held(), np.ndarray) and reduce in ("amin", "amax", "mean"):
        return _together(whole, given, flat, reduce, include_self)
    places = flat._array(f"put_along_axis(reduce={reduce!r})")
    order = np.argsort(places, kind="stable")
    named, starts, counts = np.unique(places[order], return_index=True, return_counts=True)
    turns = np.empty(len(places), np.int64)
    turns[order] = np.arange(len(places)) - np.repeat(starts, counts)
    for turn in range(int(counts.max())):
        entries = np.flatnonzero(turns == turn)
        at = Tensor._wrap(places[entries])
        new = dispatch.call(ops.Gather, given, Tensor._wrap(entries), axis=0)
        if turn or include_self:
            new = _REDUCTIONS[reduce](dispatch.call(ops.Gather, whole, at, axis=0), new)
        whole = dispatch.call(ops.Scatter, whole, new, at, axis=0)
    if reduce == "mean":
        at, parts = Tensor._wrap(named), Tensor._wrap((counts + include_self).astype(whole.type.dtype.np))
        quotient = divide if whole.is_floating_point() else floor_divide
        whole = dispatch.call(ops.Scatter, whole, quotient(dispatch.call(ops.Gather, whole, at, axis=0), parts), at, axis=0)
    return whole


def _together(whole: Tensor, given: Tensor, flat: Tensor, reduce: str, include_self: bool) -> Tensor:
    """As `_brought_in`, of places that only a run tells: sums as one, and extremes as what is written last in the order of size."""
    count = whole.type.shape[0]
    ones = dispatch.call(ops.BroadcastTo, dispatch.full((), 1, i64), shape=flat.type.shape)
    parts = dispatch.call(ops.ScatterAdd, ones, flat, axis=0, size=count)
    named = dispatch.call(ops.Greater, parts, dispatch.full((), 0, i64))
    if reduce == "mean":
        summed = dispatch.call(ops.ScatterAdd, given, flat, axis=0, size=count)
        if include_self:
            summed, parts = add(summed, whole), add(parts, dispatch.full((), 1, i64))
        quotient = divide if whole.is_floating_point() else floor_divide
        mean = quotient(summed, cast_to(maximum(parts, dispatch.full((), 1, i64)), whole.type.dtype))
        return dispatch.call(ops.Where, named, mean, whole)
    order = dispatch.call(ops.Argsort, given, axis=0, descending=reduce == "amin")
    rows, places = (dispatch.call(ops.Gather, v, order, axis=0) for v in (given, flat))
    extreme: Tensor = dispatch.call(ops.Scatter, whole, rows, places, axis=0)
    return dispatch.call(ops.Where, named, _REDUCTIONS[reduce](extreme, whole), whole) if include_self else extreme


@operator("multiplex")
def multiplex(inputs: Sequence[Tensor], index: Tensor, name: str | None = None) -> Tensor:
    """Row i of the result is row i of the tensor whose number stands in row i of `index`, which is [rows, 1]."""
    tensors = list(inputs)
    if len(tensors) < 2:
        raise ValueError(f"multiplex expected at least 2 tensors to choose from but got {len(tensors)}")
    _integers(index, "multiplex")
    if index.ndim != 2 or not same_sizes(index.type.shape[1:], [1]):
        raise RuntimeError(f"multiplex expected an index of shape [rows, 1] but got {list(index.shape)}")
    if any(not same_sizes(tensors[0].type.shape, t.type.shape) or t.ndim < 2 for t in tensors):
        raise ValueError(
            f"multiplex expected tensors of one shape and of at least 2 axes but got {', '.join(str(list(t.shape)) for t in tensors)}"
        )
    index = check_within(
        index,
        len(tensors),
        lambda low, high, size: RuntimeError(f"multiplex expected numbers of tensors in [0, {size}) but got {low} to {high}"),
        wraps=False,
    )
    together, rows = stack(tensors, 0), tensors[0].type.shape[0]
    flat = dispatch.call(ops.Reshape, together, shape=(len(tensors) * rows, *tensors[0].type.shape[1:]))
    chosen = dispatch.call(ops.Mul, cast_to(reshape(index, [-1]), i64), dispatch.full((), rows, i64))
    own = dispatch.call(ops.Iota, shape=chosen.type.shape, axis=0, dtype=i64)
    return dispatch.call(ops.Gather, flat, dispatch.call(ops.Add, chosen, own), axis=0)


IN_PLACE = ["index_add", "put_along_axis", "scatter"]
for _name in IN_PLACE:
    globals()[_name + "_"] = in_place(globals()[_name])
__all__ += [n + "_" for n in IN_PLACE]
METHODS += [n + "_" for n in IN_PLACE]
