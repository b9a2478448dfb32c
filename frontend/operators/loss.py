"""Losses."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.dims import Dim, symbols
from polyreme.math.common import cast_to
from polyreme.nn import functional
from polyreme.operators.definition import operator, spelled
from polyreme.tensor import Tensor


def _fixed(labels: Tensor) -> Tensor:
    """Labels, or weights of them, through which no gradient flows."""
    return dispatch.call(nn.StopGradient, labels)


def _check_same_shape(**inputs: Tensor) -> None:
    """These losses spread nothing over rows: a batch of labels that is shorter than that of predictions is a mistake."""
    (first, expected), *others = ((name, list(x.type.shape)) for name, x in inputs.items())
    for name, shape in others:
        if _differ(shape, expected):
            raise ValueError(f"expected {name} of the shape of {first}, [{_sizes(expected)}], but got [{_sizes(shape)}]")


def _differ(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are not the same. Of sizes that only a run tells, such as those of the rows of an `IfElse`, nobody knows here."""
    return len(a) != len(b) or any(x != y and not (_is_told_by_a_run(x) or _is_told_by_a_run(y)) for x, y in zip(a, b, strict=True))


def _is_told_by_a_run(size: Dim) -> bool:
    # Recorders call such sizes so (`fresh_size`).
    return any(name == "K" or name.startswith("K_") for name in symbols(size))


def _sizes(shape: Sequence[Dim]) -> str:
    return ", ".join(map(str, shape))


@operator(
    "cross_entropy_with_softmax",
    legacy=spelled("softmax_with_cross_entropy", {"Logits": "input", "Label": "label"}, "Softmax Loss", constant="Label"),
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


@operator("bce_loss", legacy=spelled("bce_loss", {"X": "input", "Label": "label"}, constant="Label"))
def bce_loss(input: Tensor, label: Tensor) -> Tensor:
    return functional.binary_cross_entropy(input, label, reduction="none")


@operator(
    "sigmoid_cross_entropy_with_logits",
    legacy=spelled(
        "sigmoid_cross_entropy_with_logits", {"X": "x", "Label": "label", "pos_weight": "pos_weight"}, constant="Label pos_weight"
    ),
)
def sigmoid_cross_entropy_with_logits(
    x: Tensor, label: Tensor, pos_weight: Tensor | None = None, *, normalize: bool = False, ignore_index: int = -100
) -> Tensor:
    """max(x, 0) - x * label + log(1 + exp(-|x|)), 0 where the label is `ignore_index`."""
    label = _fixed(label)
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
    _check_same_shape(input=input, label=label)
    residual = math.subtract(label, input)
    size = math.abs(residual)
    square = math.scale(math.square(residual), 0.5)
    line = math.scale(size, delta, -0.5 * delta * delta)
    near = dispatch.call(nn.LessEqual, size, dispatch.full((), delta, size.type.dtype))
    return math.where(near, square, line), residual


@operator("kldiv_loss", legacy=spelled("kldiv_loss", {"X": "x", "Target": "label"}, "Loss", constant="Target"))
def kldiv_loss(x: Tensor, label: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    return functional.kl_div(x, _fixed(label), reduction, log_target)


_LABELLED = {"X": "x", "Label": "label"}


@operator(
    legacy=[
        spelled("cross_entropy", _LABELLED, "Y", constant="Label"),
        spelled("cross_entropy2", _LABELLED, "Y XShape MatchX", constant="Label"),
    ]
)
def cross_entropy_of_probabilities(x: Tensor, label: Tensor, *, soft_label: bool = False, ignore_index: int = -100) -> Tensor:
    """-log of the probability of the label's class, or the sum of label * -log(x); the last axis of the result is 1. A loss is at most
    1e20, that of a probability of 0, and 0 where the label is `ignore_index`.
    """
    most = dispatch.full((), 1e20, x.type.dtype)
    if soft_label:
        _check_same_shape(x=x, label=label)
        surprise = math.minimum(math.scale(math.log(x), -1.0), most)
        return math.sum(math.multiply(_fixed(cast_to(label, x.type.dtype)), surprise), [-1], keepdim=True)
    if label.ndim == x.ndim - 1:
        label = math.unsqueeze(label, -1)
    expected = [*x.type.shape[:-1], 1]
    if _differ(label.type.shape, expected):
        raise ValueError(f"expected a label for each row of x, of shape [{_sizes(expected)}], but got [{_sizes(label.type.shape)}]")
    ignored = math.equal(label, dispatch.full((), ignore_index, label.type.dtype))
    place = math.where(ignored, math.zeros_like(label), label)
    chosen = math.take_along_axis(x, place, -1, broadcast=False)
    loss = math.minimum(math.scale(math.log(chosen), -1.0), most)
    return math.where(ignored, dispatch.full((), 0.0, loss.type.dtype), loss)


@operator(
    legacy=spelled(
        "smooth_l1_loss",
        {"X": "x", "Y": "y", "InsideWeight": "inside", "OutsideWeight": "outside"},
        "Diff Out",
        constant="InsideWeight OutsideWeight",
    )
)
def smooth_l1_loss(
    x: Tensor, y: Tensor, inside: Tensor | None = None, outside: Tensor | None = None, *, sigma: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The difference, and per row the sum of 0.5 * (sigma * d)^2 where |d| is below 1 / sigma^2, of |d| - 0.5 / sigma^2 elsewhere."""
    _check_same_shape(x=x, y=y)
    d = math.subtract(x, y)
    if inside is not None:
        d = math.multiply(d, _fixed(inside))
    square, size = sigma * sigma, math.abs(d)
    near = math.less_than(size, dispatch.full((), 1.0 / square, size.type.dtype))
    loss = math.where(near, math.scale(math.square(d), 0.5 * square), math.scale(size, 1.0, -0.5 / square))
    if outside is not None:
        loss = math.multiply(loss, _fixed(outside))
    return d, math.sum(math.reshape(loss, [loss.type.shape[0], -1]), [1], keepdim=True)


@operator(legacy=spelled("hinge_loss", {"Logits": "logits", "Labels": "labels"}, "Loss", constant="Labels"))
def hinge_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """max(0, 1 - (2 * label - 1) * logit)."""
    return functional.relu(math.scale(math.multiply(math.scale(labels, 2.0, -1.0), logits), -1.0, 1.0))


@operator(legacy=spelled("log_loss", {"Predicted": "predicted", "Labels": "labels"}, "Loss", constant="Labels"))
def log_loss(predicted: Tensor, labels: Tensor, *, epsilon: float = 1e-4) -> Tensor:
    """-label * log(predicted + epsilon) - (1 - label) * log(1 - predicted + epsilon)."""
    _check_same_shape(predicted=predicted, labels=labels)
    labels = _fixed(labels)
    right = math.multiply(labels, math.log(math.scale(predicted, 1.0, epsilon)))
    wrong = math.multiply(math.scale(labels, -1.0, 1.0), math.log(math.scale(predicted, -1.0, 1.0 + epsilon)))
    return math.scale(math.add(right, wrong), -1.0)


@operator(legacy=spelled("rank_loss", {"Label": "label", "Left": "left", "Right": "right"}, constant="Label"))
def rank_loss(label: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """log(1 + exp(left - right)) - label * (left - right)."""
    _check_same_shape(left=left, right=right, label=label)
    apart = math.subtract(left, right)
    return math.subtract(functional.softplus(apart), math.multiply(_fixed(label), apart))


@operator(legacy=spelled("margin_rank_loss", {"Label": "label", "X1": "left", "X2": "right"}, "Out Activated", constant="Label"))
def margin_rank_loss(label: Tensor, left: Tensor, right: Tensor, *, margin: float = 0.0) -> Tensor:
    """max(0, -label * (left - right) + margin)."""
    _check_same_shape(left=left, right=right, label=label)
    apart = math.multiply(_fixed(label), math.subtract(left, right))
    return functional.relu(math.scale(apart, -1.0, margin))


@operator(legacy=spelled("bpr_loss", {"X": "x", "Label": "label"}, "Y", constant="Label"))
def bpr_loss(x: Tensor, label: Tensor) -> Tensor:
    """The mean of log(1 + exp(x_j - x_label)) over the other classes j, [N, 1]."""
    label = math.reshape(label, [x.type.shape[0], 1])
    classes = x.type.shape[-1]
    apart = functional.softplus(math.subtract(x, math.take_along_axis(x, label, -1, broadcast=False)))
    others = math.scale(functional.one_hot(math.reshape(label, [-1]), int(classes)), -1.0, 1.0)
    return math.scale(math.sum(math.multiply(apart, cast_to(others, x.type.dtype)), [-1], keepdim=True), 1.0 / (int(classes) - 1))


@operator("label_smooth", legacy=spelled("label_smooth", {"X": "label", "PriorDist": "prior_dist"}, constant="PriorDist"))
def label_smooth(label: Tensor, prior_dist: Tensor | None = None, *, epsilon: float = 0.0) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior_dist, whose elements are by default 1 / classes each."""
    if prior_dist is None:
        return math.scale(label, 1.0 - epsilon, epsilon / int(label.type.shape[-1]))
    return math.add(math.scale(label, 1.0 - epsilon), math.scale(math.reshape(_fixed(prior_dist), [1, -1]), epsilon))


@operator(
    "nll_loss",
    legacy=spelled(
        "nll_loss", {"X": "input", "Label": "label", "Weight": "weight"}, "Out Total_weight", types={"ignore_index": "LONG"}
    ),
)
def nll_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Tensor, None]:
    return functional.nll_loss(input, label, weight, ignore_index, reduction), None


@operator(legacy=spelled("cos_sim", {"X": "x", "Y": "y"}, "Out XNorm YNorm"))
def cos_sim(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The cosine of the angle between each row of `x` and that of `y`, which may have one row for all, [N, 1]; and their lengths."""
    x, y = (math.reshape(part, [part.type.shape[0], -1]) for part in (x, y))
    of_x, of_y = (math.sqrt(math.sum(math.square(part), [1], keepdim=True)) for part in (x, y))
    together = math.sum(math.multiply(x, y), [1], keepdim=True)
    return math.divide(together, math.multiply(of_x, of_y)), of_x, of_y
