"""Tensors from numbers, lists and arrays: all that a program needs which only runs models. So nothing is imported here that brings ops with
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.device import as_place
from polyreme.dtypes import as_dtype, bfloat16, complex64, default_dtype, int64
from polyreme.dtypes import dtype as DType
from polyreme.grad_mode import recording
from polyreme.ir.dims import Expr
from polyreme.pending import Pending
from polyreme.provided import provided, provides
from polyreme.runtime.gpu.arrays import private
from polyreme.tensor import Tensor

__all__ = ["is_traced", "to_tensor"]


def _copied(data: Tensor) -> Tensor:
    """The contents as they are now, without the graph."""
    if not is_traced():
        made = Tensor._wrap(data._value, data._type)
        if made._value.__class__ is Pending:
            made._value = made._value.apart(made)
        made._value = private(made._value)
        return made
    return provided.detached(data, shares=False)


@provides
def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A copy of a number, (nested) list, numpy array or tensor.

    Python floats become the default dtype, Python integers int64; numpy arrays keep theirs.
    """
    where = None if place is None else as_place(place)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        with recording(False):
            made = _copied(data) if wanted is None or wanted is data.dtype else _cast(data, wanted)
    elif isinstance(data, Expr):
            made = provided.full((), data, (wanted or int64).scalar)
    elif isinstance(data, (list, tuple)) and any(isinstance(d, Expr) for d in data):
        made = _of_sizes(data, wanted)
    elif is_traced():
            made = provided.constant(array_of(data, wanted))
    elif hasattr(data, "__cuda_array_interface__"):
        made = provided.of_cuda_interface(data)
        made = made if wanted is None or wanted is made.dtype else _cast(made, wanted)
    else:
        made = Tensor._wrap(array_of(data, wanted))
    made.stop_gradient = stop_gradient
    if where is not None:
        made._place = where
    return made


def _of_sizes(data: Any, wanted: DType | None) -> Tensor:
    """A vector of numbers, some of which are sizes that are not known while the program is built."""
    kind = wanted or (default_dtype() if any(isinstance(d, float) for d in data) else int64)
    return provided.stack([d if isinstance(d, Tensor) else provided.full((), d, kind.scalar) for d in data])


def is_traced() -> bool:
    """Whether a program is being traced, or built, that calls are to become part of: then dispatch is loaded."""
    return provided.has("active_trace") and provided.active_trace() is not None


def _cast(x: Tensor, wanted: DType) -> Tensor:
    from polyreme.dialects import nn as ops

    made: Tensor = provided.call(ops.Cast, x, dtype=wanted.scalar)
    return made


def array_of(data: Any, wanted: DType | None) -> np.ndarray[Any, Any]:
    literal = not isinstance(data, (np.ndarray, np.generic))
    if literal and not isinstance(data, (bool, int, float, complex, list, tuple)):
        raise TypeError(
            f"Can't constructs a 'paddle.Tensor' with data type {type(data)}, data type must be scalar|list|tuple|np.ndarray|paddle.Tensor"
        )
    tensors = literal and _holds_tensors(data)
    array = np.array(_plain(data) if tensors else data)
    if literal and wanted is None and not tensors:
        if array.dtype.kind == "f":
            array = array.astype(default_dtype().np)
        elif array.dtype.kind == "c":
            array = array.astype(complex64.np)
    if array.dtype.kind in "OUSV" and array.dtype.name != "bfloat16":
        raise ValueError(f"expected numbers to make a tensor of but got {array.dtype} elements")
    if array.dtype == np.uint16 and not tensors and wanted in (None, bfloat16):
        return array.view(bfloat16.np)  # what `numpy()` gives of them
    if wanted is not None and array.dtype != wanted.np:
        return array.astype(wanted.np)
    return array


def _holds_tensors(data: Any) -> bool:
    return isinstance(data, Tensor) or isinstance(data, (list, tuple)) and any(map(_holds_tensors, data))


def _plain(data: Any) -> Any:
    return (
        [_plain(d) for d in data] if isinstance(data, (list, tuple)) else data._array("to_tensor()") if isinstance(data, Tensor) else data
    )
