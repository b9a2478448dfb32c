"""Memory of contents that were replaced, which the next run of a program writes its results to.

A step of training gives every parameter, and what the optimizer keeps of it, another array. New memory for these would be asked of the
system at each step, page by page, which takes as long as computing them.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

__all__ = ["Spares", "is_free"]

Array = np.ndarray[Any, Any]
# Smaller arrays are made of what the process has at hand.
LEAST_BYTES = 16384


class Spares:
    """Arrays by a number: that of the result which is to be written there. Nobody may hold them any more when they are used."""

    def __init__(self) -> None:
        self._arrays: dict[int, Array] = {}

    def keep(self, place: int, array: Any) -> None:
        """Have an array that was replaced for the result at `place`."""
        if type(array) is np.ndarray and array.nbytes >= LEAST_BYTES:
            self._arrays[place] = array

    def take(self) -> dict[int, Array]:
        """The arrays by place that nobody else has; none is here any more afterwards."""
        free = {}
        for place in tuple(self._arrays):
            array = self._arrays.pop(place, None)
            if array is not None and sys.getrefcount(array) <= _ALONE and _has_memory(array):
                free[place] = array
        return free


def is_free(array: Any) -> bool:
    """Whether only one tensor has an array, and a list and a variable of who asks: it may be written to, then, for the tensor is what will
    have it afterwards.
    """
    return type(array) is np.ndarray and sys.getrefcount(array) <= _IN_A_TENSOR and _has_memory(array)


def _has_memory(array: Array) -> bool:
    """Whether an array is the only one of its memory, if nobody else holds it: views, buffers and other libraries' tensors of its memory
    hold the array itself. One that has a base is a view.
    """
    return array.flags.owndata and array.base is None and array.flags.carray and not weakref.getweakrefcount(array)


def _count_alone() -> int:
    """How many references are counted of an array that only one variable has, where they are counted as in `take`."""
    arrays = {0: np.empty(0)}
    array = arrays.pop(0, None)
    return sys.getrefcount(array)


def _count_in_a_tensor() -> int:
    """The same of one that a tensor has, as `is_free` is asked."""
    holder = [np.empty(0)]
    arrays = [holder[0]]
    for array in arrays:
        return _count_of(array)
    raise AssertionError


def _count_of(array: Any) -> int:
    return sys.getrefcount(array)


_ALONE = _count_alone()
_IN_A_TENSOR = _count_in_a_tensor()
