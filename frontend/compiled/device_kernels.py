"""Kernels for eager ops on a GPU, one program per op, and the copies of tensors that stay on it.

An op is compiled when it is first called, as a module of its own. Elementwise ops on arrays of one shape (and single numbers) take the
elements as one row of any length, and convolutions and pooling take any batch size, so one kernel serves many shapes. What the compiler has
no code for on a GPU runs by reference on the host; `on_host` says what, and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.compiled.heavy_kernels import attribute_key, free_batch, one_op_module
from polyreme.device import Place, copies_on, current_place
from polyreme.dialects import nn
from polyreme.ir.builtin import Module
from polyreme.ir.core import Op
from polyreme.ir.define import Elementwise
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbol
from polyreme.ir.types import TensorType, scalar_type
from polyreme.runtime.gpu.arrays import DeviceArray
from polyreme.runtime.gpu.copies import SMALL_BYTES, DeviceCopies

__all__ = ["choose", "filled", "on_host"]

Array = np.ndarray[Any, Any]
LENGTH = symbol("N")

# By place, op, types and attributes: an executable, or why there is none.
_programs: dict[Any, Any] = {}
MOST_PROGRAMS = 4096


def choose(
    place: Place, cls: type[Op], types: Sequence[Any], attributes: dict[str, Any], result_types: tuple[TensorType, ...]
) -> Callable[..., Sequence[Array]] | None:
    """A kernel for the GPU, called with the arrays as the reference is; None where there is no code for it."""
    if not cls.name.startswith("nn."):  # collectives, say
        return None
    if cls is nn.Reshape:
        return lambda array: [_reshaped(array, attributes["shape"], copies_on(place))]
    row = _as_rows(cls, types, result_types)
    general = row or free_batch(cls, types, attributes)
    key: Any = (place.kind, cls, tuple(general), tuple((k, attribute_key(attributes[k])) for k in sorted(attributes)))
    try:
        program = _programs.get(key)
    except TypeError:  # an attribute that cannot be a key
        key, program = None, None
    if program is None:
        program = _compiled(place, one_op_module(cls, general, attributes), cls.name.replace(".", "_"))
        if len(_programs) >= MOST_PROGRAMS:
            _programs.clear()
        if key is not None:
            _programs[key] = program
    if isinstance(program, str):
        return None
    copies = copies_on(place)
    if row is None:
        return lambda *arrays: program.run_kept(_flat(arrays), copies)
    shapes = tuple((t.elements,) if r.shape else () for t, r in zip(types, row, strict=True) if t is not None)
    result_shapes = tuple(t.shape for t in result_types)
    return lambda *arrays: program.run_kept(_flat(arrays), copies, shapes, result_shapes)


def filled(place: Place, shape: tuple[int, ...], number: Array) -> Any:
    """An array whose elements are all `number`, made on a GPU unless it is small: one program serves all numbers, and all shapes of as many
    elements.
    """
    if math.prod(shape) * number.nbytes <= SMALL_BYTES:
        return np.full(shape, number)
    kind, count = TensorType((), scalar_type(number.dtype)), math.prod(shape)
    key = place.kind, nn.BroadcastTo, (kind,), count
    program = _programs.get(key)
    if program is None:
        program = _programs[key] = _compiled(place, one_op_module(nn.BroadcastTo, [kind], {"shape": (count,)}), "filled")
    if isinstance(program, str):
        return np.full(shape, number)
    return program.run_kept([number], copies_on(place), result_shapes=(shape,))[0]


def on_host(place: Place | None = None) -> dict[str, str]:
    """The ops that were called on a GPU and ran on the host, with the types of their operands, and why each did."""
    kind = (place or current_place()).kind
    found = {}
    for (where, cls, types, _), program in _programs.items():
        if where == kind and isinstance(program, str):
            found[f"{cls.name}({', '.join(map(str, types))})"] = program
    return found


def _reshaped(array: Any, shape: tuple[int, ...], copies: DeviceCopies) -> Any:
    """The same elements, where they are: a view that main memory would make of an array has no copy of its own to keep."""
    there = array if type(array) is DeviceArray else copies.resident(array)
    return array.reshape(shape) if there is None else there.reshaped(shape)


def _compiled(place: Place, module: Module, name: str) -> Any:
    from polyreme.compiled.executables import load_module

    try:
        return load_module(module, name, place)
    except PolyremeError as error:
        return error.message


def _as_rows(cls: type[Op], types: Sequence[Any], result_types: tuple[TensorType, ...]) -> list[Any] | None:
    """The operands' types with the elements of each in a row of any length, or a single number; None for ops that need more than that."""
    if Elementwise not in cls.definition.traits or len(result_types) != 1:
        return None
    shape = result_types[0].shape
    found: list[Any] = []
    for t in types:
        if t is None:
            found.append(None)
        elif isinstance(t, tuple):
            return None
        elif t.shape == shape:
            found.append(TensorType((LENGTH,), t.dtype))
        elif t.elements == 1:
            found.append(TensorType((), t.dtype))
        else:
            return None
    return found if any(t is not None and t.shape for t in found) else None


def _flat(operands: Sequence[Any]) -> list[Array]:
    """The arrays among operands, of which some are absent and some are several arrays."""
    found: list[Array] = []
    for o in operands:
        if isinstance(o, tuple):
            found += o
        elif o is not None:
            found.append(o)
    return found
