"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import broadcast_shapes, check_same_dtype, shape_text
from polyreme.ir.accuracy import SUM
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand, optional
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.sizes.facts import agree, agree_all
from polyreme.ir.types import TensorType


def _product(x: Array, y: Array) -> Array:
    """numpy's product; 16-bit floats accumulate in float32."""
    narrow = x.dtype.kind == "V" or x.dtype == np.float16
    left, right = (x.astype(np.float32), y.astype(np.float32)) if narrow else (x, y)
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(left, right)).astype(x.dtype, copy=False)


@op("nn.matmul", Pure, accuracy=SUM)
class MatMul(Op):
    """The matrix product over the last axis of `x` and the last but one of `y`, by numpy's rules.

        %z = nn.matmul %x, %y {transpose_y = true} : tensor<Nx2x4xf32>      // %x: tensor<Nx2x3xf32>, %y: tensor<4x3xf32>

    […, m, k] by […, k, n] gives […, m, n]: leading axes broadcast. An operand of rank 1 is a row (`x`) or a column (`y`), whose axis the
    result lacks; of rank 0 none may be. `transpose_x` and `transpose_y` swap an operand's last two axes first; they do nothing to an
    operand of rank 1. Over an inner axis of no elements the result is 0. Element types are equal; integers wrap around, 16-bit floats add
    up in float32.
    """

    x = operand()
    y = operand()
    transpose_x = attr(bool, default=False)
    transpose_y = attr(bool, default=False)

    @staticmethod
    def infer(x: TensorType, y: TensorType, *, transpose_x: bool, transpose_y: bool) -> TensorType:
        check(x.rank >= 1 and y.rank >= 1, f"expected operands of rank 1 or more but got {shape_text(x.shape)} and {shape_text(y.shape)}")
        check_same_dtype([x, y])
        check_type(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
        rows, inner_x = ((x.shape[-1], x.shape[-2]) if transpose_x else (x.shape[-2], x.shape[-1])) if x.rank > 1 else (None, x.shape[0])
        inner_y, columns = ((y.shape[-1], y.shape[-2]) if transpose_y else (y.shape[-2], y.shape[-1])) if y.rank > 1 else (y.shape[0], None)
        check(agree(inner_x, inner_y), f"expected inner dimensions to agree but got {inner_x} and {inner_y}")
        batch = broadcast_shapes([x.shape[:-2], y.shape[:-2]])
        return x.with_shape((*batch, *(d for d in (rows, columns) if d is not None)))

    @staticmethod
    def reference(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
        x = x.swapaxes(-1, -2) if transpose_x and x.ndim > 1 else x
        y = y.swapaxes(-1, -2) if transpose_y and y.ndim > 1 else y
        return _product(x, y)


@op("nn.linear", Pure, accuracy=SUM)
class Linear(Op):
    """x @ weight + bias over the last axis of `x`.

        %y = nn.linear %x, %w, %b : tensor<Nx3xf32>      // %x: tensor<Nx4xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>

    `x` is […, in], `weight` [in, out], `bias` [out] or absent; the result is […, out]. Element types are equal; 16-bit floats add up in
    float32.
    """

    x = operand()
    weight = operand()
    bias = optional()

    @staticmethod
    def infer(x: TensorType, weight: TensorType, bias: TensorType | None) -> TensorType:
        check(x.rank >= 1, "expected an operand of rank 1 or more but got a number")
        check(weight.rank == 2, f"expected a weight of shape [in, out] but got {shape_text(weight.shape)}")
        check_same_dtype([x, weight] if bias is None else [x, weight, bias])
        check_type(x.dtype.kind in "fiuc", f"expected numbers but got {x.dtype}")
        check(agree(x.shape[-1], weight.shape[0]), f"expected {weight.shape[0]} features, the weight's first size, but got {x.shape[-1]}")
        fits = bias is None or agree_all(bias.shape, weight.shape[1:])
        check(fits, f"expected a bias of shape {shape_text(weight.shape[1:])} but got {shape_text(getattr(bias, 'shape', ()))}")
        return x.with_shape((*x.shape[:-1], weight.shape[1]))

    @staticmethod
    def reference(x: Array, weight: Array, bias: Array | None) -> Any:
        product = _product(x, weight)
        with np.errstate(all="ignore"):
            return product if bias is None else product + bias
