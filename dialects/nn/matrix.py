"""Matrices taken apart and turned round: inverses and Cholesky factors of batches of square matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import shape_text
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.sizes.facts import agree
from polyreme.ir.types import TensorType


def _check_square(x: TensorType) -> None:
    check(x.rank >= 2, f"expected matrices but got shape {shape_text(x.shape)}")
    check(agree(x.shape[-1], x.shape[-2]), f"expected square matrices but got shape {shape_text(x.shape)}")
    check_type(x.dtype.kind in "fc", f"expected floats or complex numbers but got {x.dtype}")


def _computed(x: Array, compute: Callable[[Array], Array]) -> Array:
    """By LAPACK; 16-bit floats in float32. A matrix that it refuses leaves nan in its place, and the others of the batch as they are."""
    wide = x.astype(np.float32) if x.dtype.kind == "V" or x.dtype == np.float16 else x
    try:
        made = compute(wide)
    except np.linalg.LinAlgError:
        made = np.full_like(wide, np.nan)
        for place in np.ndindex(*x.shape[:-2]):
            try:
                made[place] = compute(wide[place])
            except np.linalg.LinAlgError:
                continue
    return made.astype(x.dtype, copy=False)


@op("nn.inverse", Pure, accuracy=SUM)
class Inverse(Op):
    """The inverse of each matrix of the last two axes.

        %y = nn.inverse %x : tensor<Nx3x3xf32>

    Floats or complex numbers; 16-bit floats are computed in float32. A singular matrix gives no finite numbers: the front end refuses it.
    Compiled code pivots as LAPACK does, by the largest element of a column.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        _check_square(x)
        return x

    @staticmethod
    def reference(x: Array) -> Array:
        return _computed(x, np.linalg.inv)


@op("nn.determinant", Pure, accuracy=SUM)
class Determinant(Op):
    """The determinant of each matrix of the last two axes.

        %y = nn.determinant %x : tensor<Nxf32>      // %x: tensor<Nx3x3xf32>

    Floats or complex numbers; 16-bit floats are computed in float32. Compiled code pivots as LAPACK does, by the largest element of a
    column.
    """

    x = operand()

    @staticmethod
    def infer(x: TensorType) -> TensorType:
        _check_square(x)
        return x.with_shape(x.shape[:-2])

    @staticmethod
    def reference(x: Array) -> Array:
        return _computed(x, np.linalg.det)


@op("nn.cholesky", Pure, accuracy=SUM)
class Cholesky(Op):
    """The factor L of each symmetric, positive definite matrix x = L Lᵀ of the last two axes.

        %y = nn.cholesky %x : tensor<Nx3x3xf32>

    L is lower triangular with a positive diagonal. With `upper`, the result is U = Lᵀ, and only the upper half of x is read, else only the
    lower half. For complex numbers the transposes are conjugate, too. A matrix that is not positive definite gives nan: the front end
    refuses it. 16-bit floats are computed in float32.
    """

    x = operand()
    upper = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, *, upper: bool) -> TensorType:
        _check_square(x)
        return x

    @staticmethod
    def reference(x: Array, *, upper: bool) -> Array:
        if upper:
            return np.ascontiguousarray(np.conj(_computed(np.conj(x.swapaxes(-1, -2)), np.linalg.cholesky).swapaxes(-1, -2)))
        return _computed(x, np.linalg.cholesky)
