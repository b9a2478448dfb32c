"""Measures of predictions."""

from __future__ import annotations

from polyreme import math
from polyreme.ir.types import f32, f64, i32, i64
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


@operator(
    legacy=spelled(
        "auc", {"Predict": "scores", "Label": "label", "StatPos": "positives", "StatNeg": "negatives"}, "AUC StatPosOut StatNegOut"
    )
)
def auc(
    scores: Tensor, label: Tensor, positives: Tensor, negatives: Tensor, *, curve: str = "ROC", num_thresholds: int = 4095,
    slide_steps: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The area under the ROC curve of the last column of `scores`, float64 [1], and the counts of rows by threshold that it is of.

    These are int64 [1, num_thresholds + 1] of all runs with `slide_steps` 0. Else they are a row for each of so many runs, the sum of these
    rows, and the number of runs so far, one behind the other. `curve` does not count, as in Paddle.
    """
    now = counts_by_threshold(scores, label, num_thresholds)
    if slide_steps == 0:
        after = [math.add(stat, math.reshape(count, list(stat.shape))) for stat, count in zip((positives, negatives), now, strict=True)]
        return math.reshape(area_under(*after), [1]), after[0], after[1]
    kept = [_with_run(stat, count, num_thresholds + 1, slide_steps) for stat, count in zip((positives, negatives), now, strict=True)]
    area = area_under(*(total for _, total in kept))
    return math.reshape(area, [1]), kept[0][0], kept[1][0]


def _with_run(stat: Tensor, count: Tensor, bins: int, steps: int) -> tuple[Tensor, Tensor]:
    """The counts with those of one more run in place of the oldest ones, and their sum."""
    rows, runs = math.reshape(stat[: steps * bins], [steps, bins]), stat[-1:]
    here = math.equal(math.reshape(math.arange(0, steps, 1, "int64"), [steps, 1]), math.mod(runs, math.full([1], steps, "int64")))
    rows = math.where(here, math.reshape(count, [1, bins]), rows)
    total = math.sum(rows, 0)
    made = math.concat([math.reshape(rows, [-1]), total, math.add(runs, math.ones([1], "int64"))], 0)
    return math.reshape(made, list(stat.shape)), total


def counts_by_threshold(scores: Tensor, label: Tensor, num_thresholds: int) -> list[Tensor]:
    """How many rows with and without a label there are in each of `num_thresholds` + 1 bins of the last column of `scores`, from 0 to 1:
    int64 [bins] each.
    """
    places = cast_to(math.floor(math.scale(scores[:, -1], float(num_thresholds))), i64)
    true = math.not_equal(math.reshape(label, [-1]), math.zeros([1], label.type.dtype))
    empty, index = math.zeros([num_thresholds + 1], "int64"), math.unsqueeze(places, -1)
    return [math.scatter_nd_add(empty, index, cast_to(chosen, i64)) for chosen in (true, math.logical_not(true))]


def area_under(positive: Tensor, negative: Tensor) -> Tensor:
    """The area of these counts by trapezoids from the highest threshold down, float64 []; 0 where one kind is missing."""
    ups, downs = (cast_to(math.flip(math.reshape(c, [-1]), [0]), f64) for c in (positive, negative))
    total = math.sum(math.multiply(downs, math.subtract(math.cumsum(ups), math.scale(ups, 0.5))))
    whole = math.multiply(math.sum(ups), math.sum(downs))
    share = math.divide(total, math.maximum(whole, math.ones_like(whole)))
    return math.where(math.greater_than(whole, math.zeros_like(whole)), share, whole)
