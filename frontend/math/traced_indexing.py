"""`x[key]` and `x[key] = value` while a program is built, for keys with tensors whose elements are not known yet, and for sizes that are not.

A bool mask stands for the places where it holds, as many as there will be when the program runs. What is selected follows numpy's rules: index tensors
broadcast together, and their axes stand where the indexed axes stood, or in front where a slice is between these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.dialects import nn as ops
from polyreme.dialects.shape_rules import broadcast_shapes
from polyreme.ir.dims import product
from polyreme.ir.types import i1, i64
from polyreme.math.common import cast_to
from polyreme.tensor import Tensor

__all__ = ["is_unknown", "replaced", "selected"]


def is_unknown(items: list[Any]) -> bool:
    """Whether a key has tensors whose elements are not known."""
    return any(isinstance(item, Tensor) and not isinstance(item._value, np.ndarray) for item in items)


def selected(x: Tensor, items: list[Any]) -> Tensor:
    """The part of `x` that a key with an item for each axis (masks stand for several), besides the Nones, selects."""
    from polyreme.math.indexing import getitem
    from polyreme.math.manipulation import expand, gather_nd, stack, transpose

    items = _without_masks(items)
    places = [i for i, item in enumerate(items) if not (item is None or isinstance(item, slice))]
    whole = getitem(x, tuple(slice(None) if i in places else item for i, item in enumerate(items)))
    if not places:
        return whole
    indices = [_index(items[i]) for i in places]
    common = list(broadcast_shapes([index.type.shape for index in indices]))
    rest = [i for i in range(whole.ndim) if i not in places]
    picked = gather_nd(transpose(whole, [*places, *rest]), stack([expand(index, common) for index in indices], len(common)))
    first, last, rank = places[0], places[-1], len(common)
    if first == 0 or last - first + 1 != len(places):
        return picked
    return transpose(picked, [*range(rank, rank + first), *range(rank), *range(rank + first, picked.ndim)])


def replaced(x: Tensor, items: list[Any], value: Tensor) -> Tensor:
    """`x` with the part that a key selects, as for `selected`, replaced by `value`, which broadcasts to it."""
    from polyreme.math.manipulation import expand, reshape

    if (mask := _only_mask(items)) is not None and value.ndim <= x.ndim - mask.ndim:
        shape = x.type.shape
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


def _without_masks(items: list[Any]) -> list[Any]:
    """The key with masks replaced by the coordinates of the places where they hold, an index for each axis."""
    from polyreme.math.search import nonzero

    found: list[Any] = []
    for item in items:
        array = np.asarray(item) if isinstance(item, (list, np.ndarray)) else None
        if array is not None and array.dtype == bool:
            item = dispatch.constant(array)
        found += nonzero(item, as_tuple=True) if isinstance(item, Tensor) and item.type.dtype == i1 else [item]
    return found


def _index(item: Any) -> Tensor:
    return cast_to(item, i64) if isinstance(item, Tensor) else dispatch.constant(np.asarray(item, np.int64))
