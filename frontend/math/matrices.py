"""Inverses, Cholesky factors, cross products, and diagonals."""

from __future__ import annotations

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.ir.dims import Dim, maximum, minimum
from polyreme.ir.types import i64
from polyreme.math.common import axis_of, cast_to, same_sizes, tensor_arg
from polyreme.math.elementwise import multiply, subtract
from polyreme.math.manipulation import reshape, roll, transpose
from polyreme.tensor import Tensor

__all__ = ["cholesky", "cross", "diag_embed", "diagonal", "inverse"]
METHODS = list(__all__)
# The `axis` of `cross` that stands for the first one of size 3: Paddle's own default, more axes than a tensor has.
FIRST_OF_THREE = 9


def _of_numbers(x: Tensor, function: str, dtypes: tuple[str, ...]) -> Tensor:
    if tensor_arg(x, function).dtype.name not in dtypes:
        raise RuntimeError(f"{function} expected {', '.join(dtypes[:-1])} or {dtypes[-1]} but got {x.dtype.name}")
    return x


def _first_failure(x: Tensor, result: Tensor) -> int | None:
    """The number of the first matrix that has no result, where that can be seen: in eager mode."""
    made, given = result._held(), x._held()
    if not isinstance(made, np.ndarray) or not isinstance(given, np.ndarray) or not made.size:
        return None
    failed = np.isnan(made).any((-1, -2)) & ~np.isnan(given).any((-1, -2))
    return int(np.flatnonzero(failed.ravel())[0]) if failed.any() else None


def inverse(x: Tensor, name: str | None = None) -> Tensor:
    """The inverse of each matrix of the last two axes. A singular one is an error."""
    _of_numbers(x, "inverse", ("float32", "float64", "complex64", "complex128"))
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"inverse expected square matrices along the last two axes but got shape {list(x.shape)}")
    result = dispatch.call(ops.Inverse, x)
    if _first_failure(x, result) is not None:
        raise ValueError(f"inverse expected matrices that can be inverted but number {_first_failure(x, result)} is singular")
    return result


def cholesky(x: Tensor, upper: bool = False, name: str | None = None) -> Tensor:
    """The lower triangular L with x = L Lᵀ (or the upper triangular U with x = Uᵀ U) of each symmetric, positive definite matrix of the
    last two axes.
    """
    _of_numbers(x, "cholesky", ("float32", "float64"))
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise AssertionError(f"Shape must have at least 2 dimensions and last two dimensions must be equal. But received {list(x.shape)}.")
    result = dispatch.call(ops.Cholesky, x, upper=bool(upper))
    failed = _first_failure(x, result)
    if failed is not None:
        raise ValueError(f"cholesky expected positive definite matrices but number {failed} is not")
    return result


@operator("cross")
def cross(x: Tensor, y: Tensor, axis: int = FIRST_OF_THREE, name: str | None = None) -> Tensor:
    """The cross products of the vectors of 3 along `axis`: the first axis of size 3 unless it is given."""
    tensor_arg(x, "cross", "x")
    tensor_arg(y, "cross", "y")
    if not same_sizes(x.type.shape, y.type.shape):
        raise ValueError(f"cross expected tensors of one shape but got {list(x.shape)} and {list(y.shape)}")
    if axis is None or axis == FIRST_OF_THREE:
        if 3 not in x.shape:
            raise ValueError(f"cross expected an axis of size 3 but got shape {list(x.shape)}")
        axis = x.shape.index(3)
    place = axis_of(axis, x.ndim, "cross")
    if x.shape[place] != 3:
        raise ValueError(f"cross expected size 3 along axis {place} but got shape {list(x.shape)}")
    next_x, next_y = roll(x, -1, place), roll(y, -1, place)
    return subtract(multiply(next_x, roll(y, -2, place)), multiply(roll(x, -2, place), next_y))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The vectors along the last axis as diagonals of matrices of zeros, which lie along `dim1` and `dim2` of the result, `offset` above
    the main one.
    """
    tensor_arg(input, "diag_embed", "input")
    rank = input.ndim + 1
    rows, columns = axis_of(dim1, rank, "diag_embed"), axis_of(dim2, rank, "diag_embed")
    if rows == columns:
        raise ValueError(f"diag_embed expected two different axes but got dim1={dim1} and dim2={dim2}")
    count, extra = input.shape[-1], abs(offset)
    wide = reshape(input, [*input.type.shape, 1])
    zero = dispatch.full((), 0, input.type.dtype)
    square = dispatch.call(ops.Where, dispatch.constant(np.eye(count, dtype=bool)), wide, zero)
    above, below = (0, extra) if offset > 0 else (extra, 0)
    padding = (*(0, 0) * (rank - 2), above, below, below, above)
    made = dispatch.call(ops.Pad, square, padding=padding, value=0) if extra else square
    order: list[int] = list(range(rank - 2))
    for place, axis in sorted([(rows, rank - 2), (columns, rank - 1)]):
        order.insert(place, axis)
    return transpose(made, order)


def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Tensor:
    """The diagonals `offset` above the main ones of the matrices along two axes: they are the last axis."""
    flat, places, _ = _along_diagonals(tensor_arg(x, "diagonal"), offset, axis1, axis2, "diagonal")
    return dispatch.call(ops.Gather, flat, places, axis=flat.ndim - 1)


def with_diagonal(x: Tensor, y: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """`x` with `y` [*others, count] in place of what `diagonal` gives."""
    flat, places, order = _along_diagonals(x, offset, axis1, axis2, "fill_diagonal_tensor")
    values = reshape(cast_to(y, x.type.dtype), [*flat.type.shape[:-1], places.type.shape[0]])
    made = dispatch.call(ops.Scatter, flat, values, places, axis=flat.ndim - 1)
    return transpose(reshape(made, [x.type.shape[a] for a in order]), [order.index(a) for a in range(x.ndim)])


def _along_diagonals(x: Tensor, offset: int, axis1: int, axis2: int, function: str) -> tuple[Tensor, Tensor, list[int]]:
    """`x` with both axes as its last one, the places of the diagonal there, and the order in which its axes were brought for that."""
    if x.ndim < 2:
        raise ValueError(f"{function} expected a tensor of at least 2 axes but got shape {list(x.shape)}")
    first, second = axis_of(axis1, x.ndim, function), axis_of(axis2, x.ndim, function)
    if first == second:
        raise ValueError(f"{function} expected two different axes but got {axis1} and {axis2}")
    order = [*(a for a in range(x.ndim) if a not in (first, second)), first, second]
    rows, columns = x.type.shape[first], x.type.shape[second]
    down, right = max(-offset, 0), max(offset, 0)
    count = maximum(minimum(rows - down, columns - right), 0)
    flat = reshape(transpose(x, order), [*(x.type.shape[a] for a in order[:-2]), rows * columns])
    step = _number(columns + 1)
    start = _number(columns * down + right)
    numbers = dispatch.call(ops.Iota, shape=(count,), axis=0, dtype=i64)
    return flat, dispatch.call(ops.Add, dispatch.call(ops.Mul, numbers, step), start), order


def _number(size: Dim) -> Tensor:
    made: Tensor = (
        dispatch.full((), size, i64) if isinstance(size, int) else dispatch.call(ops.DimValue, size=size, dtype=i64)
    )
    return made
