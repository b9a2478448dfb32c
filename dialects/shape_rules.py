"""Shape rules that several dialects' `infer` share; `arrays.py` has what their references share.

Sizes may be symbolic. Two sizes count as equal only when they are the same polynomial, so a rule never guesses; what it cannot show is an
`InferError` that names both sizes. While a function is traced, `facts.agree` notes what would have to hold instead, and the trace makes it
a guard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.dims import Dim, ceildiv, floordiv, known_nonnegative, maximum, minimum, product
from polyreme.ir.sizes.facts import agree
from polyreme.ir.types import ScalarType, TensorType, f32, i64

Shape = tuple[Dim, ...]


def shape_text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def is_negative(dim: Dim) -> bool:
    """Whether `dim` is known to be below zero."""
    return dim < 0 if isinstance(dim, int) else known_nonnegative(-dim - 1)


def check_sizes(shape: Sequence[Dim], what: str = "shape") -> None:
    check_attr(not any(is_negative(d) for d in shape), f"expected no negative size in '{what}' but got {shape_text(shape)}")


def normal_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front; `InferError` unless it is in [-rank, rank)."""
    check_attr(-rank <= axis < rank, f"expected axis in [{-rank}, {rank}) but got {axis}")
    return axis % rank


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """`axes` counted from the front and sorted, none twice."""
    normal = tuple(sorted(normal_axis(a, rank) for a in axes))
    check_attr(len(set(normal)) == len(normal), f"expected each axis once but got {list(axes)}")
    return normal


def check_permutation(perm: Sequence[int], rank: int) -> None:
    check_attr(sorted(perm) == list(range(rank)), f"expected a permutation of {rank} axes but got {list(perm)}")


def broadcast_size(a: Dim, b: Dim) -> Dim | None:
    """The size of two sizes of which one may be repeated (1); None when they are not known to fit."""
    if a == b or b == 1:
        return a
    return b if a == 1 or agree(b, a) else None


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """numpy's broadcasting: shapes aligned at their ends, each size equal to the result's or 1."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            joined = broadcast_size(result[i], size)
            if joined is None:
                check(
                    False, f"expected shapes that broadcast but got {' and '.join(map(shape_text, shapes))}: {result[i]} and {size} differ"
                )
                raise AssertionError
            result[i] = joined
    return tuple(result)


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keepdims or i not in axes)


def check_reshape(old: Shape, new: Shape) -> None:
    check_sizes(new)
    fits = agree(product(old), product(new))
    check(fits, f"expected as many elements as {shape_text(old)} has, {product(old)}, but got {shape_text(new)}, which has {product(new)}")


def check_expands(old: Shape, new: Shape) -> None:
    """Equal ranks, and each size equal or 1 before."""
    check(len(old) == len(new), f"expected a shape of rank {len(old)} but got {shape_text(new)}")
    fits = all(a == 1 or agree(a, b) for a, b in zip(old, new, strict=True))
    check(fits, f"expected {shape_text(old)} to be repeated along sizes of 1 only but got {shape_text(new)}")


def sliced_shape(shape: Shape, starts: Shape, stops: Shape, strides: Shape) -> Shape:
    """Per axis `start:stop:stride`, all within the axis and with positive strides."""
    for part, name in ((starts, "starts"), (stops, "stops"), (strides, "strides")):
        check_attr(len(part) == len(shape), f"expected {len(shape)} values in '{name}' but got {len(part)}")
    result = []
    for size, start, stop, stride in zip(shape, starts, stops, strides, strict=True):
        inside = not (is_negative(start) or is_negative(size - stop) or is_negative(stop - start))
        check_attr(inside, f"expected 0 <= start <= stop <= {size} but got {start} and {stop}")
        check_attr(not is_negative(stride - 1), f"expected positive strides but got {stride}")
        result.append(ceildiv(stop - start, stride))
    return tuple(result)


def joined_shape(shapes: Sequence[Shape], axis: int) -> Shape:
    """Shapes that are equal but along `axis`, laid end to end there."""
    check(len(shapes) > 0, "expected at least one operand", code="E0305")
    first = shapes[0]
    for other in shapes[1:]:
        fits = len(other) == len(first) and all(agree(a, b) for i, (a, b) in enumerate(zip(first, other, strict=True)) if i != axis)
        check(fits, f"expected shapes that agree but for axis {axis} but got {shape_text(first)} and {shape_text(other)}")
    total: Dim = 0
    for shape in shapes:
        total = total + shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def scattered_shape(updates: TensorType, index: TensorType, axis: int, size: Dim) -> Shape:
    """The shape of what `updates` go into: with one axis of `size` in place of the axes of `index`, which stand in `updates` from `axis`
    on.
    """
    rank = updates.rank - index.rank + 1
    check_attr(0 <= axis < rank, f"expected axis in [0, {rank}) but got {axis}")
    check_type(index.dtype.is_integer, f"expected integer positions but got {index.dtype}")
    middle = updates.shape[axis : axis + index.rank]
    fits = all(agree(a, b) for a, b in zip(middle, index.shape, strict=True))
    check(fits, f"expected updates with the positions' shape {shape_text(index.shape)} from axis {axis} on but got {shape_text(middle)}")
    check_has_positions(size, index)
    return (*updates.shape[:axis], size, *updates.shape[axis + index.rank :])


def check_has_positions(size: Dim, index: TensorType) -> None:
    """An axis that positions are read in has elements, unless there is no position."""
    check(size != 0 or 0 in index.shape, "expected at least one element along the axis but got 0")


def padded_size(size: Dim, low: Dim, high: Dim, interior: Dim) -> Dim:
    """`low` before, `high` after and `interior` between each two elements."""
    between = 0 if interior == 0 else maximum(size - 1, 0) * interior
    return low + size + between + high


def window_positions(size: Dim, window: Dim, stride: Dim, dilation: Dim) -> Dim:
    """How many windows of `window` elements, `dilation` apart, start `stride` apart in `size` elements.

    Zero when a known size is smaller than the window; for a symbolic size the formula, which must not come out negative.
    """
    positions = floordiv(size - (window - 1) * dilation - 1, stride) + 1
    return max(positions, 0) if isinstance(positions, int) else positions


def check_windows(rank: int, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> None:
    """What windows ask of their numbers; `rank` is that of the array without window axes."""
    check_attr(
        sorted(set(axes)) == sorted(axes) and all(0 <= a < rank for a in axes),
        f"expected different axes in [0, {rank}) but got {list(axes)}",
    )
    for values, name in ((sizes, "sizes"), (strides, "strides"), (dilations, "dilations")):
        check_attr(len(values) == len(axes), f"expected {len(axes)} values in '{name}' but got {len(values)}")
        check_attr(not any(is_negative(v - 1) for v in values), f"expected positive '{name}' but got {shape_text(values)}")


def windowed_shape(shape: Shape, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> Shape:
    """Positions in place of each of `axes`, and the windows' sizes at the end."""
    check_windows(len(shape), axes, sizes, strides, dilations)
    result = list(shape)
    for axis, size, stride, dilation in zip(axes, sizes, strides, dilations, strict=True):
        result[axis] = window_positions(shape[axis], size, stride, dilation)
    return (*result, *sizes)


def folded_shape(windows: Shape, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> Shape:
    """The shape that `windowed_shape` makes `windows` from, with `sizes` along `axes`."""
    rank = len(windows) - len(axes)
    check_windows(rank, axes, windows[rank:], strides, dilations)
    check_attr(len(sizes) == len(axes), f"expected {len(axes)} values in 'sizes' but got {len(sizes)}")
    check_sizes(sizes, "sizes")
    result = list(windows[:rank])
    for axis, size, window, stride, dilation in zip(axes, sizes, windows[rank:], strides, dilations, strict=True):
        positions = window_positions(size, window, stride, dilation)
        check(
            agree(positions, windows[axis]), f"expected {positions} windows along axis {axis} for a size of {size} but got {windows[axis]}"
        )
        result[axis] = size
    return tuple(result)


def check_same_dtype(types: Sequence[TensorType]) -> None:
    for other in types[1:]:
        check_type(other.dtype == types[0].dtype, f"expected equal element types but got {types[0].dtype} and {other.dtype}")


def check_number(value: bool | int | float, dtype: ScalarType) -> None:
    """Whether a constant fits an element type: whole numbers in range for integers, anything for floats."""
    check_attr(number_fits(value, dtype), f"expected a value that fits {dtype} but got {value}")


def number_fits(value: bool | int | float, dtype: ScalarType) -> bool:
    if dtype.kind not in "iux":
        return True
    limits = np.iinfo(dtype.np)
    return math.isfinite(value) and value == int(value) and limits.min <= value <= limits.max


# Positions along a sorted axis go through 32 bits.
LONGEST_ORDER = 2**31 - 1


def check_order(x: TensorType, axis: int, count: int | None) -> TensorType:
    """The type of the first `count` positions that sort `x` along `axis`, or of all if there are fewer."""
    check_type(x.dtype.kind in "fiub", f"expected ordered elements but got {x.dtype}")
    check_attr(count is None or count >= 1, f"expected to give at least one position but got count = {count}")
    size = x.shape[axis]
    check(not isinstance(size, int) or size <= LONGEST_ORDER, f"expected at most {LONGEST_ORDER} elements along the axis but got {size}")
    taken = size if count is None else minimum(size, count)
    return TensorType((*x.shape[:axis], taken, *x.shape[axis + 1 :]), i64)


def wide_type(dtype: ScalarType) -> ScalarType:
    """In which type what is made of elements of a float type is computed and kept, such as statistics and scales: float32 for 16-bit
    floats.
    """
    return f32 if dtype.bits == 16 else dtype
