"""Ops that move elements: views, joining, padding, gathering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.dialects.arrays import Array, fold_array, pad_array, scatter_array, take, window_view
from polyreme.dialects.shape_rules import (
    Shape,
    broadcast_shapes,
    check_has_positions,
    check_number,
    check_permutation,
    check_reshape,
    check_same_dtype,
    check_sizes,
    folded_shape,
    is_negative,
    joined_shape,
    normal_axes,
    normal_axis,
    padded_size,
    scattered_shape,
    shape_text,
    sliced_shape,
    windowed_shape,
)
from polyreme.ir.accuracy import SUM
from polyreme.ir.attributes import Number
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, View, attr, op, operand, variadic
from polyreme.ir.diagnostics import check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve, resolve_all
from polyreme.ir.sizes.facts import agree_all
from polyreme.ir.types import TensorType


@op("nn.reshape", Pure, View)
class Reshape(Op):
    """The same elements, row by row, in another shape.

        %y = nn.reshape %x {shape = [N, 6]} : tensor<Nx6xf32>      // %x: tensor<Nx2x3xf32>

    Both shapes have equally many elements, which for symbolic sizes means the same polynomial. Nothing moves in memory. `shape` is the new
    one.
    """

    x = operand()
    shape = attr(tuple[Dim, ...])

    @staticmethod
    def infer(x: TensorType, *, shape: Shape) -> TensorType:
        check_reshape(x.shape, shape)
        return x.with_shape(shape)

    @staticmethod
    def reference(x: Array, *, shape: Shape) -> Array:
        return x.reshape(resolve_all(shape))


@op("nn.transpose", Pure, View)
class Transpose(Op):
    """The axes in another order: axis `i` of the result is axis `perm[i]` of the operand.

        %y = nn.transpose %x {perm = [1, 0]} : tensor<4xNxf32>      // %x: tensor<Nx4xf32>

    `perm` is a permutation of all axes, counted from the front.
    """

    x = operand()
    perm = attr(tuple[int, ...])

    @staticmethod
    def infer(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
        check_permutation(perm, x.rank)
        return x.with_shape(tuple(x.shape[p] for p in perm))

    @staticmethod
    def reference(x: Array, *, perm: tuple[int, ...]) -> Array:
        return x.transpose(perm)


@op("nn.broadcast_to", Pure, View)
class BroadcastTo(Op):
    """The operand repeated to `shape`, aligned at the last axes.

        %y = nn.broadcast_to %x {shape = [N, 4]} : tensor<Nx4xf32>      // %x: tensor<4xf32>, %z: tensor<Nxf32>

    Each size of the operand is that of `shape` or 1, and axes that it lacks are put in front.
    """

    x = operand()
    shape = attr(tuple[Dim, ...])

    @staticmethod
    def infer(x: TensorType, *, shape: Shape) -> TensorType:
        check_sizes(shape)
        fits = x.rank <= len(shape) and agree_all(broadcast_shapes([x.shape, shape]), shape)
        check(fits, f"expected a shape that {shape_text(x.shape)} broadcasts to but got {shape_text(shape)}")
        return x.with_shape(shape)

    @staticmethod
    def reference(x: Array, *, shape: Shape) -> Array:
        return np.broadcast_to(x, resolve_all(shape))


@op("nn.slice", Pure, View)
class Slice(Op):
    """Along each axis the elements `start`, `start + stride`, … below `stop`.

        %y = nn.slice %x {starts = [0, 1], stops = [N, 4], strides = [1, 2]} : tensor<Nx2xf32>      // %x: tensor<Nx4xf32>

    One value per axis in each list, with 0 <= start <= stop <= size and positive strides: no counting from the end, which the front end
    resolves. An axis of the result has ceildiv(stop - start, stride) elements, which may be none. The lists are `starts`, `stops` and
    `strides`.
    """

    x = operand()
    starts = attr(tuple[Dim, ...])
    stops = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...])

    @staticmethod
    def infer(x: TensorType, *, starts: Shape, stops: Shape, strides: Shape) -> TensorType:
        return x.with_shape(sliced_shape(x.shape, starts, stops, strides))

    @staticmethod
    def reference(x: Array, *, starts: Shape, stops: Shape, strides: Shape) -> Array:
        return x[tuple(map(slice, resolve_all(starts), resolve_all(stops), resolve_all(strides)))]


@op("nn.flip", Pure, View)
class Flip(Op):
    """The elements along `axes` in the opposite order.

        %y = nn.flip %x {axes = [-1]} : tensor<Nx4xf32>

    Axes count from the end if negative, none twice.
    """

    x = operand()
    axes = attr(tuple[int, ...])

    @staticmethod
    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        normal_axes(axes, x.rank)
        return x

    @staticmethod
    def reference(x: Array, *, axes: tuple[int, ...]) -> Array:
        return np.flip(x, axes)


@op("nn.concat", Pure)
class Concat(Op):
    """The operands laid end to end along `axis`.

        %z = nn.concat %x, %y {axis = 1} : tensor<Nx7xf32>      // %x: tensor<Nx4xf32>, %y: tensor<Nx3xf32>

    At least one operand, all of one rank and element type, equal in all sizes but along `axis`, which counts from the end if negative.
    """

    xs = variadic()
    axis = attr(int, default=0)

    @staticmethod
    def infer(xs: Sequence[TensorType], *, axis: int) -> TensorType:
        check(len(xs) > 0, "expected at least one operand", code="E0305")
        check_same_dtype(xs)
        return xs[0].with_shape(joined_shape([x.shape for x in xs], normal_axis(axis, xs[0].rank)))

    @staticmethod
    def reference(xs: Sequence[Array], *, axis: int) -> Array:
        return np.concatenate(xs, axis)


@op("nn.pad", Pure)
class Pad(Op):
    """The operand with `value` around it, and between its elements.

        %y = nn.pad %x {padding = [0, 0, 1, 2], value = -1.0} : tensor<Nx7xf32>      // %x: tensor<Nx4xf32>

    `padding` is [low, high, low, high, …], a pair per axis; `interior` is how many of `value` come between each two elements of an axis
    (empty: none). No amount is negative. `value` must fit the element type. The size of an axis is low + size + high + interior * max(size
    - 1, 0).
    """

    x = operand()
    padding = attr(tuple[Dim, ...])
    interior = attr(tuple[Dim, ...], default=())
    value = attr(Number, default=0.0)

    @staticmethod
    def infer(x: TensorType, *, padding: Shape, interior: Shape, value: Any) -> TensorType:
        check_attr(len(padding) == 2 * x.rank, f"expected {2 * x.rank} values in 'padding' but got {len(padding)}")
        check_attr(len(interior) in (0, x.rank), f"expected {x.rank} values in 'interior' but got {len(interior)}")
        check_attr(
            not any(map(is_negative, (*padding, *interior))), f"expected no negative amounts but got {shape_text((*padding, *interior))}"
        )
        check_number(value, x.dtype)
        return x.with_shape(tuple(map(padded_size, x.shape, padding[::2], padding[1::2], interior or (0,) * x.rank)))

    @staticmethod
    def reference(x: Array, *, padding: Shape, interior: Shape, value: Any) -> Array:
        amounts = resolve_all(padding)
        return pad_array(x, amounts[::2], amounts[1::2], resolve_all(interior) or (0,) * x.ndim, value)


@op("nn.window", Pure, View)
class Window(Op):
    """Sliding windows: each axis in `axes` becomes the windows' positions, and the windows' own axes are appended.

        %w = nn.window %x {axes = [1], sizes = [3], strides = [2], dilations = [1]} : tensor<Nx4x3xf32>      // %x: tensor<Nx9xf32>

    `result[…, p, …, k] = x[…, p * stride + k * dilation, …]`, the windows' axes in the order of `axes`, one value of `sizes`, `strides` and
    `dilations` for each. Elements that no whole window covers are left out; a known size below the window's has no positions.
    """

    x = operand()
    axes = attr(tuple[int, ...])
    sizes = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...])
    dilations = attr(tuple[Dim, ...])

    @staticmethod
    def infer(x: TensorType, *, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> TensorType:
        return x.with_shape(windowed_shape(x.shape, axes, sizes, strides, dilations))

    @staticmethod
    def reference(x: Array, *, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> Array:
        return window_view(x, axes, resolve_all(sizes), resolve_all(strides), resolve_all(dilations))


@op("nn.fold", Pure, accuracy=SUM)
class Fold(Op):
    """The adjoint of `nn.window`: windows added up where they overlap, into `sizes` elements along `axes`.

        %x = nn.fold %w {axes = [1], sizes = [9], strides = [2], dilations = [1]} : tensor<Nx9xf32>      // %w: tensor<Nx4x3xf32>

    `result[…, p * stride + k * dilation, …] += w[…, p, …, k]`; elements that no window covers are 0. The numbers of windows must be those
    that `nn.window` makes of `sizes`. `strides` and `dilations` have a value for each of `axes`, as there.
    """

    w = operand()
    axes = attr(tuple[int, ...])
    sizes = attr(tuple[Dim, ...])
    strides = attr(tuple[Dim, ...])
    dilations = attr(tuple[Dim, ...])

    @staticmethod
    def infer(w: TensorType, *, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> TensorType:
        return w.with_shape(folded_shape(w.shape, axes, sizes, strides, dilations))

    @staticmethod
    def reference(w: Array, *, axes: tuple[int, ...], sizes: Shape, strides: Shape, dilations: Shape) -> Array:
        return fold_array(w, axes, resolve_all(sizes), resolve_all(strides), resolve_all(dilations))


@op("nn.gather", Pure)
class Gather(Op):
    """Elements of `x` along `axis` by position: the axis is replaced by all axes of `index`.

        %y = nn.gather %x, %i {axis = 0} : tensor<2x3x2xf32>      // %x: tensor<4x2xf32>, %i: tensor<2x3xi64>

    `result[…, i…, …] = x[…, index[i…], …]`. A negative position counts from the end; one outside `x` is moved to the nearest end (the front
    end checks positions that it knows). An axis that is known to have no elements is refused, unless `index` has none either. `index` has
    integer elements; `axis` counts from the end if negative.
    """

    x = operand()
    index = operand()
    axis = attr(int, default=0)

    @staticmethod
    def infer(x: TensorType, index: TensorType, *, axis: int) -> TensorType:
        axis = normal_axis(axis, x.rank)
        check_has_positions(x.shape[axis], index)
        check_type(index.dtype.is_integer, f"expected integer positions but got {index.dtype}")
        return x.with_shape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))

    @staticmethod
    def reference(x: Array, index: Array, *, axis: int) -> Array:
        return take(x, index, axis % x.ndim)


@op("nn.within", Pure)
class Within(Op):
    """The positions `x`, which must be those of an axis of `size`: from 0, or from `-size` where it `wraps`.

        %y = nn.within %x {size = 4, wraps = true} : tensor<2x3xi64>      // %x: tensor<2x3xi64>

    A run of compiled code ends with an error where they are not, once all is computed: what reads at such a position reads the nearest row.
    `x` has integer elements; `place` is the line that reads at them, with `because` and why where they stand for a mistake.
    """

    x = operand()
    size = attr(Dim)
    wraps = attr(bool, default=True)
    place = attr(str, default="")

    @staticmethod
    def infer(x: TensorType, *, size: Dim, wraps: bool, place: str) -> TensorType:
        check_type(x.dtype.is_integer, f"expected integer positions but got {x.dtype}")
        return x

    @staticmethod
    def reference(x: Array, *, size: Dim, wraps: bool, place: str) -> Array:
        return x


@op("nn.scatter", Pure)
class Scatter(Op):
    """`x` with the elements along `axis` at the positions in `index` replaced by those of `updates`; of several for one position the last
    one stays.

        %y = nn.scatter %x, %u, %i {axis = 0} : tensor<4x2xf32>      // %x: tensor<4x2xf32>, %u: tensor<2x3x2xf32>, %i: tensor<2x3xi64>

    The axes of `index` stand in `updates` from `axis` on, where `x` has one axis. Positions are read as `nn.gather` reads them.
    """

    x = operand()
    updates = operand()
    index = operand()
    axis = attr(int)

    @staticmethod
    def infer(x: TensorType, updates: TensorType, index: TensorType, *, axis: int) -> TensorType:
        check_same_dtype([x, updates])
        check_attr(0 <= axis < x.rank, f"expected axis in [0, {x.rank}) but got {axis}")
        made = scattered_shape(updates, index, axis, x.shape[axis])
        check(agree_all(x.shape, made), f"expected updates for the shape {shape_text(x.shape)} but got ones for {shape_text(made)}")
        return x

    @staticmethod
    def reference(x: Array, updates: Array, index: Array, *, axis: int) -> Array:
        return scatter_array(x, index, updates, axis, "set")


@op("nn.scatter_add", Pure, accuracy=SUM)
class ScatterAdd(Op):
    """The adjoint of `nn.gather`: `updates` added into `size` zeros along `axis`, at the positions in `index`.

        %y = nn.scatter_add %u, %i {axis = 0, size = 4} : tensor<4x2xf32>      // %u: tensor<2x3x2xf32>, %i: tensor<2x3xi64>

    The axes of `index` stand in `updates` from `axis` on, where the result has one axis of `size`. Positions are read as `nn.gather` reads
    them; updates of one position add up.
    """

    updates = operand()
    index = operand()
    axis = attr(int)
    size = attr(Dim)

    @staticmethod
    def infer(updates: TensorType, index: TensorType, *, axis: int, size: Dim) -> TensorType:
        check_type(updates.dtype.kind in "fiuc", f"expected numbers but got {updates.dtype}")
        return updates.with_shape(scattered_shape(updates, index, axis, size))

    @staticmethod
    def reference(updates: Array, index: Array, *, axis: int, size: Dim) -> Array:
        shape = (*updates.shape[:axis], resolve(size), *updates.shape[axis + index.ndim :])
        return scatter_array(np.zeros(shape, updates.dtype), index, updates, axis, "add")
