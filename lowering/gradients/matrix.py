"""Gradients of inverses and Cholesky factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects.nn import Add, Cholesky, Constant, Inverse, MatMul, Mul, Neg, Transpose
from polyreme.ir.attributes import Dense
from polyreme.lowering.gradients.table import Emitter, Value, conjugate, gradient, number


def _adjoint(b: Emitter, x: Value) -> Value:
    """xᴴ"""
    rank = x.type.rank
    return conjugate(b, b(Transpose, x, perm=(*range(rank - 2), rank - 1, rank - 2)))


@gradient(Inverse)
def inverse(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = -yᴴ dy yᴴ"""
    adjoint = _adjoint(b, op.result)
    return (b(Neg, b(MatMul, adjoint, b(MatMul, dy, adjoint))),)


@gradient(Cholesky)
def cholesky(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = (S + Sᴴ) / 2 with S = L⁻ᴴ Φ(Lᴴ dL) L⁻¹, where Φ keeps the lower triangle and halves the diagonal (Murray, arXiv:1602.07527)"""
    factor, change = (_adjoint(b, op.result), _adjoint(b, dy)) if op.upper else (op.result, dy)
    size = factor.type.shape[-1]
    half = np.tril(np.ones((size, size)), -1) + np.eye(size) / 2
    mask = b(Constant, value=Dense(half.astype(factor.type.dtype.np)))
    inner = b(Mul, b(MatMul, _adjoint(b, factor), change), mask)
    inverted = b(Inverse, factor)
    whole = b(MatMul, _adjoint(b, inverted), b(MatMul, inner, inverted))
    return (b(Mul, b(Add, whole, _adjoint(b, whole)), number(b, 0.5, whole)),)
