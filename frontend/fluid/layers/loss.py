"""Losses."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.framework import appending, in_dygraph_mode
from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.elementwise import elementwise_add, equal
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.nn import (
    expand,
    matmul,
    one_hot,
    reduce_mean,
    reduce_sum,
    reshape,
    scale,
    transpose,
)
from polyreme.fluid.layers.tensor import cast
from polyreme.names import listed
from polyreme.static.nn import sampling

__all__ = [
    "bpr_loss", "cross_entropy", "dice_loss", "huber_loss", "kldiv_loss", "label_smooth", "log_loss", "margin_rank_loss", "mse_loss",
    "nce", "npair_loss", "rank_loss", "sigmoid_cross_entropy_with_logits", "smooth_l1", "softmax_with_cross_entropy", "square_error_cost",
]  # fmt: skip


@appending
def nce(
    input: Any, label: Any, num_total_classes: int, sample_weight: Any = None, param_attr: Any = None, bias_attr: Any = None,
    num_neg_samples: int | None = None, name: str | None = None, sampler: str = "uniform", custom_dist: Any = None, seed: int = 0,
    is_sparse: bool = False,
) -> Any:  # fmt: skip
    """As `paddle.static.nn.nce`."""
    return sampling.nce(
        input, label, num_total_classes, sample_weight, param_attr, bias_attr, num_neg_samples, name, sampler, custom_dist, seed, is_sparse
    )  # fmt: skip


@takes("input", "label")
def cross_entropy(input: Any, label: Any, soft_label: bool = False, ignore_index: int = -100) -> Any:
    """-log of the probability in `input` [..., classes] of the label's class, [..., 1]; with `soft_label` `label` has a weight per class.
    """
    helper = LayerHelper("cross_entropy")
    out = helper.create_variable_for_type_inference(input.dtype)
    if soft_label:
        helper.append_op("cross_entropy", {"X": input, "Label": label}, {"Y": out}, {"soft_label": True, "ignore_index": ignore_index})
        return out
    shape, match = (helper.create_variable_for_type_inference(input.dtype, stop_gradient=True) for _ in range(2))
    outputs = {"Y": out, "MatchX": match, "XShape": shape}
    helper.append_op("cross_entropy2", {"X": input, "Label": label}, outputs, {"ignore_index": ignore_index})
    return out


@takes("input", "label")
def square_error_cost(input: Any, label: Any) -> Any:
    """(input - label)^2."""
    helper = LayerHelper("square_error_cost")
    minus = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("elementwise_sub", {"X": input, "Y": label}, {"Out": minus})
    out = helper.create_variable_for_type_inference(input.dtype)
    helper.append_op("square", {"X": minus}, {"Out": out})
    return out


@takes("input", "label")
def mse_loss(input: Any, label: Any) -> Any:
    """The mean of (input - label)^2."""
    return reduce_mean(square_error_cost(input, label))


@takes("logits", "label")
def softmax_with_cross_entropy(
    logits: Any, label: Any, soft_label: bool = False, ignore_index: int = -100, numeric_stable_mode: bool = True,
    return_softmax: bool = False, axis: int = -1,
) -> Any:  # fmt: skip
    """The cross entropy of softmax(logits), with the axis kept at size 1; and the softmax where it is asked for."""
    helper = LayerHelper("softmax_with_cross_entropy")
    softmax = helper.create_variable_for_type_inference(logits.dtype)
    loss = helper.create_variable_for_type_inference(logits.dtype)
    attrs = {"soft_label": soft_label, "ignore_index": ignore_index, "numeric_stable_mode": numeric_stable_mode, "axis": axis}
    helper.append_op("softmax_with_cross_entropy", {"Logits": logits, "Label": label}, {"Softmax": softmax, "Loss": loss}, attrs)
    return (loss, softmax) if return_softmax else loss


@takes("x", "label")
def sigmoid_cross_entropy_with_logits(
    x: Any, label: Any, ignore_index: int = -100, name: str | None = None, normalize: bool = False
) -> Any:
    """The cross entropy of sigmoid(x) with labels in [0, 1], element by element."""
    helper = LayerHelper("sigmoid_cross_entropy_with_logits", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    attrs = {"ignore_index": ignore_index, "normalize": normalize}
    helper.append_op("sigmoid_cross_entropy_with_logits", {"X": x, "Label": label}, {"Out": out}, attrs)
    return out


@takes("x", "y")
def smooth_l1(x: Any, y: Any, inside_weight: Any = None, outside_weight: Any = None, sigma: float | None = None) -> Any:
    """Per row the sum of 0.5 * (sigma * d)^2 where |d| is below 1 / sigma^2, of |d| - 0.5 / sigma^2 elsewhere, d = x - y."""
    helper = LayerHelper("smooth_l1_loss")
    diff, loss = (helper.create_variable_for_type_inference(x.dtype) for _ in range(2))
    slots = {"X": x, "Y": y, "InsideWeight": inside_weight, "OutsideWeight": outside_weight}
    helper.append_op("smooth_l1_loss", slots, {"Diff": diff, "Out": loss}, {"sigma": 1.0 if sigma is None else float(sigma)})
    return loss


@takes("input", "label")
def huber_loss(input: Any, label: Any, delta: float) -> Any:
    """0.5 * d^2 where |d| is at most delta, delta * (|d| - 0.5 * delta) elsewhere."""
    helper = LayerHelper("huber_loss")
    residual, out = (helper.create_variable_for_type_inference(input.dtype) for _ in range(2))
    helper.append_op("huber_loss", {"X": input, "Y": label}, {"Out": out, "Residual": residual}, {"delta": float(delta)})
    return out


@takes("x", "target")
def kldiv_loss(x: Any, target: Any, reduction: str = "mean", name: str | None = None) -> Any:
    """target * (log(target) - x), reduced by `mean`, `sum`, `batchmean` or `none`."""
    helper = LayerHelper("kldiv_loss", name=name)
    loss = helper.create_variable_for_type_inference(x.dtype, shape=None if reduction == "none" else [1])
    helper.append_op("kldiv_loss", {"X": x, "Target": target}, {"Loss": loss}, {"reduction": reduction})
    return loss


def _loss(type: str, slots: dict[str, Any], dtype: Any, attrs: dict[str, Any], slot: str = "Out", name: str | None = None) -> Any:
    """The variable of one operator."""
    helper = LayerHelper(type, name=name)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type, slots, {slot: out}, attrs)
    return out


@takes("input", "label")
def log_loss(input: Any, label: Any, epsilon: float = 0.0001, name: str | None = None) -> Any:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon), of probabilities [N, 1]."""
    return _loss("log_loss", {"Predicted": input, "Labels": label}, input.dtype, {"epsilon": epsilon}, "Loss", name)


@takes("label", "left", "right")
def rank_loss(label: Any, left: Any, right: Any, name: str | None = None) -> Any:
    """log(1 + exp(left - right)) - label * (left - right)."""
    return _loss("rank_loss", {"Label": label, "Left": left, "Right": right}, left.dtype, {}, name=name)


@takes("label", "left", "right")
def margin_rank_loss(label: Any, left: Any, right: Any, margin: float = 0.1, name: str | None = None) -> Any:
    """max(0, -label * (left - right) + margin)."""
    return _loss("margin_rank_loss", {"Label": label, "X1": left, "X2": right}, left.dtype, {"margin": margin}, name=name)


@takes("input", "label")
def bpr_loss(input: Any, label: Any, name: str | None = None) -> Any:
    """The mean of log(1 + exp(x_j - x_label)) over the other classes j of `input` [N, classes], [N, 1]."""
    return _loss("bpr_loss", {"X": input, "Label": label}, input.dtype, {}, "Y", name)


@takes("label")
def label_smooth(label: Any, prior_dist: Any = None, epsilon: float = 0.1, dtype: Any = "float32", name: str | None = None) -> Any:
    """(1 - epsilon) * label + epsilon * prior_dist, whose elements are by default 1 / classes each. In a program no gradient flows to
    `label`.
    """
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError("The value of epsilon must be between 0 and 1.")
    if not in_dygraph_mode():
        label.stop_gradient = True
    return _loss("label_smooth", {"X": label, "PriorDist": prior_dist}, dtype, {"epsilon": float(epsilon)}, name=name)


@takes("input", "label")
def dice_loss(input: Any, label: Any, epsilon: float = 0.00001, name: str | None = None) -> Any:
    """The mean of 1 - 2 * common / total, of the shares `input` [N, ..., classes] and labels [N, ..., 1]."""
    chosen = one_hot(label, depth=input.shape[-1])
    axes = list(range(1, len(input.shape)))
    common = reduce_sum(input * chosen, dim=axes)
    total = elementwise_add(reduce_sum(input, dim=axes), reduce_sum(chosen, dim=axes))
    return reduce_mean(1 - common * 2 / (total + epsilon))


@takes("anchor", "positive", "labels")
def npair_loss(anchor: Any, positive: Any, labels: Any, l2_reg: float = 0.002) -> Any:
    """The cross entropy of the products of `anchor` and `positive` [N, size] with who has whose label, plus `l2_reg` / 4 times their mean
    squared lengths.
    """
    count = labels.shape[0]
    column = reshape(labels, [count, 1])
    alike = cast(equal(expand(column, [1, count]), transpose(expand(column, [1, count]), [1, 0])), "float32")
    shares = alike / reduce_sum(alike, dim=1, keep_dim=True)
    lengths = reduce_mean(reduce_sum(anchor * anchor, 1)) + reduce_mean(reduce_sum(positive * positive, 1))
    products = matmul(anchor, positive, transpose_x=False, transpose_y=True)
    each = softmax_with_cross_entropy(products, shares, soft_label=True)
    return scale(lengths, 0.25 * l2_reg) + reduce_mean(reduce_sum(shares * each, 0))


__dir__ = listed(__name__)
