"""Losses that are ops of their own, because their value and gradient need care; most losses are compositions in the front end."""

from __future__ import annotations

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.nn.activation import log_softmax
from polyreme.dialects.shape_rules import normal_axis, reduced_shape, shape_text
from polyreme.ir.accuracy import Accuracy
from polyreme.ir.core import Op
from polyreme.ir.define import Pure, attr, op, operand
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.sizes.facts import agree_all
from polyreme.ir.types import TensorType


@op("nn.cross_entropy", Pure, accuracy=Accuracy(ulp=4, absolute=8, summed=2))
class CrossEntropy(Op):
    """-log(softmax(logits)) at the label, per position along `axis`.

        %l = nn.cross_entropy %x, %t : tensor<Nx1xf32>      // %x: tensor<Nx4xf32>, %t: tensor<Nx1xi64>

    The result has the logits' shape with size 1 at `axis`. The label is a class number in a tensor of that shape; where it equals
    `ignore_index` the loss is 0, and where it is no class the loss is nan. With `soft_label` the label is a weight per class, shaped and
    typed as the logits, and the loss is the weighted sum. Nothing overflows, however large the logits. 16-bit floats are computed in
    float32.
    """

    logits = operand()
    label = operand()
    axis = attr(int, default=-1)
    soft_label = attr(bool, default=False)
    ignore_index = attr(int, default=-100)

    @staticmethod
    def infer(logits: TensorType, label: TensorType, *, axis: int, soft_label: bool, ignore_index: int) -> TensorType:
        check_type(logits.dtype.is_float, f"expected floats for the logits but got {logits.dtype}")
        kept = reduced_shape(logits.shape, (normal_axis(axis, logits.rank),), True)
        wanted = logits.shape if soft_label else kept
        check(agree_all(label.shape, wanted), f"expected a label of shape {shape_text(wanted)} but got {shape_text(label.shape)}")
        if soft_label:
            check_type(label.dtype == logits.dtype, f"expected soft labels of type {logits.dtype} but got {label.dtype}")
        else:
            check_type(label.dtype.is_integer, f"expected integer labels but got {label.dtype}")
        return logits.with_shape(kept)

    @staticmethod
    def reference(logits: Array, label: Array, *, axis: int, soft_label: bool, ignore_index: int) -> Array:
        wide = logits.astype(np.float64 if logits.dtype == np.float64 else np.float32, copy=False)
        logs = log_softmax(wide, axis)
        if soft_label:
            with np.errstate(all="ignore"):
                return -(logs * label.astype(wide.dtype, copy=False)).sum(axis, keepdims=True).astype(logits.dtype, copy=False)
        classes = logits.shape[axis]
        inside = (label >= 0) & (label < classes)
        if classes == 0:
            loss = np.full(label.shape, np.nan, wide.dtype)
        else:
            loss = np.where(inside, -np.take_along_axis(logs, np.where(inside, label, 0).astype(np.int64), axis), wide.dtype.type(np.nan))
        return np.where(label == ignore_index, wide.dtype.type(0), loss).astype(logits.dtype, copy=False)
