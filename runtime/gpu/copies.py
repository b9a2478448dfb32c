"""What of the arrays lies on a device: results, which stay where they were computed, and copies of arrays of main memory, which stay from
call to call.

An array of main memory is known by its identity, so only arrays that nobody writes to may be given: those behind tensors, since whatever
changes a tensor gives it another array. That is also enforced where it can be: an array with a copy is read-only from then on, and an array
that is a view of another one, to which someone may still write, is copied at every call instead. Small arrays that
come a second time are known by their contents: rates, factors, positions and zeros of the host come again and again, as arrays of their own
each time. What comes once, such as the labels of a batch, leaves its memory to the next one, so that addresses come again, too.
"""

from __future__ import annotations

import gc
import heapq
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme.runtime.gpu.ahead import CopiesAhead
from polyreme.runtime.gpu.arrays import DeviceArray, Memory
from polyreme.runtime.gpu.drivers import OutOfMemoryError

__all__ = ["DeviceCopies"]

Array = np.ndarray[Any, Any]

# Sizes are rounded up to this many bytes, so that memory fits again.
GRANULE = 512
# Bytes that may lie idle before they are given back to the device.
MOST_IDLE = 1 << 30
# Arrays of at most so many bytes are known by their contents, and so many of them are kept, and remembered to have come once.
SMALL_BYTES = 4096
MOST_SMALL = 4096
# So many tables of launches are kept.
MOST_KNOWN = 64
# As many kinds of arrays an error tells of.
MOST_TOLD = 5


class DeviceCopies:
    """The arrays on one device, and idle memory for new ones. Whoever calls holds `lock`.

    `stats` counts what moves, and what is taken.
    """

    def __init__(self, driver: Any):
        self.driver = driver
        # Called when a download is there: whoever computes beside the kernels raises here what went wrong.
        self.checks: list[Callable[[], None]] = []
        self.lock = threading.RLock()
        self.uploads = self.uploaded_bytes = 0
        self.downloads = self.downloaded_bytes = 0
        self._held_bytes = self._most_held = self._most_reserved = 0
        self._copies: dict[int, tuple[weakref.ref[Array], Memory]] = {}
        self._small: dict[bytes, int] = {}
        self._seen_once: dict[bytes, None] = {}
        self._known: dict[bytes, int] = {}
        self._known_idle: dict[int, list[int]] = {}
        self._idle: dict[int, list[int]] = {}
        self._idle_bytes = 0
        # Memory whose array is gone. An array may go at any moment, also inside of a call to the driver, which must not be entered twice.
        self._left: deque[tuple[int, int]] = deque()
        self._ahead: CopiesAhead | None = None
        self._asked_ahead = False
        self._ends: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        """How many arrays of main memory have copies."""
        return len(self._copies)

    def stats(self) -> dict[str, int]:
        """The copies to the device and from it, with their bytes; the bytes that arrays take now, those with what is kept for new ones, and
        the most of both.
        """
        with self.lock:
            self._gather()
            return {
                "uploads": self.uploads,
                "uploaded_bytes": self.uploaded_bytes,
                "downloads": self.downloads,
                "downloaded_bytes": self.downloaded_bytes,
                "allocated_bytes": self._held_bytes,
                "reserved_bytes": self._held_bytes + self._idle_bytes,
                "max_allocated_bytes": self._most_held,
                "max_reserved_bytes": self._most_reserved,
            }

    def reset_peaks(self) -> None:
        """Count the most bytes from now on."""
        with self.lock:
            self._gather()
            self._most_held = self._held_bytes
            self._most_reserved = self._held_bytes + self._idle_bytes

    def address_of(self, array: Array | DeviceArray, borrowed: list[tuple[int, int]]) -> int:
        """Where the contents of `array` are on the device, row-major. Memory that serves this call only is put on `borrowed`, for
        `give_back`.
        """
        if type(array) is DeviceArray:
            if array.memory.owner is self:
                return array.memory.address
            array = array.host()
        found = self._copies.get(id(array))
        if found is not None and found[0]() is array:
            return found[1].address
        if array.nbytes <= SMALL_BYTES:
            address = self._address_of_small(array.tobytes(), array, borrowed)
            if address is not None:
                return address
        address = self._sent(array)
        if array.ndim and _is_settled(array):
            self._keep(array, address)
        else:
            borrowed.append((address, array.nbytes))
        return address

    def known(self, array: Array) -> int:
        """The address of memory with these contents: of the latest arrays that were asked for the one with the same bytes serves again. It
        is memory apart, so that what is kept there moves no array of the next step.
        """
        held = array.tobytes()
        address = self._known.pop(held, None)
        if address is None:
            room = _room(array.nbytes)
            oldest = next(iter(self._known), None)
            if len(self._known) >= MOST_KNOWN and oldest is not None:
                self._known_idle.setdefault(_room(len(oldest)), []).append(self._known.pop(oldest))
            idle = self._known_idle.get(room)
            address = idle.pop() if idle else int(self.with_room(lambda: self.driver.allocate(room), "a table"))
            self._send(address, array)
        self._known[held] = address
        return address

    def _address_of_small(self, held: bytes, array: Array, borrowed: list[tuple[int, int]]) -> int | None:
        """Where the bytes of a small array lie, what they mean being for the kernels to say; None where they come for the first time."""
        address = self._small.pop(held, None)
        if address is None:
            if held not in self._seen_once:
                if len(self._seen_once) >= MOST_SMALL:
                    del self._seen_once[next(iter(self._seen_once))]
                self._seen_once[held] = None
                return None
            del self._seen_once[held]
            if len(self._small) >= MOST_SMALL:
                oldest = next(iter(self._small))
                borrowed.append((self._small.pop(oldest), len(oldest)))
            address = self._sent(array)
        self._small[held] = address  # the latest one
        return address

    def _sent(self, array: Array) -> int:
        """Memory with a copy of the array."""
        address = self.take(array.nbytes)
        try:
            self._send(address, array)
        except BaseException:
            self.give_back(address, array.nbytes)
            raise
        return address

    def _send(self, address: int, array: Array) -> None:
        if array.size:
            self.driver.upload(address, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            self.uploads += 1
            self.uploaded_bytes += array.nbytes

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceArray:
        """Memory for an array that a kernel is about to fill, until the array is no more."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return DeviceArray(Memory(self, self.take(size), size), shape, dtype)

    def sent(self, array: Array) -> DeviceArray:
        """A copy of an array of main memory, which is nobody else's."""
        return DeviceArray(Memory(self, self._sent(array), array.nbytes), array.shape, array.dtype)

    def copied(self, array: DeviceArray) -> DeviceArray:
        """A copy of an array of this device."""
        made = self.new_array(array.shape, array.dtype)
        if array.nbytes:
            self.driver.copy(made.memory.address, array.memory.address, array.nbytes)
        return made

    def ahead(self) -> CopiesAhead | None:
        """Copies that go on while kernels run; None where the device has no stream for them."""
        with self.lock:
            if not self._asked_ahead:
                self._asked_ahead, stream = True, self.driver.side_stream()
                self._ahead = None if stream is None else CopiesAhead(self, stream)
            return self._ahead

    def end_later(self, end: Callable[[], None]) -> None:
        """Call `end`, which gives back memory of others, when all that was launched until then is done."""
        self._ends.append(end)

    def fetch(self, address: int, array: Array) -> None:
        """Copy what lies at `address` to main memory."""
        with self.lock:
            self.driver.download(address, array.reshape(-1).view(np.uint8))
            for check in self.checks:
                check()
            self.downloads += 1
            self.downloaded_bytes += array.nbytes

    def leave(self, address: int, size: int) -> None:
        """An array is no more: its memory is for the next ones."""
        self._left.append((address, size))

    def _keep(self, array: Array, address: int) -> None:
        """From now on `address`, which `take` gave, has the contents of `array`, until the array is no more."""
        array.flags.writeable = False
        key, copies = id(array), self._copies

        def gone(_: Any) -> None:
            copies.pop(key, None)

        copies[key] = weakref.ref(array, gone), Memory(self, address, array.nbytes)

    def resident(self, array: Array) -> DeviceArray | None:
        """An array of main memory as one of the device, which keeps its copy there; None for a number, and for a view of another one."""
        if not array.ndim or not _is_settled(array):
            return None
        with self.lock:
            found = self._copies.get(id(array))
            if found is None or found[0]() is not array:
                self._keep(array, self._sent(array))
            made = DeviceArray(self._copies[id(array)][1], array.shape, array.dtype)
        made.came_from(array)
        return made

    def take(self, size: int) -> int:
        """The address of at least `size` bytes."""
        self._gather()
        room = _room(size)
        idle = self._idle.get(room)
        if idle:
            self._idle_bytes -= room
            # The lowest one: so the arrays of a step are where those of the step before the last one were, and its graph serves again.
            address = heapq.heappop(idle)
        else:
            address = int(self.with_room(lambda: self.driver.allocate(room), "an array"))
        self._held_bytes += room
        self._most_held = max(self._most_held, self._held_bytes)
        self._most_reserved = max(self._most_reserved, self._held_bytes + self._idle_bytes)
        return address

    def with_room(self, allocate: Callable[[], Any], what: str) -> Any:
        """What `allocate` gives. If it finds no memory it is called again when all that is idle is given back, and then the error says what
        holds the memory.
        """
        try:
            return allocate()
        except OutOfMemoryError:
            self._gather()
            self._free_idle()
            try:
                return allocate()
            except OutOfMemoryError as error:
                raise OutOfMemoryError(f"expected memory of the device for {what}: {error.message}{self._told()}") from None

    def _told(self) -> str:
        """What holds the memory, the largest arrays first."""
        free, total = self.driver.free_bytes(), self.driver.total_memory
        seen: dict[int, tuple[int, str]] = {}
        for held in gc.get_objects():
            if type(held) is DeviceArray and held.memory.owner is self:
                seen[held.memory.address] = held.memory.size, f"{held.dtype}{list(held.shape)}"
        for held, memory in self._copies.values():
            if (array := held()) is not None:
                seen[memory.address] = memory.size, f"{array.dtype}{list(array.shape)}, of main memory"
        kinds = Counter(seen.values())
        largest = sorted(kinds.items(), key=lambda item: -item[0][0] * item[1])[:MOST_TOLD]
        lines = [f"  {_megabytes(size * count)}: {count} of {text}" for (size, text), count in largest]
        rest = sum(size * count for (size, _), count in kinds.items()) - sum(size * count for (size, _), count in largest)
        lines += [f"  {_megabytes(rest)}: smaller ones"] if rest else []
        known = f", {_megabytes(free)} are free" if free is not None else ""
        head = f"arrays take {_megabytes(self._held_bytes)} of {_megabytes(total)}{known}; compiled functions and others have the rest"
        return "\n".join([f"\n{head}", *lines])

    def give_back(self, address: int, size: int) -> None:
        """`take` may give it again; launches run in order, so those under way still have it."""
        room = _room(size)
        self._held_bytes -= room
        heapq.heappush(self._idle.setdefault(room, []), address)
        self._idle_bytes += room
        if self._idle_bytes > MOST_IDLE:
            self._free_idle()

    def free_idle(self) -> None:
        """Give the device what no array takes."""
        with self.lock:
            self._gather()
            self._free_idle()

    def _free_idle(self) -> None:
        for addresses in self._idle.values():
            while addresses:
                self.driver.free(addresses.pop())
        self._idle.clear()
        self._idle_bytes = 0

    def _gather(self) -> None:
        while self._left:
            self.give_back(*self._left.popleft())
        if self._ends:
            self.driver.synchronize()
            while self._ends:
                self._ends.popleft()()


def _room(size: int) -> int:
    return max(-(-size // GRANULE), 1) * GRANULE


def _megabytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"


def _is_settled(array: Array) -> bool:
    """Whether nobody writes to the array once it is read-only: it is no view, or one of what is read-only itself."""
    base: Any = array.base
    while base is not None:
        if type(base) is bytes:
            return True
        if type(base) is not np.ndarray or base.flags.writeable:
            return False
        base = base.base
    return True
