"""Losses of `fluid.dygraph` as Layers; results of one element have the shape [1]."""

from __future__ import annotations

from typing import Any

from polyreme.fluid import layers
from polyreme.fluid.dygraph.nn import OperatorLayer
from polyreme.names import listed
from polyreme.nn import functional
from polyreme.tensor import Tensor

__all__ = ["BCELoss", "L1Loss", "MSELoss", "NLLLoss"]


class _Loss(OperatorLayer):
    """A loss for each element, and its `mean`, its `sum`, or all of it (`none`)."""

    def __init__(self, reduction: str = "mean"):
        if reduction not in ("sum", "mean", "none"):
            raise ValueError(
                f"'reduction' in '{type(self).__name__}' should be 'sum', 'mean' or 'none', but received {reduction}, which is not allowed."
            )
        super().__init__()
        self.reduction = reduction

    def _reduced(self, x: Any) -> Any:
        return x if self.reduction == "none" else layers.reduce_mean(x) if self.reduction == "mean" else layers.reduce_sum(x)


class MSELoss(_Loss):
    """(input - label)^2"""

    def forward(self, input: Any, label: Any) -> Any:
        return self._reduced(layers.square(layers.elementwise_sub(input, label)))


class L1Loss(_Loss):
    """|input - label|"""

    def forward(self, input: Any, label: Any) -> Any:
        return self._reduced(layers.elementwise_sub(input, label, act="abs"))


class BCELoss(_Loss):
    """-(label * log(input) + (1 - label) * log(1 - input)), times `weight`"""

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        super().__init__(reduction)
        if weight is not None and not isinstance(weight, Tensor):
            raise ValueError("The weight is not a Variable, please convert to Variable.")
        self.weight = weight

    def forward(self, input: Any, label: Any) -> Any:
        (loss,) = self.run("bce_loss", {"X": input, "Label": label}, {})
        return self._reduced(loss if self.weight is None else layers.elementwise_mul(loss, self.weight, axis=-1))


class NLLLoss(_Loss):
    """-weight[label] * input[label] for log-probabilities `input` [N, C] or [N, C, ...] and int64 labels [N] or [N, ...]; the mean is over
    the weights, and elements with the label `ignore_index` count nothing.
    """

    def __init__(self, weight: Any = None, reduction: str = "mean", ignore_index: int = -100):
        super().__init__(reduction)
        self.weight, self.ignore_index = weight, ignore_index

    def forward(self, input: Any, label: Any) -> Any:
        loss = functional.nll_loss(input, label, self.weight, self.ignore_index, self.reduction)
        return loss if self.reduction == "none" else loss.reshape([1])


__dir__ = listed(__name__)
