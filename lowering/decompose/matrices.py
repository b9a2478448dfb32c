"""Inverses, determinants and Cholesky factors of small matrices, written out step by step.

A step is a handful of maps over the whole matrix, so a matrix of n rows makes n times as many ops: good for the matrices of rotations,
covariances and the like. n must be known when the model is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects import nn
from polyreme.dialects import tensor as tt
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.diagnostics import ConversionError
from polyreme.ir.types import ScalarType, bf16, f16, f32

Value = Any  # at these levels each is a tensor, so its type has a shape, a rank and an element type
MOST_ROWS = 64


def _rows(op: Any, x: Value) -> int:
    n = x.type.shape[-1]
    if not isinstance(n, int) or n > MOST_ROWS or x.type.dtype.kind != "f":
        raise ConversionError(
            f"expected '{op.name}' of floats and of at most {MOST_ROWS} known rows but got {x.type}; compute it outside of what is "
            f"compiled",
            op.location,
        )
    return n


def _wide(b: Builder, x: Value) -> Value:
    return b(nn.Cast, x, dtype=f32) if x.type.dtype in (f16, bf16) else x


def _column(b: Builder, x: Value, j: int, width: int = 1) -> Value:
    """Columns j to j + width, which stay an axis."""
    shape = x.type.shape
    return b(tt.Slice, x, starts=(*(0,) * (len(shape) - 1), j), stops=(*shape[:-1], j + width), strides=(1,) * len(shape))


def _row(b: Builder, x: Value, j: int) -> Value:
    """Row j, which stays an axis."""
    shape = x.type.shape
    return b(tt.Slice, x, starts=(*(0,) * (len(shape) - 2), j, 0), stops=(*shape[:-2], j + 1, shape[-1]), strides=(1,) * len(shape))


def _mask(b: Builder, rows: np.ndarray[Any, Any], rank: int) -> Value:
    """A column of bools, of the rank of the matrices."""
    return b(tt.Constant, value=Dense(rows.reshape(*(1,) * (rank - 2), -1, 1)))


def _number(b: Builder, value: float, dtype: ScalarType) -> Value:
    return b(tt.Full, value=value, dtype=dtype)


def _pivoted(b: Builder, x: Value, j: int) -> tuple[Value, Value, Value]:
    """The row of those from j on with the largest element of column j, what is left when row j takes its place, and its number."""
    n, rank, dtype = x.type.shape[-2], x.type.rank, x.type.dtype
    column = b(tt.Map, _column(b, x, j), fn="abs")
    size = b(tt.Map, _mask(b, np.arange(n) >= j, rank), column, _number(b, -1, dtype), fn="select")
    largest = b(tt.ArgReduce, size, fn="max", axis=rank - 2, keepdims=True)
    numbers = b(tt.Iota, shape=(*(1,) * (rank - 2), n, 1), axis=rank - 2, dtype=largest.type.dtype)
    is_pivot = b(tt.Map, numbers, largest, fn="eq")
    pivot = b(tt.Reduce, b(tt.Map, is_pivot, x, _number(b, 0, dtype), fn="select"), fn="add", axes=(rank - 2,), keepdims=True)
    return pivot, b(tt.Map, is_pivot, _row(b, x, j), x, fn="select"), largest


def inverse(op: Any, b: Builder, x: Value) -> Value:
    """Gauss-Jordan on [x | 1]: for each column, the row with the largest element is swapped up, scaled, and subtracted from all others"""
    n, kind = _rows(op, x), x.type
    work = _wide(b, x)
    dtype, rank = work.type.dtype, kind.rank
    places = np.arange(n)
    unit = b(tt.Constant, value=Dense(np.eye(n, dtype=dtype.np).reshape(*(1,) * (rank - 2), n, n)))
    both = b(tt.Concat, (work, b(tt.Broadcast, unit, shape=kind.shape)), axis=rank - 1)
    for j in range(n):
        pivot, swapped, _ = _pivoted(b, both, j)
        scaled = b(tt.Map, pivot, _column(b, pivot, j), fn="div")
        rest = b(tt.Map, swapped, b(tt.Map, _column(b, swapped, j), scaled, fn="mul"), fn="sub")
        both = b(tt.Map, _mask(b, places == j, rank), scaled, rest, fn="select")
    return b(nn.Cast, _column(b, both, n, n), dtype=kind.dtype)


def determinant(op: Any, b: Builder, x: Value) -> Value:
    """Gauss: for each column, the row with the largest element is swapped up and subtracted from those below it; the product of these
    elements, with the other sign for each swap
    """
    n, kind = _rows(op, x), x.type
    left = _wide(b, x)
    dtype = left.type.dtype
    one = _number(b, 1, dtype)
    made = b(tt.Full, value=1, shape=(*kind.shape[:-2], 1, 1), dtype=dtype)
    for j in range(n):
        pivot, swapped, largest = _pivoted(b, left, j)
        element = _column(b, pivot, j)
        stays = b(tt.Map, largest, _number(b, j, largest.type.dtype), fn="eq")
        made = b(tt.Map, made, b(tt.Map, stays, element, b(tt.Map, element, fn="neg"), fn="select"), fn="mul")
        divisor = b(tt.Map, b(tt.Map, element, _number(b, 0, dtype), fn="eq"), one, element, fn="select")
        scaled = b(tt.Map, pivot, divisor, fn="div")
        left = b(tt.Map, swapped, b(tt.Map, _column(b, swapped, j), scaled, fn="mul"), fn="sub")
    return b(nn.Cast, b(tt.Reshape, made, shape=kind.shape[:-2]), dtype=kind.dtype)


def cholesky(op: Any, b: Builder, x: Value) -> Value:
    """Column by column: the column of what is left over the root of its diagonal element, whose product with itself is then taken away"""
    n, kind = _rows(op, x), x.type
    if n == 0:
        return x
    rank = kind.rank
    transposed = (*range(rank - 2), rank - 1, rank - 2)
    left = _wide(b, b(tt.Transpose, x, perm=transposed) if op.upper else x)
    zero = _number(b, 0, left.type.dtype)
    columns = []
    for j in range(n):
        first = _column(b, left, j)
        whole = b(tt.Map, first, b(tt.Map, _row(b, first, j), fn="sqrt"), fn="div")
        column = b(tt.Map, _mask(b, np.arange(n) >= j, rank), whole, zero, fn="select")
        columns.append(column)
        left = b(tt.Map, left, b(tt.Map, column, b(tt.Transpose, column, perm=transposed), fn="mul"), fn="sub")
    factor = b(tt.Concat, tuple(columns), axis=rank - 1)
    return b(nn.Cast, b(tt.Transpose, factor, perm=transposed) if op.upper else factor, dtype=kind.dtype)
