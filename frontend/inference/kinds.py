"""What `paddle.inference` names: types of elements, places, precisions, and its error. The numbers are Paddle's."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from polyreme.ir.diagnostics import PolyremeError
from polyreme.names import listed

__all__ = ["DataType", "InferenceError", "PlaceType", "PrecisionType", "data_type_of"]
__dir__ = listed(__name__)


class InferenceError(PolyremeError, ValueError, RuntimeError):
    """A predictor or its configuration that is used wrongly."""

    code = "E1201"


class _Kind(enum.Enum):
    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


class DataType(_Kind):
    """The type of a tensor's elements."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7
    BFLOAT16 = 8


class PlaceType(_Kind):
    """Where a tensor stands."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 4


class PrecisionType(_Kind):
    """What a model computes in."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


# As Paddle prints them.
for _kind, _name in ((DataType, "PaddleDType"), (PlaceType, "PaddlePlace"), (PrecisionType, "Precision")):
    _kind.__name__ = _kind.__qualname__ = _name


def data_type_of(dtype: Any) -> DataType:
    """The name of numpy's type; `InferenceError` for one that predictors do not know."""
    name = np.dtype(dtype).name.upper()
    if name not in DataType.__members__:
        known = ", ".join(member.lower() for member in DataType.__members__)
        raise InferenceError(f"expected elements of a type that predictors know ({known}) but got {np.dtype(dtype).name}")
    return DataType[name]
