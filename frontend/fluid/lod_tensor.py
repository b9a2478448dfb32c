"""`fluid.create_lod_tensor` and its relative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyreme.device import Place, as_place
from polyreme.names import listed
from polyreme.static.lod.tensor import LoDTensor

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]


def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Any) -> LoDTensor:
    """A tensor of these lengths of sequences, from an array, another LoDTensor, or a list of lists whose items become rows of size 1.

    Lengths that do not make up the rows are a `ValueError`, as are those that a list does not have.
    """
    _check_place(place)
    if isinstance(data, LoDTensor):
        return create_lod_tensor(np.array(data), recursive_seq_lens, place)
    if isinstance(data, list):
        lengths = [len(sequence) for sequence in data]
        if [lengths] != [list(level) for level in recursive_seq_lens]:
            raise ValueError(f"data and recursive_seq_lens do not match: expected {[lengths]} but got {list(recursive_seq_lens)}")
        return create_lod_tensor(np.concatenate(data, axis=0).reshape(-1, 1), recursive_seq_lens, place)
    if not isinstance(data, np.ndarray):
        raise TypeError("data should be either a LoDTensor, a Numpy array or a list")
    made = LoDTensor(data)
    made.set_recursive_sequence_lengths(recursive_seq_lens)
    if not made.has_valid_recursive_sequence_lengths():
        raise ValueError(f"the provided lod info is invalid: {list(recursive_seq_lens)} for {list(data.shape)}")
    return made


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]], base_shape: Sequence[int], place: Any, low: int, high: int
) -> LoDTensor:
    """Whole numbers in [low, high], both ends, int64, of the shape [sum of the last lengths, *base_shape]."""
    if not isinstance(base_shape, list):
        raise TypeError("base_shape should be a list")
    rows = sum(recursive_seq_lens[-1])
    return create_lod_tensor(np.random.randint(low, high + 1, [rows, *base_shape]).astype(np.int64), recursive_seq_lens, place)


def _check_place(place: Any) -> None:
    if not isinstance(place, Place):
        raise TypeError(f"expected a place, such as fluid.CPUPlace(), but got {type(place).__name__}")
    as_place(place)


__dir__ = listed(__name__)
