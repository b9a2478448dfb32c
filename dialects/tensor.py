"""The `tensor` level: what is computed, in fewer than thirty general ops and no framework words.

Values are immutable arrays of any rank; sizes may be symbolic wherever a size stands. A convolution is a `contract` of a `window` of a
`pad`, a pooling is a `reduce` of one, and their gradients go through `fold`, the adjoint of `window`.

References compute in the element type, but sums of narrow floats accumulate in a wider one (float64 for `reduce`, float32 for the products
of 16-bit floats); kernels may add in another order, so results agree to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.dialects import mt19937
from polyreme.dialects.arrays import REDUCTIONS, Array, fold_array, pad_array, reduce_array, scatter_array, take, window_view
from polyreme.dialects.contract import Contract as Contract
from polyreme.dialects.contract import ContractSpec as ContractSpec
from polyreme.dialects.groups import Fused as Fused
from polyreme.dialects.groups import If as If
from polyreme.dialects.groups import Scan as Scan
from polyreme.dialects.groups import While as While
from polyreme.dialects.groups import Yield as Yield
from polyreme.dialects.order import Argsort as Argsort
from polyreme.dialects.order import Cumulate as Cumulate
from polyreme.dialects.shape_rules import (
    Shape,
    broadcast_shapes,
    check_expands,
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
    reduced_shape,
    scattered_shape,
    shape_text,
    sliced_shape,
    windowed_shape,
)
from polyreme.ir.accuracy import SUM
from polyreme.ir.attributes import Dense, Number
from polyreme.ir.core import Op, Value
from polyreme.ir.define import ConstantLike, Elementwise, Pure, View, attr, op, operand, variadic
from polyreme.ir.diagnostics import UNKNOWN, Location, check, check_attr, check_type
from polyreme.ir.dims import Dim
from polyreme.ir.evaluate import resolve, resolve_all
from polyreme.ir.scalar import apply_scalar, function_accuracy, reduction_accuracy, scalar_function
from polyreme.ir.types import PARTS, WHOLE, ScalarType, TensorType, Type, i64, u64

# --- values from nothing


@op("tensor.constant", Pure, ConstantLike)
class Constant(Op):
    """An array known ahead of time, kept in the module.

        %c = tensor.constant {value = dense<[1.0, 2.0]>} : tensor<2xf32>

    The result has the array's shape and element type. `value` is the array.
    """

    value = attr(Dense)

    @staticmethod
    def infer(*, value: Dense) -> TensorType:
        return value.type

    @staticmethod
    def reference(*, value: Dense) -> Array:
        return value.array


@op("tensor.full", Pure, ConstantLike)
class Full(Op):
    """One number everywhere, in a tensor of `shape` and `dtype`.

        %c = tensor.full {value = 0.5, shape = [N, 4], dtype = f32} : tensor<Nx4xf32>      // %x: tensor<Nxf32>

    `value` must fit `dtype`: a whole number in range for an integer type. Sizes may be symbolic and must not be negative.
    """

    value = attr(Number)
    shape = attr(tuple[Dim, ...], default=())
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, value: Any, shape: Shape, dtype: ScalarType) -> TensorType:
        check_sizes(shape)
        check_number(value, dtype)
        return TensorType(shape, dtype)

    @staticmethod
    def reference(*, value: Any, shape: Shape, dtype: ScalarType) -> Array:
        return np.full(resolve_all(shape), value, dtype.np)


@op("tensor.dim_value", Pure, ConstantLike)
class DimValue(Op):
    """A size as a number of rank 0, known when the program runs.

        %n = tensor.dim_value {size = 3*N, dtype = f32} : tensor<f32>

    What a mean over a symbolic size divides by. `size` may be an expression over names, `dtype` is any element type.
    """

    size = attr(Dim)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, size: Dim, dtype: ScalarType) -> TensorType:
        return TensorType((), dtype)

    @staticmethod
    def reference(*, size: Dim, dtype: ScalarType) -> Array:
        return np.asarray(resolve(size), dtype.np)


@op("tensor.iota", Pure, ConstantLike)
class Iota(Op):
    """0, 1, 2, … along `axis`, the same along all other axes.

        %i = tensor.iota {shape = [2, 5], axis = 1, dtype = i64} : tensor<2x5xi64>

    `dtype` is an integer or float type; `axis` counts from the front. `shape` is the result's.
    """

    shape = attr(tuple[Dim, ...])
    axis = attr(int)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(*, shape: Shape, axis: int, dtype: ScalarType) -> TensorType:
        check_sizes(shape)
        check_attr(0 <= axis < len(shape), f"expected axis in [0, {len(shape)}) but got {axis}")
        check_type(dtype.kind in "fiux", f"expected an integer or float type but got {dtype}")
        return TensorType(shape, dtype)

    @staticmethod
    def reference(*, shape: Shape, axis: int, dtype: ScalarType) -> Array:
        sizes = resolve_all(shape)
        column = np.arange(sizes[axis], dtype=np.int64).astype(dtype.np).reshape([-1 if i == axis else 1 for i in range(len(sizes))])
        return np.broadcast_to(column, sizes)


@op("tensor.random", Pure)
class Random(Op):
    """Random numbers, uniform in [low, high), and the generator's state after drawing them.

        %v, %next = tensor.random %s {shape = [4], low = -1.0, high = 1.0, dtype = f32} : tensor<4xf32>, tensor<313xui64>
        // %s: tensor<313xui64>

    As `nn.uniform`; the state is that of a Mersenne twister, see `dialects/mt19937.py`. `shape` is that of the numbers, which are at least
    `low` and below `high`, and `dtype` their float type.
    """

    state = operand()
    shape = attr(tuple[Dim, ...])
    low = attr(float, default=0.0)
    high = attr(float, default=1.0)
    dtype = attr(ScalarType)

    @staticmethod
    def infer(state: TensorType, *, shape: Shape, low: float, high: float, dtype: ScalarType) -> tuple[Type, ...]:
        check_sizes(shape)
        check_type(
            state == TensorType((mt19937.STATE_WORDS,), u64),
            f"expected a generator state, tensor<{mt19937.STATE_WORDS}xui64>, but got {state}",
        )
        check_type(dtype.is_float, f"expected a float type but got {dtype}")
        return TensorType(shape, dtype), state

    @staticmethod
    def reference(state: Array, *, shape: Shape, low: float, high: float, dtype: ScalarType) -> tuple[Array, Array]:
        return mt19937.uniform(state, resolve_all(shape), low, high, dtype.np)


# --- computing


@op("tensor.map", Pure, Elementwise, accuracy=function_accuracy)
class Map(Op):
    """A scalar function at each place of operands of equal rank, or rank 0.

        %z = tensor.map %x, %y {fn = "add"} : tensor<Nx4xf32>      // %x: tensor<Nx4xf32>, %y: tensor<1x4xf32>

    `fn` is a row of `ir/scalar.py`, which says how many operands it takes, of which element types, and of which type its result is. Sizes
    of 1 are repeated to those of the other operands. `dtype` is given with `fn = "cast"` alone. In Python the operands are given flat:
    `Map(x, y, fn="add")`.
    """

    xs = variadic()
    fn = attr(str)
    dtype = attr(ScalarType, default=None)

    def __init__(self, *xs: Value, loc: Location = UNKNOWN, **named: Any):
        super().__init__(xs, loc=loc, **named)

    @staticmethod
    def infer(xs: Sequence[TensorType], *, fn: str, dtype: ScalarType | None) -> TensorType:
        row = scalar_function(fn)
        check_type(dtype is None or row.result == "attr", f"expected no 'dtype' for {fn!r}")
        element = row.result_type(tuple(x.dtype for x in xs), dtype)
        ranks = {x.rank for x in xs if x.rank}
        check(len(ranks) <= 1, f"expected operands of equal rank (or rank 0) but got {' and '.join(shape_text(x.shape) for x in xs)}")
        return TensorType(broadcast_shapes([x.shape for x in xs]), element)

    @staticmethod
    def reference(xs: Sequence[Array], *, fn: str, dtype: ScalarType | None) -> Array:
        return apply_scalar(fn, tuple(xs), dtype)


@op("tensor.reduce", Pure, accuracy=reduction_accuracy)
class Reduce(Op):
    """All elements along `axes` combined by `fn`: add, mul, max, min, and, or.

        %s = tensor.reduce %x {fn = "add", axes = [1]} : tensor<Nxf32>      // %x: tensor<Nx4xf32>

    Of no elements it is the function's identity: 0, 1, -inf, inf (for integers the least and the largest), all bits set, none set. `axes`
    are sorted and count from the front; no axes leave the operand as it is. Sums of narrow floats add up in float64 in the reference;
    kernels add in any order, fixed by the shapes. The result lacks the axes, or has them with size 1 with `keepdims`.
    """

    x = operand()
    fn = attr(str, choices=tuple(REDUCTIONS))
    axes = attr(tuple[int, ...])
    keepdims = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, fn: str, axes: tuple[int, ...], keepdims: bool) -> TensorType:
        check_attr(axes == normal_axes(axes, x.rank), f"expected sorted axes counted from the front but got {list(axes)}")
        scalar_function(fn).result_type((x.dtype, x.dtype))
        return TensorType(reduced_shape(x.shape, axes, keepdims), x.dtype)

    @staticmethod
    def reference(x: Array, *, fn: str, axes: tuple[int, ...], keepdims: bool) -> Array:
        return reduce_array(x, fn, axes, keepdims)


@op("tensor.arg_reduce", Pure)
class ArgReduce(Op):
    """Where along `axis` the largest (`fn = "max"`) or smallest element stands.

        %i = tensor.arg_reduce %x {fn = "max", axis = 1} : tensor<Nxi64>      // %x: tensor<Nx4xf32>

    The first of equals, and the first nan if there is one. An axis that is known to have no elements is refused. The result lacks the axis,
    or has it with size 1 with `keepdims`; its elements are positions of the integer type `dtype`. `fn` is "max" or "min".
    """

    x = operand()
    fn = attr(str, choices=("max", "min"))
    axis = attr(int)
    keepdims = attr(bool, default=False)
    dtype = attr(ScalarType, default=i64)

    @staticmethod
    def infer(x: TensorType, *, fn: str, axis: int, keepdims: bool, dtype: ScalarType) -> TensorType:
        check_attr(0 <= axis < x.rank, f"expected axis in [0, {x.rank}) but got {axis}")
        check(x.shape[axis] != 0, "expected at least one element along the axis but got 0")
        check_type(x.dtype.kind in "fiub", f"expected ordered elements but got {x.dtype}")
        check_type(dtype.is_integer, f"expected an integer type for positions but got {dtype}")
        return TensorType(reduced_shape(x.shape, (axis,), keepdims), dtype)

    @staticmethod
    def reference(x: Array, *, fn: str, axis: int, keepdims: bool, dtype: ScalarType) -> Array:
        find = np.argmax if fn == "max" else np.argmin
        return np.asarray(find(x, axis=axis, keepdims=keepdims)).astype(dtype.np)


# --- views


@op("tensor.window", Pure, View)
class Window(Op):
    """Sliding windows: each axis in `axes` becomes the windows' positions, and the windows' own axes are appended.

        %w = tensor.window %x {axes = [1], sizes = [3], strides = [2], dilations = [1]} : tensor<Nx4x3xf32>      // %x: tensor<Nx9xf32>

    `result[…, p, …, k] = x[…, p * stride + k * dilation, …]`, the windows' axes in the order of `axes`. Elements that no whole window
    covers are left out. A symbolic size must leave at least zero positions when it is known. `sizes`, `strides` and `dilations` have a
    value for each of `axes`.
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


@op("tensor.fold", Pure, accuracy=SUM)
class Fold(Op):
    """The adjoint of `tensor.window`: windows added up where they overlap, into `sizes` elements along `axes`.

        %x = tensor.fold %w {axes = [1], sizes = [9], strides = [2], dilations = [1]} : tensor<Nx9xf32>      // %w: tensor<Nx4x3xf32>

    `result[…, p * stride + k * dilation, …] += w[…, p, …, k]`; elements that no window covers are 0. The numbers of windows must be those
    that `tensor.window` makes of `sizes`. `strides` and `dilations` have a value for each of `axes`, as there.
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


@op("tensor.pad", Pure)
class Pad(Op):
    """The operand with `low` elements of `value` before each axis, `high` after it and `interior` between each two of its elements.

        %y = tensor.pad %x {low = [0, 1], high = [0, 2], interior = [0, 0]} : tensor<Nx7xf32>      // %x: tensor<Nx4xf32>

    One amount per axis in each list, none negative; `value` must fit the element type.
    """

    x = operand()
    low = attr(tuple[Dim, ...])
    high = attr(tuple[Dim, ...])
    interior = attr(tuple[Dim, ...])
    value = attr(Number, default=0.0)

    @staticmethod
    def infer(x: TensorType, *, low: Shape, high: Shape, interior: Shape, value: Any) -> TensorType:
        for amounts, name in ((low, "low"), (high, "high"), (interior, "interior")):
            check_attr(len(amounts) == x.rank, f"expected {x.rank} values in '{name}' but got {len(amounts)}")
            check_attr(not any(map(is_negative, amounts)), f"expected no negative amount in '{name}' but got {shape_text(amounts)}")
        check_number(value, x.dtype)
        return TensorType(tuple(map(padded_size, x.shape, low, high, interior)), x.dtype)

    @staticmethod
    def reference(x: Array, *, low: Shape, high: Shape, interior: Shape, value: Any) -> Array:
        return pad_array(x, resolve_all(low), resolve_all(high), resolve_all(interior), value)


@op("tensor.reshape", Pure, View)
class Reshape(Op):
    """The same elements, row by row, in another shape.

        %y = tensor.reshape %x {shape = [6*N]} : tensor<(6*N)xf32>      // %x: tensor<Nx2x3xf32>

    Both shapes have equally many elements, which for symbolic sizes means the same polynomial. `shape` is the new one.
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


@op("tensor.pairs", Pure)
class Pairs(Op):
    """Complex numbers as pairs of their parts, along a last axis of size 2; or such pairs as complex numbers: the same memory.

        %p = tensor.pairs %z : tensor<Nx2xf32>      // %z: tensor<Nxcomplex<f32>>

    The parts are floats half as wide. Of floats, f32 or f64, the last axis is taken away.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        if x.dtype in PARTS:
            return TensorType((*x.shape, 2), PARTS[x.dtype])
        check_type(x.dtype in WHOLE, f"expected complex numbers, or pairs of f32 or f64, but got {x.dtype}")
        check(x.rank > 0 and x.shape[-1] == 2, f"expected a last axis of size 2 but got the shape {shape_text(x.shape)}")
        return TensorType(x.shape[:-1], WHOLE[x.dtype])

    @staticmethod
    def reference(x: Array) -> Array:
        if x.dtype.kind == "c":
            return np.stack([x.real, x.imag], -1)
        return np.ascontiguousarray(x).view(np.result_type(x.dtype, np.complex64))[..., 0]


@op("tensor.transpose", Pure, View)
class Transpose(Op):
    """The axes in another order: axis `i` of the result is axis `perm[i]` of the operand.

        %y = tensor.transpose %x {perm = [1, 0]} : tensor<4xNxf32>      // %x: tensor<Nx4xf32>

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


@op("tensor.broadcast", Pure, View)
class Broadcast(Op):
    """Axes of size 1 repeated to the sizes in `shape`, which has the operand's rank.

        %y = tensor.broadcast %x {shape = [N, 4]} : tensor<Nx4xf32>      // %x: tensor<Nx1xf32>

    Sizes other than 1 must be those of `shape`.
    """

    x = operand()
    shape = attr(tuple[Dim, ...])

    @staticmethod
    def infer(x: TensorType, *, shape: Shape) -> TensorType:
        check_sizes(shape)
        check_expands(x.shape, shape)
        return x.with_shape(shape)

    @staticmethod
    def reference(x: Array, *, shape: Shape) -> Array:
        return np.broadcast_to(x, resolve_all(shape))


@op("tensor.slice", Pure, View)
class Slice(Op):
    """Along each axis the elements `start`, `start + stride`, … below `stop`.

        %y = tensor.slice %x {starts = [0, 1], stops = [N, 4], strides = [1, 2]} : tensor<Nx2xf32>      // %x: tensor<Nx4xf32>

    One value per axis in each list, with 0 <= start <= stop <= size and positive strides. The lists are `starts`, `stops` and `strides`.
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


@op("tensor.reverse", Pure, View)
class Reverse(Op):
    """The elements along `axes` in the opposite order.

        %y = tensor.reverse %x {axes = [1]} : tensor<Nx4xf32>

    `axes` are sorted and count from the front.
    """

    x = operand()
    axes = attr(tuple[int, ...])

    @staticmethod
    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        check_attr(axes == normal_axes(axes, x.rank), f"expected sorted axes counted from the front but got {list(axes)}")
        return x

    @staticmethod
    def reference(x: Array, *, axes: tuple[int, ...]) -> Array:
        return np.flip(x, axes)


@op("tensor.concat", Pure)
class Concat(Op):
    """The operands laid end to end along `axis`.

        %z = tensor.concat %x, %y {axis = 1} : tensor<Nx7xf32>      // %x: tensor<Nx4xf32>, %y: tensor<Nx3xf32>

    At least one operand, all of one rank and element type, equal in all sizes but along `axis`, which counts from the front.
    """

    xs = variadic()
    axis = attr(int)

    @staticmethod
    def infer(xs: Sequence[TensorType], *, axis: int) -> TensorType:
        check(len(xs) > 0, "expected at least one operand", code="E0305")
        check_same_dtype(xs)
        check_attr(axis == normal_axis(axis, xs[0].rank), f"expected an axis counted from the front but got {axis}")
        return xs[0].with_shape(joined_shape([x.shape for x in xs], axis))

    @staticmethod
    def reference(xs: Sequence[Array], *, axis: int) -> Array:
        return np.concatenate(xs, axis)


@op("tensor.gather", Pure)
class Gather(Op):
    """Elements of `x` along `axis` by position: the axis is replaced by all axes of `index`.

        %y = tensor.gather %x, %i {axis = 0} : tensor<2x3x2xf32>      // %x: tensor<4x2xf32>, %i: tensor<2x3xi64>

    A negative position counts from the end; one outside `x` is moved to the nearest end, so that no kernel reads outside its buffer. `axis`
    counts from the front; it may not be known to be empty, unless `index` is. Where `may_be_empty`, an axis of a free size may turn out to
    be so, and the elements are zeros then: no guard in front of a run looks into branches and loops. With `inside` every position is known
    to be at least 0 and less than the axis is long, so that kernels read without looking at it; `inside-positions` finds that out.
    """

    x = operand()
    index = operand()
    axis = attr(int)
    may_be_empty = attr(bool, default=False)
    inside = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, index: TensorType, *, axis: int, may_be_empty: bool = False, inside: bool = False) -> TensorType:
        check_attr(not (inside and may_be_empty), "expected positions inside of an axis that has elements but got one that may be empty")
        check_attr(0 <= axis < x.rank, f"expected axis in [0, {x.rank}) but got {axis}")
        check_has_positions(x.shape[axis], index)
        check_type(index.dtype.is_integer, f"expected integer positions but got {index.dtype}")
        return x.with_shape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))

    @staticmethod
    def reference(x: Array, index: Array, *, axis: int, may_be_empty: bool = False, inside: bool = False) -> Array:
        if may_be_empty and not x.shape[axis]:
            return np.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
        if inside and index.size and not 0 <= index.min() <= index.max() < x.shape[axis]:
            raise ValueError(f"expected positions from 0 below {x.shape[axis]} but got {index.min()} to {index.max()}")
        return take(x, index, axis)


@op("tensor.scatter", Pure, accuracy=SUM)
class Scatter(Op):
    """`x` with the elements along `axis` at the positions in `index` combined with those of `updates`: replaced (`fn = "set"`) or added to
    ("add").

        %y = tensor.scatter %x, %i, %u {axis = 0, fn = "add"} : tensor<4x2xf32>
        // %x: tensor<4x2xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3x2xf32>

    The axes of `index` stand in `updates` from `axis` on, where `x` has one axis. Updates of one position are taken one after the other, in
    the order of `index`: the last one stays, or their sum is added up in that order, 16-bit floats in float32. Positions are read as
    `tensor.gather` reads them. `axis` counts from the front; it may not be known to be empty.
    """

    x = operand()
    index = operand()
    updates = operand()
    axis = attr(int)
    fn = attr(str, choices=("add", "set"))

    @staticmethod
    def infer(x: TensorType, index: TensorType, updates: TensorType, *, axis: int, fn: str) -> TensorType:
        check_same_dtype([x, updates])
        check_attr(0 <= axis < x.rank, f"expected axis in [0, {x.rank}) but got {axis}")
        check_type(fn == "set" or x.dtype.kind in "fiuc", f"expected numbers to add but got {x.dtype}")
        made = scattered_shape(updates, index, axis, x.shape[axis])
        check(x.shape == made, f"expected updates for the shape {shape_text(x.shape)} but got ones for {shape_text(made)}")
        return x

    @staticmethod
    def reference(x: Array, index: Array, updates: Array, *, axis: int, fn: str) -> Array:
        return scatter_array(x, index, updates, axis, fn)
