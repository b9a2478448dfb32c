"""What of the arrays of main memory lies on a device: copies that stay there from call to call.

An array is known by its identity, so only arrays that nobody writes to may be given: those behind tensors, since whatever changes a tensor
gives it another array. That is also enforced where it can be: an array with a copy is read-only from then on, and an array that is a view
of another one, which someone may still write to through the other, is copied at every call instead.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from polyreme.runtime.errors import RuntimeFault

__all__ = ["DeviceCopies"]

Array = np.ndarray[Any, Any]

# Sizes are rounded up to this many bytes, so that memory fits again.
GRANULE = 512
# Bytes that may lie idle before they are given back to the device.
MOST_IDLE = 1 << 30


class DeviceCopies:
    """The copies on one device, and idle memory for new ones. Whoever calls holds `lock`."""

    def __init__(self, driver: Any):
        self.driver = driver
        self.lock = threading.RLock()
        self.uploads = 0  # how often an array went to the device
        self._copies: dict[int, tuple[weakref.ref[Array], int, int]] = {}
        self._idle: dict[int, list[int]] = {}
        self._idle_bytes = 0
        # Memory whose array is gone. An array may go at any moment, also inside of a call to the driver, which must not be entered twice.
        self._left: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        """How many arrays have copies."""
        return len(self._copies)

    def address_of(self, array: Array, borrowed: list[tuple[int, int]]) -> int:
        """Where the contents of `array` are on the device, row-major. Memory that serves this call only is put on `borrowed`, for
        `give_back`.
        """
        found = self._copies.get(id(array))
        if found is not None and found[0]() is array:
            return found[1]
        address = self.take(array.nbytes)
        try:
            if array.size:
                self.driver.upload(address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
                self.uploads += 1
        except BaseException:
            self.give_back(address, array.nbytes)
            raise
        if array.base is None:
            self.keep(array, address)
        else:
            borrowed.append((address, array.nbytes))
        return address

    def keep(self, array: Array, address: int) -> None:
        """From now on `address`, which `take` gave, has the contents of `array`, until the array is no more."""
        array.flags.writeable = False
        key, size = id(array), array.nbytes
        copies, left = self._copies, self._left

        def gone(_: Any) -> None:
            copies.pop(key, None)
            left.append((address, size))

        copies[key] = weakref.ref(array, gone), address, size

    def take(self, size: int) -> int:
        """The address of at least `size` bytes."""
        while self._left:
            self.give_back(*self._left.popleft())
        room = _room(size)
        idle = self._idle.get(room)
        if idle:
            self._idle_bytes -= room
            return idle.pop()
        try:
            return int(self.driver.allocate(room))
        except RuntimeFault:
            if not self._idle_bytes:
                raise
            self._free_idle()
            return int(self.driver.allocate(room))

    def give_back(self, address: int, size: int) -> None:
        """`take` may give it again; launches run in order, so those under way still have it."""
        room = _room(size)
        self._idle.setdefault(room, []).append(address)
        self._idle_bytes += room
        if self._idle_bytes > MOST_IDLE:
            self._free_idle()

    def _free_idle(self) -> None:
        for addresses in self._idle.values():
            while addresses:
                self.driver.free(addresses.pop())
        self._idle.clear()
        self._idle_bytes = 0


def _room(size: int) -> int:
    return max(-(-size // GRANULE), 1) * GRANULE
