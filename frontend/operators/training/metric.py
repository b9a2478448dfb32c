"""Measures of predictions."""

from __future__ import annotations

from polyreme import math
from polyreme.ir.types import f32, i32
from polyreme.math.common import cast_to
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator(legacy=spelled("accuracy", {"Out": "x", "Indices": "indices", "Label": "label"}, "Accuracy Correct Total"))
def accuracy(x: Tensor, indices: Tensor, label: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the rows of `indices`, the classes with the largest scores `x`: how many hold the row's label, as a share and as counts [1]."""
    hit = math.any(math.equal(indices, cast_to(math.reshape(label, [indices.type.shape[0], 1]), indices.type.dtype)), [1])
    correct = math.reshape(math.sum(cast_to(hit, i32)), [1])
    total = math.reshape(cast_to(math.sum(math.ones_like(cast_to(hit, i32))), i32), [1])
    return math.divide(cast_to(correct, f32), cast_to(total, f32)), cast_to(correct, i32), total
