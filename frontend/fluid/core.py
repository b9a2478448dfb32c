"""`fluid.core`: what Paddle has in its library in C++, as far as programs name it."""

from __future__ import annotations

from polyreme.device import CPUPlace, CUDAPinnedPlace, CUDAPlace, Place, is_compiled_with_cuda
from polyreme.names import listed
from polyreme.static.desc.views import OperatorView as OpDesc
from polyreme.static.desc.views import VariableView as VarDesc
from polyreme.static.lod.tensor import LoDTensor, LoDTensorArray
from polyreme.static.operator import AttrType
from polyreme.static.scope import Scope
from polyreme.static.variable import Variable

__all__ = [
    "AttrType", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "EOFException", "LoDTensor", "LoDTensorArray", "OpDesc", "Place", "Scope",
    "VarDesc", "Variable", "get_cuda_device_count", "is_compiled_with_cuda",
]  # fmt: skip


class EOFException(Exception):
    """A reader has come to its end."""


def get_cuda_device_count() -> int:
    """How many GPUs can be used."""
    return int(is_compiled_with_cuda())


__dir__ = listed(__name__)
