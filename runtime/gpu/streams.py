"""Streams beside the one on which kernels run, with events between them, and main memory that a device reads by itself.

All by functions of the CUDA driver, through ctypes, in the context that is current. Such a stream does not wait for the default one unless
it is told to, by an event.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

import numpy as np

from polyreme.runtime.gpu.graphs import DriverFunctions

__all__ = ["SideStream", "StreamEvent"]

SIGNATURES: dict[str, list[Any]] = {
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventDestroy_v2": [c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventQuery": [c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuMemcpyHtoDAsync_v2": [ctypes.c_uint64, c_void_p, c_size_t, c_void_p],
    "cuMemHostAlloc": [POINTER(c_void_p), c_size_t, c_uint],
    "cuMemFreeHost": [c_void_p],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
}
NON_BLOCKING, NO_TIMING, NOT_READY = 1, 2, 600


class StreamEvent:
    """A mark behind what was asked of a stream so far."""

    def __init__(self, functions: DriverFunctions, stream: Any):
        self._functions, self.handle = functions, c_void_p()
        functions.call("cuEventCreate", ctypes.byref(self.handle), NO_TIMING)
        functions.call("cuEventRecord", self.handle, stream)

    def is_done(self) -> bool:
        """Whether all in front of it is done."""
        failed = self._functions.tried("cuEventQuery", self.handle)
        if failed not in (0, NOT_READY):
            self._functions.call("cuEventQuery", self.handle)  # which raises
        return failed == 0

    def synchronize(self) -> None:
        """Wait until all in front of it is done."""
        self._functions.call("cuEventSynchronize", self.handle)

    def __del__(self) -> None:
        # At the end of the process the driver may be gone already. A wait that was asked for stays.
        with suppress(Exception):
            self._functions.call("cuEventDestroy_v2", self.handle)


class PinnedMemory:
    """Main memory that stays where it is, which the device reads by itself."""

    def __init__(self, functions: DriverFunctions, size: int):
        self._functions, self._address = functions, c_void_p()
        functions.call("cuMemHostAlloc", ctypes.byref(self._address), max(size, 1), 0)
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (self._address.value, False)}

    def __del__(self) -> None:
        with suppress(Exception):
            self._functions.call("cuMemFreeHost", self._address)


class SideStream:
    """A stream of one device, for copies or for what ranks tell each other. `handle` is CUDA's own name of it."""

    def __init__(self) -> None:
        self._functions, self.handle = DriverFunctions(SIGNATURES, "with streams"), c_void_p()
        self._functions.call("cuStreamCreate", ctypes.byref(self.handle), NON_BLOCKING)

    def pinned(self, size: int) -> Any:
        """So many bytes of pinned memory."""
        return np.asarray(PinnedMemory(self._functions, size))

    def upload(self, address: int, array: Any) -> None:
        """Copy bytes of pinned memory to the device, when all that the stream was asked before is done."""
        self._functions.call("cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes, self.handle)

    def mark(self) -> StreamEvent:
        """Behind what the stream was asked so far."""
        return StreamEvent(self._functions, self.handle)

    def mark_kernels(self) -> StreamEvent:
        """Behind all that was launched so far."""
        return StreamEvent(self._functions, None)

    def wait(self, event: StreamEvent) -> None:
        """Let what the stream is asked from now on wait for an event."""
        self._functions.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def let_kernels_wait(self, event: StreamEvent) -> None:
        """Let what is launched from now on wait for an event."""
        self._functions.call("cuStreamWaitEvent", None, event.handle, 0)
