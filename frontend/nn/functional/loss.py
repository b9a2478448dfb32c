"""Losses: mostly compositions of elementwise functions and a reduction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyreme import dispatch
from polyreme.casting.operators import operator
from polyreme.dialects import nn as ops
from polyreme.math.common import axis_of, cast_to, check_within, number_like, same_sizes, tensor_arg
from polyreme.math.elementwise import abs as abs_
from polyreme.math.elementwise import add, clip, divide, exp, log, maximum, minimum, multiply, neg, pow, scale, square, subtract
from polyreme.math.linalg import matmul
from polyreme.math.manipulation import moveaxis, reshape, squeeze, unsqueeze
from polyreme.math.reduction import mean, norm, sum
from polyreme.nn.functional.activation import relu, sigmoid, softmax, softplus
from polyreme.nn.functional.common import label_smooth, one_hot
from polyreme.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "dice_loss",
    "hinge_embedding_loss", "kl_div", "l1_loss",
    "log_loss", "margin_ranking_loss", "mse_loss", "nll_loss", "npair_loss", "poisson_nll_loss", "sigmoid_focal_loss", "smooth_l1_loss",
    "soft_margin_loss", "softmax_with_cross_entropy",
    "square_error_cost", "triplet_margin_loss",
]  # fmt: skip


def _reduced(loss: Tensor, reduction: str, name: str) -> Tensor:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"The value of 'reduction' in {name} should be 'sum', 'mean' or 'none', but received {reduction}, which is not allowed."
        )
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum(loss)


def _are_alike(input: Tensor, label: Tensor, axis: int | None = None) -> bool:
    """Whether the shapes are the same but along `axis`, as far as sizes are known."""
    given, wanted = input.type.shape, label.type.shape
    same = (i == axis or a == b or not (isinstance(a, int) and isinstance(b, int)) for i, (a, b) in enumerate(zip(given, wanted)))
    return len(given) == len(wanted) and all(same)


def _expect_alike(input: Tensor, label: Tensor, name: str, axis: int | None = None) -> None:
    """Refuse shapes that differ elsewhere than along `axis`: broadcast, they would give a loss of pairs that nobody meant."""
    if not _are_alike(input, label, axis):
        where = "" if axis is None else f" but for axis {axis}"
        raise ValueError(
            f"{name} expected a label of the shape {list(input.type.shape)} of the input{where} but got {list(label.type.shape)}"
        )


def mse_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """(input - label)²."""
    return _reduced(square(subtract(input, label)), reduction, "mse_loss")


def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    """(input - label)², element by element."""
    return square(subtract(input, label))


def l1_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """|input - label|."""
    return _reduced(abs_(subtract(input, label)), reduction, "l1_loss")


@operator("huber_loss")
def smooth_l1_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", delta: float = 1.0, is_huber: bool = True, name: str | None = None
) -> Tensor:
    """Squared up to a distance of `delta`, linear beyond it; the Huber loss, or that divided by delta."""
    _expect_alike(input, label, "smooth_l1_loss")
    distance = abs_(subtract(input, label))
    near = minimum(distance, number_like(distance, delta))
    # near²/2 + delta * (distance - near) is both pieces in one, with the right gradient at the joint.
    loss = add(scale(square(near), 0.5), scale(subtract(distance, near), float(delta)))
    return _reduced(loss if is_huber else scale(loss, 1.0 / delta), reduction, "smooth_l1_loss")


@operator("log_loss")
def log_loss(input: Tensor, label: Tensor, epsilon: float = 1e-4, name: str | None = None) -> Tensor:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon). The label gets no gradient."""
    _expect_alike(input, label, "log_loss")
    label = label.detach()
    yes = multiply(label, log(scale(input, 1.0, epsilon)))
    no = multiply(scale(label, -1.0, 1.0), log(scale(input, -1.0, 1.0 + epsilon)))
    return neg(add(yes, no))


def binary_cross_entropy(
    input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """-label * log(input) - (1 - label) * log(1 - input), the logarithms held above -100. The label gets no gradient."""
    _expect_alike(input, label, "binary_cross_entropy")
    label = label.detach()
    low = number_like(input, -100.0)
    yes = multiply(label, maximum(log(input), low))
    no = multiply(scale(label, -1.0, 1.0), maximum(log(scale(input, -1.0, 1.0)), low))
    loss = neg(add(yes, no))
    return _reduced(loss if weight is None else multiply(loss, weight), reduction, "binary_cross_entropy")


@operator("sigmoid_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    logit: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(logit), in the form that cannot overflow. Neither the label nor `pos_weight` gets a gradient."""
    _expect_alike(logit, label, "binary_cross_entropy_with_logits")
    label = label.detach()
    if pos_weight is None:
        # softplus(x) - x * label
        loss = subtract(softplus(logit, 1.0, 40.0), multiply(logit, label))
    else:
        pos_weight = pos_weight.detach()
        factor = add(multiply(subtract(pos_weight, number_like(pos_weight, 1.0)), label), number_like(logit, 1.0))
        loss = add(multiply(scale(label, -1.0, 1.0), logit), multiply(factor, softplus(neg(logit), 1.0, 40.0)))
    return _reduced(loss if weight is None else multiply(loss, weight), reduction, "binary_cross_entropy_with_logits")


@operator("softmax_with_cross_entropy")
def softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """The cross entropy of softmax(logits), with the axis kept at size 1; labels are class numbers in a tensor of that shape, or weights,
    which get no gradient.
    """
    if logits.ndim == 0:
        raise ValueError("The dimension of input should be larger than zero!")
    place = axis_of(axis, logits.ndim, "softmax_with_cross_entropy")
    if label.ndim == logits.ndim - 1 and not soft_label:
        label = unsqueeze(label, place)
    label = label.detach()
    if not soft_label and _are_alike(logits, label, place):
        label = _classes(label, logits, place, int(ignore_index), by_op=True)
    loss = dispatch.call(ops.CrossEntropy, logits, label, axis=place, soft_label=bool(soft_label), ignore_index=int(ignore_index))
    return (loss, softmax(logits, place)) if return_softmax else loss


def _check_labels(label: Tensor, logits: Tensor, axis: int, ignore_index: int, error: type[Exception]) -> None:
    """Refuse labels that are no class of `logits`. Labels of another shape are left to the op, which says so with the user's line."""
    classes = logits.type.shape[axis]
    if not _are_alike(logits, label, axis) or not isinstance(label._held(), np.ndarray) or not isinstance(classes, int):
        return
    values = label._held()
    wrong = (values != ignore_index) & ((values < 0) | (values >= classes))
    if wrong.any():
        raise error(
            f"label value should less than the shape of axis dimension when label value({values[wrong].flat[0]}) not equal to "
            f"ignore_index({ignore_index}), But received label value as {values[wrong].flat[0]} and shape of axis dimension is {classes}"
        )


def _classes(
    label: Tensor, scores: Tensor, axis: int, ignore_index: int, error: type[Exception] = IndexError, by_op: bool = False
) -> Tensor:
    """Labels that are classes of `scores` or `ignore_index`; they are looked at after a run that computes them. `by_op` as `check_within`
    has it.
    """
    _check_labels(label, scores, axis, ignore_index, error)
    recorder = dispatch.recorder()
    if isinstance(label._held(), np.ndarray) or label.type.dtype.kind not in "iu" or recorder is None or by_op and recorder.keeps_reads:
        return label
    ignored = dispatch.call(ops.Equal, label, number_like(label, ignore_index))
    checked = check_within(
        dispatch.call(ops.Where, ignored, number_like(label, 0), label),
        scores.type.shape[axis],
        lambda low, high, size: error(f"expected labels in [0, {size}), or ignore_index ({ignore_index}), but got {low} to {high}"),
        wraps=False,
    )
    return dispatch.call(ops.Where, ignored, label, checked)


def cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """The cross entropy of softmax(input) (of `input` itself without `use_softmax`) along `axis`.

    `label` holds class numbers, with or without the axis at size 1, or with `soft_label` a weight per class. Positions where it equals
    `ignore_index` count neither in the sum nor in the mean. `weight` has a factor per class; the mean is then weighted too. Gradients reach
    a soft label through the factors that it gives, and not otherwise.
    """
    tensor_arg(input, "cross_entropy", "input")
    tensor_arg(label, "cross_entropy", "label")
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(
            f"The value of 'reduction' in softmax_cross_entropy should be 'sum', 'mean' or 'none', but received {reduction}, which is not "
            f"allowed."
        )
    if ignore_index > 0 and soft_label:
        raise ValueError(
            f"When soft_label == True, the value of 'ignore_index' in softmax_cross_entropy should be '-100', but received {ignore_index}, "
            f"which is not allowed."
        )
    if input.ndim == 0:
        raise ValueError("The dimension of input should be larger than zero!")
    place = axis_of(axis, input.ndim, "cross_entropy")
    squeezed = label.ndim == input.ndim - 1
    if not squeezed and label.ndim != input.ndim:
        raise ValueError(
            f"Expected input_dims - 1 = label_dims or input_dims == label_dims (got input_dims{input.ndim}, label_dims{label.ndim})"
        )
    if squeezed:
        label = unsqueeze(label, place)
    if label_smoothing > 0:
        if not soft_label:
            label = _one_hot_along(squeeze(label, place), input.shape[place], place)
        soft_label, squeezed = True, False
        label = (
            label_smooth(cast_to(label, input.type.dtype), epsilon=label_smoothing)
            if place == input.ndim - 1
            else _smooth(label, place, label_smoothing)
        )
    if soft_label:
        label = cast_to(label, input.type.dtype)
    if use_softmax:
        loss = softmax_with_cross_entropy(input, label, soft_label, ignore_index, axis=place)
    else:
        loss = _of_probabilities(input, label, soft_label, ignore_index, place)

    factor = None
    if weight is not None:
        if not same_sizes(input.type.shape[place : place + 1], weight.type.shape[-1:]):
            raise ValueError(
                f"input's class_dimension({input.shape[place]}) must equal to weight's class_dimension({weight.shape[-1]}) when weight is "
                f"provided"
            )
        wide = reshape(weight, [-1 if i == place else 1 for i in range(input.ndim)])
        if soft_label:
            factor = sum(multiply(label, wide), place, keepdim=True)
        else:
            safe = dispatch.call(ops.Where, dispatch.call(ops.Equal, label, number_like(label, ignore_index)), number_like(label, 0), label)
            factor = dispatch.call(ops.Gather, weight, safe, axis=0)
        loss = multiply(loss, factor)
    if reduction == "sum":
        return sum(loss)
    if reduction == "none":
        return squeeze(loss, place) if squeezed else loss
    if soft_label:
        return mean(loss) if factor is None else _safe_divide(sum(loss), sum(factor))
    if factor is None and ignore_index < 0:  # what is ignored counts as a loss of 0
        return mean(loss)
    counted = cast_to(dispatch.call(ops.NotEqual, label, number_like(label, ignore_index)), input.type.dtype)
    return _safe_divide(sum(loss), sum(counted if factor is None else multiply(counted, factor)))


def _safe_divide(total: Tensor, count: Tensor) -> Tensor:
    """total / count, and 0 where nothing was counted."""
    nothing = cast_to(dispatch.call(ops.Equal, count, number_like(count, 0.0)), count.type.dtype)
    return divide(total, add(count, nothing))


def _one_hot_along(label: Tensor, classes: int, axis: int) -> Tensor:
    made = one_hot(label, classes)
    return made if axis == made.ndim - 1 else moveaxis(made, -1, axis)


def _smooth(label: Tensor, axis: int, epsilon: float) -> Tensor:
    return scale(label, 1 - epsilon, epsilon / label.shape[axis])


def _of_probabilities(input: Tensor, label: Tensor, soft_label: bool, ignore_index: int, axis: int) -> Tensor:
    if soft_label:
        return neg(sum(multiply(label.detach(), log(input)), axis, keepdim=True))
    label = _classes(label, input, axis, ignore_index)
    places = reshape(
        dispatch.call(ops.Iota, shape=(input.shape[axis],), axis=0, dtype=label.type.dtype),
        [-1 if i == axis else 1 for i in range(input.ndim)],
    )
    chosen = dispatch.call(ops.Equal, label, places)
    # Probabilities of other classes are 1 here, so that their logarithms (and gradients) vanish.
    return neg(sum(log(dispatch.call(ops.Where, chosen, input, number_like(input, 1.0))), axis, keepdim=True))


@operator("nll_loss")
def nll_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """-input at the class of each label, the classes being axis 1 of `input` (log probabilities). `weight` gets no gradient."""
    if input.ndim < 2:
        raise ValueError(f"Expected 2 or more dimensions (got {input.ndim})")
    if label.ndim + 1 != input.ndim:
        raise ValueError(f"nll_loss expected a label of {input.ndim - 1} axes but got shape {list(label.shape)}")
    classes = input.shape[1]
    if classes == 0:
        raise ValueError("Expected 1 or more classes (got num classes 0)")
    wide = unsqueeze(label, 1)
    _expect_alike(input, wide, "nll_loss", axis=1)
    wide = _classes(wide, input, 1, ignore_index, ValueError)
    places = reshape(
        dispatch.call(ops.Iota, shape=(classes,), axis=0, dtype=label.type.dtype), [-1 if i == 1 else 1 for i in range(input.ndim)]
    )
    chosen = dispatch.call(ops.Equal, wide, places)
    factor = cast_to(chosen, input.type.dtype)
    if weight is not None:
        factor = multiply(factor, reshape(weight.detach(), [-1 if i == 1 else 1 for i in range(input.ndim)]))
    ignored = cast_to(dispatch.call(ops.NotEqual, wide, number_like(wide, ignore_index)), input.type.dtype)
    factor = multiply(factor, ignored)
    picked = dispatch.call(ops.Where, chosen, input, number_like(input, 0.0))
    loss = neg(sum(multiply(picked, factor), 1))
    if reduction == "mean":
        return _safe_divide(sum(loss), sum(factor))
    return _reduced(loss, reduction, "nll_loss")


def kl_div(input: Tensor, label: Tensor, reduction: str = "mean", log_target: bool = False, name: str | None = None) -> Tensor:
    """label * (log(label) - input), `input` being log probabilities; "batchmean" divides the sum by the first size. The label gets no
    gradient.
    """
    _expect_alike(input, label, "kl_div")
    label = label.detach()
    if log_target:
        loss = multiply(exp(label), subtract(label, input))
    else:
        positive = dispatch.call(ops.Greater, label, number_like(label, 0.0))
        safe = dispatch.call(ops.Where, positive, label, number_like(label, 1.0))
        loss = dispatch.call(ops.Where, positive, multiply(label, subtract(log(safe), input)), number_like(input, 0.0))
    if reduction == "batchmean":
        if not input.ndim:
            return sum(loss)
        batch = input.type.shape[0]
        count = number_like(loss, batch) if isinstance(batch, int) else dispatch.call(ops.DimValue, size=batch, dtype=loss.type.dtype)
        return divide(sum(loss), count)
    return _reduced(loss, reduction, "kl_div")


def margin_ranking_loss(
    input: Tensor, other: Tensor, label: Tensor, margin: float = 0.0, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """max(0, -label * (input - other) + margin)."""
    gap = scale(multiply(neg(label), subtract(input, other)), 1.0, float(margin))
    return _reduced(relu(gap), reduction, "margin_ranking_loss")


def hinge_embedding_loss(input: Tensor, label: Tensor, margin: float = 1.0, reduction: str = "mean", name: str | None = None) -> Tensor:
    """input where the label is 1, max(0, margin - input) where it is -1."""
    zero = number_like(input, 0.0)
    far = relu(scale(input, -1.0, margin))
    is_one = dispatch.call(ops.Equal, label, number_like(label, 1))
    is_other = dispatch.call(ops.Equal, label, number_like(label, -1))
    loss = add(dispatch.call(ops.Where, is_one, input, zero), dispatch.call(ops.Where, is_other, far, zero))
    return _reduced(loss, reduction, "hinge_embedding_loss")


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, label: Tensor, margin: float = 0, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1."""
    epsilon = 1e-12
    together = sum(multiply(input1, input2), -1)
    lengths = multiply(scale(sum(square(input1), -1), 1.0, epsilon), scale(sum(square(input2), -1), 1.0, epsilon))
    cosine = divide(together, pow(lengths, 0.5))
    zero = number_like(cosine, 0.0)
    near = dispatch.call(ops.Where, dispatch.call(ops.Equal, label, number_like(label, 1)), scale(cosine, -1.0, 1.0), zero)
    far = dispatch.call(
        ops.Where, dispatch.call(ops.Equal, label, number_like(label, -1)), clip(scale(cosine, 1.0, -margin), 0.0), zero
    )
    return _reduced(add(near, far), reduction, "cosine_embedding_loss")


def soft_margin_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """log(1 + exp(-label * input))."""
    label = cast_to(label, input.type.dtype)
    return _reduced(softplus(multiply(neg(label), input), 1.0, 40.0), reduction, "soft_margin_loss")


def triplet_margin_loss(
    input: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """max(0, |input - positive| - |input - negative| + margin) with p-norms."""

    def gap(a: Tensor, b: Tensor) -> Tensor:
        return norm(scale(subtract(a, b), 1.0, epsilon), float(p), -1)

    far = gap(input, negative)
    if swap:
        far = minimum(far, gap(positive, negative))
    loss = scale(subtract(gap(input, positive), far), 1.0, margin)
    return _reduced(clip(loss, 0.0), reduction, "triplet_margin_loss")


def sigmoid_focal_loss(
    logit: Tensor,
    label: Tensor,
    normalizer: Tensor | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Tensor:
    """Binary cross entropy that counts what is classified well already less."""
    entropy = binary_cross_entropy_with_logits(logit, label, reduction="none")
    p = sigmoid(logit)
    right = add(multiply(p, label), multiply(scale(p, -1.0, 1.0), scale(label, -1.0, 1.0)))
    balance = scale(label, 2 * alpha - 1, 1 - alpha)
    loss = multiply(multiply(balance, pow(scale(right, -1.0, 1.0), float(gamma))), entropy)
    return _reduced(loss if normalizer is None else divide(loss, normalizer), reduction, "sigmoid_focal_loss")


def poisson_nll_loss(
    input: Tensor,
    label: Tensor,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """The negative log likelihood of counts; `full` adds Stirling's approximation of log(label!)."""
    loss = subtract(exp(input), multiply(label, input)) if log_input else subtract(input, multiply(label, log(scale(input, 1.0, epsilon))))
    if full:
        above = dispatch.call(ops.Greater, label, number_like(label, 1.0))
        safe = dispatch.call(ops.Where, above, label, number_like(label, 1.0))
        stirling = add(subtract(multiply(safe, log(safe)), safe), scale(log(scale(safe, 2 * math.pi)), 0.5))
        loss = add(loss, dispatch.call(ops.Where, above, stirling, number_like(label, 0.0)))
    return _reduced(loss, reduction, "poisson_nll_loss")


def dice_loss(input: Tensor, label: Tensor, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """The mean over the batch of 1 - 2 |input ∩ label| / (|input| + |label| + epsilon), sums of probabilities [batch, ..., classes] for
    sets.

    `label` holds class numbers, [batch, ..., 1].
    """
    if input.dtype.name not in ("float32", "float64") or label.dtype.name not in ("int32", "int64"):
        raise AssertionError(
            f"dice_loss expected an input of float32 or float64 and a label of int32 or int64 but got {input.dtype.name} and "
            f"{label.dtype.name}"
        )
    if (
        input.ndim < 2
        or label.ndim != input.ndim
        or not same_sizes(label.type.shape[-1:], [1])
        or not same_sizes(input.type.shape[:-1], label.type.shape[:-1])
    ):
        raise AssertionError(
            f"dice_loss expected an input [batch, ..., classes] and a label [batch, ..., 1] but got shapes {list(input.shape)} and "
            f"{list(label.shape)}"
        )
    wanted = cast_to(one_hot(squeeze(label, -1), input.shape[-1]), input.type.dtype)
    axes = list(range(1, input.ndim))
    both = scale(sum(multiply(input, wanted), axes), 2.0)
    total = add(sum(input, axes), sum(wanted, axes))
    return mean(scale(divide(both, scale(total, 1.0, epsilon)), -1.0, 1.0))


def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002) -> Tensor:
    """The cross entropy of how similar each anchor is to each positive, against equal shares of those with its label; plus squares of both,
    weighted by l2_reg / 4.

    `anchor` and `positive` are [batch, features], `labels` [batch] (Sohn, "Improved deep metric learning with multi-class N-pair loss
    objective", 2016).
    """
    for argument, tensor in (("anchor", anchor), ("positive", positive)):
        if 0 in tensor.shape:
            raise ValueError(f"npair_loss expected '{argument}' with elements but got shape {list(tensor.shape)}")
    same = dispatch.call(ops.Equal, reshape(labels, [-1, 1]), reshape(labels, [1, -1]))
    shares = cast_to(same, anchor.type.dtype)
    shares = divide(shares, sum(shares, 1, keepdim=True))
    squares = scale(add(mean(sum(square(anchor), 1)), mean(sum(square(positive), 1))), 0.25 * l2_reg)
    entropy = softmax_with_cross_entropy(matmul(anchor, positive, transpose_y=True), shares, soft_label=True)
    return add(squares, mean(sum(multiply(shares, entropy), 0)))
