"""Arrays whose contents lie on a device, and come to main memory when someone looks at them.

What a kernel makes stays where it was made: the next kernel takes it from there. Whoever treats such an array as one of numpy's, by its
methods, its operators, a function of numpy or `isinstance`, finds what numpy would: the contents are copied then, once, and counted. So
code that knows nothing of devices sees the right numbers. Nobody can write to one: numpy's functions take it for no array to write to.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol, final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from polyreme.runtime.dlpack import is_lent

__all__ = ["DeviceArray", "fetched", "is_only_holder", "lent", "private", "taken"]

Array = np.ndarray[Any, Any]


class Owner(Protocol):
    """What keeps the memory of a device."""

    def fetch(self, address: int, array: Array) -> None:
        """Copy from the device into an array, row by row."""

    def leave(self, address: int, size: int) -> None:
        """Nobody needs the memory any more. Called at any moment, in any thread."""


class Memory:
    """Bytes on a device, of one array or of several that see the same elements in other shapes."""

    __slots__ = ("address", "owner", "size")

    def __init__(self, owner: Owner, address: int, size: int):
        self.owner, self.address, self.size = owner, address, size

    def __del__(self) -> None:
        self.owner.leave(self.address, self.size)


class LentMemory:
    """Bytes on a device that others may write to; `keeps` has them for us."""

    __slots__ = ("address", "keeps", "owner", "size")

    def __init__(self, owner: Owner, address: int, size: int, keeps: Any):
        self.owner, self.address, self.size, self.keeps = owner, address, size, keeps


class PartOfMemory:
    """Bytes inside of a `Memory`, which stays as long as they do."""

    __slots__ = ("address", "owner", "size", "whole")

    def __init__(self, whole: AnyMemory, offset: int, size: int):
        self.owner, self.address, self.size, self.whole = whole.owner, whole.address + offset, size, whole


class AnyMemory(Protocol):
    """Bytes on a device, of whatever kind."""

    owner: Any
    address: int
    size: int


@final
class DeviceArray(NDArrayOperatorsMixin):
    """An array of `shape` and `dtype`, row by row in `memory`. Nobody writes to it."""

    __slots__ = ("_host", "dtype", "memory", "nbytes", "shape")

    def __init__(self, memory: AnyMemory, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.memory = memory
        self.shape = shape
        self.dtype = dtype
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self._host: Array | None = None

    # `isinstance(a, np.ndarray)` asks this: it is one to all who look at it in Python.
    @property
    def __class__(self) -> Any:
        return np.ndarray

    @__class__.setter
    def __class__(self, _: Any) -> None:
        raise TypeError("expected an array of a device to stay one")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def host(self) -> Array:
        """The contents in main memory, which nobody may write to."""
        if self._host is None:
            made = np.empty(self.shape, self.dtype)
            if made.size:
                self.memory.owner.fetch(self.memory.address, made)
            made.flags.writeable = False
            if type(self.memory) is LentMemory:  # which may be others at the next look
                return made
            self._host = made
        return self._host

    def taken(self) -> Array:
        """The contents in an array of the caller's own."""
        if self._host is not None:
            return self._host.copy()
        made = np.empty(self.shape, self.dtype)
        if made.size:
            self.memory.owner.fetch(self.memory.address, made)
        return made

    def came_from(self, array: Array) -> None:
        """Note that `array` has the contents in main memory."""
        self._host = array

    def reshaped(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same elements in another shape, where they are."""
        made = DeviceArray(self.memory, shape, self.dtype)
        if self._host is not None:
            made._host = self._host.reshape(shape)
        return made

    def part(self, start: int, count: int) -> DeviceArray:
        """So many elements from the one at `start` on, as a row, where they are."""
        size = self.dtype.itemsize
        return DeviceArray(PartOfMemory(self.memory, start * size, count * size), (count,), self.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        held = self.host()
        return held.astype(dtype) if dtype is not None and dtype != held.dtype else held.copy() if copy else held

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            kwargs["out"] = tuple(map(fetched, kwargs["out"]))  # which nobody may write to, as numpy says
        return getattr(ufunc, method)(*map(fetched, inputs), **{name: fetched(value) for name, value in kwargs.items()})

    def __getattr__(self, name: str) -> Any:
        if name in ("__array_interface__", "__array_struct__"):
            # Numpy asks for these before `__array__`, and they have no name for bfloat16: it would make bytes of it.
            raise AttributeError(name)
        return getattr(self.host(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.host()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host()[key] = value  # numpy's error: nobody may write to it

    def __len__(self) -> int:
        return len(self.host())

    def __iter__(self) -> Any:
        return iter(self.host())

    def __bool__(self) -> bool:
        return bool(self.host())

    def __int__(self) -> int:
        return int(self.host())

    def __float__(self) -> float:
        return float(self.host())

    def __complex__(self) -> complex:
        return complex(self.host())

    def __index__(self) -> int:
        return self.host().__index__()

    def __contains__(self, item: Any) -> bool:
        return item in self.host()

    def __repr__(self) -> str:
        return repr(self.host())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.host().__reduce_ex__(protocol)


def fetched(array: Any) -> Any:
    """`array`, in main memory if it is one of a device's."""
    return array.host() if type(array) is DeviceArray else array


def taken(array: Any) -> Any:
    """`array`, or what one of a device's holds in an array that the caller may write to."""
    return array.taken() if type(array) is DeviceArray else array


def is_only_holder(holder: Any, name: str) -> bool:
    """Whether nobody but `holder`, in its attribute of this name, has what stands there. Callers must not have it in a variable either."""
    value = getattr(holder, name)
    return sys.getrefcount(value) == _OF_ONE_HOLDER


class _Holder:
    """What holds something of its own, to see what Python counts then: versions of it differ."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = object()


def _references_of_one_holder() -> int:
    holder = _Holder()
    value = getattr(holder, "held")  # noqa: B009 - as `is_only_holder` does
    return sys.getrefcount(value)


_OF_ONE_HOLDER = _references_of_one_holder()


def private(array: Any) -> Any:
    """`array`, or a copy where others may write to its memory."""
    if type(array) is DeviceArray:
        if type(array.memory) is not LentMemory:
            return array
        owner: Any = array.memory.owner
        with owner.lock:
            return owner.copied(array)
    return array.copy() if type(array) is np.ndarray and array.base is not None and is_lent(array) else array


def lent(array: Any) -> Any:
    """`array`, for whoever would keep a copy of it on a device: one of main memory is seen as a view, since its owner may write to it."""
    return array if type(array) is DeviceArray else array.view()
