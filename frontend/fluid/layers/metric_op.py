"""Measures of predictions, as operators."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.nn import topk
from polyreme.names import listed

__all__ = ["accuracy"]


@takes("input", "label")
def accuracy(input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None) -> Any:
    """The share of rows of scores whose `k` best classes hold the label, [1] float32; `correct` and `total` take the counts."""
    helper = LayerHelper("accuracy")
    best, indices = topk(input, k)
    out = helper.create_variable_for_type_inference("float32", stop_gradient=True)
    correct = helper.create_variable_for_type_inference("int32", stop_gradient=True) if correct is None else correct
    total = helper.create_variable_for_type_inference("int32", stop_gradient=True) if total is None else total
    outputs = {"Accuracy": out, "Correct": correct, "Total": total}
    helper.append_op("accuracy", {"Out": best, "Indices": indices, "Label": label}, outputs, stop_gradient=True)
    return out


__dir__ = listed(__name__)
