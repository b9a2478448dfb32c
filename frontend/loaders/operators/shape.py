"""Moving elements: shapes, joining, splitting, slicing, gathering, padding."""

from __future__ import annotations

import builtins
from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import ScalarType
from polyreme.loaders.errors import OperatorError, check_count
from polyreme.loaders.meaning import Number, Sizes, meaning
from polyreme.loaders.operators.activation import channel_axis
from polyreme.loaders.operators.create import assign_value
from polyreme.math.common import axis_of, cast_to, common_shape
from polyreme.math.traced_indexing import replaced
from polyreme.nn import functional
from polyreme.tensor import Tensor

END = 2**31 - 1
# What a file may ask for where each one costs us work or memory while the model loads.
MOST_PARTS = 4096
MOST_INDICES = 1 << 24


def _axis(axis: Any, x: Tensor) -> int:
    return axis_of(int(axis), x.ndim, "the operator")


@meaning("reshape", "view_shape")
def reshape(x: Tensor, shape: Sizes) -> Tensor:
    return math.reshape(x, shape)


@meaning()
def flatten(x: Tensor, *, start_axis: int = 1, stop_axis: int = 1) -> Tensor:
    return math.flatten(x, start_axis, stop_axis)


@meaning()
def flatten_to_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Two axes: those before `axis` joined, and the others joined."""
    shape = x.type.shape
    return math.reshape(x, [product(shape[:axis]), product(shape[axis:])])


@meaning()
def squeeze(x: Tensor, axis: Sizes = ()) -> Tensor:
    return math.squeeze(x, list(axis) or None)


@meaning()
def unsqueeze(x: Tensor, axis: Sizes) -> Tensor:
    return math.unsqueeze(x, axis)


@meaning()
def transpose(x: Tensor, *, perm: Sizes) -> Tensor:
    return math.transpose(x, [int(p) for p in perm])


@meaning()
def expand(x: Tensor, shape: Sizes) -> Tensor:
    return math.expand(x, shape)


@meaning()
def expand_as(x: Tensor, y: Tensor | None = None, *, target_shape: Sizes = ()) -> Tensor:
    return math.expand(x, list(y.type.shape) if y is not None else target_shape)


@meaning()
def broadcast_tensors(input: list[Tensor]) -> tuple[list[Tensor]]:
    shape = common_shape(lambda: [v.type.shape for v in input])
    return ([math.expand(v, shape) for v in input],)


@meaning()
def tile(x: Tensor, repeat_times: Sizes) -> Tensor:
    return math.tile(x, repeat_times)


@meaning()
def repeat_interleave(x: Tensor, *, repeats: int, axis: int, output_size: int = -1) -> Tensor:
    place = _axis(axis, x)
    shape = x.type.shape
    wide = math.expand(math.unsqueeze(x, place + 1), [*shape[: place + 1], repeats, *shape[place + 1 :]])
    return math.reshape(wide, [*shape[:place], shape[place] * repeats, *shape[place + 1 :]])


@meaning()
def concat(x: list[Tensor], axis: Number = 0) -> Tensor:
    return math.concat(x, int(axis))


@meaning()
def stack(x: list[Tensor], *, axis: int = 0) -> Tensor:
    return math.stack(x, axis)


@meaning()
def split(x: Tensor, sections: Sizes = (), axis: Number = 0, *, num: int = 0) -> tuple[list[Tensor]]:
    check_count(num, MOST_PARTS, "parts")
    return (math.split(x, list(sections) or num, int(axis)),)


@meaning()
def split_with_num(x: Tensor, axis: Number = 0, *, num: int) -> tuple[list[Tensor]]:
    check_count(num, MOST_PARTS, "parts")
    return (math.split(x, num, int(axis)),)


@meaning()
def unbind(input: Tensor, *, axis: int = 0) -> tuple[list[Tensor]]:
    check_count(input.type.shape[_axis(axis, input)], MOST_PARTS, "parts")
    return (math.unbind(input, axis),)


@meaning()
def unstack(x: Tensor, *, axis: int = 0, num: int = 0) -> tuple[list[Tensor]]:
    check_count(x.type.shape[_axis(axis, x)], MOST_PARTS, "parts")
    return (math.unstack(x, axis, num or None),)


@meaning()
def slice(input: Tensor, starts: Sizes, ends: Sizes, *, axes: Sizes, decrease_axis: Sizes = (), infer_flags: Sizes = ()) -> Tensor:
    """`starts:ends` along `axes`; those in `decrease_axis`, of size 1 then, are taken away."""
    return _without(_sliced(input, axes, starts, ends, [1] * len(axes)), decrease_axis)


@meaning()
def strided_slice(
    x: Tensor, starts: Sizes, ends: Sizes, strides: Sizes, *, axes: Sizes, decrease_axis: Sizes = (), infer_flags: Sizes = ()
) -> Tensor:
    return _without(_sliced(x, axes, starts, ends, strides), decrease_axis)


def _sliced(x: Tensor, axes: Sizes, starts: Sizes, ends: Sizes, strides: Sizes) -> Tensor:
    if not len(axes) == len(starts) == len(ends) == len(strides):
        raise OperatorError(
            f"expected a start, end and stride for each of the axes {axes} but got {len(starts)}, {len(ends)} and {len(strides)} of them"
        )
    places = [_axis(a, x) for a in axes]
    # "To the end" is written as the largest number, which says nothing of how long a symbolic axis is.
    ends = [x.type.shape[a] if isinstance(e, int) and e >= END else e for a, e in zip(places, ends, strict=True)]
    return math.strided_slice(x, places, starts, ends, strides)


def _without(x: Tensor, axes: Sizes) -> Tensor:
    return math.squeeze(x, list(axes)) if axes else x


@meaning()
def crop(x: Tensor, shape: Sizes, offsets: Sizes) -> Tensor:
    return math.crop(x, shape, offsets)


@meaning()
def set_value(
    x: Tensor,
    starts: Sizes,
    ends: Sizes,
    steps: Sizes,
    *,
    axes: Sizes,
    decrease_axes: Sizes = (),
    none_axes: Sizes = (),
    shape: Sizes = (),
    values: Any = (),
    tensor: Tensor | None = None,
    dtype: ScalarType | None = None,
) -> Tensor:
    """`x` with a slice replaced by numbers that stand in the program, or by a tensor."""
    value = assign_value(shape=shape, dtype=dtype or x.type.dtype, values=values) if tensor is None else tensor
    return _replaced(x, value, starts, ends, steps, axes, decrease_axes, none_axes)


@meaning()
def set_value_with_tensor(
    x: Tensor,
    values: Tensor,
    starts: Sizes,
    ends: Sizes,
    steps: Sizes,
    *,
    axes: Sizes,
    decrease_axes: Sizes = (),
    none_axes: Sizes = (),
    dtype: ScalarType | None = None,
) -> Tensor:
    return _replaced(x, values, starts, ends, steps, axes, decrease_axes, none_axes)


def _replaced(x: Tensor, value: Tensor, starts: Sizes, ends: Sizes, steps: Sizes, axes: Sizes, decrease: Sizes, none_axes: Sizes) -> Tensor:
    """Pieces of `x` around the replaced one, axis by axis from the last: the slice is a box, so what is left of each axis is two spans."""
    if none_axes:
        raise OperatorError("expected a replaced slice without new axes")
    decreased = {_axis(a, x) for a in decrease}
    if any(s != 1 for s in steps):
        items: list[Any] = [builtins.slice(None)] * x.ndim
        for axis, low, high, step in zip(axes, starts, ends, steps, strict=True):
            size = x.type.shape[_axis(axis, x)]
            items[_axis(axis, x)] = builtins.slice(low, size if isinstance(high, int) and high >= END else high, int(step))
        part = x[tuple(items)].type.shape
        return replaced(
            x, items, math.reshape(math.expand(cast_to(value, x.type.dtype), [d for i, d in enumerate(part) if i not in decreased]), part)
        )
    box: list[tuple[Dim, Dim]] = [(0, d) for d in x.type.shape]
    for axis, low, high in zip(axes, starts, ends, strict=True):
        place = _axis(axis, x)
        box[place] = _bounds(low, high, x.type.shape[place])
    target = [high - low for low, high in box]
    inside = [d for i, d in enumerate(target) if i not in decreased]
    new = math.reshape(math.expand(cast_to(value, x.type.dtype), inside), target)
    for place in reversed(range(x.ndim)):
        low, high = box[place]
        # So far `new` spans the whole of the axes after `place`, and the box along those before.
        around = [(0, x.type.shape[i]) if i >= place else box[i] for i in range(x.ndim)]
        before, after = (_box(x, [*around[:place], span, *around[place + 1 :]]) for span in ((0, low), (high, x.type.shape[place])))
        parts = [p for p in (before, new, after) if p.type.shape[place] != 0]
        new = math.concat(parts, place) if len(parts) > 1 else parts[0]
    return new


def _bounds(low: Dim, high: Dim, size: Dim) -> tuple[Dim, Dim]:
    """A slice's bounds in Python's sense."""
    if isinstance(size, int) and isinstance(low, int) and isinstance(high, int):
        begin, end, _ = builtins.slice(low, high).indices(size)
        return begin, max(begin, end)
    first = low + size if isinstance(low, int) and low < 0 else low
    last = high + size if isinstance(high, int) and high < 0 else size if isinstance(high, int) and high >= END else high
    return first, last


def _box(x: Tensor, spans: list[tuple[Dim, Dim]]) -> Tensor:
    return dispatch.call(ops.Slice, x, starts=tuple(s for s, _ in spans), stops=tuple(e for _, e in spans), strides=(1,) * x.ndim)


@meaning("flip", "reverse")
def flip(x: Tensor, axis: Sizes) -> Tensor:
    return math.flip(x, [int(a) for a in axis])


@meaning()
def roll(x: Tensor, shifts: Sizes, *, axis: Sizes = ()) -> Tensor:
    """Moved on, what leaves at the end coming in at the start."""
    return math.roll(x, list(shifts), [int(a) for a in axis]) if axis else math.roll(x, shifts[0])


@meaning()
def gather(x: Tensor, index: Tensor, axis: Number = 0) -> Tensor:
    flat = math.reshape(index, [-1]) if index.ndim == 2 and index.type.shape[1] == 1 else index
    return math.gather(x, flat, int(axis))


@meaning()
def index_select(x: Tensor, index: Tensor, *, axis: int = 0) -> Tensor:
    return math.index_select(x, index, axis)


@meaning()
def gather_nd(x: Tensor, index: Tensor) -> Tensor:
    return math.gather_nd(x, index)


@meaning()
def index_sample(x: Tensor, index: Tensor) -> Tensor:
    check_count(index.size, MOST_INDICES, "positions")
    return math.index_sample(x, index)


@meaning()
def take_along_axis(arr: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    for tensor in (arr, indices):
        check_count(tensor.size, MOST_INDICES, "elements")
    return math.take_along_axis(arr, indices, axis)


@meaning()
def embedding(x: Tensor, weight: Tensor, *, padding_idx: int = -1) -> Tensor:
    return functional.embedding(x, weight, None if padding_idx == -1 else padding_idx)


@meaning()
def embedding_of_column(x: Tensor, weight: Tensor, *, padding_idx: int = -1) -> Tensor:
    """As `embedding`, of positions whose last axis, of size 1, becomes the rows."""
    return embedding(math.squeeze(x, -1), weight, padding_idx=padding_idx)


@meaning()
def pad(x: Tensor, pad_value: Number = 0.0, *, paddings: Sizes) -> Tensor:
    """Numbers before and after each axis, the first axis first."""
    value = pad_value if x.type.dtype.is_float else int(pad_value)
    return dispatch.call(ops.Pad, x, padding=tuple(paddings), value=value)


@meaning()
def pad3d(x: Tensor, paddings: Sizes, *, mode: str = "constant", pad_value: Number = 0.0, data_format: str = "NCDHW") -> Tensor:
    """Around the spatial axes, the last axis first."""
    widths = list(paddings)[: 2 * (x.ndim - 2)]
    if any(paddings[len(widths) :]):
        raise OperatorError(f"expected paddings for {x.ndim - 2} spatial axes but got {paddings}")
    _check_widths(x, widths)
    layout = "NCDHW"[:2] + "DHW"[5 - x.ndim :] if channel_axis(data_format, x.ndim) == 1 else "N" + "DHW"[5 - x.ndim :] + "C"
    return functional.pad(x, widths, mode, float(pad_value), layout)


def _check_widths(x: Tensor, widths: Sizes) -> None:
    # Mirrored and repeated edges are looked up by a list of positions.
    for count in (*widths, *x.type.shape[1:]):
        check_count(count, MOST_INDICES, "elements along an axis that is padded")


@meaning()
def pad2d(x: Tensor, *, paddings: Sizes, mode: str = "constant", pad_value: Number = 0.0, data_format: str = "NCHW") -> Tensor:
    """As `pad3d` for images, but top and bottom first; the old name of a repeated edge is "edge"."""
    top, bottom, left, right = paddings
    _check_widths(x, paddings)
    return functional.pad(x, [left, right, top, bottom], "replicate" if mode == "edge" else mode, float(pad_value), data_format)


@meaning()
def pixel_shuffle(x: Tensor, *, upscale_factor: int = 1, data_format: str = "NCHW") -> Tensor:
    if data_format != "NCHW":
        return math.transpose(pixel_shuffle(math.transpose(x, [0, 3, 1, 2]), upscale_factor=upscale_factor), [0, 2, 3, 1])
    n, c, h, w = x.type.shape
    r = upscale_factor
    apart = math.reshape(x, [n, c // (r * r), r, r, h, w])
    return math.reshape(math.transpose(apart, [0, 1, 4, 2, 5, 3]), [n, c // (r * r), h * r, w * r])


@meaning()
def pixel_unshuffle(x: Tensor, *, downscale_factor: int = 1, data_format: str = "NCHW") -> Tensor:
    return functional.pixel_unshuffle(x, downscale_factor, data_format)


@meaning()
def temporal_shift(x: Tensor, *, seg_num: int, shift_ratio: float = 0.25, data_format: str = "NCHW") -> Tensor:
    return functional.temporal_shift(x, seg_num, shift_ratio, data_format=data_format)


@meaning("channel_shuffle")
def channel_shuffle(x: Tensor, *, groups: int, data_format: str = "NCHW") -> Tensor:
    if data_format != "NCHW":
        return math.transpose(channel_shuffle(math.transpose(x, [0, 3, 1, 2]), groups=groups), [0, 2, 3, 1])
    n, c, h, w = x.type.shape
    apart = math.reshape(x, [n, groups, c // groups, h, w])
    return math.reshape(math.transpose(apart, [0, 2, 1, 3, 4]), [n, c, h, w])


@meaning()
def unfold(x: Tensor, *, kernel_sizes: Sizes, strides: Sizes, paddings: Sizes, dilations: Sizes) -> Tensor:
    check_count(product(kernel_sizes), MOST_PARTS, "elements of a kernel")
    return functional.unfold(x, list(kernel_sizes), list(strides), list(paddings), list(dilations))
