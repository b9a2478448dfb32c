"""Losses."""

from __future__ import annotations

from typing import Any

from polyreme.fluid.layer_helper import LayerHelper
from polyreme.fluid.layers.given import takes
from polyreme.fluid.layers.nn import reduce_mean
from polyreme.names import listed

__all__ = [
    "cross_entropy", "huber_loss", "kldiv_loss", "mse_loss", "sigmoid_cross_entropy_with_logits", "smooth_l1",
    "softmax_with_cross_entropy", "square_error_cost",
]  # fmt: skip


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


__dir__ = listed(__name__)
