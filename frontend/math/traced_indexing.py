"""`x[key]` and `x[key] = value` while a program is built, for keys with tensors whose elements are not known yet, and for sizes that are
not.

A bool mask stands for the places where it holds, as many as there will be when the program runs. What is selected follows numpy's rules:
index tensors broadcast together, and their axes stand where the indexed axes stood, or in front where a slice is between these.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial, reduce
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.ir.diagnostics import InferError
from polyreme.ir.dims import Expr, product
from polyreme.ir.types import i1, i64
from polyreme.math.common import cast_to
from polyreme.math.fed import places as fed_places
from polyreme.math.fed import sizes as fed_sizes
from polyreme.math.manipulation import expand, gather_nd, reshape, stack, transpose
from polyreme.math.search import nonzero
from polyreme.provided import provided
from polyreme.tensor import Tensor

__all__ = ["has_unknown_bounds", "is_unknown", "replaced", "selected", "within_bounds"]

# No axis is as long.
MOST = 2**62


def is_unknown(items: list[Any]) -> bool:
    """Whether a key has tensors whose elements are not known."""
    return any(_is_unknown(item) for item in items) or has_unknown_bounds(items)


def _is_unknown(item: Any) -> bool:
    return isinstance(item, Tensor) and not isinstance(item._held(), np.ndarray)


def has_unknown_bounds(items: list[Any]) -> bool:
    """Whether slices of a key begin or end where tensors say whose elements are not known."""
    bounded = [item for item in items if isinstance(item, slice) and (_is_unknown(item.start) or _is_unknown(item.stop))]
    steps_known = all(item.step is None or isinstance(item.step, (int, np.integer)) and item.step != 0 for item in bounded)
    return bool(bounded) and steps_known and dispatch.active_trace() is not None


def within_bounds(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Any]]:
    """`x` cut by the slices of a key that tensors bound, and what is left of the key.

    How many elements there are is known when the program runs. Python would have a view: to write to one of both beside the other is
    refused.
    """
    part, left, axis = x, list(items), 0
    for i, item in enumerate(items):
        if isinstance(item, slice) and (_is_unknown(item.start) or _is_unknown(item.stop)):
            part, left[i] = _cut(part, axis, item), slice(None)
        axis += item is not None
    recorder = dispatch.active_trace()
    assert recorder is not None
    recorder.note_choice(part, [x])
    return part, left


def _cut(x: Tensor, axis: int, item: slice) -> Tensor:
    """The elements along an axis whose places lie in a slice, as Python counts them."""
    step = 1 if item.step is None else int(item.step)
    size = x.type.shape[axis]
    if step < 0:
        start, stop = (end if bound is None else bound for bound, end in ((item.start, size - 1), (item.stop, -MOST - 1)))
        return fed_places.stepped(x, axis, start, stop, step)

    def placed(bound: Any) -> Tensor:
        place = cast_to(bound, i64) if isinstance(bound, Tensor) else dispatch.full((), bound, i64)
        if isinstance(bound, (int, np.integer)) and bound >= 0:
            return place
        # From the end, and in front of the axis where it would be before that.
        behind = dispatch.call(ops.Add, place, dispatch.full((), size, i64))
        return dispatch.call(
            ops.Where,
            dispatch.call(ops.Less, place, dispatch.full((), 0, i64)),
            dispatch.call(ops.Maximum, behind, dispatch.full((), 0, i64)),
            place,
        )

    return fed_sizes.every(x, axis, placed(0 if item.start is None else item.start), None if item.stop is None else placed(item.stop), step)


def selected(x: Tensor, items: list[Any]) -> Tensor:
    """The part of `x` that a key with an item for each axis (masks stand for several), besides the Nones, selects."""
    slices, indices = _sorted(x, items)
    whole = provided.getitem(x, tuple(slices))
    if not indices:
        return whole
    places = list(indices)
    # What adding them up would give: sizes that are not known yet are found to be equal there.
    common = list(reduce(partial(dispatch.call, ops.Add), indices.values()).type.shape)
    rest = [i for i in range(whole.ndim) if i not in places]
    picked = gather_nd(transpose(whole, [*places, *rest]), stack([expand(index, common) for index in indices.values()], len(common)))
    first, last, rank = places[0], places[-1], len(common)
    if first == 0 or last - first + 1 != len(places):
        return picked
    return transpose(picked, [*range(rank, rank + first), *range(rank), *range(rank + first, picked.ndim)])


def replaced(x: Tensor, items: list[Any], value: Tensor) -> Tensor:
    """`x` with the part that a key selects, as for `selected`, replaced by `value`, which broadcasts to it."""
    if (mask := _only_mask(items)) is not None and value.ndim <= x.ndim - mask.ndim:
        shape = x.type.shape
        mask = _fitting(mask, x, 0)
        held = expand(reshape(mask, [*mask.type.shape, *[1] * (x.ndim - mask.ndim)]), shape)
        return dispatch.call(ops.Where, held, expand(value, shape), x)
    count = product(x.type.shape)
    numbered = dispatch.call(ops.Reshape, dispatch.call(ops.Iota, shape=(count,), axis=0, dtype=i64), shape=x.type.shape)
    positions = selected(numbered, items)
    extra = max(0, value.ndim - positions.ndim)
    updates = reshape(expand(reshape(value, value.type.shape[extra:]), positions.type.shape), [-1])
    flat = dispatch.call(ops.Reshape, x, shape=(count,))
    made = dispatch.call(ops.Scatter, flat, updates, reshape(positions, [-1]), axis=0)
    return dispatch.call(ops.Reshape, made, shape=x.type.shape)


def _only_mask(items: list[Any]) -> Tensor | None:
    """The mask of a key that begins with one and takes all of the other axes."""
    mask, *others = items
    everything = all(isinstance(item, slice) and item == slice(None) for item in others)
    return mask if everything and isinstance(mask, Tensor) and mask.type.dtype == i1 else None


def _sorted(x: Tensor, items: list[Any]) -> tuple[list[Any], dict[int, Tensor]]:
    """What slices `x`, and what is then read at places, by the axis that it stands at: of a mask the coordinates of where it holds, an
    index for each axis.
    """
    slices: list[Any] = []
    indices: dict[int, Tensor] = {}
    axis = 0  # of `x`
    for item in items:
        if item is None or isinstance(item, slice):
            slices.append(item)
            axis += item is not None
            continue
        if (switch := _switch(item)) is not None:
            indices[len(slices)] = switch
            slices.append(None)
            continue
        index = _tensor_of(item)
        found = list(nonzero(_fitting(index, x, axis), as_tuple=True)) if index.type.dtype == i1 else [cast_to(index, i64)]
        for coordinates in found:
            indices[len(slices)] = coordinates
            slices.append(slice(None))
        axis += len(found)
    return slices, indices


def _switch(item: Any) -> Tensor | None:
    """A mask without axes as an index into a new axis of size 1, of which it selects all or nothing; None for anything else."""
    if isinstance(item, Tensor):
        return nonzero(reshape(item, [1]), as_tuple=True)[0] if item.type.dtype == i1 and not item.ndim else None
    if isinstance(item, Expr) or np.ndim(item) or np.asarray(item).dtype != bool:
        return None
    return dispatch.constant(np.zeros(int(item), np.int64))


def _tensor_of(item: Any) -> Tensor:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, Expr):
        return dispatch.full((), item, i64)
    array = np.asarray(item)
    # Where a known mask holds is known, too.
    return Tensor._wrap(array) if array.dtype == bool else dispatch.constant(array.astype(np.int64))


def _fitting(mask: Tensor, x: Tensor, axis: int) -> Tensor:
    """The mask, which has the sizes of `x` from `axis` on; where these are not known yet they are found to be equal, if the recorder can do
    that.
    """
    for i, size in enumerate(mask.type.shape):
        wanted = x.type.shape[axis + i]
        if size == wanted:
            continue
        if not isinstance(size - wanted, int):
            if (recorder := dispatch.active_trace()) is None or not recorder.learns_sizes:
                continue
            with suppress(InferError):
                mask = dispatch.call(ops.Reshape, mask, shape=(*mask.type.shape[:i], wanted, *mask.type.shape[i + 1 :]))
                continue
        raise IndexError(
            f"expected a mask with {wanted} elements along axis {axis + i} of a tensor of shape {list(x.shape)} but got one of shape "
            f"{list(mask.shape)}"
        )
    return mask
