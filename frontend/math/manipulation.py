"""Views and rearrangements: reshape, transpose, join, split, pick, pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme import dispatch, views
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, Expr, UnknownSize, asked_equal, product
from polyreme.ir.types import TensorType, i1, i64
from polyreme.math.common import (
    axes_of,
    axis_of,
    cast_to,
    check_unique,
    check_within,
    common_shape,
    fitting_sizes,
    number_of,
    same_sizes,
    tensor_arg,
)
from polyreme.math.elementwise import in_place_view
from polyreme.math.fed.places import rolled
from polyreme.math.programs import recorded
from polyreme.provided import provides
from polyreme.tensor import Tensor, shape_dims

__all__ = [
    "broadcast_shape", "broadcast_tensors", "broadcast_to", "chunk", "concat", "crop", "expand", "expand_as", "flatten", "flip", "gather",
    "gather_nd", "index_select",
    "masked_select", "moveaxis", "rank", "repeat_interleave", "reshape", "reverse", "roll", "shape", "slice", "split", "squeeze", "stack",
    "strided_slice", "t",
    "take_along_axis", "tile", "transpose", "unbind", "unsqueeze", "unstack", "view",
]  # fmt: skip
METHODS = [n for n in __all__ if n not in ("broadcast_shape", "broadcast_tensors", "shape")]

_builtin_slice = slice


def reshape(x: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape: one size may be -1 (whatever is left), a size of 0 keeps that of `x`."""
    tensor_arg(x, "reshape")
    old = x.type.shape
    new: list[Dim] = list(shape_dims(shape))
    open_axes = [i for i, d in enumerate(new) if not isinstance(d, Expr) and d == -1]
    for i, d in enumerate(new):
        if isinstance(d, int) and d == 0 and product(old) != 0:
            if i >= len(old):
                raise ValueError(f"reshape expected a size of 0 only at the {len(old)} axes of the tensor but got shape {new}")
            new[i] = old[i]
        elif isinstance(d, int) and d < -1:
            raise ValueError(f"reshape expected sizes of -1 or more but got shape {new}")
    if len(open_axes) > 1:
        raise ValueError(f"reshape expected at most one size of -1 but got shape {new}")
    if open_axes:
        known = product(d for i, d in enumerate(new) if i != open_axes[0])
        size = product(old)
        if isinstance(known, int) and isinstance(size, int):
            fits = known != 0 and size % known == 0 or known == 0 and size == 0
            if not fits:
                raise ValueError(f"The 'shape' in ReshapeOp is invalid: the {size} elements of shape {list(old)} do not fill {new}")
            new[open_axes[0]] = size // known if known else 0
        else:
            new[open_axes[0]] = size // known
    elif isinstance(difference := product(new) - product(old), int) and difference:
        raise ValueError(
            "The 'shape' in ReshapeOp is invalid. The input tensor X'size must be equal to the capacity of 'shape'. "
            f"But received X's shape = {list(old)}, X's size = {product(old)}, 'shape' is {new}, the capacity of 'shape' is "
            f"{product(new)}."
        )
    return _reshaped(x, tuple(new))


def _reshaped(x: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    """A view in another shape; a copy where the elements of `x`, itself a view, do not lie so that it could be one, and, as in Paddle,
    where it has no axes.
    """
    if x.type.shape and (x._view is None or views.can_reshape(x, shape)):
        return dispatch.view(ops.Reshape, x, shape=shape)
    made = dispatch.call(ops.Reshape, x, shape=shape)
    recorder = dispatch.active_trace()
    if recorder is None or not recorder.learns_sizes or not x.type.shape:
        return made
    # Only now that the trace knows which sizes are multiples, or has each call check it, is it known how the elements lie.
    apart = views.gaps_to_reshape(x, made.type.shape)
    if apart is None:
        dispatch.note_copy(x, made, made.type.shape)
        return made
    for gap in apart:
        recorder.require(gap)
        recorder.require(-gap)
    return dispatch.view_by_steps(x, made, ((ops.Reshape, (), {"shape": made.type.shape}),), 1)


def view(x: Tensor, shape_or_dtype: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape, or the same bits as another dtype of equal width. A shape that only a copy could have is refused.
    """
    if isinstance(shape_or_dtype, (list, tuple)):
        made = reshape(x, shape_or_dtype)
        if made._view is None and x._view is not None:
            raise ValueError("The Tensor can not be viewed, please call reshape.")
        return made
    from polyreme.dtypes import as_dtype

    wanted = as_dtype(shape_or_dtype)
    if wanted.scalar.bytes != x.element_size():
        raise ValueError(f"view expected a dtype of {x.element_size()} bytes but got {wanted.name}")
    return dispatch.constant(x._array("view()").view(wanted.np))


@operator("flatten_contiguous_range")
def flatten(x: Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Tensor:
    """Axes `start_axis` to `stop_axis` joined into one."""
    tensor_arg(x, "flatten")
    if x.ndim == 0:
        return reshape(x, [1])
    first, last = axis_of(start_axis, x.ndim, "flatten"), axis_of(stop_axis, x.ndim, "flatten")
    if last < first:
        raise ValueError("The stop_axis should be greater than stat_axis")
    old = x.type.shape
    return _reshaped(x, (*old[:first], product(old[first : last + 1]), *old[last + 1 :]))


@operator("squeeze2")
def squeeze(x: Tensor, axis: Any = None, name: str | None = None) -> Tensor:
    """Without the axes of size 1: all of them, or those of `axis` that are."""
    tensor_arg(x, "squeeze")
    old = x.type.shape
    axes = range(len(old)) if axis is None else axes_of(axis, len(old), "squeeze")
    gone = {a for a in axes if a < len(old) and (old[a] == 1 or isinstance(old[a], Expr) and _is_one(old[a], axis is not None))}
    shape = tuple(d for i, d in enumerate(old) if i not in gone)
    if all(isinstance(old[i], int) for i in gone):
        return dispatch.view(ops.Reshape, x, shape=shape)
    made = dispatch.call(ops.Reshape, x, shape=shape)
    # Of an axis that each call checks to be 1 the view is its first element, where types do not say that there is no other.
    stops = tuple(1 if i in gone else d for i, d in enumerate(x.type.shape))
    first = {"starts": (0,) * len(stops), "stops": stops, "strides": (1,) * len(stops)}
    return dispatch.view_by_steps(x, made, ((ops.Slice, (), first), (ops.Reshape, (), {"shape": made.type.shape})), 1)


def _is_one(size: Dim, named: bool) -> bool:
    """Whether an axis of a free size goes. Where nothing tells whether it is 1, one that is named does, and others stay; each call checks
    that they are, or are not.
    """
    if (recorder := dispatch.active_trace()) is None or not recorder.learns_sizes:
        return False
    answer = asked_equal(size, 1)
    if answer is None and not named:
        recorder.require(size - 2)
    return named if answer is None else answer


@operator("unsqueeze2")
def unsqueeze(x: Tensor, axis: Any, name: str | None = None) -> Tensor:
    """With axes of size 1 put in, one after the other."""
    tensor_arg(x, "unsqueeze")
    given = (
        axis._array("unsqueeze()").ravel().tolist()
        if isinstance(axis, Tensor)
        else list(axis)
        if isinstance(axis, (list, tuple))
        else [axis]
    )
    shape = list(x.type.shape)
    for a in given:
        place = int(number_of(a))
        if not -len(shape) - 1 <= place <= len(shape):
            raise ValueError(f"unsqueeze expected axis in [{-len(shape) - 1}, {len(shape)}] but got {place}")
        shape.insert(place % (len(shape) + 1), 1)
    return dispatch.view(ops.Reshape, x, shape=tuple(shape))


def transpose(x: Tensor, perm: Sequence[int], *more: int, name: str | None = None) -> Tensor:
    """Axes in the order of `perm`."""
    tensor_arg(x, "transpose")
    order = [perm, *more] if isinstance(perm, int) else list(perm)
    if len(order) != x.ndim:
        raise ValueError(
            f"Input(perm) is the permutation of dimensions of Input(x), its length should be equal to dimensions of Input(x): {x.ndim}, "
            f"but got {len(order)}"
        )
    axes = tuple(axis_of(a, x.ndim, "transpose") for a in order)
    check_unique(axes, "transpose")
    return dispatch.view(ops.Transpose, x, perm=axes)


def t(input: Tensor, name: str | None = None) -> Tensor:
    """A matrix transposed; vectors and 0-D tensors as they are."""
    if input.ndim > 2:
        raise ValueError(
            f"Input(input) only support N-D (N<=2) tensor, but received length of Input(input) is {input.ndim}. Perhaps you can use "
            f"paddle.tensor.transpose() instead."
        )
    return input if input.ndim < 2 else transpose(input, [1, 0])


def moveaxis(x: Tensor, source: Any, destination: Any, name: str | None = None) -> Tensor:
    """Axes moved from `source` to `destination`, the others in order."""
    from_axes = [axis_of(a, x.ndim, "moveaxis") for a in (source if isinstance(source, (list, tuple)) else [source])]
    to_axes = [axis_of(a, x.ndim, "moveaxis") for a in (destination if isinstance(destination, (list, tuple)) else [destination])]
    if len(from_axes) != len(to_axes):
        raise ValueError(f"moveaxis expected as many destinations as sources but got {len(to_axes)} and {len(from_axes)}")
    check_unique(from_axes, "moveaxis")
    check_unique(to_axes, "moveaxis")
    order = [a for a in range(x.ndim) if a not in from_axes]
    for place, a in sorted(zip(to_axes, from_axes, strict=True)):
        order.insert(place, a)
    return transpose(x, order)


def broadcast_shape(x_shape: Sequence[Dim], y_shape: Sequence[Dim]) -> list[Any]:
    """The shape two shapes broadcast to."""
    if any(isinstance(d, Expr) for d in (*x_shape, *y_shape)):
        return common_shape(lambda: [x_shape, y_shape])
    return list(np.broadcast_shapes(tuple(x_shape), tuple(y_shape)))


def expand(x: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """Repeated along axes of size 1, with new axes in front where `shape` is longer; -1 keeps a size."""
    tensor_arg(x, "expand")
    new = list(shape_dims(shape))
    old = x.type.shape
    front = len(new) - len(old)
    if front < 0:
        raise ValueError(f"expand expected a shape of at least {len(old)} axes but got {new}")
    for i, d in enumerate(new):
        if isinstance(d, int) and d == -1:
            if i < front:
                raise ValueError(f"expand expected a size for the new axis {i} but got -1")
            new[i] = old[i - front]
    return dispatch.call(ops.BroadcastTo, x, shape=tuple(new))


broadcast_to = expand


def expand_as(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Repeated to the shape of `y`."""
    return expand(x, y.type.shape)


def broadcast_tensors(input: Sequence[Tensor], name: str | None = None) -> list[Tensor]:
    """All repeated to their common shape."""
    if all(tensor.type.is_static for tensor in input):
        shape: list[Dim] = list(np.broadcast_shapes(*(tensor.type.shape for tensor in input)))
    else:
        shape = common_shape(lambda: [tensor.type.shape for tensor in input])
    return [expand(tensor, shape) for tensor in input]


def tile(x: Tensor, repeat_times: Any, name: str | None = None) -> Tensor:
    """Copies laid side by side, `repeat_times` of them along each axis."""
    tensor_arg(x, "tile")
    times: list[Any] = list(shape_dims(repeat_times))
    old: list[Any] = [1] * (len(times) - x.ndim) + x.shape
    times = [1] * (len(old) - len(times)) + times
    apart = [d for pair in zip([1] * len(old), old, strict=True) for d in pair]
    wide = [d for pair in zip(times, old, strict=True) for d in pair]
    repeated = dispatch.call(ops.BroadcastTo, dispatch.call(ops.Reshape, x, shape=tuple(apart)), shape=tuple(wide))
    return dispatch.call(ops.Reshape, repeated, shape=tuple(n * d for n, d in zip(times, old, strict=True)))


def repeat_interleave(
    x: Tensor, repeats: Any, axis: int | None = None, name: str | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each slice along `axis` (of the flattened tensor for None) so many times; `output_size`, the size that comes of it, need not be told.
    """
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    place = axis_of(axis, x.ndim, "repeat_interleave")
    counts = repeats._array("repeat_interleave()") if isinstance(repeats, Tensor) else repeats
    index = np.repeat(np.arange(x.shape[place]), counts)
    if output_size is not None and len(index) != output_size:
        raise ValueError(
            f"repeat_interleave expected an output_size of {len(index)}, which is what the repeats add up to, but got {output_size}"
        )
    return dispatch.call(ops.Gather, x, dispatch.constant(index), axis=place)


# --- joining and splitting


def _same_dtype(tensors: Sequence[Tensor], function: str) -> list[Tensor]:
    for i, tensor in enumerate(tensors):
        tensor_arg(tensor, function, f"x[{i}]")
        if tensor.type.dtype != tensors[0].type.dtype:
            raise ValueError(
                f"The data_type of input tensor in list isn't consistent, the first tensor is {tensors[0].dtype.name}, but {i}th tensor is "
                f"{tensor.dtype.name}."
            )
    return list(tensors)


@operator("concat")
def concat(x: Sequence[Tensor], axis: Any = 0, name: str | None = None) -> Tensor:
    """Laid end to end along `axis`."""
    if isinstance(x, Tensor):
        x = [x]
    if not x:
        raise ValueError("concat expected at least one tensor but got none")
    tensors = _same_dtype(x, "concat")
    place = axis_of(axis, tensors[0].ndim, "concat")
    return dispatch.call(ops.Concat, tensors, axis=place)


@operator("stack")
@provides
def stack(x: Sequence[Tensor], axis: int = 0, name: str | None = None) -> Tensor:
    """Laid side by side along a new axis."""
    if not x:
        raise ValueError("stack expected at least one tensor but got none")
    tensors = _same_dtype(x, "stack")
    for other in tensors[1:]:
        if not fitting_sizes(tensors[0].type.shape, other.type.shape):
            raise ValueError(f"stack expected tensors of equal shape but got {list(tensors[0].shape)} and {list(other.shape)}")
    place = axis_of(axis, tensors[0].ndim + 1, "stack")
    return dispatch.call(ops.Concat, [unsqueeze(v, place) for v in tensors], axis=place)


@operator("split")
def split(x: Tensor, num_or_sections: Any, axis: Any = 0, name: str | None = None) -> list[Tensor]:
    """Into so many equal parts, or parts of the given sizes, of which one may be -1."""
    tensor_arg(x, "split")
    place = axis_of(axis, x.ndim, "split")
    size = x.type.shape[place]
    if isinstance(num_or_sections, (int, np.integer)):
        parts = int(num_or_sections)
        if parts <= 0 or (isinstance(size, int) and size % parts):
            raise ValueError(
                f"The input's size along the split dimension must be evenly divisible by Attr(num_or_sections). But {size} is not evenly "
                f"divisible by {parts}."
            )
        recorder = dispatch.active_trace()
        if isinstance(size, Expr) and recorder is not None and recorder.learns_sizes:
            if not same_sizes([size], [size // parts * parts]):
                raise UnknownSize(f"split expected a size that is a multiple of {parts} but got '{size}'", size, parts)
            size = x.type.shape[place]
        sections: list[Dim] = [size // parts] * parts
    else:
        sections = list(shape_dims(num_or_sections))
        open_parts = [i for i, n in enumerate(sections) if isinstance(n, int) and n < 0]
        if len(open_parts) > 1:
            raise ValueError(f"split expected at most one section of -1 but got {sections}")
        if open_parts:
            sections[open_parts[0]] = size - sum(n for i, n in enumerate(sections) if i != open_parts[0])
        if sum(sections) != size:
            raise ValueError(f"split expected sections that sum to the size {size} of axis {place} but got {sections}")
    parts_made, start = [], 0
    for n in sections:
        parts_made.append(span(x, place, start, start + n))
        start = start + n  # type: ignore[assignment]
    return parts_made


def chunk(x: Tensor, chunks: int, axis: Any = 0, name: str | None = None) -> list[Tensor]:
    """Into `chunks` equal parts."""
    return split(x, chunks, axis)


def span(x: Tensor, axis: int, start: Dim, stop: Dim) -> Tensor:
    """The part of `x` from `start` up to but without `stop` along `axis`, both from 0 to its size."""
    shape = x.type.shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(shape))
    return dispatch.call(ops.Slice, x, starts=starts, stops=stops, strides=(1,) * len(shape))


def unbind(input: Tensor, axis: int = 0) -> list[Tensor]:
    """The slices along `axis`, which is gone in them."""
    place = axis_of(axis, input.ndim, "unbind")
    everything = (_builtin_slice(None),) * place
    return [input[(*everything, i)] for i in range(input.shape[place])]


def unstack(x: Tensor, axis: int = 0, num: int | None = None) -> list[Tensor]:
    """As `unbind`; `num` must be the size of the axis when given."""
    place = axis_of(axis, x.ndim, "unstack")
    if num is not None and num != x.shape[place]:
        raise ValueError(f"unstack expected num to be the size {x.shape[place]} of axis {place} but got {num}")
    return [dispatch.call(ops.Reshape, part, shape=part.type.shape) for part in unbind(x, place)]


# --- picking


def slice(input: Tensor, axes: Sequence[int], starts: Any, ends: Any) -> Tensor:
    """`starts:ends` along each of `axes`, in Python's sense."""
    return strided_slice(input, axes, starts, ends, [1] * len(axes))


def strided_slice(x: Tensor, axes: Sequence[int], starts: Any, ends: Any, strides: Any, name: str | None = None) -> Tensor:
    """`starts:ends:strides` along each of `axes`, in Python's sense."""
    key: list[Any] = [_builtin_slice(None)] * x.ndim
    for a, lo, hi, step in zip(axes, _bounds(starts), _bounds(ends), shape_dims(strides), strict=True):
        key[axis_of(a, x.ndim, "slice")] = _builtin_slice(lo, hi, step)
    return x[tuple(key)]


def _bounds(places: Any) -> list[Any]:
    """Places as numbers, and as tensors where these have no values yet: what indexing does with them is its own to know."""
    if not isinstance(places, (list, tuple)):
        if not isinstance(places, Tensor) or isinstance(places._held(), np.ndarray):
            return list(shape_dims(places))
        places = [places[i] for i in range(places.type.elements)] if places.ndim else [places]
    unknown = lambda v: isinstance(v, Tensor) and not isinstance(v._held(), np.ndarray)
    return [reshape(v, []) if unknown(v) else shape_dims([v])[0] for v in places]


def crop(x: Tensor, shape: Any = None, offsets: Any = None, name: str | None = None) -> Tensor:
    """A box of `shape` (-1: as far as it goes) that starts at `offsets`."""
    starts = [0] * x.ndim if offsets is None else list(shape_dims(offsets))
    sizes = x.shape if shape is None else list(shape_dims(shape))
    stops = tuple(d if n == -1 else lo + n for lo, n, d in zip(starts, sizes, x.shape, strict=True))
    return dispatch.call(ops.Slice, x, starts=tuple(starts), stops=stops, strides=(1,) * x.ndim)


def flip(x: Tensor, axis: Any, name: str | None = None) -> Tensor:
    """The other way round along `axis`."""
    axes = axes_of(axis, x.ndim, "flip")
    return dispatch.call(ops.Flip, tensor_arg(x, "flip"), axes=axes)


reverse = flip


def roll(x: Tensor, shifts: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Moved on by `shifts` along `axis` (along the flattened tensor for None); what leaves at the end comes in at the start."""
    if axis is None:
        return reshape(roll(reshape(x, [-1]), shifts, 0), x.type.shape)
    by = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    for a, shift in zip(axes_of(axis, x.ndim, "roll"), by, strict=True):
        size, n = x.type.shape[a], number_of(shift)
        if isinstance(n, Expr):
            x = rolled(x, a, n)
            continue
        if isinstance(size, int):
            cut = (size - n) % size if size else 0
        else:
            cut = -n if n <= 0 else size - n  # a guard says that the size is at least n
        if not isinstance(cut, int) or cut:
            x = concat([span(x, a, cut, size), span(x, a, 0, cut)], a)
        else:
            x = dispatch.call(ops.Reshape, x, shape=x.type.shape)
    return x


def check_positions(index: Tensor, size: Any, function: str, by_op: bool = False) -> Tensor:
    """The positions, which must be within an axis of `size`; `by_op` as `check_within` has it."""
    made: Tensor = check_within(
        index,
        size,
        lambda low, high, size: IndexError(f"{function} expected positions in [{-size}, {size}) but got values from {low} to {high}"),
        by_op=by_op,
    )
    return made


def gather(x: Tensor, index: Tensor, axis: Any = None, name: str | None = None) -> Tensor:
    """The slices along `axis` (0 for None) at the positions of a 0-D or 1-D `index` (or a column), or of any shape, which then takes the
    place of the axis.
    """
    tensor_arg(x, "gather")
    tensor_arg(index, "gather", "index")
    place = 0 if axis is None else axis_of(axis, x.ndim, "gather")
    if index.type.dtype.kind not in "iu":
        raise TypeError(f"gather expected an integer index but got {index.dtype.name}")
    index = check_positions(index, x.type.shape[place], "gather", by_op=True)
    columns = index.type.shape[1] if index.ndim == 2 else 0
    if columns == 1 or isinstance(columns, Expr) and _is_one(columns, False):  # a column counts as a vector
        index = squeeze(index, 1)
    return dispatch.call(ops.Gather, x, index, axis=place)


def index_select(x: Tensor, index: Tensor, axis: int = 0, name: str | None = None) -> Tensor:
    """The slices along `axis` at the positions of a 1-D `index`."""
    if tensor_arg(index, "index_select", "index").ndim != 1:
        raise ValueError(f"index_select expected a 1-D index but got shape {list(index.shape)}")
    return gather(x, index, axis)


def flat_positions(index: Tensor, shape: Sequence[Dim], function: str) -> Tensor:
    """The places in a tensor of `shape`, its first axes joined, at the coordinates along the last axis of `index`; negative ones count from
    the end.
    """
    depth = index.shape[-1]
    place = dispatch.full(index.type.shape[:-1], 0, i64)
    for i in range(depth):
        along = index[..., i]
        along = check_positions(along, shape[i], function)
        wrapped = _from_the_start(along, shape[i])
        place = wrapped if i == 0 else dispatch.call(ops.Add, dispatch.call(ops.Mul, place, dispatch.full((), shape[i], i64)), wrapped)
    return place


def gather_nd(x: Tensor, index: Tensor, name: str | None = None) -> Tensor:
    """The slices at the coordinates along the last axis of `index`."""
    depth = index.shape[-1]
    if depth > x.ndim:
        raise ValueError(f"gather_nd expected at most {x.ndim} coordinates but got {depth}")
    made = TensorType((*index.type.shape[:-1], *x.type.shape[depth:]), x.type.dtype)
    if found := recorded("gather_nd", {"X": x, "Index": index}, {"Out": made}, {}):
        return found[0]
    flat = flat_positions(index, x.type.shape, "gather_nd")
    joined = dispatch.call(ops.Reshape, x, shape=(product(x.shape[:depth]), *x.shape[depth:]))
    return dispatch.call(ops.Gather, joined, flat, axis=0)


def _from_the_start(index: Tensor, size: Dim) -> Tensor:
    """Places in an axis of `size`, of which negative ones count from the end, in int64. (A remainder would be a division for each.)"""
    place = cast_to(index, i64)
    negative = dispatch.call(ops.Less, place, dispatch.full((), 0, i64))
    return dispatch.call(ops.Where, negative, dispatch.call(ops.Add, place, dispatch.full((), size, i64)), place)


def positions_along(indices: Tensor, shape: Sequence[Dim], axis: int) -> Tensor:
    """The places in a flattened tensor of `shape` that `indices` name along `axis`, the other coordinates being those of the element of
    `indices`.
    """

    def steps(along: Tensor, i: int) -> Tensor:
        step = product(shape[i + 1 :])
        return along if step == 1 else dispatch.call(ops.Mul, along, dispatch.full((), step, i64))

    # The steps of `axis` come before the other coordinates are added: they multiply its own one alone.
    place = steps(_from_the_start(indices, shape[axis]), axis)
    for i, size in enumerate(indices.type.shape):
        if i != axis:
            along = dispatch.call(ops.Iota, shape=tuple(size if k == i else 1 for k in range(len(shape))), axis=i, dtype=i64)
            place = dispatch.call(ops.Add, place, steps(along, i))
    return place


def take_along_axis(arr: Tensor, indices: Tensor, axis: int, broadcast: bool = True) -> Tensor:
    """Elements along `axis` at positions that differ from place to place."""
    place = axis_of(axis, arr.ndim, "take_along_axis")
    if broadcast:
        shape = common_shape(lambda: [[1 if i == place else d for i, d in enumerate(v.type.shape)] for v in (arr, indices)])
        indices = expand(indices, [indices.shape[place] if i == place else d for i, d in enumerate(shape)])
        arr = expand(arr, [arr.shape[place] if i == place else d for i, d in enumerate(shape)])
    made = TensorType(indices.type.shape, arr.type.dtype)
    if found := recorded("take_along_axis", {"Input": arr, "Index": indices}, {"Result": made}, {"Axis": place}):
        return found[0]
    indices = check_positions(indices, arr.type.shape[place], "take_along_axis")
    flat = positions_along(indices, arr.type.shape, place)
    return dispatch.call(ops.Gather, reshape(arr, [-1]), flat, axis=0)


def masked_select(x: Tensor, mask: Tensor, name: str | None = None) -> Tensor:
    """The elements where `mask` holds, as a vector."""
    if mask.type.dtype != i1:
        raise TypeError(f"masked_select expected a bool mask but got {mask.dtype.name}")
    if not isinstance(mask._held(), np.ndarray):
        both = common_shape(lambda: [x.type.shape, mask.type.shape])
        return reshape(expand(x, both), [-1])[reshape(expand(mask, both), [-1])]
    shape = broadcast_shape(x.shape, mask.shape)
    flat = reshape(expand(x, shape), [-1])
    places = np.flatnonzero(np.broadcast_to(mask._array("masked_select()"), shape))
    return dispatch.call(ops.Gather, flat, dispatch.constant(places), axis=0) if len(places) else span(flat, 0, 0, 0)


def shape(input: Tensor) -> Tensor:
    """The shape as an int64 tensor."""
    if input.type.is_static:
        return dispatch.constant(np.array(input.shape, np.int64))
    return stack([dispatch.full((), d, i64) for d in input.type.shape])


def rank(input: Tensor) -> Tensor:
    """The number of axes, as a 0-D int32 tensor."""
    return dispatch.constant(np.array(input.ndim, np.int32))


IN_PLACE = ["flatten", "reshape", "squeeze", "t", "transpose", "unsqueeze"]
for _name in IN_PLACE:
    globals()[_name + "_"] = in_place_view(globals()[_name])
__all__ += [n + "_" for n in IN_PLACE]
METHODS += [n + "_" for n in IN_PLACE]
