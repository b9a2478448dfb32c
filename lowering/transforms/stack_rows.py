"""Shuffles of concatenated values, such as ShuffleNet's channel shuffle, and repeated elements: a concatenation along a new last axis.

`kernels/general/interleave.py` writes what comes of it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.rows import shape_of

# More rows than this take more shuffles than single loads would cost.
MOST_ROWS = 8


@register_pass
@dataclass(frozen=True)
class StackRows(FuncPass):
    """transpose(reshape(concat(x, y), [..., 2, n]), last two axes exchanged)  ->  concat(reshape(x, [..., n, 1]), reshape(y, [..., n, 1]))
    gather(x, [0, 0, 1, 1, ...]) along the last axis                           ->  reshape(concat(x', x')),  x' = reshape(x, [..., n, 1])
    reshape(broadcast(x', [..., n, 2]))                                        ->  reshape(concat(x', x'))

    Before and after: `tensor` ops on values.  Runs before fusion, which keeps reshapes out of groups, and after the choice of layouts,
    which says what axis is the last one.
    """

    name: ClassVar[str] = "stack-rows"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tensor.Transpose) and exchanges_last(op):
                _stack(op)
            elif isinstance(op, tensor.Gather):
                _repeat(op)
            elif isinstance(op, tensor.Broadcast):
                _lay_side_by_side(op)


def exchanges_last(op: tensor.Transpose) -> bool:
    """Whether a transpose exchanges the last two axes, and leaves all others where they are."""
    rank = len(op.perm)
    return rank >= 2 and op.perm == (*range(rank - 2), rank - 1, rank - 2)


def _stack(op: tensor.Transpose) -> None:
    reshape = op.x.producer(tensor.Reshape)
    concat = None if reshape is None else reshape.x.producer(tensor.Concat)
    if reshape is None or concat is None or len(concat.xs) > MOST_ROWS or len(reshape.result.uses) > 1 or len(concat.result.uses) > 1:
        return
    *outer, rows, length = shape_of(op.x)
    if (
        shape_of(concat.result)[:-1] != tuple(outer)
        or concat.axis != len(outer)
        or rows != len(concat.xs)
        or any(shape_of(x)[-1] != length for x in concat.xs)
    ):
        return
    b = Builder.before_op(op)
    stacked = b(tensor.Concat, [_with_last_one(b, x) for x in concat.xs], axis=len(outer) + 1)
    stacked.name = op.result.name
    op.replace_with(stacked)
    for old in (reshape, concat):
        old.erase()


def _repeat(op: tensor.Gather) -> None:
    """Each element of the last axis so many times, as images are enlarged."""
    index = op.index.producer(tensor.Constant)
    *outer, length = shape_of(op.x)
    if index is None or op.axis != len(outer) or len(shape_of(op.index)) != 1 or not isinstance(length, int) or length < 2:
        return
    places = index.value.array
    times = len(places) // length
    if not 2 <= times <= MOST_ROWS or not np.array_equal(places, np.arange(length * times) // times):
        return
    b = Builder.before_op(op)
    column = _with_last_one(b, op.x)
    made = b(tensor.Reshape, b(tensor.Concat, [column] * times, axis=len(outer) + 1), shape=shape_of(op.result))
    made.name = op.result.name
    op.replace_with(made)
    op.erase()


def _lay_side_by_side(op: tensor.Broadcast) -> None:
    """The same of a row of unknown length, which is repeated along a new axis and becomes one row."""
    *outer, times = shape_of(op.result)
    if (
        not isinstance(times, int)
        or not 2 <= times <= MOST_ROWS
        or shape_of(op.x) != (*outer, 1)
        or not outer
        or isinstance(outer[-1], int)
        or not all(isinstance(user, tensor.Reshape) for user in op.result.users)
    ):
        return
    made = Builder.before_op(op)(tensor.Concat, [op.x] * times, axis=len(outer))
    made.name = op.result.name
    op.replace_with(made)
    op.erase()


def _with_last_one(b: Builder, x: Value) -> Value:
    """`x` with a last axis of size 1; the one of a slice is added before it, so that the slice still costs nothing."""
    slice = x.producer(tensor.Slice)
    if slice is None:
        made: Value = b(tensor.Reshape, x, shape=(*shape_of(x), 1))
        return made
    inner = b(tensor.Reshape, slice.x, shape=(*shape_of(slice.x), 1))
    made = b(tensor.Slice, inner, starts=(*slice.starts, 0), stops=(*slice.stops, 1), strides=(*slice.strides, 1))
    return made
