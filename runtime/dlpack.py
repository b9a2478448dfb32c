"""DLPack: arrays of main memory and of CUDA devices handed from library to library, without a copy.

A capsule holds a structure that says where the elements lie, and a function to call when nobody reads them any more. A consumer renames the
capsule when it takes the structure over; one that nobody took frees it itself. Both forms are written and read: that of versions before 1
(`dltensor`), and the one after (`dltensor_versioned`), which can say that nobody may write. The layout is that of dlpack.h, version 1.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from math import prod
from typing import Any

import numpy as np

from polyreme.runtime.errors import RuntimeFault
from polyreme.runtime.memory import numpy_dtype

__all__ = ["CPU", "CUDA", "CUDA_HOST", "DlpackError", "Lent", "Received", "capsule_of", "is_lent", "receive"]

Array = np.ndarray[Any, Any]
# Kinds of devices.
CPU, CUDA, CUDA_HOST = 1, 2, 3
# The version that is written; structures of another major one are not read.
VERSION = (1, 0)
READ_ONLY = 1
# Capsules keep the addresses of their names.
OLD, NEW = b"dltensor", b"dltensor_versioned"
USED = {OLD: b"used_dltensor", NEW: b"used_dltensor_versioned"}
# Kinds of elements, by the letters of numpy; bfloat16 is one of its own.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4
_LETTERS = {code: letter for letter, code in _KINDS.items()}
_BITS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "c": (64, 128), "b": (8,)}


class DlpackError(RuntimeFault, BufferError):
    """What cannot be handed over, or taken."""

    code = "E0804"


class _Device(Structure):
    _fields_ = [("kind", c_int32), ("number", c_int32)]


class _Dtype(Structure):
    _fields_ = [("kind", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device", _Device), ("rank", c_int32), ("dtype", _Dtype), ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)), ("offset", c_uint64),
    ]  # fmt: skip


class _Managed(Structure):
    """`DLManagedTensor`, of versions before 1."""

    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
# The same for the end of a capsule, when it is no object any more.
_is_capsule_at = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_at = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_CapsuleEnd = ctypes.PYFUNCTYPE(None, c_void_p)

# --- giving

# What was given and is not given back, by address: the structure, its shape and strides, and what keeps the memory.
_given: dict[int, Any] = {}


@_Deleter
def _given_back(address: int) -> None:
    _given.pop(address, None)


@_CapsuleEnd
def _ended(capsule: int) -> None:
    """The end of a capsule: if nobody has taken its structure over, nobody will."""
    for name in (OLD, NEW):
        if _is_capsule_at(capsule, name):
            _given.pop(_pointer_at(capsule, name), None)


def capsule_of(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype[Any],
    device: tuple[int, int],
    keeps: Any,
    read_only: bool,
    versioned: bool,
) -> Any:
    """A capsule for elements at `address`; `strides` count elements. `keeps` lives until the consumer has no use for them. `DlpackError`
    for a dtype that DLPack does not know.
    """
    held = _Versioned() if versioned else _Managed()
    tensor = held.tensor
    tensor.data, tensor.device, tensor.rank, tensor.dtype = address, _Device(*device), len(shape), _described(dtype)
    sizes, steps = (c_int64 * len(shape))(*shape), (c_int64 * len(shape))(*strides)
    tensor.shape, tensor.strides, tensor.offset = sizes, steps, 0
    held.deleter = ctypes.cast(_given_back, c_void_p)
    if isinstance(held, _Versioned):
        held.major, held.minor = VERSION
        held.flags = READ_ONLY if read_only else 0
    at = ctypes.addressof(held)
    _given[at] = held, sizes, steps, keeps
    return _new_capsule(at, NEW if versioned else OLD, ctypes.cast(_ended, c_void_p))


def _described(dtype: np.dtype[Any]) -> _Dtype:
    if dtype.name == "bfloat16":
        return _Dtype(_BFLOAT, 16, 1)
    if dtype.kind not in _KINDS or 8 * dtype.itemsize not in _BITS[dtype.kind]:
        raise DlpackError(f"expected a dtype that DLPack has but got {dtype}")
    return _Dtype(_KINDS[dtype.kind], 8 * dtype.itemsize, 1)


# --- taking


class Received:
    """A structure that was taken over from a capsule: where the elements lie. They are given back with this object, by `end` if that is
    told: a function that is given what to call.
    """

    def __init__(self, capsule: Any):
        for name in (OLD, NEW):
            if _is_capsule(capsule, name):
                break
        else:
            raise DlpackError(
                "expected a capsule of DLPack that nobody has taken: each can be taken once, so a tensor may have been made of it before"
            )
        self._at = int(_pointer(capsule, name))
        kind = _Versioned if name == NEW else _Managed
        held = kind.from_address(self._at)
        if isinstance(held, _Versioned) and held.major != VERSION[0]:
            raise DlpackError(f"expected DLPack of version {VERSION[0]} but got {held.major}.{held.minor}")
        tensor = held.tensor
        self.dtype = _dtype_of(tensor.dtype)
        self.device = int(tensor.device.kind), int(tensor.device.number)
        self.shape = tuple(tensor.shape[: tensor.rank])
        steps = tuple(tensor.strides[: tensor.rank]) if tensor.strides else None
        self.strides = _row_by_row(self.shape) if steps is None else steps
        self.address = int(tensor.data or 0) + int(tensor.offset)
        self.read_only = bool(isinstance(held, _Versioned) and held.flags & READ_ONLY)
        self.end: Callable[[Callable[[], None]], None] = lambda give_back: give_back()
        self._deleter = int(held.deleter or 0)
        _rename(capsule, USED[name])

    @property
    def is_row_by_row(self) -> bool:
        wanted = _row_by_row(self.shape)
        return 0 in self.shape or all(n == 1 or s == t for n, s, t in zip(self.shape, self.strides, wanted, strict=True))

    def __del__(self) -> None:
        if getattr(self, "_deleter", 0):
            deleter, at = self._deleter, self._at
            self._deleter = 0
            self.end(lambda: _Deleter(deleter)(at))


def receive(capsule: Any) -> Received:
    """What a capsule holds, which is ours from then on; `DlpackError` for what is none, or cannot be taken."""
    return Received(capsule)


def _row_by_row(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _dtype_of(found: _Dtype) -> np.dtype[Any]:
    if found.lanes == 1:
        if (found.kind, found.bits) == (_BFLOAT, 16):
            return numpy_dtype("bfloat16")
        letter = _LETTERS.get(found.kind, "")
        if letter and found.bits in _BITS[letter]:
            return np.dtype(bool if letter == "b" else f"{letter}{found.bits // 8}")
    kind = f"DLPack's kind {found.kind} with {found.bits} bits in {found.lanes} lanes"
    raise DlpackError(f"expected elements that a tensor can have but got those of {kind}")


class Lent:
    """Main memory that others may write to: an array made of it sees what they write. `keeps` lives as long as the array."""

    def __init__(self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any], keeps: Any):
        self.keeps, self._shape, self._dtype = keeps, tuple(shape), dtype
        plain = dtype if dtype.kind in _KINDS else np.dtype(f"u{dtype.itemsize}")
        self.__array_interface__ = {
            "version": 3,
            "shape": self._shape,
            "strides": tuple(s * dtype.itemsize for s in strides),
            "typestr": plain.str,
            "data": (address, True),
        }

    def array(self) -> Array:
        """The memory as an array that we do not write to."""
        if 0 in self._shape:
            return np.empty(self._shape, self._dtype)
        return np.asarray(self).view(self._dtype)


def is_lent(array: Any) -> bool:
    """Whether others may write to the memory behind an array."""
    base = getattr(array, "base", None)
    while base is not None:
        if type(base) is Lent:
            return True
        base = getattr(base, "base", None)
    return False
