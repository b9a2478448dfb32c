"""`accuracy`, `auc` and `ctr_metric_bundle`: how good predictions are, as part of a program."""

from __future__ import annotations

from polyreme import dispatch
from polyreme import math as functions
from polyreme.nn import functional as F
from polyreme.operators.training.metric import area_under, counts_by_threshold
from polyreme.static.current import default_main_program, default_startup_program
from polyreme.static.startup import startup_constant
from polyreme.static.variable import named_variable
from polyreme.tape import no_grad
from polyreme.tensor import Tensor
from polyreme.utils import unique_name

__all__ = ["accuracy", "auc", "ctr_metric_bundle"]


@no_grad()
def accuracy(input: Tensor, label: Tensor, k: int = 1, correct: Tensor | None = None, total: Tensor | None = None) -> Tensor:
    """The share of rows of `input` [N, C] whose label, [N, 1] or [N], is among the k largest: float32 [].

    `correct` and `total`, int32 variables, take the number of these rows and of all.
    """
    best = functions.topk(input, k)[1]
    hits = functions.any(functions.equal(best, functions.reshape(label, [-1, 1]).astype("int64")), 1)
    found = functions.sum(hits.astype("int32"))
    count = functions.sum(functions.ones_like(hits).astype("int32"))
    for variable, value in ((correct, found), (total, count)):
        if variable is not None:
            dispatch.assign(variable, functions.reshape(value.astype(variable.dtype), variable.shape or []))
    made = functions.divide(found.astype("float32"), count.astype("float32"))
    made.stop_gradient = True
    return made


@no_grad()
def auc(
    input: Tensor,
    label: Tensor,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The area under the ROC curve of predictions [N, 2] (of class 0 and 1) and labels [N, 1]: over all runs so far, over the last
    `slide_steps` runs (all for 0), and the counts of positives and negatives by threshold that these are of, which live in the scope.

    Areas are float64 []. Scores are put into `num_thresholds` + 1 bins. An `ins_tag_weight` of 0 in its first row takes a run out.
    """
    if curve != "ROC":
        raise ValueError(f"auc expected 'ROC' as the curve but got {curve!r}")
    if named_variable(input) is None:
        raise TypeError("auc expected a variable of a static program; use paddle.metric.Auc in dygraph mode")
    bins = num_thresholds + 1
    counts = counts_by_threshold(input, label, num_thresholds)
    if ins_tag_weight is not None:
        real = functions.not_equal(functions.reshape(ins_tag_weight, [-1])[0], 0)
        counts = [functions.where(real, c, functions.zeros_like(c)) for c in counts]
    history = [_persistent("auc_batch", [max(slide_steps, 1), bins]) for _ in counts]
    totals = [_persistent("auc", [1, bins]) for _ in counts]
    windows = []
    for total, past, now in zip(totals, history, counts, strict=True):
        row = functions.reshape(now, [1, bins])
        dispatch.assign(total, total + row)
        if slide_steps == 0:
            windows.append(total)
        else:
            dispatch.assign(past, functions.concat([past[1:], row], 0) if slide_steps > 1 else row)
            windows.append(functions.sum(past, 0, keepdim=True))
    return area_under(*totals), area_under(*windows), [*windows, *totals]


def _persistent(name: str, shape: list[int]) -> Tensor:
    """A variable of zeros that lives in the scope, int64."""
    blocks = default_main_program().global_block(), default_startup_program().global_block()
    return startup_constant(*blocks, unique_name.generate(name), shape, "int64", 0.0)


@no_grad()
def ctr_metric_bundle(input: Tensor, label: Tensor, ins_tag_weight: Tensor | None = None) -> tuple[Tensor, ...]:
    """Sums over all runs for click-through rates, of predictions [N, 1] and labels [N, 1]: squared errors, absolute errors, predictions,
    sigmoids of these, labels, and rows.

    Each is a float32 [1] that lives in the scope; quotients with the last one are the metrics. The first row of `ins_tag_weight` scales the
    sums of sigmoids and of rows, as in Paddle.
    """
    scores, labels = (t.astype("float32") for t in (input, label))
    differences = scores - labels
    weight = functions.ones([1]) if ins_tag_weight is None else functions.reshape(ins_tag_weight, [-1])[:1].astype("float32")
    parts = {
        "sqrerr": functions.square(differences), "abserr": functions.abs(differences), "prob": scores, "q": F.sigmoid(scores),
        "pos_num": labels, "ins_num": functions.ones_like(labels),
    }  # fmt: skip
    blocks = default_main_program().global_block(), default_startup_program().global_block()
    made = []
    for name, part in parts.items():
        total = startup_constant(*blocks, unique_name.generate(f"ctr_{name}"), [1], "float32", 0.0)
        batch = functions.reshape(functions.sum(part), [1])
        dispatch.assign(total, total + (batch * weight if name in ("q", "ins_num") else batch))
        made.append(total)
    return tuple(made)
