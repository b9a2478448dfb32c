"""Losses as layers."""

from __future__ import annotations

from typing import Any

from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "HingeEmbeddingLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "NLLLoss",
    "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
]  # fmt: skip


class _Loss(Layer):
    """A loss of `nn.functional` with fixed arguments."""

    function = ""

    def __init__(self, reduction: str = "mean", name: str | None = None, **arguments: Any):
        super().__init__()
        if reduction not in ("sum", "mean", "none") and not (self.function == "kl_div" and reduction == "batchmean"):
            raise ValueError(
                f"The value of 'reduction' in {type(self).__name__} should be 'sum', 'mean' or 'none', but received {reduction}, which is not allowed."
            )
        self.reduction = reduction
        self.name = name
        self._arguments = arguments

    def forward(self, *inputs: Tensor) -> Tensor:
        return getattr(F, self.function)(*inputs, reduction=self.reduction, **self._arguments)


class CrossEntropyLoss(_Loss):
    """Cross entropy of softmax(input); see `nn.functional.cross_entropy`."""

    function = "cross_entropy"

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ):
        super().__init__(
            reduction,
            name,
            weight=weight,
            ignore_index=ignore_index,
            soft_label=soft_label,
            axis=axis,
            use_softmax=use_softmax,
            label_smoothing=label_smoothing,
        )


class MSELoss(_Loss):
    """(input - label)²."""

    function = "mse_loss"


class L1Loss(_Loss):
    """|input - label|."""

    function = "l1_loss"


class SmoothL1Loss(_Loss):
    """Squared up to a distance of `delta`, linear beyond it."""

    function = "smooth_l1_loss"

    def __init__(self, reduction: str = "mean", delta: float = 1.0, is_huber: bool = True, name: str | None = None):
        super().__init__(reduction, name, delta=delta, is_huber=is_huber)


class NLLLoss(_Loss):
    """-input at the class of each label."""

    function = "nll_loss"

    def __init__(self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, weight=weight, ignore_index=ignore_index)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities."""

    function = "binary_cross_entropy"

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, weight=weight)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of sigmoid(logit)."""

    function = "binary_cross_entropy_with_logits"

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None, name: str | None = None):
        super().__init__(reduction, name, weight=weight, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """label * (log(label) - input)."""

    function = "kl_div"

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        super().__init__(reduction, log_target=log_target)


class MarginRankingLoss(_Loss):
    """max(0, -label * (input - other) + margin)."""

    function = "margin_ranking_loss"

    def __init__(self, margin: float = 0.0, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, margin=margin)


class HingeEmbeddingLoss(_Loss):
    """input where the label is 1, max(0, margin - input) where it is -1."""

    function = "hinge_embedding_loss"

    def __init__(self, margin: float = 1.0, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, margin=margin)


class CosineEmbeddingLoss(_Loss):
    """1 - cos where the label is 1, max(0, cos - margin) where it is -1."""

    function = "cosine_embedding_loss"

    def __init__(self, margin: float = 0, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, margin=margin)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-label * input))."""

    function = "soft_margin_loss"


class TripletMarginLoss(_Loss):
    """max(0, |input - positive| - |input - negative| + margin) with p-norms."""

    function = "triplet_margin_loss"

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        epsilon: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
        name: str | None = None,
    ):
        super().__init__(reduction, name, margin=margin, p=p, epsilon=epsilon, swap=swap)


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts."""

    function = "poisson_nll_loss"

    def __init__(self, log_input: bool = True, full: bool = False, epsilon: float = 1e-8, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, log_input=log_input, full=full, epsilon=epsilon)
