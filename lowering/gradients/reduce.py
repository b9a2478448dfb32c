"""Gradients of reductions, softmax and cross entropy."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import (
    Add,
    Cast,
    CrossEntropy,
    Cummax,
    Cummin,
    Cumprod,
    Cumsum,
    Div,
    Equal,
    Exp,
    Flip,
    Iota,
    Less,
    LogicalAnd,
    LogicalOr,
    LogSoftmax,
    Max,
    Mean,
    Min,
    Mul,
    Neg,
    NotEqual,
    Prod,
    Reshape,
    ScatterAdd,
    Softmax,
    Sub,
    Sum,
    Where,
)
from polyreme.dialects.nn.reduce import reduction_axes
from polyreme.dialects.shape_rules import number_fits
from polyreme.ir.dims import product
from polyreme.ir.types import i64
from polyreme.lowering.gradients.table import Emitter, Value, count_of, expand_reduced, gradient, number, repeat_to, size_number


@gradient(Sum)
def sum_(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy, repeated"""
    shape = op.x.type.shape
    return (repeat_to(b, expand_reduced(b, dy, shape, reduction_axes(op.axis, len(shape))), shape),)


@gradient(Mean)
def mean(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy / n, repeated"""
    shape = op.x.type.shape
    axes = reduction_axes(op.axis, len(shape))
    share = b(Div, dy, size_number(b, count_of(shape, axes), dy.type.dtype))
    return (repeat_to(b, expand_reduced(b, share, shape, axes), shape),)


@gradient(Max, Min)
def extreme(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy to the elements equal to the result, in equal shares"""
    shape = op.x.type.shape
    axes = reduction_axes(op.axis, len(shape))
    dtype = dy.type.dtype
    hit = b(Cast, b(Equal, op.x, expand_reduced(b, op.result, shape, axes)), dtype=dtype)
    share = b(Div, expand_reduced(b, dy, shape, axes), b(Sum, hit, axis=axes, keepdims=True) if axes else hit)
    return (b(Mul, hit, share),)


@gradient(Prod)
def prod(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy times the product of the other elements, found without dividing by a zero

    With p the product of the elements that are not 0, and z the number of those that are: an element that is 0 has p if it is the only
    one, and the others have p / x if there is none.
    """
    x, shape = op.x, op.x.type.shape
    axes = reduction_axes(op.axis, len(shape))
    if not axes:
        return (dy,)
    zero, one = number(b, 0, dy), number(b, 1, dy)
    is_zero = b(Equal, x, zero)
    safe = b(Where, is_zero, one, x)
    product = b(Prod, safe, axis=axes, keepdims=True)
    zeros = b(Sum, b(Cast, is_zero, dtype=dy.type.dtype), axis=axes, keepdims=True)
    for_zeros = b(Where, b(Equal, zeros, one), product, zero)
    for_others = b(Where, b(Equal, zeros, zero), b(Div, product, safe), zero)
    return (b(Mul, expand_reduced(b, dy, shape, axes), b(Where, is_zero, for_zeros, for_others)),)


@gradient(Softmax)
def softmax(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = y (dy - sum(dy y))"""
    y = op.result
    return (b(Mul, y, b(Sub, dy, b(Sum, b(Mul, dy, y), axis=(op.axis,), keepdims=True))),)


@gradient(LogSoftmax)
def log_softmax(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy - exp(y) sum(dy)"""
    return (b(Sub, dy, b(Mul, b(Exp, op.result), b(Sum, dy, axis=(op.axis,), keepdims=True))),)


@gradient(CrossEntropy)
def cross_entropy(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy (softmax(x) - onehot(label)), 0 where the label is ignored; soft labels stand in for the one-hot ones"""
    logits, label = op.logits, op.label
    kind = logits.type
    softmax = b(Softmax, logits, axis=op.axis)
    if op.soft_label:
        weight = b(Sum, label, axis=(op.axis,), keepdims=True)
        logs = b(LogSoftmax, logits, axis=op.axis)
        return b(Mul, dy, b(Sub, b(Mul, softmax, weight), label)), b(Neg, b(Mul, dy, logs))
    axis = op.axis % kind.rank
    classes = b(Iota, shape=tuple(d if i == axis else 1 for i, d in enumerate(kind.shape)), axis=axis, dtype=label.type.dtype)
    hit = b(Cast, b(Equal, classes, label), dtype=kind.dtype)
    if number_fits(op.ignore_index, label.type.dtype):
        counted = b(NotEqual, label, number(b, op.ignore_index, label))
        dy = b(Where, counted, dy, number(b, 0, dy))
    return b(Mul, dy, b(Sub, softmax, hit)), None


@gradient(Cumsum)
def cumsum(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = the running sums of dy from the end"""
    return (_from_end(b, dy, op.axis % dy.type.rank),)


def _from_end(b: Emitter, x: Value, axis: int) -> Value:
    return b(Flip, b(Cumsum, b(Flip, x, axes=(axis,)), axis=axis), axes=(axis,))


@gradient(Cumprod)
def cumprod(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = the running sums of dy y from the end, over x. Of the first 0: those of dy times the products without it; behind it nothing"""
    x, axis = op.x, op.axis % dy.type.rank
    zero, one = number(b, 0.0, dy), number(b, 1.0, dy)
    is_zero = b(Equal, x, zero)
    so_far = b(Cumsum, b(Cast, is_zero, dtype=i64), axis=axis)
    is_first = b(LogicalAnd, is_zero, b(Equal, so_far, number(b, 1, i64)))
    without = b(Where, is_first, one, x)
    of_first = _from_end(b, b(Mul, dy, b(Cumprod, without, axis=axis)), axis)
    before = b(Div, _from_end(b, b(Mul, dy, op.result), axis), b(Where, is_zero, one, x))
    return (b(Where, is_first, of_first, b(Where, b(Less, so_far, number(b, 1, i64)), before, zero)),)


@gradient(Cummax, Cummin)
def running_extreme(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = the sum of dy wherever the element is the last one that reaches the extreme"""
    x, shape, axis = op.x, dy.type.shape, op.axis % dy.type.rank
    reached = b(LogicalOr, b(Equal, x, op.result), b(NotEqual, x, x))
    along = b(Iota, shape=shape, axis=axis, dtype=i64)
    place = b(Cummax, b(Where, reached, along, number(b, 0, i64)), axis=axis)
    flat = None
    for other in range(len(shape)):
        own = place if other == axis else b(Iota, shape=shape, axis=other, dtype=i64)
        step = b(Mul, own, size_number(b, product(shape[other + 1 :]), i64))
        flat = step if flat is None else b(Add, flat, step)
    count = product(shape)
    summed = b(ScatterAdd, b(Reshape, dy, shape=(count,)), b(Reshape, flat, shape=(count,)), axis=0, size=count)
    return (b(Reshape, summed, shape=shape),)
