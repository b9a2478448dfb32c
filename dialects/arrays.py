"""Numpy meanings that the references of several dialects share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.ir.scalar import identity_of
from polyreme.ir.types import scalar_type

Array = np.ndarray[Any, Any]

REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def reduce_array(x: Array, fn: str, axes: tuple[int, ...], keepdims: bool) -> Array:
    """All elements along `axes` combined by one of `REDUCTIONS`; sums and products of floats accumulate in float64."""
    wide = x.dtype if fn not in ("add", "mul") or x.dtype.kind in "iubc" else np.float64
    with np.errstate(all="ignore"):
        result = REDUCTIONS[fn].reduce(x, axis=axes, keepdims=keepdims, dtype=wide, initial=identity_of(fn, scalar_type(x.dtype)))
        return np.asarray(result, dtype=x.dtype)  # which may be too narrow for it: then it is infinite


def cumulate_array(x: Array, fn: str, axis: int) -> Array:
    """Each element combined with all before it along `axis` by one of `REDUCTIONS`; sums and products of floats accumulate in float64."""
    wide = x.dtype if fn not in ("add", "mul") or x.dtype.kind in "iubc" else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(REDUCTIONS[fn].accumulate(x.astype(wide, copy=False), axis=axis), dtype=x.dtype)


def order_array(x: Array, axis: int, descending: bool) -> Array:
    """The positions that sort along `axis`, int64: the first of equals first, nan as the largest of all."""
    if x.dtype.kind == "V":
        # Floats that numpy does not know.
        x = x.astype(np.float32)
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # Equal elements keep their order: the reversed array is sorted and the result reversed.
    turned = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(turned, axis)


def window_view(x: Array, axes: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """A read-only view of `x` whose `axes` are window positions, with the windows' own axes appended in the order of `axes`."""
    shape, steps = list(x.shape), list(x.strides)
    for axis, size, stride, dilation in zip(axes, sizes, strides, dilations, strict=True):
        shape.append(size)
        steps.append(x.strides[axis] * dilation)
        shape[axis] = max((x.shape[axis] - (size - 1) * dilation - 1) // stride + 1, 0)
        steps[axis] = x.strides[axis] * stride
    return np.lib.stride_tricks.as_strided(x, shape, steps, writeable=False)


def fold_array(w: Array, axes: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """The adjoint of `window_view`: windows (the last axes of `w`) added up where they overlap, into `sizes` elements along `axes`."""
    rank = w.ndim - len(axes)
    shape = list(w.shape[:rank])
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    total = np.zeros(shape, np.float32 if w.dtype.kind == "V" or w.dtype == np.float16 else w.dtype)
    for offsets in itertools.product(*map(range, w.shape[rank:])):
        place = [slice(None)] * rank
        for axis, offset, step, gap in zip(axes, offsets, strides, dilations, strict=True):
            first = offset * gap
            place[axis] = slice(first, first + max((w.shape[axis] - 1) * step + 1, 0), step)
        index: Any = (..., *offsets)
        with np.errstate(all="ignore"):
            total[tuple(place)] += w[index]
    return total.astype(w.dtype, copy=False)


def pad_array(x: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int], value: Any) -> Array:
    """`x` among `value`s; see `padded_size`."""
    shape = [low[i] + n + max(n - 1, 0) * interior[i] + high[i] for i, n in enumerate(x.shape)]
    result = np.full(shape, value, x.dtype)
    places = tuple(slice(lo, lo + max((n - 1) * (step + 1) + 1, 0), step + 1) for lo, n, step in zip(low, x.shape, interior, strict=True))
    result[places] = x
    return result


def take(x: Array, index: Array, axis: int) -> Array:
    """Elements along `axis` by position; negative positions count from the end, those outside are moved to the nearest end."""
    return np.take(x, gather_positions(index, x.shape[axis]), axis=axis)


def scatter_array(x: Array, index: Array, updates: Array, axis: int, fn: str) -> Array:
    """`x` with `updates` written ("set") or added ("add") along `axis` at the positions that `take` reads, one after the other in the order
    of `index`.

    16-bit floats add up in float32.
    """
    positions = gather_positions(index, x.shape[axis]).reshape(-1)
    narrow = fn == "add" and (x.dtype.kind == "V" or x.dtype == np.float16)
    result = np.moveaxis(x, axis, 0).astype(np.float32 if narrow else x.dtype)
    rows = np.moveaxis(updates.reshape(*updates.shape[:axis], index.size, *updates.shape[axis + index.ndim :]), axis, 0)
    if fn == "add":
        np.add.at(result, positions, rows.astype(result.dtype, copy=False))
    else:
        result[positions] = rows
    return np.ascontiguousarray(np.moveaxis(result, 0, axis)).astype(x.dtype, copy=False)


def gather_positions(index: Array, size: int) -> Array:
    """Positions in [0, size) that `index` means: negative ones count from the end, those outside are moved to the nearest end."""
    index = index.astype(np.int64)
    return np.clip(np.where(index < 0, index + size, index), 0, max(size - 1, 0))


def widened(x: Array) -> Array:
    """16-bit floats as float32, in which everything is computed before results are rounded."""
    return x.astype(np.float64 if x.dtype == np.float64 else np.float32, copy=False)
