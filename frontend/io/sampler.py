"""Samplers: the order in which a loader takes samples. Random ones draw from numpy's global state, as Paddle's do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from polyreme.io.dataset import DataError, IterableDataset
from polyreme.utils.shown import Shown, length_of

__all__ = [
    "BatchSampler",
    "DistributedBatchSampler",
    "RandomSampler",
    "Sampler",
    "SequenceSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


class Sampler(Shown):
    """An iterable of indices; a subclass defines `__iter__`, and `__len__` where it is known."""

    def __init__(self, data_source: Any = None):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError(f"'__iter__' is not implemented in class {type(self).__name__}")

    def __len__(self) -> int:
        return len(self.data_source)

    def _shown(self) -> dict[str, Any]:
        return super()._shown() | length_of(self.__len__)


class SequenceSampler(Sampler):
    """0, 1, 2, … to the length of the data."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """All indices in random order, or `num_samples` of them, with repeats when `replacement`."""

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None):
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise TypeError(f"expect boolean value for replacement, but got replacement={replacement}")
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise DataError(f"expected 'num_samples' to be a positive number but got {num_samples!r}")
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        if self.generator is not None:
            for _ in range(self.num_samples):
                try:
                    yield int(next(self.generator))
                except StopIteration:
                    return
        elif self.replacement:
            yield from np.random.choice(np.arange(count), self.num_samples, replace=True).tolist()
        else:
            yield from np.random.choice(np.arange(count), count, replace=False).tolist()[: self.num_samples]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int]):
        if len(indices) == 0:
            raise DataError("The length of `indices` in SubsetRandomSampler should be greater than 0.")
        super().__init__(indices)
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in np.random.permutation(len(self.indices)))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn with the given weights."""

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True):
        super().__init__(None)
        values = np.asarray(weights, dtype="float64")
        if not isinstance(num_samples, int) or num_samples <= 0:
            raise DataError(f"num_samples should be a positive integer, but got {num_samples!r}")
        if values.ndim != 1 or (values < 0).any() or not values.sum() > 0:
            raise DataError("expected a list of weights that are not negative and not all 0")
        if not replacement and num_samples > np.count_nonzero(values):
            raise DataError(
                f"expected at most {np.count_nonzero(values)} samples (weights above 0) without replacement but got {num_samples}"
            )
        self.weights = values / values.sum()
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.choice(len(self.weights), self.num_samples, self.replacement, self.weights).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` indices, from a dataset (in order, or shuffled) or from another sampler."""

    def __init__(
        self, dataset: Any = None, sampler: Sampler | None = None, shuffle: bool = False, batch_size: int = 1, drop_last: bool = False
    ):
        super().__init__(dataset)
        if (dataset is None) == (sampler is None):
            raise DataError("expected either 'dataset' or 'sampler' but got " + ("both" if dataset is not None else "none"))
        if isinstance(dataset, IterableDataset):
            raise DataError("expected a dataset with an index but got a stream (IterableDataset)")
        if sampler is not None and shuffle:
            raise DataError("expected shuffle=False with a 'sampler', which has an order of its own")
        if not isinstance(batch_size, (int, np.integer)) or batch_size <= 0:
            raise DataError(f"expected 'batch_size' to be a positive integer but got {batch_size!r}")
        if sampler is None:
            sampler = RandomSampler(dataset) if shuffle else SequenceSampler(dataset)
        self.sampler = sampler
        self.batch_size = int(batch_size)
        self.shuffle = shuffle
        self.drop_last = drop_last

    def _shown(self) -> dict[str, Any]:
        found = super()._shown()
        if self.data_source is not None:
            found = {"dataset": self.data_source} | {name: value for name, value in found.items() if name != "sampler"}
        return found

    def __iter__(self) -> Iterator[list[int]]:  # type: ignore[override]
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedBatchSampler(BatchSampler):
    """The share of one rank: every rank sees as many batches, filled up with the first samples where the data does not divide.

    With `shuffle`, all ranks draw the same order from the epoch's number, so call `set_epoch` at the start of each epoch.
    """

    _kept_as: ClassVar[Mapping[str, str]] = {"num_replicas": "nranks", "rank": "local_rank"}

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ):
        super().__init__(dataset, batch_size=batch_size, drop_last=drop_last)
        self.shuffle = shuffle
        self.nranks = 1 if num_replicas is None else num_replicas
        self.local_rank = 0 if rank is None else rank
        if self.nranks < 1 or not 0 <= self.local_rank < self.nranks:
            raise DataError(f"expected a rank in [0, {self.nranks}) but got {self.local_rank}")
        self.epoch = 0
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle of an epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:  # type: ignore[override]
        order = np.resize(np.arange(len(self.data_source)), self.total_size)
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        mine = self._share(order)
        for start in range(0, len(mine), self.batch_size):
            batch = mine[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def _share(self, order: Any) -> list[int]:
        """Whole batches in turn, then an equal part each of what is left."""
        width = self.batch_size * self.nranks
        whole = len(order) - len(order) % width
        mine = order[:whole].reshape(-1, self.nranks, self.batch_size)[:, self.local_rank].reshape(-1)
        rest = order[whole:]
        part = len(rest) // self.nranks
        return [*mine.tolist(), *rest[self.local_rank * part : (self.local_rank + 1) * part].tolist()]

    def __len__(self) -> int:
        count = self.num_samples
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
