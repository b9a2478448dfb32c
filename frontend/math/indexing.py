"""`x[key]` and `x[key] = value`, basic and advanced.

Basic keys (numbers, slices, None, `...`) become slice ops and work with symbolic sizes. One integer index among slices becomes a gather.
Any other key is turned into the flat positions it selects, by asking numpy, and those are gathered; where their elements are not known, or
sizes are not, see `traced_indexing.py`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from polyreme import dispatch, tape
from polyreme.casting.operators import apart
from polyreme.dialects import nn as ops
from polyreme.grad_mode import MANNER
from polyreme.ir.diagnostics import is_users_frame
from polyreme.ir.dims import Dim, Expr, asked_less, known_nonnegative, maximum, minimum, product
from polyreme.math.common import cast_to, check_within
from polyreme.math.creation import to_tensor
from polyreme.math.elementwise import refuse_leaf
from polyreme.math.traced_indexing import has_unknown_bounds, is_unknown, replaced, selected, within_bounds
from polyreme.provided import provides
from polyreme.runtime.gpu.arrays import fetched
from polyreme.tensor import Tensor
from polyreme.views import Step

Array = np.ndarray[Any, Any]
END = 2**31 - 1  # what programs write for an end that is not given, and its negative for one in front of the first element
LIMIT = 32  # bounds of parts that are there whatever the size of an axis, such as the first or the last two, are nearer to its end


@provides
def getitem(x: Tensor, key: Any) -> Tensor:
    """The part of `x` that `key` selects. In the manner of Paddle 1 a part of one element has the shape [1] where a user's line asks."""
    found = _part(x, key)
    if MANNER.paddle_1 and found.ndim == 0 and x.ndim and is_users_frame(sys._getframe(1)):
        return dispatch.call(ops.Reshape, found, shape=(1,))
    return found


def _part(x: Tensor, key: Any) -> Tensor:
    items = _expand_ellipsis(key if isinstance(key, tuple) else (key,), x)
    if has_unknown_bounds(items):
        x, items = within_bounds(x, items)
    if all(_is_basic(i) for i in items):
        return _basic(x, items, shares=True)
    if all(_is_basic(i) or _is_place(i) for i in items):
        return _at_places(x, items)
    lone = _lone_index(items)
    if lone is not None:
        axis, index = lone
        items[axis] = slice(None)
        part = x if all(isinstance(i, slice) and i == slice(None) for i in items) else _basic(x, items)
        index = _within(index, part.type.shape[axis], axis)
        return dispatch.call(ops.Gather, part, index if isinstance(index, Tensor) else dispatch.constant(index), axis=axis)
    if is_unknown(items) or not x.type.is_static or _has_free_sizes(items):
        return selected(x, items)
    positions = _positions(x, items)
    flat = dispatch.call(ops.Reshape, x, shape=(product(x.type.shape),))
    return dispatch.call(ops.Gather, flat, dispatch.constant(positions), axis=0)


@apart
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """Give the part of `x` that `key` selects the values of `value`, which broadcast to it."""
    items = _expand_ellipsis(key if isinstance(key, tuple) else (key,), x)
    if not isinstance(value, Tensor):
        value = to_tensor(value, dtype=x.dtype)
    value = cast_to(value, x.type.dtype)
    recorded = tape.is_grad_enabled() and not (x.stop_gradient and value.stop_gradient)
    if dispatch.recorder() is None and not recorded:
        array = x._array("an assignment to a part").copy()
        _assign_array(array, items, fetched(value._value))
        dispatch.assign(x, Tensor._wrap(array))
        return
    refuse_leaf(x)
    before = dispatch.alias(x)
    if is_unknown(items) or not x.type.is_static or _has_free_sizes(items):
        dispatch.assign(x, replaced(before, items, value))
        return
    positions = _positions(x, items)
    _check_fits(tuple(value.shape), positions.shape)
    # Where each element of the result comes from: its old self, or an element of the value spread over the selection.
    source = np.full(x.size, -1, np.int64)
    source[positions.ravel()] = np.arange(positions.size)
    spread = dispatch.call(
        ops.Reshape, dispatch.call(ops.BroadcastTo, _drop_ones(value, positions.ndim), shape=positions.shape), shape=(positions.size,)
    )
    if positions.size:
        picked = dispatch.call(ops.Gather, spread, dispatch.constant(np.maximum(source, 0).reshape(x.shape)), axis=0)
        dispatch.assign(x, dispatch.call(ops.Where, dispatch.constant((source >= 0).reshape(x.shape)), picked, before))


def _assign_array(array: Array, items: list[Any], value: Array) -> None:
    key = tuple(_numpy_item(i) for i in items)
    try:
        array[key] = value
    except (ValueError, TypeError):
        selection = array[key].shape
        _check_fits(value.shape, selection)
        if value.ndim <= len(selection):
            raise
        # Numpy takes no further axes of one element where the selection is an element or by a mask.
        array[key] = value.reshape(value.shape[value.ndim - len(selection) :])


def _check_fits(value: tuple[int, ...], selection: tuple[int, ...]) -> None:
    kept = value[max(0, len(value) - len(selection)) :]
    extra = value[: max(0, len(value) - len(selection))]
    if any(n != 1 for n in extra) or any(n not in (1, m) for n, m in zip(reversed(kept), reversed(selection), strict=False)):
        raise ValueError(f"expected values that broadcast to the shape {list(selection)} of the selected part but got shape {list(value)}")


def _drop_ones(value: Tensor, rank: int) -> Tensor:
    shape = value.type.shape
    return value if len(shape) <= rank else dispatch.call(ops.Reshape, value, shape=shape[len(shape) - rank :])


def _is_basic(item: Any) -> bool:
    if item is None or isinstance(item, (slice, Expr)):
        return True
    if isinstance(item, Tensor):
        return item.ndim == 0 and item.type.dtype.kind in "iu" and isinstance(item._value, np.ndarray)
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _is_place(item: Any) -> bool:
    """Whether it is a number that is not known while a program is built."""
    return isinstance(item, Tensor) and item.ndim == 0 and item.type.dtype.kind in "iu"


def _at_places(x: Tensor, items: list[Any]) -> Tensor:
    """As `_basic`, of a key with numbers that are not known yet."""
    known = [slice(None) if not _is_basic(i) else i for i in items]
    if any(not isinstance(i, slice) or i != slice(None) for i in known):
        x = _basic(x, known, shares=True)
    axis = named = 0  # of what is left of `x`, and as who made the key counts them
    for item in items:
        if not _is_basic(item):
            item = check_within(item, x.type.shape[axis], partial(_one_beyond, named), by_op=True)
            x = dispatch.view(ops.Gather, x, item, axis=axis)
        elif item is None or isinstance(item, slice):
            axis += 1
        named += item is not None
    return x


def _has_free_sizes(items: list[Any]) -> bool:
    """Whether sizes that are not known say what a key selects."""
    bounds = (b for i in items for b in ((i.start, i.stop, i.step) if isinstance(i, slice) else (i,)))
    return any(isinstance(bound, Expr) for bound in bounds)


def _axes_taken(item: Any) -> int:
    """How many axes of the tensor an item of the key stands for."""
    if item is None or isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Tensor):
        return max(item.ndim, 0) if item.type.dtype.kind == "b" else 1
    if isinstance(item, (list, np.ndarray)):
        array = np.asarray(item)
        return array.ndim if array.dtype == bool else 1
    return 1


def _expand_ellipsis(key: tuple[Any, ...], x: Tensor) -> list[Any]:
    """The key with one item per axis, besides the Nones; wrong items are a `ValueError`, too many of them an `IndexError`."""
    for item in key:
        known = (
            item is None
            or item is Ellipsis
            or isinstance(item, (int, np.integer, np.bool_, slice, Tensor, list, np.ndarray, Expr, tuple, range))
        )
        if not known:
            raise ValueError(f"expected numbers, slices, None, ..., lists or tensors as an index but got {type(item).__name__}")
    key = tuple(_with_sizes(item) for item in key)
    items = [list(i) if isinstance(i, (tuple, range)) else i for i in key]
    items = [np.asarray([v.item() if isinstance(v, Tensor) else v for v in i]) if isinstance(i, list) else i for i in items]
    items = [i.astype(np.int64) if isinstance(i, np.ndarray) and i.size == 0 and i.dtype.kind == "f" else i for i in items]
    taken = sum(_axes_taken(i) for i in items if i is not Ellipsis)
    missing = x.ndim - taken
    if missing < 0:
        raise IndexError(f"Too many indices ({taken}) for tensor of dimension {x.ndim}")
    dots = [n for n, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise ValueError("expected at most one ... in an index")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * missing, *items[at + 1 :]]


def _with_sizes(item: Any) -> Any:
    """An item of a key with the sizes that tensors in it are known to be, while a function is traced: `x[: paddle.shape(y)[0]]`."""
    if isinstance(item, slice):
        return slice(*map(_with_sizes, (item.start, item.stop, item.step)))
    if isinstance(item, Tensor) and not item.ndim and item.type.dtype.kind in "iu" and not isinstance(item._value, np.ndarray):
        known = item._known()
        return item if known is None else known.item()
    return item


def _lone_index(items: list[Any]) -> tuple[int, Any] | None:
    """The place and the positions, when the key is one integer index of any shape among slices and Nones (which make one axis each)."""
    found = None
    for axis, item in enumerate(items):
        if item is None or isinstance(item, slice):
            continue
        is_index = (isinstance(item, Tensor) and item.type.dtype.kind in "iu") or (isinstance(item, np.ndarray) and item.dtype.kind in "iu")
        if found is not None or not is_index:
            return None
        found = axis, item.astype(np.int64) if isinstance(item, np.ndarray) else item
    return found


def _within(index: Any, size: Dim, axis: int) -> Any:
    return check_within(
        index,
        size,
        lambda low, high, size: IndexError(
            f"expected positions in [{-size}, {size}) along axis {axis} but got values from {low} to {high}"
        ),
    )


def _one_beyond(axis: int, low: int, high: int, size: int) -> IndexError:
    return _beyond(low if low < -size else high, size, axis)


def _beyond(place: int, size: int, axis: int) -> IndexError:
    return IndexError(
        f"The starting index {place} of slice is out of bounds in tensor {axis}-th axis, it should be in the range of [{-size}, {size})"
    )


def _basic(x: Tensor, items: list[Any], shares: bool = False) -> Tensor:
    """The part that numbers, slices and Nones select: a view of `x` if it `shares` the contents."""
    starts: list[Dim] = []
    stops: list[Dim] = []
    strides: list[Dim] = []
    flipped: list[int] = []
    later: dict[int, int] = {}  # steps by axis
    kept: list[int | None] = []  # the axes of the slice that stay, None for a new one
    axis = 0
    for item in items:
        if item is None:
            kept.append(None)
            continue
        size = x.type.shape[axis]
        if isinstance(item, slice):
            lo, hi, step = _bounds(item, size)
            if step < 0:
                flipped.append(axis)
                if isinstance(lo, int) and isinstance(hi, int):
                    count = len(range(lo, hi, step))
                    lo, hi, step = (lo + (count - 1) * step, lo + 1, -step) if count else (0, 0, 1)
                else:
                    # All that it passes, of which those that it takes are counted from the front once it is turned round.
                    later[axis] = -step
                    lo, hi, step = 0 if hi == -1 else minimum(lo, hi) + 1, lo + 1, 1
            elif isinstance(lo, int) and isinstance(hi, int):
                hi = max(lo, hi)  # an empty slice
            kept.append(axis)
        else:
            place: Dim = item if isinstance(item, Expr) else int(item)
            if isinstance(size, int) and isinstance(place, int) and not -size <= place < size:
                raise _beyond(place, size, axis)
            lo = place + size if counts_from_end(place) else place
            hi, step = lo + 1, 1
        starts.append(lo)
        stops.append(hi)
        strides.append(step)
        axis += 1
    whole = all(isinstance(i, slice) and i == slice(None) for i in items if i is not None)
    steps: list[Step] = []
    result = x
    if axis and not whole:
        steps.append((ops.Slice, (), {"starts": tuple(starts), "stops": tuple(stops), "strides": tuple(strides)}))
        result = dispatch.call(ops.Slice, x, **steps[0][2])
    if flipped:
        steps.append((ops.Flip, (), {"axes": tuple(flipped)}))
        result = dispatch.call(ops.Flip, result, axes=tuple(flipped))
    if any(step != 1 for step in later.values()):
        front, sizes = (0,) * axis, result.type.shape
        by = tuple(later.get(a, 1) for a in range(axis))
        steps.append((ops.Slice, (), {"starts": front, "stops": sizes, "strides": by}))
        result = dispatch.call(ops.Slice, result, starts=front, stops=sizes, strides=by)
    shape = tuple(1 if a is None else result.type.shape[a] for a in kept)
    if shape != result.type.shape or result is x:
        steps.append((ops.Reshape, (), {"shape": shape}))
        result = dispatch.call(ops.Reshape, result, shape=shape)
    return dispatch.view_by_steps(x, result, tuple(steps)) if shares else result


def _bounds(item: slice, size: Dim) -> tuple[Any, Any, int]:
    lo, hi, step = (v.item() if isinstance(v, Tensor) else v for v in (item.start, item.stop, item.step))
    step = 1 if step is None else int(step)
    if step == 0:
        raise ValueError("expected a slice step other than 0")
    if isinstance(size, int) and not isinstance(lo, Expr) and not isinstance(hi, Expr):
        return slice(lo, hi, step).indices(size)
    if step < 0:
        return size - 1 if lo is None else _placed_backwards(lo, size), -1 if hi is None else _placed_backwards(hi, size), step
    return *clamped(lo, hi, size), step


def counts_from_end(bound: Dim) -> bool:
    """Whether a bound of a slice, or a place, is negative, so that it counts from the end. Where nothing tells of a size whether it is, one
    that is never positive does (`-N`), and others do not; each call checks that it is so.
    """
    if (known := asked_less(bound, 0)) is not None:
        return known
    recorder = dispatch.active_trace()
    counts = known_nonnegative(-bound) and recorder is not None and recorder.learns_sizes
    if counts and recorder is not None:
        recorder.require(-bound - 1)
    return counts


def _placed_backwards(bound: Dim, size: Dim) -> Dim:
    """A bound of a slice that goes backwards along an axis whose size is not known, as Python has it."""
    if isinstance(bound, int) and not -END < bound < END:
        return -1 if bound < 0 else size - 1
    return maximum(bound + size, -1) if counts_from_end(bound) else minimum(bound, size - 1)


def clamped(lo: Dim | None, hi: Dim | None, size: Dim) -> tuple[Dim, Dim]:
    """Bounds inside of an axis whose size is not known, as Python has them: what the call that is traced for tells is so in its program,
    and what nothing tells each call checks.

    Numbers from `LIMIT` on, and others beside one, are limits of how much is taken, rather than parts that are always there: of a shorter
    axis all is taken.
    """
    numbers = [bound for bound in (lo, hi) if isinstance(bound, int) and abs(bound) < END]
    if len(numbers) == 2 and numbers[0] >= numbers[1] and (numbers[0] < 0) == (numbers[1] < 0):
        return 0, 0  # an empty slice
    are_limits = any(abs(bound) >= LIMIT for bound in numbers)

    def placed(bound: Dim) -> Dim:
        place = bound + size if counts_from_end(bound) else bound
        if below := asked_less(place, 0):
            return 0
        if beyond := asked_less(size, place):
            return size
        if are_limits and isinstance(bound, int) and (below is None or beyond is None):
            return maximum(place, 0) if bound < 0 else minimum(place, size)
        return place

    first: Dim = 0 if lo is None or isinstance(lo, int) and lo <= -END else placed(lo)
    last: Dim = size if hi is None or isinstance(hi, int) and hi >= END else placed(hi)
    if are_limits and len(numbers) == 2:
        return first, maximum(first, last)
    return first, first if asked_less(last, first) else last


def _numpy_item(item: Any) -> Any:
    if isinstance(item, Tensor):
        array = item._array("an index")
        return array if array.dtype == bool else array.astype(np.int64)
    return item


def _positions(x: Tensor, items: list[Any]) -> Array:
    """The flat positions that a key selects, in the shape of the selection."""
    numbered = np.arange(x.size).reshape(x.shape)
    try:
        return np.asarray(numbered[tuple(_numpy_item(i) for i in items)])
    except IndexError as error:
        raise IndexError(f"{error} (indexing a tensor of shape {list(x.shape)})") from None
