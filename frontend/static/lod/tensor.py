"""`LoDTensor`: an array whose rows belong to sequences, which may be parts of longer ones. The levels, the longest sequences first, are
kept as offsets: `[[0, 2, 5]]` are a sequence of 2 rows and one of 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from polyreme.dtypes import of_numpy
from polyreme.tensor import Tensor

__all__ = ["LoDTensor", "LoDTensorArray", "lengths_of", "offsets_of"]

Array = np.ndarray[Any, Any]
Levels = list[list[int]]


def offsets_of(lengths: Sequence[Sequence[int]]) -> Levels:
    """`[[2, 3]]` as `[[0, 2, 5]]`."""
    return [[0, *np.cumsum(np.asarray(level, np.int64), dtype=np.int64).tolist()] for level in lengths]


def lengths_of(offsets: Sequence[Sequence[int]]) -> Levels:
    """`[[0, 2, 5]]` as `[[2, 3]]`."""
    return [np.diff(np.asarray(level, np.int64)).tolist() for level in offsets]


class LoDTensor:
    """An array with levels of detail. `numpy.array(t)` reads it."""

    def __init__(self, array: Any = None, lod: Sequence[Sequence[int]] = ()):
        self._held: Array | None = None
        self._lod: Levels = []
        if array is not None:
            self.set(array)
        if lod:
            self.set_lod(lod)

    @classmethod
    def _made(cls, array: Any, lod: Sequence[Sequence[int]]) -> LoDTensor:
        """What a program gave: levels as in `set_lod`, of which each may be without any sequence."""
        found = cls(array)
        found._set_levels(lod, 0)
        return found

    # --- contents

    def set(self, array: Any, place: Any = None, zero_copy: bool = False) -> None:
        """Replace the contents by a copy of an array; the levels stay."""
        self._put(np.array(array._value if isinstance(array, Tensor) else array))

    def _put(self, array: Array) -> None:
        self._held = array

    def _get(self) -> Array | None:
        return self._held

    def _array(self) -> Array:
        held = self._get()
        if held is None:
            raise ValueError("expected a tensor with contents but nothing was set; call set(array, place) first")
        return held

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self._array()
        return array.copy() if dtype is None else array.astype(dtype)

    def numpy(self) -> Array:
        return self._array().copy()

    def shape(self) -> list[int]:
        held = self._get()
        return [0] if held is None else list(held.shape)

    def _dtype(self) -> Any:
        return of_numpy(self._array().dtype)

    def _is_initialized(self) -> bool:
        return self._get() is not None

    def __len__(self) -> int:
        return len(self._array())

    def __getitem__(self, index: Any) -> Any:
        return LoDTensor(self._array()[index])

    def __iter__(self) -> Any:
        return iter(self._array())

    def _copy(self, place: Any = None) -> LoDTensor:
        return LoDTensor(self._array(), self._lod)

    # --- levels

    def lod(self) -> Levels:
        """The levels as offsets."""
        return [list(level) for level in self._lod]

    def set_lod(self, lod: Iterable[Sequence[int]]) -> None:
        """Set the levels, as offsets; a ValueError where they are no offsets of one another, or not of this tensor's rows."""
        self._set_levels(lod, 1)

    def _set_levels(self, lod: Iterable[Sequence[int]], least: int) -> None:
        levels = [[int(v) for v in level] for level in lod]
        fault = _fault(levels, self._get(), least)
        if fault is not None:
            raise ValueError(f"expected offsets of sequences, each level those of the one below, but {fault}: {levels}")
        self._lod = levels

    def recursive_sequence_lengths(self) -> Levels:
        """The levels as lengths."""
        return lengths_of(self._lod)

    def set_recursive_sequence_lengths(self, recursive_sequence_lengths: Iterable[Sequence[int]]) -> None:
        """Set the levels, as lengths; that they are valid is for `has_valid_recursive_sequence_lengths` to say."""
        self._lod = offsets_of([list(level) for level in recursive_sequence_lengths])

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether each level has as many sequences as the one above has parts, and the last as many parts as there are rows."""
        return _fault(self._lod, self._get()) is None

    def __repr__(self) -> str:
        held = self._get()
        if held is None:
            return "LoDTensor(not initialized)"
        return f"LoDTensor(shape={list(held.shape)}, dtype={held.dtype}, lod={self._lod},\n{held})"


def _fault(levels: Levels, array: Array | None, least: int = 1) -> str | None:
    """What is wrong with levels of at least so many sequences, if something is."""
    for i, level in enumerate(levels):
        if len(level) <= least or level[0] != 0:
            return f"level {i} does not start with 0 and name a sequence"
        if any(a > b for a, b in zip(level, level[1:], strict=False)):
            return f"level {i} falls"
        if i + 1 < len(levels) and level[-1] != len(levels[i + 1]) - 1:
            return f"level {i} has {level[-1]} parts and level {i + 1} {len(levels[i + 1]) - 1} sequences"
    if levels and array is not None and (array.ndim == 0 or levels[-1][-1] != array.shape[0]):
        return f"the last level has {levels[-1][-1]} rows and the tensor the shape {list(array.shape)}"
    return None


class LoDTensorArray(list[Any]):
    """A list of LoDTensors, as programs keep them."""

    def append(self, tensor: Any) -> None:
        if not isinstance(tensor, (LoDTensor, Tensor, np.ndarray)):
            raise TypeError(f"expected a LoDTensor for an array of them but got {type(tensor).__name__}")
        super().append(tensor if isinstance(tensor, LoDTensor) else LoDTensor(tensor))
