"""Slices: parts of tensors, and tensors with a part replaced."""

from __future__ import annotations

import builtins
from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, maximum
from polyreme.ir.types import ScalarType
from polyreme.math.common import cast_to
from polyreme.math.fed import places as fed_places
from polyreme.math.fed import sizes as fed_sizes
from polyreme.math.indexing import END, clamped, counts_from_end
from polyreme.math.traced_indexing import replaced
from polyreme.operators.arguments import FedSizes, Sizes, UnsupportedError, axis_in
from polyreme.operators.create import assign_value, first_given
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

EARLIER_SLICE = "strided_slice_before_3"  # how versions before 3 of Paddle understand `strided_slice`
_BOUNDS = {"StartsTensor": "starts", "StartsTensorList": "starts", "EndsTensor": "ends", "EndsTensorList": "ends"}


@operator("slice", legacy=spelled("slice", {"Input": "input", **_BOUNDS}))
def slice(
    input: Tensor, starts: FedSizes, ends: FedSizes, *, axes: Sizes, decrease_axis: Sizes = (), infer_flags: Sizes = ()
) -> Tensor:
    """`starts:ends` along `axes`; those in `decrease_axis`, of size 1 then, are taken away."""
    return _without(_sliced(input, axes, starts, ends, [1] * len(axes), decrease_axis), decrease_axis)


@operator(
    "strided_slice",
    legacy=spelled("strided_slice", {"Input": "x", **_BOUNDS, "StridesTensor": "strides", "StridesTensorList": "strides"}),
)
def strided_slice(
    x: Tensor, starts: FedSizes, ends: FedSizes, strides: FedSizes, *, axes: Sizes, decrease_axis: Sizes = (), infer_flags: Sizes = ()
) -> Tensor:
    return _without(_sliced(x, axes, starts, ends, strides, decrease_axis), decrease_axis)


@operator(legacy=spelled(EARLIER_SLICE, {"Input": "x", **_BOUNDS, "StridesTensor": "strides", "StridesTensorList": "strides"}))
def strided_slice_before_3(
    x: Tensor, starts: FedSizes, ends: FedSizes, strides: FedSizes, *, axes: Sizes, decrease_axis: Sizes = (), infer_flags: Sizes = ()
) -> Tensor:
    """As versions before 3 of Paddle count where a step goes backwards: an end of -1 is in front of the first element, one that is in front
    of the axis otherwise is the first element, and so is such a start.
    """
    first, last = list(starts), list(ends)
    for i, (axis, step) in enumerate(zip(axes, strides, strict=True)):
        if isinstance(step, int) and step > 0:
            continue
        size = x.type.shape[axis_in(axis, x)]
        low, high = first[i], last[i]
        if not isinstance(low, Tensor) and not isinstance(high, Tensor) and not isinstance(step, Tensor):
            first[i], last[i] = _placed(low, size), -END - 1 if high == -1 else _placed(high, size)
            continue
        start, end = fed_sizes.as_number(low), fed_sizes.as_number(high)
        placed, zero = [_placed_number(bound, fed_sizes.as_number(size)) for bound in (start, end)], fed_sizes.as_number(0)
        placed[1] = math.where(math.equal(end, fed_sizes.as_number(-1)), fed_sizes.as_number(-END - 1), placed[1])
        backwards = math.less_than(fed_sizes.as_number(step), zero)
        first[i], last[i] = math.where(backwards, placed[0], start), math.where(backwards, placed[1], end)
    return strided_slice(x, first, last, strides, axes=axes, decrease_axis=decrease_axis)


def _placed(bound: Dim, size: Dim) -> Dim:
    """A bound counted from the front, from 0 on."""
    if isinstance(bound, int) and bound < -END:
        return 0
    return maximum(bound + size, 0) if counts_from_end(bound) else bound


def _placed_number(bound: Tensor, size: Tensor) -> Tensor:
    return math.where(
        math.less_than(bound, fed_sizes.as_number(0)), math.maximum(math.add(bound, size), fed_sizes.as_number(0)), bound
    )


def _sliced(x: Tensor, axes: Sizes, starts: FedSizes, ends: FedSizes, strides: FedSizes, single: Sizes) -> Tensor:
    """Along the axes in `single` there is one element, wherever it stands."""
    if not len(axes) == len(starts) == len(ends) == len(strides):
        raise UnsupportedError(
            f"expected a start, end and stride for each of the axes {axes} but got {len(starts)}, {len(ends)} and {len(strides)} of them"
        )
    places = [axis_in(a, x) for a in axes]
    for axis, start, end, step in zip(places, starts, ends, strides, strict=True):
        if isinstance(step, Tensor) or not isinstance(step, int) or step < 0 and fed_sizes.are_fed([start, end]):
            x = fed_places.stepped(x, axis, start, end, step)
            starts, ends, strides = (
                [new if p == axis else old for p, old in zip(places, values, strict=True)]
                for values, new in ((starts, 0), (ends, END), (strides, 1))
            )
    # "To the end" is written as the largest number, which says nothing of how long a symbolic axis is.
    ends = [x.type.shape[a] if isinstance(e, int) and e >= END else e for a, e in zip(places, ends, strict=True)]
    for axis in {axis_in(a, x) for a in single}:
        start = starts[places.index(axis)] if axis in places else 0
        if isinstance(start, Tensor):
            x = math.unsqueeze(x[(*[builtins.slice(None)] * axis, math.reshape(start, []))], axis)
            starts, ends = ([*v[: places.index(axis)], e, *v[places.index(axis) + 1 :]] for v, e in ((starts, 0), (ends, 1)))
    return math.strided_slice(x, places, starts, ends, strides)


def _without(x: Tensor, axes: Sizes) -> Tensor:
    return math.squeeze(x, list(axes)) if axes else x


@operator(
    "crop",
    legacy=spelled("crop_tensor", {"X": "x", "Shape": "shape", "ShapeTensor": "shape", "Offsets": "offsets", "OffsetsTensor": "offsets"}),
)
def crop(x: Tensor, shape: FedSizes, offsets: FedSizes) -> Tensor:
    return fed_places.box(x, shape, offsets) if fed_sizes.are_fed([*shape, *offsets]) else math.crop(x, shape, offsets)


@operator(
    "set_value",
    legacy=spelled(
        "set_value",
        {"Input": "x", "ValueTensor": "tensor", "StartsTensorList": "starts", "EndsTensorList": "ends", "StepsTensorList": "steps"},
        types=dict.fromkeys(("axes", "starts", "ends", "steps", "decrease_axes", "none_axes", "shape"), "LONGS"),
    ),
)
def set_value(
    x: Tensor,
    starts: FedSizes,
    ends: FedSizes,
    steps: Sizes,
    *,
    axes: Sizes,
    decrease_axes: Sizes = (),
    none_axes: Sizes = (),
    shape: Sizes = (),
    values: Any = (),
    bool_values: Any = (),
    int32_values: Any = (),
    int64_values: Any = (),
    fp32_values: Any = (),
    fp64_values: Any = (),
    tensor: Tensor | None = None,
    dtype: ScalarType | None = None,
) -> Tensor:
    """`x` with a slice replaced by numbers that stand in the program, or by a tensor."""
    value = tensor
    if value is None:
        numbers = first_given(values, bool_values, fp32_values, int32_values, int64_values, fp64_values)
        value = assign_value(shape=shape, dtype=dtype or x.type.dtype, values=numbers)
    return _replaced(x, value, starts, ends, steps, axes, decrease_axes, none_axes)


@operator("set_value_with_tensor")
def set_value_with_tensor(
    x: Tensor,
    values: Tensor,
    starts: FedSizes,
    ends: FedSizes,
    steps: Sizes,
    *,
    axes: Sizes,
    decrease_axes: Sizes = (),
    none_axes: Sizes = (),
    dtype: ScalarType | None = None,
) -> Tensor:
    return _replaced(x, values, starts, ends, steps, axes, decrease_axes, none_axes)


def _replaced(
    x: Tensor, value: Tensor, starts: FedSizes, ends: FedSizes, steps: Sizes, axes: Sizes, decrease: Sizes, none_axes: Sizes
) -> Tensor:
    """Pieces of `x` around the replaced one, axis by axis from the last: the slice is a box, so what is left of each axis is two spans."""
    if none_axes:
        raise UnsupportedError("expected a replaced slice without new axes")
    if not len(axes) == len(starts) == len(ends) == len(steps):
        raise UnsupportedError(
            f"expected a start, end and step for each of the axes {axes} but got {len(starts)}, {len(ends)} and {len(steps)} of them"
        )
    decreased = {axis_in(a, x) for a in decrease}
    # Axes of 1 that a value has in front of those of the slice count for nothing: one number is written as [1], also to a single place.
    spare = max(value.ndim - (x.ndim - len(decreased)), 0)
    if spare and all(d == 1 for d in value.type.shape[:spare]):
        value = math.reshape(value, value.type.shape[spare:])
    items: list[Any] = [builtins.slice(None)] * x.ndim
    if fed_sizes.are_fed([*starts, *ends]):
        # Paddle takes from -1 up to 0 for the last place, if that is fed: nothing.
        for axis, low, high, step in zip(axes, starts, ends, steps, strict=True):
            items[axis_in(axis, x)] = builtins.slice(low, None if isinstance(high, int) and high >= END else high, int(step))
        for place in sorted(decreased):
            behind = x.ndim - 1 - place - sum(other > place for other in decreased)
            value = math.unsqueeze(value, value.ndim - behind) if value.ndim >= behind else value
        return replaced(x, items, cast_to(value, x.type.dtype))
    if any(s != 1 for s in steps):
        for axis, low, high, step in zip(axes, starts, ends, steps, strict=True):
            size = x.type.shape[axis_in(axis, x)]
            items[axis_in(axis, x)] = builtins.slice(low, size if isinstance(high, int) and high >= END else high, int(step))
        part = x[tuple(items)].type.shape
        return replaced(
            x, items, math.reshape(math.expand(cast_to(value, x.type.dtype), [d for i, d in enumerate(part) if i not in decreased]), part)
        )
    box: list[tuple[Dim, Dim]] = [(0, d) for d in x.type.shape]
    for axis, low, high in zip(axes, starts, ends, strict=True):
        place = axis_in(axis, x)
        assert not isinstance(low, Tensor) and not isinstance(high, Tensor)
        box[place] = clamped(low, high, x.type.shape[place])
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


def _box(x: Tensor, spans: list[tuple[Dim, Dim]]) -> Tensor:
    return dispatch.call(nn.Slice, x, starts=tuple(s for s, _ in spans), stops=tuple(e for _, e in spans), strides=(1,) * x.ndim)
