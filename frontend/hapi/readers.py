"""`paddle.batch`: readers, functions that return an iterator over samples, in the older way of feeding data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["batch"]


def batch(reader: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = False) -> Callable[[], Iterator[list[Any]]]:
    """A reader of lists of `batch_size` samples of `reader`. A last, shorter list is left out with `drop_last`."""
    size = int(batch_size)
    if size <= 0:
        raise ValueError(f"expected batch_size to be a positive whole number but got {batch_size}")

    def batches() -> Iterator[list[Any]]:
        gathered: list[Any] = []
        for sample in reader():
            gathered.append(sample)
            if len(gathered) == size:
                yield gathered
                gathered = []
        if gathered and not drop_last:
            yield gathered

    return batches
