"""What pooling's lowering and its gradient share: how much padding the windows need, and how many elements each one covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.dialects.nn import Add, Cast, DimValue, Full, Iota, Maximum, Minimum, Mul, Reshape, Sub
from polyreme.dialects.nn.pool import pool_axis, pool_numbers
from polyreme.dialects.shape_rules import is_negative
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import f32, f64


def pool_padding(op: Any) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Padding before and after each spatial axis, with what `ceil_mode` adds at the end."""
    sizes = op.x.type.shape[2:]
    strides, pairs = pool_numbers(len(sizes), op.kernel, op.strides, op.padding)
    numbers = zip(sizes, op.kernel, strides, pairs, strict=True)
    high = tuple(pool_axis(size, kernel, stride, before, after, op.ceil_mode)[1] for size, kernel, stride, (before, after) in numbers)
    return tuple(before for before, _ in pairs), high


def covered_elements(op: Any, b: Callable[..., Any]) -> Any:
    """The divisor of each window of an `avg_pool`, in a shape that broadcasts to the result's: one number when all windows cover the same.
    """
    dtype = op.x.type.dtype
    low, high = pool_padding(op)
    spatial = len(low)
    strides, _ = pool_numbers(spatial, op.kernel, op.strides, op.padding)
    counts = []
    uniform: Dim = 1
    for axis in range(spatial):
        counted = 0 if op.exclusive else low[axis]
        # No window reaches below 0 or beyond what counts: each covers its whole kernel.
        if (low[axis] == 0 or not op.exclusive) and not _may_exceed(high[axis], counted):
            uniform = uniform * op.kernel[axis]
            continue
        counts.append(_axis_counts(op, b, axis, strides[axis], low[axis], counted))
    if uniform != 1 or not counts:
        counts.append(_size(b, uniform, dtype))
    total = counts[0]
    for count in counts[1:]:
        total = b(Mul, total, count)
    return total


def _may_exceed(high: Dim, counted: Dim) -> bool:
    """Whether the padding after an axis can be more than the part of it that counts."""
    difference = counted - high
    return is_negative(difference) if isinstance(difference, int) else True


def _axis_counts(op: Any, b: Callable[..., Any], axis: int, stride: Dim, low: Dim, counted: Dim) -> Any:
    """min(start + kernel, size + counted) - max(start, 0) for the windows along one axis, [positions, 1, …]."""
    # Counted in floats wide enough for any size that memory holds, then in the operand's type.
    dtype = op.x.type.dtype
    wide = f64 if dtype == f64 else f32
    size, kernel = op.x.type.shape[2 + axis], op.kernel[axis]
    positions = op.result.type.shape[2 + axis]
    start = b(Iota, shape=(positions,), axis=0, dtype=wide)
    start = b(Sub, b(Mul, start, _size(b, stride, wide)), _size(b, low, wide))
    end = b(Minimum, b(Add, start, _size(b, kernel, wide)), _size(b, size + counted, wide))
    first = b(Maximum, start, _size(b, 0, wide)) if op.exclusive else start
    count = b(Sub, end, first)
    if dtype != wide:
        count = b(Cast, count, dtype=dtype)
    spatial = op.x.type.rank - 2
    return b(Reshape, count, shape=(positions, *(1,) * (spatial - 1 - axis)))


def _size(b: Callable[..., Any], size: Dim, dtype: Any) -> Any:
    return b(DimValue, size=size, dtype=dtype) if isinstance(size, Expr) else b(Full, value=size, dtype=dtype)
