"""Which elements: greatest ones, sorted order, those that a mask or a value chooses, distinct ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import ScalarType, f32, i32, i64
from polyreme.math.common import cast_to
from polyreme.math.fed import axes as fed_axes
from polyreme.math.fed import sizes as fed_sizes
from polyreme.math.manipulation import span
from polyreme.nn import functional
from polyreme.operators.arguments import Number, Scalar, Sizes, UnsupportedError, axis_in
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor

_AXIS = {"X": "x", "AxisTensor": "axis"}


@operator("argmax", legacy=spelled("arg_max", _AXIS, types={"axis": "LONG"}), nn=nn.ArgMax)
def argmax(x: Tensor, axis: Scalar, *, keepdims: bool = False, flatten: bool = False, dtype: ScalarType | None = i64) -> Tensor:
    """Where the greatest elements stand, the first of equals."""
    return _place(math.argmax, x, None if flatten else axis, keepdims, dtype)


@operator("argmin", legacy=spelled("arg_min", _AXIS, types={"axis": "LONG"}), nn=nn.ArgMin)
def argmin(x: Tensor, axis: Scalar, *, keepdims: bool = False, flatten: bool = False, dtype: ScalarType | None = i64) -> Tensor:
    """Where the least elements stand, the first of equals."""
    return _place(math.argmin, x, None if flatten else axis, keepdims, dtype)


def _place(find: Callable[..., Tensor], x: Tensor, axis: Scalar | None, keepdims: bool, dtype: ScalarType | None) -> Tensor:
    if isinstance(axis, Tensor):
        return fed_axes.reduced(x, [axis], keepdims, lambda middle: find(middle, 1, True, _name_of(dtype)))
    return find(x, None if axis is None else int(axis), keepdims, _name_of(dtype))


def _name_of(dtype: ScalarType | None) -> str:
    return "int32" if dtype == i32 else "int64"


@operator(
    "topk",
    legacy=[
        spelled("top_k_v2", {"X": "x", "K": "k"}, "Out Indices", types={"k": "INT"}),
        spelled("top_k", {"X": "x", "K": "k"}, "Out Indices", types={"k": "INT"}, without="axis largest sorted"),
    ],
)
def topk(x: Tensor, k: Scalar = 1, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along `axis` and where they stand, the first of equals first."""
    if not isinstance(k, Tensor):
        return math.topk(x, k, axis, largest)
    place = axis_in(axis, x)
    index = math.argsort(x, place, largest)
    index = span(index, place, 0, fed_sizes.axis_count(k, x.type.shape[place], "k"))
    return math.take_along_axis(x, index, place, broadcast=False), index


@operator("argsort", legacy=spelled("argsort", outputs="Out Indices"))
def argsort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Tensor, Tensor]:
    """Sorted along `axis`, and where the elements stood."""
    index = math.argsort(x, axis, descending)
    return (x if x.ndim == 0 else math.take_along_axis(x, index, axis, broadcast=False)), index


@operator(
    "searchsorted", legacy=spelled("searchsorted", {"SortedSequence": "sorted_sequence", "Values": "values"})
)
def searchsorted(sorted_sequence: Tensor, values: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return math.searchsorted(sorted_sequence, values, out_int32, right)


@operator("nonzero", legacy=spelled("where_index", {"Condition": "condition"}))
def nonzero(condition: Tensor) -> Tensor:
    return math.nonzero(condition)


@operator("masked_select", legacy=spelled("masked_select", {"X": "x", "Mask": "mask"}, "Y"))
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    return math.masked_select(x, mask)


_UNIQUE = "Out Indices Index Counts"


@operator("unique", legacy=spelled("unique", outputs=_UNIQUE), misdeclared=True)
def unique(
    x: Tensor,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Sizes = (),
    dtype: ScalarType | None = i64,
    is_sorted: bool = False,
) -> tuple[Tensor | None, ...]:
    """The distinct elements or slices, where each comes first, which of them each part of `x` is, and how often each comes.

    Without `is_sorted` they stand in the order in which they come first, and the older operator has only them and the third.
    """
    if not is_sorted:
        out, inverse, _ = math.distinct.in_order_of_coming(x, _name_of(dtype))
        return out, None, inverse, None
    asked = return_index, return_inverse, return_counts
    made = math.unique(x, *asked, _one_axis(axis), _name_of(dtype))
    return _in_places(made, asked)


@operator(legacy=spelled("unique_with_counts", outputs="Out Index Count"))
def unique_with_counts(x: Tensor, *, dtype: ScalarType | None = i64) -> tuple[Tensor, ...]:
    """The distinct elements in the order in which they come first, which of them each element is, and how often each comes."""
    return math.distinct.in_order_of_coming(x, _name_of(dtype))


@operator("unique_consecutive", legacy=spelled("unique_consecutive", outputs="Out Index Counts"), misdeclared=True)
def unique_consecutive(
    x: Tensor, *, return_inverse: bool = False, return_counts: bool = False, axis: Sizes = (), dtype: ScalarType | None = f32
) -> tuple[Tensor | None, ...]:
    """The first of each run of equal elements or slices, the number of each part's run, and the lengths of the runs."""
    asked = return_inverse, return_counts
    made = math.unique_consecutive(x, *asked, _one_axis(axis), _name_of(dtype))
    return _in_places(made, asked)


def _one_axis(axis: Sizes) -> int | None:
    if len(axis) > 1:
        raise UnsupportedError(f"expected at most one axis but got {list(axis)}")
    return int(axis[0]) if axis else None


def _in_places(made: Tensor | tuple[Tensor, ...], asked: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    """The first result, and then each of the others that was asked for in its place."""
    first, *others = made if isinstance(made, tuple) else (made,)
    return first, *(others.pop(0) if wanted else None for wanted in asked)


@operator("bincount", legacy=spelled("bincount", {"X": "x", "Weights": "weights"}, types={"minlength": "INT"}), misdeclared=True)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: Scalar = 0) -> Tensor:
    """How often each number from 0 on comes in a vector, or the sums of their weights; at least `minlength` numbers."""
    places = cast_to(x, i64)
    if not isinstance(x.type.elements, int) or x.type.elements:
        # One more, which stands for a vector of none.
        ends = math.concat([places, dispatch.full((1,), -1, i64)])
        most = math.maximum(math.add(math.max(ends), dispatch.full((), 1, i64)), fed_sizes.as_number(minlength))
        fits = math.all(math.greater_equal(places, dispatch.full((), 0, i64)))
        count = fed_sizes.as_size(most, fits, "numbers of 0 or more to count")
    else:
        count = fed_sizes.extent(minlength, "minlength")
    ones = dispatch.call(nn.BroadcastTo, dispatch.full((), 1, i64), shape=places.type.shape) if weights is None else weights
    return dispatch.call(nn.ScatterAdd, ones, places, axis=0, size=count)


@operator("gather_tree", legacy=spelled("gather_tree", {"Ids": "ids", "Parents": "parents"}))
def gather_tree(ids: Tensor, parents: Tensor) -> Tensor:
    """The sequences that end in each beam after a beam search, from the last step back."""
    steps = ids.type.shape[0]
    if not isinstance(steps, int) and steps != parents.type.shape[0]:
        # Both come of arrays of a loop, which are equally long.
        parents = math.gather(parents, dispatch.call(nn.Iota, shape=(steps,), axis=0, dtype=i64), 0)
    return functional.gather_tree(ids, parents)


# --- by their order, and how many there are of each size


@operator("kthvalue", legacy=spelled("kthvalue", outputs="Out Indices"))
def kthvalue(x: Tensor, *, k: int = 1, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return math.kthvalue(x, k, axis, keepdim)


@operator("mode", legacy=spelled("mode", outputs="Out Indices"))
def mode(x: Tensor, *, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return math.mode(x, axis, keepdim)


_MEDIAN_AXES = {"x": "x", "AxisTensor": "axis", "AxisTensorList": "axis"}


@operator("median", legacy=spelled("median", _MEDIAN_AXES, "out medians", types={"axis": "LONGS"}))
def median(x: Tensor, *, axis: Sizes = (), keepdim: bool = True, mode: str = "avg") -> tuple[Tensor, Tensor | None]:
    made = math.median(x, int(axis[0]) if axis else None, keepdim, mode)  # it is along one axis or of all
    return _with_places(made)


@operator("nanmedian", legacy=spelled("nanmedian", outputs="Out MedianIndex"))
def nanmedian(x: Tensor, *, axis: Sizes = (), keepdim: bool = True, mode: str = "avg") -> tuple[Tensor, Tensor | None]:
    one = len(axis) == 1
    return _with_places(math.nanmedian(x, int(axis[0]) if one else list(map(int, axis)) or None, keepdim, mode))


def _with_places(made: Any) -> tuple[Tensor, Tensor | None]:
    """Which elements were taken is for gradients, but of a median that is one of them."""
    return made if isinstance(made, tuple) else (made, None)


@operator("histogram", legacy=spelled("histogram", {"X": "input", "Weight": "weight"}, types={"bins": "LONG"}))
def histogram(
    input: Tensor, weight: Tensor | None = None, *, bins: int = 100, min: Number = 0.0, max: Number = 0.0, density: bool = False
) -> Tensor:
    return math.histogram(input, bins, min, max, weight, density)
