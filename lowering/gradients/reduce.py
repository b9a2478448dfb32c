"""Gradients of reductions, softmax and cross entropy."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import (
    Cast,
    CrossEntropy,
    Cumsum,
    Div,
    Equal,
    Exp,
    Flip,
    Iota,
    LogSoftmax,
    Max,
    Mean,
    Min,
    Mul,
    Neg,
    NotEqual,
    Prod,
    Softmax,
    Sub,
    Sum,
    Where,
)
from polyreme.dialects.nn.reduce import reduction_axes
from polyreme.dialects.shape_rules import number_fits
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
    axis = op.axis % dy.type.rank
    return (b(Flip, b(Cumsum, b(Flip, dy, axes=(axis,)), axis=axis), axes=(axis,)),)
