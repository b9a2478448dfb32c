"""Losses as layers."""

from __future__ import annotations

from typing import Any

from polyreme.dtypes import default_dtype
from polyreme.nn import functional as F
from polyreme.nn.layer import Layer
from polyreme.nn.layers.function_layer import FunctionLayer
from polyreme.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HSigmoidLoss",
    "HingeEmbeddingLoss", "KLDivLoss", "L1Loss", "MSELoss",
    "MarginRankingLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(FunctionLayer):
    """A loss of `nn.functional`."""

    def __init__(self, reduction: str = "mean", name: str | None = None, **arguments: Any):
        super().__init__(reduction=reduction, **arguments)
        if reduction not in ("sum", "mean", "none") and not (self.function == "kl_div" and reduction == "batchmean"):
            raise ValueError(
                f"The value of 'reduction' in {type(self).__name__} should be 'sum', 'mean' or 'none', but received {reduction}, which is "
                f"not allowed."
            )
        setattr(self, f"{self.prefix}name", name)

    def forward(self, *inputs: Tensor) -> Tensor:
        made: Tensor = self._apply_function(*inputs)
        return made


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

    function, prefix = "nll_loss", "_"

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


class TripletMarginWithDistanceLoss(_Loss):
    """max(0, d(input, positive) - d(input, negative) + margin); see `nn.functional.triplet_margin_with_distance_loss`."""

    function = "triplet_margin_with_distance_loss"

    def __init__(
        self, distance_function: Any = None, margin: float = 1.0, swap: bool = False, reduction: str = "mean", name: str | None = None
    ):
        super().__init__(reduction, name, distance_function=distance_function, margin=margin, swap=swap)


class MultiMarginLoss(_Loss):
    """max(0, margin - input[label] + input)**p, of all classes but the label's own; see `nn.functional.multi_margin_loss`."""

    function = "multi_margin_loss"

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
    ):
        super().__init__(reduction, name, p=p, margin=margin, weight=weight)


class MultiLabelSoftMarginLoss(_Loss):
    """Binary cross entropies of several labels; see `nn.functional.multi_label_soft_margin_loss`."""

    function = "multi_label_soft_margin_loss"

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, weight=weight)


class GaussianNLLLoss(_Loss):
    """The negative log likelihood by normal distributions; see `nn.functional.gaussian_nll_loss`."""

    function = "gaussian_nll_loss"

    def __init__(self, full: bool = False, epsilon: float = 1e-6, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, full=full, epsilon=epsilon)


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts."""

    function, prefix = "poisson_nll_loss", "_"

    def __init__(self, log_input: bool = True, full: bool = False, epsilon: float = 1e-8, reduction: str = "mean", name: str | None = None):
        super().__init__(reduction, name, log_input=log_input, full=full, epsilon=epsilon)


class CTCLoss(Layer):
    """The cost of an unaligned sequence of labels; see `nn.functional.ctc_loss`."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity


    def forward(
        self, log_probs: Tensor, labels: Tensor, input_lengths: Tensor, label_lengths: Tensor, norm_by_times: bool = False
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            labels,
            input_lengths,
            label_lengths,
            self.blank,
            self.reduction,
            norm_by_times=norm_by_times,
            zero_infinity=self.zero_infinity,
        )


class HSigmoidLoss(Layer):
    """The cost of a class as a leaf of a tree of yes-or-no decisions; see `nn.functional.hsigmoid_loss`.

    weight [decisions, feature_size] and bias [decisions, 1]: num_classes - 1 decisions, or num_classes for a tree of one's own
    (`is_custom`), whose paths `forward` is given. `is_sparse` is accepted for its place: gradients are dense.
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise ValueError(f"num_classes must not be less than 2 with default tree, but received {num_classes}")
        self._feature_size, self._num_classes, self._is_custom, self._is_sparse, self._name = (
            feature_size,
            num_classes,
            is_custom,
            is_sparse and is_custom,
            name,
        )
        self._weight_attr, self._bias_attr = weight_attr, bias_attr
        self._dtype = default_dtype().name
        decisions = num_classes if is_custom else num_classes - 1
        self.weight = self.create_parameter([decisions, feature_size], weight_attr)
        self.bias = self.create_parameter([decisions, 1], bias_attr, is_bias=True)

    def forward(self, input: Tensor, label: Tensor, path_table: Tensor | None = None, path_code: Tensor | None = None) -> Tensor:
        return F.hsigmoid_loss(input, label, self._num_classes, self.weight, self.bias, path_table, path_code, self._is_sparse, self._name)
