"""How levels of detail go through a program: as integers beside the tensors.

A level is a tensor of offsets, int64, fed beside its array under a name of its own (`words@LOD0`). While a program is translated, each
variable has the tensors of its levels. An operator whose entry has a slot `X@LOD` is given those of what it reads in `X`, and one that has
results in `Out@LOD` says what those of `Out` are; all others hand on the levels of the first input that has as many rows as the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from polyreme.ir.dims import Dim, symbol
from polyreme.ir.types import TensorType, i64
from polyreme.static.input_spec import BATCH
from polyreme.tensor import Tensor

__all__ = ["LOD", "ROWS", "is_level", "is_shared", "level_name", "level_types", "level_to_share", "levels_to_share"]

LOD = "@LOD"
# The rows of all inputs that are sequences, until feeds say that they differ.
ROWS = "ROWS"
_PARTS = "PARTS"


def level_name(name: str, level: int) -> str:
    """What the offsets of a level are fed as."""
    return f"{name}{LOD}{level}"


def is_level(name: str) -> bool:
    return LOD in name


def is_shared(size: str) -> bool:
    """Whether a size is one that inputs share only until feeds say otherwise."""
    return size in (BATCH, ROWS) or size.startswith(_PARTS)


def level_types(count: int) -> list[TensorType]:
    """The types of the offsets of a variable of `count` levels: the first level has a sequence for each member of the batch."""
    sizes: list[Dim] = [symbol(BATCH if level == 0 else f"{_PARTS}{level}") + 1 for level in range(count)]
    return [TensorType((size,), i64) for size in sizes]


def level_to_share(inputs: Iterable[Any], result: TensorType) -> int:
    """How many levels of detail the result of an operator on these variables has: those of the first with as many rows."""
    for variable in inputs:
        if variable.lod_level and variable.has_shape and result.shape and variable.type.shape[:1] == result.shape[:1]:
            return int(variable.lod_level)
    return 0


def levels_to_share(
    inputs: Mapping[str, Sequence[Tensor]],
    names: Mapping[str, Sequence[str]],
    levels_of: Callable[[str], list[Tensor]],
    result: TensorType,
) -> list[Tensor]:
    """The levels of the first input that has levels and as many rows as `result`; none where there is no such input."""
    if not result.shape:
        return []
    for slot, tensors in inputs.items():
        for name, tensor in zip(names.get(slot, ()), tensors, strict=False):
            if tensor is not None and tensor.type.shape and tensor.type.shape[0] == result.shape[0] and (levels := levels_of(name)):
                return levels
    return []
