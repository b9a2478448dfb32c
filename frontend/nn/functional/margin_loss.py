"""Losses of several labels, of margins between classes and of distances, and of a normal distribution: compositions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from polyreme import dispatch, tape
from polyreme.math.common import cast_to, check_within, same_sizes, tensor_arg
from polyreme.math.elementwise import add, clip, divide, log, minimum, multiply, neg, pow, scale, square, subtract
from polyreme.math.logic import greater_equal
from polyreme.math.manipulation import gather, reshape, unsqueeze
from polyreme.math.reduction import all as all_
from polyreme.math.reduction import mean, norm, sum
from polyreme.math.search import index_sample
from polyreme.nn.functional.activation import log_sigmoid, relu
from polyreme.tensor import Tensor

__all__ = ["gaussian_nll_loss", "multi_label_soft_margin_loss", "multi_margin_loss", "triplet_margin_with_distance_loss"]

Distance = Callable[[Tensor, Tensor], Tensor]


def _check_reduction(reduction: str, name: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"'reduction' in '{name}' should be 'sum', 'mean' or 'none', but received {reduction}.")


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    return loss if reduction == "none" else mean(loss) if reduction == "mean" else sum(loss)


def _require(condition: Callable[[], Tensor], error: Exception) -> None:
    """Raise `error` where the values of tensors are not as they must be; what a program that stands alone computes is not looked at."""
    with tape.recording(False):
        recorder = dispatch.recorder()
        if recorder is not None:
            recorder.check_values(condition, error)
        elif not bool(condition()):
            raise error


def multi_label_soft_margin_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """The mean over classes of the binary cross entropy of sigmoid(input), [batch, classes] each; `weight` [classes] scales classes.

    Labels are 0 or 1. `reduction` is over the batch. A `ValueError` for shapes that differ.
    """
    _check_reduction(reduction, "multi_label_soft_margin_loss")
    tensor_arg(input, "multi_label_soft_margin_loss")
    if not same_sizes(input.type.shape, label.type.shape):
        raise ValueError(f"The input and label should have same dimension,but received {input.shape}!={label.shape}")
    loss = neg(label * log_sigmoid(input) + scale(label, -1.0, 1.0) * log_sigmoid(neg(input)))
    return _reduced(mean(loss if weight is None else loss * weight, -1), reduction)


def _no_class(lowest: int, highest: int, size: int) -> ValueError:
    return ValueError(f"multi_margin_loss expected labels in [0, {size}) but got values from {lowest} to {highest}")


def multi_margin_loss(
    input: Tensor,
    label: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """The mean over classes of max(0, margin - input[label] + input)**p, of all but the label's own; input is [batch, classes], label
    [batch]. `weight` [classes] scales by the label's class.

    A `ValueError` for shapes that do not fit and labels that are no class.
    """
    _check_reduction(reduction, "multi_margin_loss")
    tensor_arg(input, "multi_margin_loss")
    if not same_sizes(input.type.shape[:1], label.type.shape[:1]):
        raise ValueError(
            f"The label's shape[0] should be equal to input's shape[0], but received input's shape[0] {input.shape[0]} and label's "
            f"shape[0]:{label.shape[0]}. "
        )
    if weight is not None and not same_sizes(input.type.shape[1:2], weight.type.shape[:1]):
        raise ValueError(
            f"The weight's shape[0] should be equal to input's shape[1] but received weight's shape[0]: {weight.shape[0]} and input's "
            f"shape[1]: {input.shape[1]}"
        )
    classes = input.shape[1]
    label = check_within(reshape(label, [-1, 1]), input.type.shape[1], _no_class, wraps=False)
    distance = pow(relu(scale(subtract(input, index_sample(input, label)), 1.0, margin)), p)
    own = margin**p
    if weight is None:
        return _reduced(mean(distance, 1) - own / classes, reduction)
    factor = gather(cast_to(weight, input.type.dtype), reshape(label, [-1]))
    return _reduced(multiply(mean(distance, 1) - own / classes, factor), reduction)


def gaussian_nll_loss(
    input: Tensor,
    label: Tensor,
    variance: Tensor,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """The negative log likelihood of labels by normal distributions with the means `input`; `full` adds the constant 0.5 log(2 pi).

    The variance has the shape of the input, or 1 for its last size or no such. It is `epsilon` at least, and has no gradient, as in Paddle.
    A `ValueError` for one of another shape, or below 0.
    """
    tensor_arg(input, "gaussian_nll_loss")
    given, wanted = variance.type.shape, input.type.shape
    if not same_sizes(given, wanted):
        if same_sizes(given, wanted[:-1]):
            variance = unsqueeze(variance, -1)
        elif not same_sizes(given, (*wanted[:-1], 1)):
            raise ValueError("variance is of incorrect shape")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    _require(partial(_has_no_negative, variance), ValueError("variance has negative entry/entries"))
    with tape.recording(False):
        variance = clip(variance, epsilon)
    loss = scale(add(log(variance), divide(square(subtract(input, label)), variance)), 0.5, 0.5 * math.log(2 * math.pi) if full else 0.0)
    return _reduced(loss, reduction)


def _euclidean(first: Tensor, second: Tensor) -> Tensor:
    return norm(scale(subtract(first, second), 1.0, 1e-6), 2.0, -1)


def _has_no_negative(x: Tensor) -> Tensor:
    return all_(greater_equal(x, scale(x, 0.0)))


def triplet_margin_with_distance_loss(
    input: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """max(0, d(input, positive) - d(input, negative) + margin), d being a function of two tensors, by default the Euclidean distance. With
    `swap` the negative is as far as it is from the nearer of input and positive.

    A `ValueError` for shapes that differ, distances below 0 and a margin that is not above 0.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"'reduction' in 'triplet_margin_with_distance_loss' should be 'sum', 'mean' or 'none', but received {reduction}."
        )
    if margin < 0:
        raise ValueError("The margin between positive samples and negative samples should be greater than 0.")
    shapes: Sequence[Any] = [t.type.shape for t in (input, positive, negative)]
    if not all(same_sizes(shapes[0], shape) for shape in shapes[1:]):
        raise ValueError("input's shape must equal to positive's shape and negative's shape")
    distance = _euclidean if distance_function is None else distance_function
    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    if distance_function is not None:
        for made in (near, far):
            _require(
                partial(_has_no_negative, made),
                ValueError(
                    "The positive distance or negative distance should be greater than 0, The distance functions should be checked."
                ),
            )
    return _reduced(clip(scale(subtract(near, far), 1.0, margin), 0.0), reduction)
