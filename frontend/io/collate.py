"""From samples to a batch."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyreme.io.dataset import DataError

__all__ = ["default_collate_fn", "default_convert_fn"]


def _is_tensor(value: Any) -> bool:
    from polyreme.tensor import Tensor

    return isinstance(value, Tensor)


def map_structure(fn: Callable[[Any], Any], value: Any) -> Any:
    """`fn` on every leaf of nested dicts, lists and tuples."""
    if isinstance(value, Mapping):
        return {key: map_structure(fn, item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_structure(fn, item) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(map_structure(fn, item) for item in value)
    return fn(value)


def to_arrays(value: Any) -> Any:
    """Tensors become arrays, so that a batch can cross from a worker's process."""
    return map_structure(lambda leaf: leaf.numpy() if _is_tensor(leaf) else leaf, value)


def to_tensors(value: Any) -> Any:
    """Arrays become Tensors, eager ones in static mode too; numbers and text stay."""
    from polyreme.tensor import Tensor

    return map_structure(
        lambda leaf: Tensor._wrap(leaf.copy()) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufcV" else leaf, value
    )


def default_collate_fn(batch: Sequence[Any]) -> Any:
    """Stack samples field by field along a new first axis.

    Arrays, Tensors and numbers are stacked; text is listed; tuples, lists and dicts are collated field by field.
    """
    if not batch:
        raise DataError("expected at least one sample to collate but got none")
    sample = batch[0]
    if isinstance(sample, np.ndarray):
        shapes = {np.shape(s) for s in batch}
        if len(shapes) > 1:
            raise DataError(
                f"expected samples of one shape to stack but got {' and '.join(map(str, sorted(shapes)))}; give a collate_fn that pads them"
            )
        return np.stack(batch, axis=0)
    if _is_tensor(sample):
        return default_collate_fn([s.numpy() for s in batch])
    if isinstance(sample, (numbers.Number, np.generic)):
        return np.array(batch)
    if isinstance(sample, (str, bytes)):
        return list(batch)
    if isinstance(sample, Mapping):
        return {key: default_collate_fn([s[key] for s in batch]) for key in sample}
    if isinstance(sample, Sequence):
        if any(len(s) != len(sample) for s in batch):
            raise DataError("expected samples with one number of fields but they differ")
        return [default_collate_fn(fields) for fields in zip(*batch, strict=True)]
    raise DataError(
        f"expected samples of arrays, Tensors, numbers, text, dicts or sequences but got {type(sample).__name__}; give a collate_fn"
    )


def default_convert_fn(sample: Any) -> Any:
    """A sample that is a batch already (`batch_size=None`): left as it is."""
    return sample
