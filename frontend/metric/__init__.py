"""`paddle.metric`: figures that are gathered batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.names import absent_from, listed
from polyreme.tensor import Tensor
from polyreme.utils.shown import Shown

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


def _array(value: Any) -> np.ndarray[Any, Any]:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


class Metric(Shown):
    """The base: `compute` works on a batch's predictions and labels, `update` takes what it gave, `accumulate` tells the figure so far."""

    def reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError(f"function 'reset' not implemented in {type(self).__name__}.")

    def update(self, *args: Any) -> Any:
        """Take in one batch."""
        raise NotImplementedError(f"function 'update' not implemented in {type(self).__name__}.")

    def accumulate(self) -> Any:
        """The figure over all batches since `reset`."""
        raise NotImplementedError(f"function 'accumulate' not implemented in {type(self).__name__}.")

    def name(self) -> Any:
        """What the figure is called, or a list of names."""
        raise NotImplementedError(f"function 'name' not implemented in {type(self).__name__}.")

    def compute(self, *args: Any) -> Any:
        """By default hands its arguments on to `update`."""
        return args


class Accuracy(Metric):
    """The share of samples whose label is among the `topk` largest predictions; one figure per entry of `topk`."""

    def __init__(self, topk: Sequence[int] = (1,), name: str | None = None):
        self.topk = topk if isinstance(topk, (list, tuple)) else (topk,)
        self.maxk = max(self.topk)
        base = name or "acc"
        self._name = [f"{base}_top{k}" for k in self.topk] if self.maxk != 1 else [base]
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Tensor:
        """Which of each sample's `max(topk)` best classes is the label: float32 [N, …, maxk] of ones and zeros."""
        scores, labels = _array(pred), _array(label)
        # Stable, so that equal scores keep the order of their classes.
        best = np.argsort(-scores, axis=-1, kind="stable")[..., : self.maxk]
        if labels.ndim == 1 or (labels.ndim == 2 and labels.shape[-1] == 1):
            labels = labels.reshape(-1, 1)
        elif labels.shape[-1] != 1:
            labels = np.argmax(labels, axis=-1)[..., None]  # one-hot
        return Tensor((best == labels).astype("float32"))

    def update(self, correct: Any, *args: Any) -> Any:
        """Take in what `compute` gave; returns the accuracy of this batch."""
        hits = _array(correct)
        samples = int(np.prod(hits.shape[:-1]))
        accuracies = []
        for i, k in enumerate(self.topk):
            right = hits[..., :k].sum()
            accuracies.append(float(right) / samples)
            self.total[i] += right
            self.count[i] += samples
        return accuracies[0] if len(self.topk) == 1 else accuracies

    def reset(self) -> None:
        self.total = [0.0] * len(self.topk)
        self.count = [0] * len(self.topk)

    def accumulate(self) -> Any:
        figures = [float(t) / c if c > 0 else 0.0 for t, c in zip(self.total, self.count, strict=True)]
        return figures[0] if len(self.topk) == 1 else figures

    def name(self) -> list[str]:
        return self._name


class _Binary(Metric):
    """Counts of right and wrong decisions at a threshold of 0.5."""

    def __init__(self, name: str):
        self._name = name
        self.reset()

    def reset(self) -> None:
        self.tp = self.fp = self.fn = 0

    def update(self, preds: Any, labels: Any) -> None:
        """Take in predictions in [0, 1] and labels 0 or 1, of one shape (or [N, 1])."""
        said = np.floor(_array(preds) + 0.5).astype("int32").reshape(-1) == 1
        true = _array(labels).astype("int32").reshape(-1) == 1
        self.tp += int(np.sum(said & true))
        self.fp += int(np.sum(said & ~true))
        self.fn += int(np.sum(~said & true))

    def name(self) -> str:
        return self._name


class Precision(_Binary):
    """Right ones among those called positive."""

    def __init__(self, name: str | None = "precision"):
        super().__init__(name or "precision")

    def accumulate(self) -> float:
        called = self.tp + self.fp
        return float(self.tp) / called if called else 0.0


class Recall(_Binary):
    """Found ones among the positive."""

    def __init__(self, name: str | None = "recall"):
        super().__init__(name or "recall")

    def accumulate(self) -> float:
        positive = self.tp + self.fn
        return float(self.tp) / positive if positive else 0.0


class Auc(Metric):
    """Area under the ROC curve, by the trapezoidal rule over `num_thresholds` bins of the predicted probability."""

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str | None = "auc"):
        if curve != "ROC":
            raise ValueError(f"expected 'ROC' as the curve but got {curve!r}")
        self._num_thresholds = num_thresholds
        self._name = name or "auc"
        self.reset()

    def reset(self) -> None:
        self._positive = np.zeros(self._num_thresholds + 1)
        self._negative = np.zeros(self._num_thresholds + 1)

    def update(self, preds: Any, labels: Any) -> None:
        """Take in probabilities [N, 2] (of class 0 and 1) and labels [N, 1]."""
        probability = _array(preds)[:, 1]
        bins = (probability * self._num_thresholds).astype("int64")
        if bins.size and (bins.min() < 0 or bins.max() > self._num_thresholds):
            raise ValueError("expected probabilities in [0, 1]")
        true = _array(labels).reshape(-1) != 0
        np.add.at(self._positive, bins[true], 1)
        np.add.at(self._negative, bins[~true], 1)

    def accumulate(self) -> float:
        positives = np.concatenate([[0.0], np.cumsum(self._positive[::-1])])
        negatives = np.concatenate([[0.0], np.cumsum(self._negative[::-1])])
        area = float(np.sum(np.diff(negatives) * (positives[1:] + positives[:-1]) / 2))
        total = positives[-1] * negatives[-1]
        return area / float(total) if total > 0 else 0.0

    def name(self) -> str:
        return self._name


def accuracy(input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None, name: str | None = None) -> Tensor:
    """The share of samples (rows of `input`, [N, C]) whose label ([N, 1]) is among the `k` largest: a float32 Tensor, 0 of none. `correct`
    and `total` are given how many there are, int32.
    """
    from polyreme import dispatch
    from polyreme.math.creation import full, to_tensor
    from polyreme.math.elementwise import divide, maximum
    from polyreme.math.logic import equal
    from polyreme.math.manipulation import reshape
    from polyreme.math.search import topk

    scores, labels = (value if isinstance(value, Tensor) else to_tensor(np.asarray(value)) for value in (input, label))
    best = topk(scores.detach(), k)[1]
    hits = equal(best, reshape(labels, [-1, 1]).astype(best.dtype)).any(1).astype("int32").sum()
    rows = full([], scores.shape[0], "int32")
    for held, count in ((correct, hits), (total, rows)):
        if held is not None:
            dispatch.assign(held, count.astype("int32"))
    return divide(hits.astype("float32"), maximum(rows, full([], 1, "int32")).astype("float32"))

if not TYPE_CHECKING:
    # Not for type checkers, which would take any name for one that there is.
    __getattr__, __dir__ = absent_from(__name__), listed(__name__)
