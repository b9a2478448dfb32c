"""`fluid.metrics`: measures over many batches, gathered in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["Accuracy", "Auc", "ChunkEvaluator", "CompositeMetric", "EditDistance", "MetricBase", "Precision", "Recall"]


class MetricBase(Shown):
    """The base of all: `update` counts a batch, `eval` gives the measure so far, `reset` begins anew."""

    def __init__(self, name: str | None = None):
        self._name = str(name) if name is not None else type(self).__name__

    def reset(self) -> None:
        """Begin anew: numbers become 0 and lists empty."""
        for name, value in vars(self).items():
            if name.startswith("_"):
                continue
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(self, name, type(value)(0))
            elif isinstance(value, (np.ndarray, np.generic)):
                setattr(self, name, np.zeros_like(value))

    def get_config(self) -> dict[str, Any]:
        """The counts so far, by name."""
        return {"name": self._name, "states": {name: value for name, value in vars(self).items() if not name.startswith("_")}}

    def update(self, preds: Any, labels: Any) -> None:
        raise NotImplementedError(f"Should not use it directly, please extend it: {type(self).__name__}.update")

    def eval(self) -> Any:
        raise NotImplementedError(f"Should not use it directly, please extend it: {type(self).__name__}.eval")


class CompositeMetric(MetricBase):
    """Several measures of the same predictions."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Add a measure."""
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def update(self, preds: Any, labels: Any) -> None:
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        return [metric.eval() for metric in self._metrics]


def _marks(preds: Any, labels: Any) -> tuple[Any, Any]:
    if not isinstance(preds, np.ndarray) or not isinstance(labels, np.ndarray):
        raise ValueError("The 'preds' and 'labels' must be a numpy ndarray.")
    return np.rint(preds).astype(np.int32).reshape(-1), labels.astype(np.int32).reshape(-1)


class Precision(MetricBase):
    """Of the samples marked 1, the share that is 1."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.tp, self.fp = 0, 0

    def update(self, preds: Any, labels: Any) -> None:
        """Count probabilities [N, 1] and labels, 0 or 1."""
        marked, true = _marks(preds, labels)
        self.tp += int(((marked == 1) & (true == 1)).sum())
        self.fp += int(((marked == 1) & (true != 1)).sum())

    def eval(self) -> float:
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(MetricBase):
    """Of the samples that are 1, the share marked so."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.tp, self.fn = 0, 0

    def update(self, preds: Any, labels: Any) -> None:
        """Count probabilities [N, 1] and labels, 0 or 1."""
        marked, true = _marks(preds, labels)
        self.tp += int(((marked == 1) & (true == 1)).sum())
        self.fn += int(((marked != 1) & (true == 1)).sum())

    def eval(self) -> float:
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Accuracy(MetricBase):
    """The mean of batches' accuracies, each counted as often as its weight says."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.value: Any = 0.0
        self.weight: Any = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """Count the accuracy of a batch of `weight` samples."""
        if not isinstance(value, (int, float, np.ndarray, np.generic)) or not isinstance(weight, (int, float, np.ndarray, np.generic)):
            raise ValueError("The 'value' and 'weight' must be numbers or numpy ndarrays.")
        if np.any(np.asarray(weight) < 0):
            raise ValueError("The 'weight' can not be negative")
        counted: Any = weight
        self.value += value * counted
        self.weight += weight

    def eval(self) -> Any:
        if self.weight == 0:
            raise ValueError("There is no data in Accuracy Metrics. Please check layers.accuracy output has added to Accuracy.")
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, from the counts that `chunk_eval` gives."""

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.num_infer_chunks: Any = 0
        self.num_label_chunks: Any = 0
        self.num_correct_chunks: Any = 0

    def update(self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any) -> None:  # type: ignore[override]
        """Count the chunks of a batch: inferred, labelled, and both. Each is a number or an array of one, as a run fetches it."""
        self.num_infer_chunks = self.num_infer_chunks + num_infer_chunks
        self.num_label_chunks = self.num_label_chunks + num_label_chunks
        self.num_correct_chunks = self.num_correct_chunks + num_correct_chunks

    def eval(self) -> tuple[Any, Any, Any]:
        """Numbers, or arrays of one where the counts came as such."""
        precision = self.num_correct_chunks / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = self.num_correct_chunks / self.num_label_chunks if self.num_label_chunks else 0.0
        both = precision + recall
        return precision, recall, 2 * precision * recall / both if self.num_correct_chunks else 0.0


class EditDistance(MetricBase):
    """The mean distance, and the share of sequences that have one."""

    def __init__(self, name: str | None):
        super().__init__(name)
        self.total_distance, self.seq_num, self.instance_error = 0.0, 0, 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """Count the distances of a batch of `seq_num` sequences."""
        array = np.asarray(distances)
        count = int(np.asarray(seq_num).reshape(-1)[0])
        self.seq_num += count
        self.instance_error += count - int((array == 0).sum())
        self.total_distance += float(array.sum())

    def eval(self) -> tuple[float, float]:
        if self.seq_num == 0:
            raise ValueError(
                "There is no data in EditDistance Metric. Please check layers.edit_distance output has been added to EditDistance."
            )
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class Auc(MetricBase):
    """The area under the curve of true against false positives, of thresholds `1 / num_thresholds` apart."""

    def __init__(self, name: str | None, curve: str = "ROC", num_thresholds: int = 4095):
        super().__init__(name)
        self._curve, self._num_thresholds = curve, num_thresholds
        self._stat_pos, self._stat_neg = np.zeros(num_thresholds + 1, np.int64), np.zeros(num_thresholds + 1, np.int64)

    def reset(self) -> None:
        self._stat_pos[:], self._stat_neg[:] = 0, 0

    def update(self, preds: Any, labels: Any) -> None:
        """Count probabilities [N, 2], of which the second is that of label 1, and labels, 0 or 1."""
        if not isinstance(preds, np.ndarray) or not isinstance(labels, np.ndarray):
            raise ValueError("The 'preds' and 'labels' must be a numpy ndarray.")
        places = (preds[:, 1] * self._num_thresholds).astype(np.int64)
        true = labels.reshape(-1).astype(bool)
        np.add.at(self._stat_pos, places[true], 1)
        np.add.at(self._stat_neg, places[~true], 1)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area between the x-axis and the line from (x1, y1) to (x2, y2)."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def eval(self) -> float:
        positives, negatives = np.cumsum(self._stat_pos[::-1]), np.cumsum(self._stat_neg[::-1])
        if not positives[-1] or not negatives[-1]:
            return 0.0
        rises = np.diff(positives, prepend=0) / 2 + np.concatenate([[0], positives[:-1]])
        return float((np.diff(negatives, prepend=0) * rises).sum() / positives[-1] / negatives[-1])


__dir__ = listed(__name__)
