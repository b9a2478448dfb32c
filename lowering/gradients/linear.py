"""Gradients of products and convolutions."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import Conv, ConvFilter, ConvTranspose, Linear, MatMul, Reshape, Sum
from polyreme.ir.dims import product
from polyreme.lowering.gradients.table import Emitter, Value, conjugate, gradient, unbroadcast


@gradient(MatMul)
def matmul(op: Any, b: Emitter, dz: Value) -> Any:
    """dx = dz yᴴ, dy = xᴴ dz, each transposed back if its operand was"""
    x, y = op.x, op.y
    # Operands of rank 1 as the matrices they stand for, and the result with the axes that they lost.
    rows = x if x.type.rank > 1 else b(Reshape, x, shape=(1, *x.type.shape))
    columns = y if y.type.rank > 1 else b(Reshape, y, shape=(*y.type.shape, 1))
    rows, columns = conjugate(b, rows), conjugate(b, columns)
    tx, ty = op.transpose_x and x.type.rank > 1, op.transpose_y and y.type.rank > 1
    shape = dz.type.shape
    shape = shape if y.type.rank > 1 else (*shape, 1)
    shape = shape if x.type.rank > 1 else (*shape[:-1], 1, shape[-1])
    dz = dz if dz.type.shape == shape else b(Reshape, dz, shape=shape)
    if tx:
        dx = b(MatMul, columns, dz, transpose_x=ty, transpose_y=True)
    else:
        dx = b(MatMul, dz, columns, transpose_y=not ty)
    if columns.type.rank == 2 and not tx:
        # All products with one matrix as a single one over their rows: its gradients are never made one by one, to be added up.
        rows_of_all, dz = _in_rows(b, rows), _in_rows(b, dz)
    else:
        rows_of_all = rows
    if ty:
        dy = b(MatMul, dz, rows_of_all, transpose_x=True, transpose_y=tx)
    else:
        dy = b(MatMul, rows_of_all, dz, transpose_x=not tx)
    dx, dy = unbroadcast(b, dx, rows.type), unbroadcast(b, dy, columns.type)
    return (
        dx if x.type.rank > 1 else b(Reshape, dx, shape=x.type.shape),
        dy if y.type.rank > 1 else b(Reshape, dy, shape=y.type.shape),
    )


def _in_rows(b: Emitter, x: Value) -> Value:
    """The rows of all matrices, one below the other."""
    shape = x.type.shape
    return x if len(shape) == 2 else b(Reshape, x, shape=(product(shape[:-1]), shape[-1]))


@gradient(Linear)
def linear(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy Wᵀ, dW = xᵀ dy over all rows, db = sum of dy"""
    x, weight = op.x, op.weight
    dx = b(MatMul, dy, weight, transpose_y=True)
    flat_x, flat_dy = _in_rows(b, x), _in_rows(b, dy)
    dw = b(MatMul, flat_x, flat_dy, transpose_x=True)
    return dx, dw, None if op.bias is None else b(Sum, flat_dy, axis=(0,))


@gradient(Conv)
def conv(op: Any, b: Emitter, dy: Value) -> Any:
    """dx by the transposed convolution of dy, dW by products of x and dy at each tap, db = sum of dy per channel"""
    shape = op.x.type.shape
    numbers = {"strides": op.strides, "padding": op.padding, "dilations": op.dilations, "groups": op.groups}
    dx = b(ConvTranspose, dy, op.weight, sizes=shape[2:], **numbers)
    dw = b(ConvFilter, op.x, dy, kernel=op.weight.type.shape[2:], **numbers)
    return dx, dw, None if op.bias is None else b(Sum, dy, axis=(0, *range(2, len(shape))))


@gradient(ConvTranspose)
def conv_transpose(op: Any, b: Emitter, dy: Value) -> Any:
    """dx by the convolution of dy, dW as that convolution's"""
    numbers = {"strides": op.strides, "padding": op.padding, "dilations": op.dilations, "groups": op.groups}
    return b(Conv, dy, op.weight, **numbers), b(ConvFilter, dy, op.x, kernel=op.weight.type.shape[2:], **numbers)


@gradient(ConvFilter)
def conv_filter(op: Any, b: Emitter, dw: Value) -> Any:
    """dx by the transposed convolution of dy with dW, d(dy) by the convolution of x with dW"""
    numbers = {"strides": op.strides, "padding": op.padding, "dilations": op.dilations, "groups": op.groups}
    return b(ConvTranspose, op.dy, dw, sizes=op.x.type.shape[2:], **numbers), b(Conv, op.x, dw, **numbers)
