"""Arrays that are on their way to a device while kernels run there: from pinned memory, on a stream of their own.

What such a copy writes to is never memory that a kernel under way may read or write. It is memory apart from that of other arrays. When an
array of it is gone, an event is put behind all kernels that were launched until then, and the next copy that gets the memory waits for it.
Kernels that are launched after the arrival wait for the copy. Pinned memory is written to again when the copy out of it is done.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from polyreme.runtime.gpu.arrays import DeviceArray

__all__ = ["CopiesAhead", "Underway"]

Array = np.ndarray[Any, Any]
GRANULE = 512
# Pieces of memory that may lie idle for each size.
MOST_IDLE = 8


def _room(size: int) -> int:
    return max(-(-size // GRANULE), 1) * GRANULE


class Underway:
    """An array whose copy was asked for."""

    def __init__(self, ahead: CopiesAhead, array: Array, address: int, event: Any):
        self._array, self._memory = array, AheadMemory(ahead, address, array.nbytes, event)

    def arrived(self) -> DeviceArray:
        """The array on the device, for kernels that are launched from now on."""
        memory, array = self._memory, self._array
        with memory.owner.lock:
            if memory.event is not None:
                memory.ahead.stream.let_kernels_wait(memory.event)
                memory.event = None
        made = DeviceArray(memory, array.shape, array.dtype)
        made.came_from(array)
        return made


class AheadMemory:
    """Bytes on a device that were copied there ahead. `event` stands behind the copy as long as no kernel waits for it."""

    def __init__(self, ahead: CopiesAhead, address: int, size: int, event: Any):
        self.ahead, self.owner, self.address, self.size, self.event = ahead, ahead.copies, address, size, event

    def __del__(self) -> None:
        # At any moment: what is asked of the driver waits.
        self.ahead.left.append((self.address, self.size, self.event))


class CopiesAhead:
    """Copies to one device; `copies` are those of its other arrays, whose lock they share."""

    def __init__(self, copies: Any, stream: Any):
        self.copies, self.stream = copies, stream
        self.left: deque[tuple[int, int, Any]] = deque()
        self._idle: dict[int, deque[tuple[int, Any]]] = {}
        self._pinned: dict[int, deque[tuple[Array, Any]]] = {}

    def send(self, array: Array) -> Underway:
        """Begin to copy an array of main memory, which nobody writes to from then on."""
        copies, room = self.copies, _room(array.nbytes)
        with copies.lock:
            self._gather()
            pinned = self._pinned_for(room)
            pinned[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            address = self._take(room)
            if array.nbytes:
                self.stream.upload(address, pinned[: array.nbytes])
                copies.uploads += 1
                copies.uploaded_bytes += array.nbytes
            event = self.stream.mark()
            self._pinned.setdefault(room, deque()).append((pinned, event))
            array.flags.writeable = False
            return Underway(self, array, address, event)

    def _pinned_for(self, room: int) -> Array:
        """Pinned memory out of which no copy is under way."""
        known = self._pinned.get(room)
        if known and (known[0][1].is_done() or len(known) >= MOST_IDLE):
            memory, event = known.popleft()
            event.synchronize()
            return memory
        made: Array = self.stream.pinned(room)
        return made

    def _take(self, room: int) -> int:
        """Memory of the device which copies from now on may write to."""
        idle = self._idle.get(room)
        if idle:
            address, event = idle.popleft()
            self.stream.wait(event)
            return address
        return int(self.copies.with_room(lambda: self.copies.driver.allocate(room), "a batch"))

    def _gather(self) -> None:
        """Note behind which kernels the memory of arrays that are gone is free."""
        if not self.left:
            return
        pieces = [self.left.popleft() for _ in range(len(self.left))]
        for _, _, event in pieces:
            if event is not None:  # nobody waited for this copy
                self.stream.let_kernels_wait(event)
        mark = self.stream.mark_kernels()
        for address, size, _ in pieces:
            idle = self._idle.setdefault(_room(size), deque())
            idle.append((address, mark))
            if len(idle) > MOST_IDLE:
                old, event = idle.popleft()
                event.synchronize()
                self.copies.driver.free(old)
