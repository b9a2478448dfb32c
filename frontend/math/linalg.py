"""Products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.ir.types import i64
from polyreme.math.common import axis_of, cast_to, promote, promoted, same_sizes, tensor_arg
from polyreme.math.elementwise import multiply
from polyreme.math.manipulation import reshape, transpose
from polyreme.math.reduction import norm, sum
from polyreme.tensor import Tensor

__all__ = ["bmm", "dist", "dot", "inner", "kron", "matmul", "mm", "mv", "outer", "trace"]
METHODS = list(__all__)


@operator("matmul_v2")
def matmul(x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None) -> Tensor:
    """numpy's matrix product: vectors at either side, batches that broadcast."""
    tensor_arg(x, "matmul", "x")
    tensor_arg(y, "matmul", "y")
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(f"matmul expected tensors of at least one axis but got shapes {list(x.shape)} and {list(y.shape)}")
    if "c" in (x.type.dtype.kind, y.type.dtype.kind):
        x, y = promote(x, y)
    if x.type.dtype != y.type.dtype:
        raise ValueError(f"matmul expected equal dtypes but got {x.dtype.name} and {y.dtype.name}")
    return dispatch.call(ops.MatMul, x, y, transpose_x=bool(transpose_x) and x.ndim > 1, transpose_y=bool(transpose_y) and y.ndim > 1)


@operator("matmul_v2")
def mm(input: Tensor, mat2: Tensor, name: str | None = None) -> Tensor:
    """The product of two matrices."""
    return matmul(input, mat2)


@operator("bmm")
def bmm(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The products of two batches of matrices."""
    if x.ndim != 3 or y.ndim != 3:
        raise ValueError(f"x and y should be 3-dimensional. But received x's dimention: {list(x.shape)}, y's dimention: {list(y.shape)}")
    if not same_sizes(x.type.shape[:1], y.type.shape[:1]):
        raise ValueError(f"bmm expected batches of equal size but got {x.shape[0]} and {y.shape[0]}")
    return matmul(x, y)


@operator("mv")
def mv(x: Tensor, vec: Tensor, name: str | None = None) -> Tensor:
    """A matrix times a vector."""
    if x.ndim != 2 or vec.ndim != 1:
        raise ValueError(f"mv expected a matrix and a vector but got shapes {list(x.shape)} and {list(vec.shape)}")
    return matmul(x, vec)


@operator("dot")
def dot(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The sum of products along the last axis."""
    if x.ndim not in (1, 2) or not same_sizes(x.type.shape, y.type.shape):
        raise RuntimeError(f"dot expected two vectors, or two batches of vectors, of one shape but got {list(x.shape)} and {list(y.shape)}")
    return cast_to(sum(multiply(x, y), -1), promoted(x.type.dtype, y.type.dtype))


def inner(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The sums of products along the last axes; the plain product when either is 0-D."""
    if x.ndim == 0 or y.ndim == 0:
        return multiply(x, y)
    dtype = promoted(x.type.dtype, y.type.dtype)
    flat_x, flat_y = (reshape(cast_to(v, dtype), [-1, v.shape[-1]]) for v in (x, y))
    return reshape(matmul(flat_x, flat_y, transpose_y=True), x.shape[:-1] + y.shape[:-1])


def outer(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Every element of `x` times every element of `y`, both flattened."""
    return multiply(reshape(x, [-1, 1]), reshape(y, [1, -1]))


@operator("kron")
def kron(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Every element of `x` times the whole of `y`."""
    rank = max(x.ndim, y.ndim)
    a: Sequence[int] = [1] * (rank - x.ndim) + x.shape
    b: Sequence[int] = [1] * (rank - y.ndim) + y.shape
    wide_x = reshape(x, [d for n in a for d in (n, 1)])
    wide_y = reshape(y, [d for n in b for d in (1, n)])
    return reshape(multiply(wide_x, wide_y), [n * m for n, m in zip(a, b, strict=True)])


@operator("trace")
def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Tensor:
    """The sum of a diagonal of two axes."""
    if x.ndim < 2:
        raise IndexError(f"trace expected a tensor of at least 2 axes but got shape {list(x.shape)}")

    first, second = axis_of(axis1, x.ndim, "trace"), axis_of(axis2, x.ndim, "trace")
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    rows, columns = x.type.shape[first], x.type.shape[second]
    row, column = (dispatch.call(ops.Iota, shape=shape, axis=axis, dtype=i64) for axis, shape in enumerate([(rows, 1), (1, columns)]))
    on_diagonal = dispatch.call(ops.Equal, dispatch.call(ops.Add, row, dispatch.full((), int(offset), i64)), column)
    # Chosen, not multiplied by 0: an infinity beside the diagonal is not part of it.
    kept = dispatch.call(ops.Where, on_diagonal, transpose(x, [*rest, first, second]), dispatch.full((), 0, x.type.dtype))
    return cast_to(sum(kept, [-2, -1]), x.type.dtype)


@operator("dist")
def dist(x: Tensor, y: Tensor, p: float = 2, name: str | None = None) -> Tensor:
    """The p-norm of the difference."""
    return norm(x - y, float(p))
