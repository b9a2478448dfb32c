"""What the ops of the kernel level share: register types, checks of operands, and memory on numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme.ir.core import Value
from polyreme.ir.diagnostics import PolyremeError, check_attr, check_type
from polyreme.ir.types import BufferType, ScalarType, Type, VectorType, i1, index

Array = np.ndarray[Any, Any]

REDUCTIONS = ("add", "mul", "max", "min", "and", "or")
MAX_LANES = 1024


def lanes_of(type: Type) -> int:
    """1 for a scalar, else the lanes of the vector."""
    if isinstance(type, VectorType):
        return type.lanes
    check_type(isinstance(type, ScalarType), f"expected a scalar or a vector but got {type}")
    return 1


def of_lanes(dtype: ScalarType, lanes: int) -> ScalarType | VectorType:
    """The register type of `lanes` elements: the scalar itself for one."""
    check_attr(1 <= lanes <= MAX_LANES, f"expected from 1 to {MAX_LANES} lanes but got {lanes}")
    return dtype if lanes == 1 else VectorType(lanes, dtype)


def scalar_of(type: Type) -> ScalarType:
    """The element type of a scalar or vector."""
    check_type(isinstance(type, (ScalarType, VectorType)), f"expected a scalar or a vector but got {type}")
    assert isinstance(type, (ScalarType, VectorType))
    return type if isinstance(type, ScalarType) else type.dtype


def check_buffer(type: Type) -> BufferType:
    """`InferError` unless it is a buffer's type."""
    check_type(isinstance(type, BufferType), f"expected a buffer but got {type}")
    assert isinstance(type, BufferType)
    return type


def check_index(type: Type, what: str = "a position") -> None:
    check_type(type == index, f"expected an index as {what} but got {type}")


def check_mask(mask: Type | None, lanes: int) -> None:
    check_type(mask is None or mask == of_lanes(i1, lanes), f"expected a mask of type {of_lanes(i1, lanes)} but got {mask}")


def flat_operands(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Variadic operands may be given one by one or as one sequence."""
    return operands if not operands or isinstance(operands[0], Value) else tuple(operands[0])


def check_align(align: int | None) -> None:
    check_attr(align is None or (align > 0 and align & (align - 1) == 0), f"expected 'align' to be a power of two but got {align}")


def flat_memory(buffer: Array) -> Array:
    if buffer.ndim != 1 and not buffer.flags.c_contiguous:
        raise PolyremeError("expected contiguous memory for a buffer but got a strided array", code="E0309")
    return buffer.reshape(-1)


def check_range(name: str, size: int, positions: Any) -> None:
    if isinstance(positions, np.ndarray):
        if not positions.size:
            return
        least, most = positions.min(), positions.max()
    elif isinstance(positions, range):
        least, most = positions[0], positions[-1]
    else:
        least = most = positions
    if least < 0 or most >= size:
        raise PolyremeError(f"'{name}' expected a position in [0, {size}) but got {least if least < 0 else most}", code="E0309")


def neighbours(index: Any, lanes: int) -> Any:
    """The positions of as many lanes from `index` on."""
    return range(int(index), int(index) + lanes)


def read(name: str, buffer: Array, positions: Any, mask: Any) -> Any:
    """What a buffer holds at a position, at an array of them or at a range of neighbours; lanes off `mask` are not looked at, and 0."""
    flat = flat_memory(buffer)
    if mask is None:
        check_range(name, flat.size, positions)
        return flat[positions.start : positions.stop].copy() if isinstance(positions, range) else flat[positions]
    positions = np.where(mask, positions, 0)
    check_range(name, flat.size, positions[mask])
    values = flat[positions] if flat.size else np.zeros(positions.shape, flat.dtype)
    return np.where(mask, values, np.zeros((), flat.dtype))


def write(name: str, value: Any, buffer: Array, positions: Any, mask: Any) -> None:
    flat = flat_memory(buffer)
    if mask is not None:
        on = np.asarray(mask)
        positions, value = np.asarray(positions)[on], np.asarray(value)[on]
    check_range(name, flat.size, positions)
    flat[slice(positions.start, positions.stop) if isinstance(positions, range) else positions] = value
