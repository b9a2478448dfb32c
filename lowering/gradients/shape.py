"""Gradients of ops that move elements: each moves them back, and adds up what was repeated."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import (
    BroadcastTo,
    Concat,
    Equal,
    Flip,
    Fold,
    Full,
    Gather,
    Iota,
    Overwrite,
    Pad,
    Reshape,
    Scatter,
    ScatterAdd,
    Slice,
    Transpose,
    Where,
    Window,
)
from polyreme.dialects.shape_rules import padded_size
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import i64
from polyreme.lowering.gradients.table import Emitter, Value, gradient, number, unbroadcast, zeros_like


@gradient(Reshape)
def reshape(op: Any, b: Emitter, dy: Value) -> Any:
    return (b(Reshape, dy, shape=op.x.type.shape),)


@gradient(Transpose)
def transpose(op: Any, b: Emitter, dy: Value) -> Any:
    return (b(Transpose, dy, perm=tuple(op.perm.index(i) for i in range(len(op.perm)))),)


@gradient(BroadcastTo)
def broadcast_to(op: Any, b: Emitter, dy: Value) -> Any:
    return (unbroadcast(b, dy, op.x.type),)


@gradient(Slice)
def slice_(op: Any, b: Emitter, dy: Value) -> Any:
    """dy among zeros, at the places that were taken"""
    padding: list[Dim] = []
    interior: list[Dim] = []
    for size, taken, start, stride in zip(op.x.type.shape, dy.type.shape, op.starts, op.strides, strict=True):
        padding += [start, size - start - padded_size(taken, 0, 0, stride - 1)]
        interior.append(stride - 1)
    return (b(Pad, dy, padding=tuple(padding), interior=tuple(interior)),)


@gradient(Overwrite)
def overwrite(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy, whatever was written there"""
    return dy, None


@gradient(Flip)
def flip(op: Any, b: Emitter, dy: Value) -> Any:
    return (b(Flip, dy, axes=op.axes),)


@gradient(Concat)
def concat(op: Any, b: Emitter, dy: Value) -> Any:
    """Each operand's part of dy"""
    axis = op.axis % dy.type.rank
    parts = []
    at: Dim = 0
    for x in op.xs:
        size = x.type.shape[axis]
        starts = tuple(at if i == axis else 0 for i in range(dy.type.rank))
        stops = tuple(at + size if i == axis else d for i, d in enumerate(dy.type.shape))
        parts.append(b(Slice, dy, starts=starts, stops=stops, strides=(1,) * dy.type.rank))
        at = at + size
    return (tuple(parts),)


@gradient(Pad)
def pad(op: Any, b: Emitter, dy: Value) -> Any:
    """dy without the padding"""
    shape = op.x.type.shape
    strides = tuple(d + 1 for d in op.interior) or (1,) * len(shape)
    low = op.padding[::2]
    stops = tuple(start + padded_size(size, 0, 0, stride - 1) for start, size, stride in zip(low, shape, strides, strict=True))
    return (b(Slice, dy, starts=low, stops=stops, strides=strides),)


@gradient(Window)
def window(op: Any, b: Emitter, dy: Value) -> Any:
    sizes = tuple(op.x.type.shape[a] for a in op.axes)
    return (b(Fold, dy, axes=op.axes, sizes=sizes, strides=op.strides, dilations=op.dilations),)


@gradient(Fold)
def fold(op: Any, b: Emitter, dy: Value) -> Any:
    sizes = op.w.type.shape[dy.type.rank :]
    return (b(Window, dy, axes=op.axes, sizes=sizes, strides=op.strides, dilations=op.dilations),)


@gradient(Gather)
def gather(op: Any, b: Emitter, dy: Value) -> Any:
    axis = op.axis % op.x.type.rank
    return b(ScatterAdd, dy, op.index, axis=axis, size=op.x.type.shape[axis]), None


@gradient(Scatter)
def scatter(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy but 0 at the positions; du = dy there, but 0 for updates that later ones have replaced"""
    shape, axis = op.index.type.shape, op.axis
    numbers = b(Reshape, b(Iota, shape=(product(shape),), axis=0, dtype=i64), shape=shape)
    last = b(Scatter, b(Full, value=-1, shape=(op.x.type.shape[axis],), dtype=i64), numbers, op.index, axis=0)
    stayed = b(Equal, b(Gather, last, op.index, axis=0), numbers)
    stayed = b(Reshape, stayed, shape=(*(1,) * axis, *shape, *(1,) * (op.x.type.rank - axis - 1)))
    du = b(Where, stayed, b(Gather, dy, op.index, axis=axis), number(b, 0, dy))
    return b(Scatter, dy, zeros_like(b, op.updates), op.index, axis=axis), du, None


@gradient(ScatterAdd)
def scatter_add(op: Any, b: Emitter, dy: Value) -> Any:
    return b(Gather, dy, op.index, axis=op.axis), None
