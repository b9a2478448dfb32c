"""Measures of predictions, as operators."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.initializer import Constant
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.nn import topk
from polyreme.names import listed
from polyreme.utils import unique_name

__all__ = ["accuracy", "auc"]


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


@takes("input", "label")
def auc(
    input: Any, label: Any, curve: str = "ROC", num_thresholds: int = 2**12 - 1, topk: int = 1, slide_steps: int = 1
) -> tuple[Any, Any, list[Any]]:
    """The area under the ROC curve of predictions [N, 2] and labels [N, 1], float64 [1]: over all runs so far, and over the last
    `slide_steps` ones (all for 0). The third is a list of the persistable counts that they are of: of the last runs with and without a
    label, and of all runs. `curve` and `topk` do not count, as in Paddle.
    """
    helper, bins = LayerHelper("auc"), num_thresholds + 1
    area, recent = (helper.create_variable_for_type_inference("float64", stop_gradient=True) for _ in range(2))
    shapes = [[(1 + slide_steps) * bins + 1] if slide_steps else [1, bins]] * 2 + [[1, bins]] * 2
    counts = []
    for shape in shapes:
        name = unique_name.generate("_generated_var")
        counts.append(helper.create_global_variable(True, name=name, shape=shape, dtype="int64"))
        helper.set_variable_initializer(counts[-1], Constant(0.0))
    for out, stats, steps in ((recent, counts[:2], slide_steps), (area, counts[2:], 0)):
        helper.append_op(
            "auc", {"Predict": input, "Label": label, "StatPos": stats[0], "StatNeg": stats[1]},
            {"AUC": out, "StatPosOut": stats[0], "StatNegOut": stats[1]},
            {"curve": curve, "num_thresholds": num_thresholds, "slide_steps": steps}, stop_gradient=True,
        )  # fmt: skip
    return area, recent, counts


__dir__ = listed(__name__)
