"""The memories of the PTX runner: device memory with its allocations, and what the threads of blocks share.

Every access is checked: that it lies in one allocation, that it is aligned to its size, and, in shared memory, that no other thread touched
the element since the last barrier if one of the two writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme.runtime.ptx.parser import PtxError, Variable

Array = np.ndarray[Any, Any]

BASE = 0x7F00_0000_0000
ALIGN = 256
_GAP = 256  # between allocations, so that running over an end is seen


class Fault(PtxError):
    """An access that must not be, by one of the threads that made it: `position` is its place among them."""

    def __init__(self, message: str, position: int):
        super().__init__(message)
        self.position = position


def _first(bad: Array) -> int:
    """The first true entry; of several rows, its column."""
    return int(np.flatnonzero(bad.any(0) if bad.ndim > 1 else bad)[0])


class DeviceMemory:
    """Memory of an emulated device: numbers as addresses, freed memory reused, new memory full of nan."""

    def __init__(self) -> None:
        self.bytes = np.full(1 << 16, 0xFF, np.uint8)
        self.starts: list[int] = []
        self.ends: list[int] = []

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes."""
        if size < 0:
            raise PtxError(f"expected a size of at least 0 but got {size}")
        room = max(size, 1) + _GAP
        at, where = _GAP, 0
        for where in range(len(self.starts) + 1):
            if where == len(self.starts) or self.starts[where] - BASE - at >= room:
                break
            at = -(-(self.ends[where] - BASE + _GAP) // ALIGN) * ALIGN
        if at + room > self.bytes.size:
            # Whole words, so that the memory can be seen as elements of any size.
            grown = np.full(-(-max(2 * self.bytes.size, at + room) // ALIGN) * ALIGN, 0xFF, np.uint8)
            grown[: self.bytes.size] = self.bytes
            self.bytes = grown
        self.bytes[at : at + size] = 0xFF
        self.starts.insert(where, BASE + at)
        self.ends.insert(where, BASE + at + size)
        return BASE + at

    def free(self, address: int) -> None:
        """Give memory back; `PtxError` for an address that `allocate` did not give."""
        where = bisect_right(self.starts, address) - 1
        if where < 0 or self.starts[where] != address:
            raise PtxError(f"expected the address of an allocation but got {address:#x}")
        del self.starts[where], self.ends[where]

    def part(self, address: int, size: int) -> Array:
        """The bytes of a range, which must lie in one allocation."""
        where = bisect_right(self.starts, address) - 1
        if size and (where < 0 or address + size > self.ends[where]):
            raise PtxError(f"expected {size} bytes inside one allocation but got address {address:#x}")
        return self.bytes[address - BASE : address - BASE + size]

    def places(self, addresses: Array, size: int, what: str) -> Array:
        """Byte positions of accesses of `size` bytes each, checked; `Fault` names the first bad one."""
        addresses = addresses.astype(np.int64)
        if not addresses.size:
            return addresses
        _check_alignment(addresses, size, what)
        low, high = int(addresses.min()), int(addresses.max())
        where = bisect_right(self.starts, low) - 1
        if where < 0 or high + size > self.ends[where]:
            _check_bounds(addresses, size, np.array(self.starts, np.int64), np.array(self.ends, np.int64), what, self._describe)
        return addresses - BASE

    def _describe(self, address: int) -> str:
        """An address by the allocation that it is nearest to."""
        where = bisect_right(self.starts, address) - 1
        if where < 0:
            return f"address {address:#x}, before every allocation,"
        size = self.ends[where] - self.starts[where]
        return f"byte {address - self.starts[where]} of an allocation of {size}"


def _check_alignment(addresses: Array, size: int, what: str) -> None:
    wrong = addresses & (size - 1)
    if wrong.any():
        position = _first(wrong != 0)
        raise Fault(f"{what} of {size} bytes at address {int(addresses[position]):#x} is misaligned", position)


def _check_bounds(addresses: Array, size: int, starts: Array, ends: Array, what: str, describe: Callable[[int], str]) -> None:
    """Each access must end in the range that it begins in; `starts` rise."""
    owner = np.searchsorted(starts, addresses, side="right") - 1
    bad = owner < 0
    if len(ends):
        bad |= addresses + size > ends[np.maximum(owner, 0)]
    if bad.any():
        position = _first(bad)
        raise Fault(f"{what} of {size} bytes at {describe(int(addresses[position]))} is out of bounds", position)


class BlockMemory:
    """Shared memory of a set of blocks (or local memory of a set of threads): the same variables for each, at the same addresses."""

    def __init__(self, variables: list[Variable], owners: int, granule: int = 4):
        self.offsets: dict[str, int] = {}
        self.granule = granule
        at = ALIGN  # address 0 belongs to nobody
        ends = []
        for variable in variables:
            at = -(-at // max(variable.align, 16)) * max(variable.align, 16)
            self.offsets[variable.name] = at
            ends.append(at + variable.bytes)
            at += variable.bytes + ALIGN
        self.size = -(-at // ALIGN) * ALIGN
        self.starts, self.ends = np.array(list(self.offsets.values()), np.int64), np.array(ends, np.int64)
        self.bytes = np.full(owners * self.size, 0xFF, np.uint8)
        self.writer = np.zeros(owners * self.size // granule, np.int32)
        self.reader = np.zeros(owners * self.size // granule, np.int32)

    def places(self, addresses: Array, owners: Array, size: int, what: str) -> Array:
        """Byte positions of accesses of `size` bytes each by threads of the blocks `owners`, checked."""
        addresses = addresses.astype(np.int64)
        if not addresses.size:
            return addresses
        _check_alignment(addresses, size, what)
        _check_bounds(addresses, size, self.starts, self.ends, what, self._describe)
        return owners * self.size + addresses

    def _describe(self, address: int) -> str:
        for name, start in reversed(self.offsets.items()):
            if address >= start:
                return f"byte {address - start} of '{name}'"
        return f"address {address:#x}"

    # --- races

    def _granules(self, places: Array, size: int) -> list[Array]:
        first = places // self.granule
        return [first + k for k in range(max(1, size // self.granule))]

    def note_write(self, places: Array, size: int, threads: Array, what: str) -> None:
        """Threads (numbers from 1 in their block) write; `Fault` when another one was there since the last barrier."""
        for at in self._granules(places, size):
            writer, reader = self.writer[at], self.reader[at]
            bad = ((writer != 0) & (writer != threads)) | ((reader != 0) & (reader != threads))
            if bad.any():
                position = _first(bad)
                how, other = ("written", writer[position]) if writer[position] not in (0, threads[position]) else ("read", reader[position])
                raise Fault(f"{what} races: {_who(int(other))} has {how} the same element since the last barrier", position)
            self.writer[at] = threads
            bad = self.writer[at] != threads
            if bad.any():
                position = _first(bad)
                raise Fault(f"{what} races: {_who(int(self.writer[at][position]))} writes the same element at the same time", position)

    def note_read(self, places: Array, size: int, threads: Array, what: str) -> None:
        """Threads read; `Fault` when another one wrote since the last barrier."""
        for at in self._granules(places, size):
            writer, reader = self.writer[at], self.reader[at]
            bad = (writer != 0) & (writer != threads)
            if bad.any():
                position = _first(bad)
                raise Fault(f"{what} races: {_who(int(writer[position]))} has written the same element since the last barrier", position)
            self.reader[at] = np.where((reader == 0) | (reader == threads), threads, -1)
            several = self.reader[at] != threads
            self.reader[at[several]] = -1

    def pass_barrier(self, owners: Array) -> None:
        """Forget who touched what in these blocks."""
        count = self.size // self.granule
        if len(owners) * count == self.writer.size:
            self.writer[:] = 0
            self.reader[:] = 0
            return
        for table in (self.writer, self.reader):
            table.reshape(-1, count)[owners] = 0


def _who(thread: int) -> str:
    return f"thread {thread - 1}" if thread > 0 else "several threads"
