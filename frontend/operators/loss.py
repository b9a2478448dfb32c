"""Losses."""

from __future__ import annotations

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.math.common import cast_to
from polyreme.nn import functional
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


@operator(
    "cross_entropy_with_softmax",
    legacy=spelled("softmax_with_cross_entropy", {"Logits": "input", "Label": "label"}, "Softmax Loss"),
    nn=nn.CrossEntropy,
)
def cross_entropy_with_softmax(
    input: Tensor, label: Tensor, *, soft_label: bool = False, use_softmax: bool = True, ignore_index: int = -100, axis: int = -1
) -> tuple[Tensor, Tensor]:
    """The softmax and the loss."""
    if use_softmax:
        soft = functional.softmax(input, axis)
        return soft, functional.softmax_with_cross_entropy(input, label, soft_label, ignore_index, axis=axis)
    return input, functional.softmax_with_cross_entropy(math.log(input), label, soft_label, ignore_index, axis=axis)


@operator("bce_loss", legacy=spelled("bce_loss", {"X": "input", "Label": "label"}))
def bce_loss(input: Tensor, label: Tensor) -> Tensor:
    return functional.binary_cross_entropy(input, label, reduction="none")


@operator(
    "sigmoid_cross_entropy_with_logits",
    legacy=spelled("sigmoid_cross_entropy_with_logits", {"X": "x", "Label": "label", "pos_weight": "pos_weight"}),
)
def sigmoid_cross_entropy_with_logits(
    x: Tensor, label: Tensor, pos_weight: Tensor | None = None, *, normalize: bool = False, ignore_index: int = -100
) -> Tensor:
    """max(x, 0) - x * label + log(1 + exp(-|x|)), 0 where the label is `ignore_index`."""
    loss = functional.binary_cross_entropy_with_logits(x, label, reduction="none", pos_weight=pos_weight)
    kept = math.not_equal(label, dispatch.full((), ignore_index, label.type.dtype))
    loss = math.where(kept, loss, dispatch.full((), 0.0, loss.type.dtype))
    if normalize:
        count = math.maximum(math.sum(cast_to(kept, loss.type.dtype)), dispatch.full((), 1.0, loss.type.dtype))
        loss = math.divide(loss, count)
    return loss


@operator("huber_loss", legacy=spelled("huber_loss", {"X": "input", "Y": "label"}, "Out Residual"))
def huber_loss(input: Tensor, label: Tensor, *, delta: float) -> tuple[Tensor, Tensor]:
    """The loss and the residual."""
    residual = math.subtract(label, input)
    size = math.abs(residual)
    square = math.scale(math.square(residual), 0.5)
    line = math.scale(size, delta, -0.5 * delta * delta)
    near = dispatch.call(nn.LessEqual, size, dispatch.full((), delta, size.type.dtype))
    return math.where(near, square, line), residual


@operator("kldiv_loss", legacy=spelled("kldiv_loss", {"X": "x", "Target": "label"}, "Loss"))
def kldiv_loss(x: Tensor, label: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    return functional.kl_div(x, label, reduction, log_target)
