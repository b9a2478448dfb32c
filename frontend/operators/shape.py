"""Shapes and axes: reshaping, repeating, joining, splitting, reordering."""

from __future__ import annotations

from polyreme import math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, product
from polyreme.math.common import common_shape
from polyreme.math.fed import axes as fed_axes
from polyreme.math.fed import places as fed_places
from polyreme.math.fed import sizes as fed_sizes
from polyreme.operators.arguments import Extents, FedSizes, Number, Scalar, Sizes, UnsupportedError, axis_in, check_count
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

# What a file may ask for where each one costs us work while the model loads.
MOST_PARTS = 4096
_SHAPE = {"X": "x", "Shape": "shape", "ShapeTensor": "shape"}
_AXES = {"X": "x", "AxesTensor": "axis", "AxesTensorList": "axis"}


# --- shapes


@operator("reshape", legacy=[spelled("reshape2", _SHAPE, "Out XShape"), spelled("reshape", _SHAPE)], nn=nn.Reshape)
def reshape(x: Tensor, shape: FedSizes) -> Tensor:
    return fed_sizes.reshaped(x, shape) if fed_sizes.are_fed(shape) else math.reshape(x, shape)


@operator("view_shape")
def view_shape(input: Tensor, *, dims: Sizes) -> Tensor:
    return math.reshape(input, dims)


@operator("flatten", legacy=spelled("flatten_contiguous_range", outputs="Out XShape"))
def flatten(x: Tensor, *, start_axis: int = 1, stop_axis: int = 1) -> Tensor:
    return math.flatten(x, start_axis, stop_axis)


@operator(legacy=[spelled("flatten2", outputs="Out XShape"), spelled("flatten")])
def flatten_to_matrix(x: Tensor, *, axis: int = 1) -> Tensor:
    """Two axes: those before `axis` joined, and the others joined."""
    if not -x.ndim <= axis <= x.ndim:
        raise UnsupportedError(f"expected 'axis' in [{-x.ndim}, {x.ndim}] but got {axis}")
    shape = x.type.shape
    return math.reshape(x, [product(shape[:axis]), product(shape[axis:])])


@operator(
    "squeeze",
    legacy=[
        spelled("squeeze2", _AXES, "Out XShape", attributes={"axes": "axis"}),
        spelled("squeeze", _AXES, attributes={"axes": "axis"}),
    ],
)
def squeeze(x: Tensor, axis: FedSizes = ()) -> Tensor:
    if fed_sizes.are_fed(axis):
        return fed_axes.without_axes(x, axis)
    return math.squeeze(x, list(axis) or None)


@operator(
    "unsqueeze",
    legacy=[
        spelled("unsqueeze2", _AXES, "Out XShape", attributes={"axes": "axis"}),
        spelled("unsqueeze", _AXES, attributes={"axes": "axis"}),
    ],
)
def unsqueeze(x: Tensor, axis: FedSizes) -> Tensor:
    if not fed_sizes.are_fed(axis):
        return math.unsqueeze(x, axis)
    for place in axis:
        x = fed_axes.expanded_at(x, place) if isinstance(place, Tensor) else math.unsqueeze(x, place)
    return x


@operator("expand", legacy=spelled("expand_v2", {"X": "x", "Shape": "shape", "expand_shapes_tensor": "shape"}), nn=nn.BroadcastTo)
def expand(x: Tensor, shape: FedSizes) -> Tensor:
    return fed_sizes.expanded(x, shape) if fed_sizes.are_fed(shape) else math.expand(x, shape)


@operator("expand_as", legacy=spelled("expand_as_v2", {"X": "x", "Y": "y"}, constant="Y"))
def expand_as(x: Tensor, y: Tensor | None = None, *, target_shape: Sizes = ()) -> Tensor:
    return math.expand(x, list(y.type.shape) if y is not None else target_shape)


_TIMES = {"X": "x", "ExpandTimes": "times", "expand_times_tensor": "times"}


@operator(legacy=spelled("expand", _TIMES, attributes={"expand_times": "times"}))
def expand_by_times(x: Tensor, times: Extents) -> Tensor:
    """Repeated so many times along each axis: what Paddle 2 calls `tile`."""
    return math.tile(x, list(times))


@operator(legacy=spelled("expand_as", {"X": "x", "target_tensor": "target"}, constant="target_tensor"))
def repeat_as(x: Tensor, target: Tensor) -> Tensor:
    """Repeated along each axis to the shape of `target`."""
    if target.ndim != x.ndim:
        raise UnsupportedError(f"expected a target of {x.ndim} axes but got {target.ndim}")
    times: list[Dim] = []
    for size, wanted in zip(x.type.shape, target.type.shape, strict=True):
        if size == wanted:
            times.append(1)
        elif isinstance(size, int) and isinstance(wanted, int) and size and wanted % size == 0:
            times.append(wanted // size)
        elif size == 1:
            times.append(wanted)
        else:
            raise UnsupportedError(f"expected sizes that those of the target are a multiple of but got {size} for {wanted}")
    return math.tile(x, times)


@operator("broadcast_tensors", legacy=spelled("broadcast_tensors", {"X": "input"}))
def broadcast_tensors(input: list[Tensor]) -> tuple[list[Tensor]]:
    shape = common_shape(lambda: [v.type.shape for v in input])
    return ([math.expand(v, shape) for v in input],)


@operator("meshgrid", legacy=spelled("meshgrid", {"X": "inputs"}))
def meshgrid(inputs: list[Tensor]) -> tuple[list[Tensor]]:
    vectors = [math.reshape(v, [-1]) for v in inputs]
    sizes = [v.type.shape[0] for v in vectors]
    rank = len(vectors)
    return (
        [
            math.expand(math.reshape(v, [d if j == i else 1 for j in range(rank)]), sizes)
            for i, (v, d) in enumerate(zip(vectors, sizes, strict=True))
        ],
    )


@operator("tile", legacy=spelled("tile", {"X": "x", "RepeatTimes": "repeat_times", "repeat_times_tensor": "repeat_times"}))
def tile(x: Tensor, repeat_times: Extents) -> Tensor:
    return math.tile(x, repeat_times)


@operator("repeat_interleave")
def repeat_interleave(x: Tensor, *, repeats: int, axis: int, output_size: int = -1) -> Tensor:
    place = axis_in(axis, x)
    shape = x.type.shape
    wide = math.expand(math.unsqueeze(x, place + 1), [*shape[: place + 1], repeats, *shape[place + 1 :]])
    return math.reshape(wide, [*shape[:place], shape[place] * repeats, *shape[place + 1 :]])


@operator("repeat_interleave_with_tensor_index")
def repeat_interleave_by_counts(x: Tensor, repeats: Tensor, *, axis: int, output_size: int = -1) -> Tensor:
    """Each slice along an axis as often as its number says."""
    return fed_places.repeated(x, axis_in(axis, x), repeats)


@operator(
    legacy=spelled(
        "repeat_interleave",
        {"X": "x", "RepeatsTensor": "counts"},
        attributes={"Repeats": "repeats", "dim": "axis"},
        types={"output_size": "LONG"},
    ),
)
def repeat_interleave_of_both(x: Tensor, counts: Tensor | None = None, *, repeats: int, axis: int, output_size: int = -1) -> Tensor:
    return repeat_interleave(x, repeats=repeats, axis=axis) if counts is None else repeat_interleave_by_counts(x, counts, axis=axis)


# --- the order of elements


@operator(
    "transpose",
    legacy=[
        spelled("transpose2", outputs="Out XShape", attributes={"axis": "perm"}, ignored="data_format"),
        spelled("transpose", attributes={"axis": "perm"}, ignored="data_format"),
    ],
    nn=nn.Transpose,
)
def transpose(x: Tensor, *, perm: Sizes) -> Tensor:
    return math.transpose(x, [int(p) for p in perm])


@operator("flip", "reverse", legacy=[spelled("flip", attributes={"dims": "axis", "axis": "axis"}), spelled("reverse")])
def flip(x: Tensor, axis: Sizes) -> Tensor:
    return math.flip(x, [int(a) for a in axis])


@operator("roll", legacy=spelled("roll", {"X": "x", "ShiftsTensor": "shifts"}, types={"shifts": "LONGS", "axis": "LONGS"}))
def roll(x: Tensor, shifts: FedSizes, *, axis: Sizes = ()) -> Tensor:
    """Moved on, what leaves at the end coming in at the start."""
    if len(shifts) != max(len(axis), 1):
        raise UnsupportedError(f"expected a shift for each of the axes {list(axis)}, or one for none, but got {list(shifts)}")
    if not fed_sizes.are_fed(shifts):
        return math.roll(x, list(shifts), [int(a) for a in axis]) if axis else math.roll(x, shifts[0])
    if not axis:
        return math.reshape(fed_places.rolled(math.reshape(x, [-1]), 0, shifts[0]), x.type.shape)
    for place, shift in zip(axis, shifts, strict=True):
        x = fed_places.rolled(x, axis_in(place, x), shift)
    return x


# --- joining and splitting


@operator("concat", legacy=spelled("concat", {"X": "x", "AxisTensor": "axis"}, types={"axis": "INT"}))
def concat(x: list[Tensor], axis: Scalar = 0) -> Tensor:
    return fed_axes.joined(x, axis) if isinstance(axis, Tensor) else math.concat(x, int(axis))


@operator("stack", legacy=spelled("stack", outputs="Y"))
def stack(x: list[Tensor], *, axis: int = 0) -> Tensor:
    return math.stack(x, axis)


def _parts(x: Tensor, axis: Number) -> Dim:
    """How many parts of size 1 there are along `axis`."""
    if x.ndim == 0:
        raise UnsupportedError("expected a tensor with axes but got one without")
    return x.type.shape[axis_in(axis, x)]


@operator("split", legacy=spelled("split", {"X": "x", "AxisTensor": "axis", "SectionsTensorList": "sections"}, types={"axis": "INT"}))
def split(x: Tensor, sections: FedSizes = (), axis: Scalar = 0, *, num: int = 0) -> tuple[list[Tensor]]:
    check_count(num, MOST_PARTS, "parts")
    if isinstance(axis, Tensor):
        return (fed_axes.sections(x, axis, sections or num),)
    _parts(x, axis)
    if fed_sizes.are_fed(sections):
        return (fed_places.parts(x, axis_in(axis, x), sections),)
    return (math.split(x, list(sections) or num, int(axis)),)


@operator("split_with_num")
def split_with_num(x: Tensor, axis: Scalar = 0, *, num: int) -> tuple[list[Tensor]]:
    return split(x, (), axis, num=num)


@operator("unbind", legacy=spelled("unbind", {"X": "input"}))
def unbind(input: Tensor, *, axis: int = 0) -> tuple[list[Tensor]]:
    check_count(_parts(input, axis), MOST_PARTS, "parts")
    return (math.unbind(input, axis),)


@operator("unstack", legacy=spelled("unstack", outputs="Y"))
def unstack(x: Tensor, *, axis: int = 0, num: int = 0) -> tuple[list[Tensor]]:
    check_count(_parts(x, axis), MOST_PARTS, "parts")
    return (math.unstack(x, axis, num or None),)
