"""Gradients of inverses, determinants, Cholesky factors and singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects import host
from polyreme.dialects.nn import Add, Cholesky, Constant, Determinant, Div, Inverse, MatMul, Mul, Neg, Reshape, Sub, Transpose, Where
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


@gradient(Determinant)
def determinant(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = dy y x⁻ᴴ"""
    shape = op.x.type.shape
    share = b(Reshape, b(Mul, dy, conjugate(b, op.result)), shape=(*shape[:-2], 1, 1))
    return (b(Mul, share, _adjoint(b, b(Inverse, op.x))),)


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


@gradient(host.SingularValues)
def singular_values(op: Any, b: Emitter, dy: Value) -> Any:
    """dx = U diag(ds) Vᵀ"""
    left, right = b(host.SingularVectors, op.x)
    return (b(MatMul, b(Mul, left, _as_row(b, dy)), right),)


@gradient(host.SingularVectors)
def singular_vectors(op: Any, b: Emitter, dleft: Value | None, dright: Value | None) -> Any:
    """dx = (U (F ∘ (Uᵀ dU - dUᵀ U)) S + (1 - U Uᵀ) dU S⁻¹) Vᵀ, and the same turned for dV, with F = 1 / (sⱼ² - sᵢ²) and 0 on the diagonal
    (Townsend, "Differentiating the singular value decomposition", 2016): not finite where two singular values are equal
    """
    left, right = op.results
    values = _as_row(b, b(host.SingularValues, op.x))
    squares = b(Mul, values, values)
    size = values.type.shape[-1]
    same = b(Constant, value=Dense(np.eye(size, dtype=bool)))
    apart = b(Where, same, number(b, 1, squares), b(Sub, squares, _adjoint(b, squares)))
    factor = b(Where, same, number(b, 0, squares), b(Div, number(b, 1, squares), apart))

    def of_left(vectors: Value, change: Value) -> Value:
        """What stands in front of the other vectors."""
        turned = b(MatMul, _adjoint(b, vectors), change)
        inside = b(Mul, b(Mul, factor, b(Sub, turned, _adjoint(b, turned))), values)
        outside = b(Div, b(Sub, change, b(MatMul, vectors, turned)), values)
        return b(Add, b(MatMul, vectors, inside), outside)

    parts = []
    if dleft is not None:
        parts.append(b(MatMul, of_left(left, dleft), right))
    if dright is not None:
        parts.append(b(MatMul, left, _adjoint(b, of_left(_adjoint(b, right), _adjoint(b, dright)))))
    return (parts[0] if len(parts) == 1 else b(Add, *parts),)


def _as_row(b: Emitter, x: Value) -> Value:
    return b(Reshape, x, shape=(*x.type.shape[:-1], 1, x.type.shape[-1]))
