"""Datasets: indexed ones (`Dataset`) and streams (`IterableDataset`), and ways to combine them."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Any

from polyreme.ir.diagnostics import PolyremeError
from polyreme.utils.shown import Shown, length_of

__all__ = [
    "ChainDataset",
    "ComposeDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class DataError(PolyremeError, ValueError):
    """A dataset, sampler or loader that is used wrongly."""

    code = "E1001"


class Dataset(Shown):
    """Samples by index: a subclass defines `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"'__getitem__' is not implemented in class {type(self).__name__}")

    def __len__(self) -> int:
        raise NotImplementedError(f"'__len__' is not implemented in class {type(self).__name__}")

    def _shown(self) -> dict[str, Any]:
        return super()._shown() | length_of(self.__len__)


class IterableDataset(Dataset):
    """A stream of samples: a subclass defines `__iter__`. Workers of a loader each get a copy (see `get_worker_info`)."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"'__iter__' is not implemented in class {type(self).__name__}")

    def __getitem__(self, index: int) -> Any:
        raise RuntimeError(f"'__getitem__' should not be called for IterableDataset {type(self).__name__}")

    def __len__(self) -> int:
        # A TypeError, so that list(dataset) does without.
        raise TypeError(f"'__len__' should not be called for IterableDataset {type(self).__name__}")


class TensorDataset(Dataset):
    """Samples are the rows of several tensors of one length: `dataset[i]` is `(a[i], b[i], …)`."""

    def __init__(self, tensors: Sequence[Any]):
        lengths = [t.shape[0] for t in tensors]
        if len(set(lengths)) > 1:
            raise DataError(f"expected tensors of one length in TensorDataset but got lengths {', '.join(map(str, lengths))}")
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class ComposeDataset(Dataset):
    """Joins the fields of datasets of one length: `dataset[i]` is all their i-th samples in one tuple."""

    def __init__(self, datasets: Sequence[Dataset]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise DataError("expected at least one dataset but got none")
        lengths = [len(d) for d in self.datasets]
        if len(set(lengths)) > 1:
            raise DataError(f"expected datasets of one length but got lengths {', '.join(map(str, lengths))}")

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        fields: list[Any] = []
        for dataset in self.datasets:
            sample = dataset[index]
            fields.extend(sample if isinstance(sample, (list, tuple)) else [sample])
        return tuple(fields)

    def __len__(self) -> int:
        return len(self.datasets[0])


class ChainDataset(IterableDataset):
    """One stream after another."""

    def __init__(self, datasets: Sequence[IterableDataset]):
        self.datasets = list(datasets)
        if not all(isinstance(d, IterableDataset) for d in self.datasets):
            raise DataError("expected streams (IterableDataset) in ChainDataset")

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset


class ConcatDataset(Dataset):
    """One indexed dataset after another."""

    def __init__(self, datasets: Sequence[Dataset]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise DataError("expected at least one dataset but got none")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise DataError("expected datasets with an index in ConcatDataset but got a stream (IterableDataset)")
        self.cumulative_sizes: list[int] = []
        for dataset in self.datasets:
            self.cumulative_sizes.append(len(dataset) + (self.cumulative_sizes or [0])[-1])

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"expected an index in [{-len(self)}, {len(self)}) but got {index}")
        index %= len(self)
        part = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class Subset(Dataset):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset: Dataset, indices: Sequence[int]):
        self.dataset = dataset
        self.indices = indices

    def _shown(self) -> dict[str, Any]:
        return {"dataset": self.dataset} | length_of(self.__len__)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset, lengths: Sequence[int | float], generator: Any = None) -> list[Subset]:
    """Disjoint random subsets of the given lengths, or of the given fractions when these sum to 1.

    `generator` is a seed or a numpy `Generator`; None draws as `paddle.randperm` does.
    """
    import numpy as np

    from polyreme.math.creation import randperm

    total = len(dataset)
    sizes = list(lengths)
    if any(isinstance(n, float) for n in sizes):
        if abs(sum(sizes) - 1) > 1e-6 or any(not 0 <= n <= 1 for n in sizes):
            raise DataError(f"expected fractions between 0 and 1 that sum to 1 but got {list(lengths)}")
        sizes = [int(total * n) for n in sizes]
        # What rounding left over goes to the first subsets, one sample each.
        for i in range(int(total - sum(sizes))):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != total:
        raise DataError(f"expected lengths that sum to {total}, the length of the dataset, but got {list(lengths)}")
    order = randperm(total).numpy() if generator is None else np.random.default_rng(generator).permutation(total)
    ends = np.cumsum([0, *sizes])
    return [Subset(dataset, order[a:b].tolist()) for a, b in zip(ends[:-1], ends[1:], strict=True)]
