"""Gradients that were cleared: zeros, of which those of one shape and dtype have one array in common.

Nobody writes to the array of a tensor, so that it may be shared. By it a cleared gradient is known for one: what is added to it takes its
place, and a compiled step of training need not read it.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from polyreme.ir.types import TensorType
from polyreme.provided import provided, provides
from polyreme.tensor import Tensor

__all__ = ["clear_gradient", "has_own_gradient", "is_cleared", "zeros_of"]

Array = np.ndarray[Any, Any]

_ZEROS: WeakValueDictionary[tuple[tuple[int, ...], np.dtype[Any]], Array] = WeakValueDictionary()


def zeros_of(kind: TensorType) -> Array:
    """The zeros of a type, whose sizes are numbers."""
    dtype = np.dtype(kind.dtype.np)
    key = tuple(map(int, kind.shape)), dtype
    found = _ZEROS.get(key)
    if found is None:
        found = _ZEROS[key] = np.zeros(key[0], dtype)
        found.flags.writeable = False
    return found


@provides
def is_cleared(gradient: Tensor) -> bool:
    """Whether a gradient is what `clear_gradient` has left."""
    array = gradient._value
    return array.__class__ is np.ndarray and _ZEROS.get((array.shape, array.dtype)) is array


@provides
def has_own_gradient(tensor: Tensor) -> bool:
    """Whether the gradient of `tensor` is a tensor that `backward` has made for it."""
    return tensor._grad is not None and tensor._grad._name == f"{tensor._name or tensor.name}@GRAD"


@provides
def clear_gradient(tensor: Tensor, set_to_zero: bool) -> None:
    """Set the gradient to zeros, or take it away, as where it is rows of a table. Those who keep one that `backward` made see the zeros,
    but not what is added after that.
    """
    held = tensor._grad
    if held is None:
        return
    if not set_to_zero or held.is_selected_rows():
        tensor._grad = None
        return
    trace = provided.active_trace()
    array = held._value
    zeros = _ZEROS.get((array.shape, array.dtype)) if array.__class__ is np.ndarray else None
    if zeros is None:
        zeros = zeros_of(held.type)
    if has_own_gradient(tensor):
        if trace is None and held._view is None:
            held._value, held._version = zeros, held._version + 1
        else:
            provided.assign(held, Tensor._wrap(zeros) if trace is None else provided.full(held.type.shape, 0, held.type.dtype))
    tensor._grad = cleared = Tensor._wrap(zeros)
    cleared.stop_gradient = held.stop_gradient
