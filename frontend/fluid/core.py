"""`fluid.core`: what Paddle has in its library in C++, as far as programs name it."""

from __future__ import annotations

from enum import IntEnum

from polyreme.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, Place, is_compiled_with_cuda
from polyreme.dtypes import PROTOBUF_DTYPES, dtype
from polyreme.ir.types import TensorType
from polyreme.names import listed
from polyreme.static.lod.tensor import LoDTensor, LoDTensorArray
from polyreme.static.operator import AttrType, Operator
from polyreme.static.scope import Scope
from polyreme.static.variable import DENSE, Variable
from polyreme.utils.shown import Shown

__all__ = [
    "AttrType", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "EOFException", "LoDTensor", "LoDTensorArray", "OpDesc", "Place", "Scope",
    "VarDesc", "Variable", "get_cuda_device_count", "is_compiled_with_cuda",
]  # fmt: skip


class EOFException(Exception):
    """A reader has come to its end."""


class VarDesc(Shown):
    """Kinds of variables."""

    class VarType(IntEnum):
        """Element types, and what a variable may be, by their numbers in program files.

        `x.dtype == VarType.FP32` and `x.type == VarType.LOD_TENSOR` compare as in Paddle 1; a dtype hashes as itself, not as its number.
        """

        BOOL = 0
        INT16 = 1
        INT32 = 2
        INT64 = 3
        FP16 = 4
        FP32 = 5
        FP64 = 6
        LOD_TENSOR = 7
        SELECTED_ROWS = 8
        FEED_MINIBATCH = 9
        FETCH_LIST = 10
        STEP_SCOPES = 11
        LOD_RANK_TABLE = 12
        LOD_TENSOR_ARRAY = 13
        PLACE_LIST = 14
        READER = 15
        CHANNEL = 16
        RAW = 17
        TUPLE = 18
        SIZE_T = 19
        UINT8 = 20
        INT8 = 21

        def __eq__(self, other: object) -> bool:
            if isinstance(other, dtype):
                return PROTOBUF_DTYPES.get(int(self)) == other.name
            if isinstance(other, TensorType):
                return int(self) == DENSE
            return int.__eq__(self, other) if isinstance(other, int) else NotImplemented

        def __ne__(self, other: object) -> bool:
            return not self == other

        __hash__ = IntEnum.__hash__


# An operator describes itself.
OpDesc = Operator


def get_cuda_device_count() -> int:
    """How many GPUs can be used."""
    return int(is_compiled_with_cuda())


__dir__ = listed(__name__)
