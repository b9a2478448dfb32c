"""What blocks of sm_90a have under way, and who may know of it: counted barriers (mbarriers), copies of boxes, products of warpgroups.

Nothing is faster than it must be. A copy arrives when no thread of the set can go on otherwise, and its barrier's phase ends then. A
product is done when its warpgroup waits for it. So a kernel that looks too early, or writes too early, does so here in every run.

That somebody happens to be late is no order, though. So each warp has a clock: how much it knows of what each warp has done, and of how
many phases of each barrier are over. Who arrives at a barrier leaves its knowledge there; who has waited for the phase takes it. A
`bar.sync` joins the knowledge of a block. Shared memory is watched in lines of 128 bytes:

- who reads a line that a copy has filled must know that the phase of the copy is over;
- a copy, or a store, into a line must know that each warp that has read it is done: that it has waited for its products, and said so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyreme.runtime.ptx.memory import Fault

if TYPE_CHECKING:
    from polyreme.runtime.ptx.state import Threads

Array = np.ndarray[Any, Any]

LINE = 128
WARP = 32
MOST_BARRIERS = 64
# The time of a read that is not over.
_NOT_YET = np.iinfo(np.int32).max


class Barrier:
    """One counted barrier of a block."""

    def __init__(self, number: int, count: int, actors: int, maker: int, made: int):
        self.number, self.count, self.lacking, self.bytes, self.phases = number, count, count, 0, 0
        self.maker, self.made = maker, made
        self.gathered = np.zeros(actors, np.int32)
        self.released = np.zeros(actors, np.int32)


class Copy:
    """A copy under way: bytes, and where they go."""

    def __init__(self, block: int, barrier: Barrier, places: Array, data: Array, lines: Array):
        self.block, self.barrier, self.places, self.data, self.lines = block, barrier, places, data, lines


class Bulk:
    """All of it, for a set of blocks."""

    def __init__(self, t: Threads):
        self.t = t
        blocks = t.count // t.block_size
        self.warps = -(-t.block_size // WARP)
        actors = self.warps + MOST_BARRIERS
        # How much each warp knows; of itself, the time that its reads are noted with.
        self.seen = np.zeros((blocks, self.warps, actors), np.int32)
        self.seen[:, np.arange(self.warps), np.arange(self.warps)] = 1
        lines = -(-t.shared.size // LINE)
        self.filler = np.zeros((blocks, lines), np.int32)  # 1 + the number of the barrier that counted the bytes of a line
        self.phase = np.zeros((blocks, lines), np.int32)
        self.arriving = np.zeros((blocks, lines), bool)
        self.read = np.zeros((blocks, lines, self.warps), np.int32)
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.copies: list[Copy] = []
        # Counts whatever may let a waiting thread go on.
        self.turns = 0
        # Of each warp: how many groups of products it has, and the products that are not waited for as (group, lines).
        self.groups = np.zeros((blocks, self.warps), np.int64)
        self.products: dict[tuple[int, int], list[tuple[int, Array]]] = {}

    # --- barriers

    def place_of(self, thread: int) -> tuple[int, int]:
        """The block and the warp of a thread of the set."""
        return int(self.t.block_of[thread]), int(self.t.thread_of[thread]) // WARP

    def make(self, thread: int, position: int, address: int, count: int) -> None:
        block, warp = self.place_of(thread)
        found = self.barriers.get((block, address))
        number = found.number if found is not None else sum(b == block for b, _ in self.barriers)
        if number >= MOST_BARRIERS:
            raise Fault(f"expected at most {MOST_BARRIERS} barriers of a block", position)
        if count < 1:
            raise Fault(f"expected a barrier of at least one arrival but got {count}", position)
        made = Barrier(number, count, self.warps + MOST_BARRIERS, warp, int(self.seen[block, warp, warp]))
        self.barriers[block, address] = made

    def barrier(self, thread: int, position: int, address: int) -> Barrier:
        """The barrier at an address, of which the thread must know."""
        block, warp = self.place_of(thread)
        found = self.barriers.get((block, address))
        if found is None:
            raise Fault(f"expected a barrier at address {address:#x} but none was made there", position)
        if warp != found.maker and self.seen[block, warp, found.maker] < found.made:
            raise Fault("uses a barrier that another warp has made, which this one has not waited for", position)
        return found

    def arrive(self, thread: int, position: int, address: int, expected: int = 0) -> None:
        block, warp = self.place_of(thread)
        found = self.barrier(thread, position, address)
        if found.lacking == 0:
            raise Fault(f"arrives at a barrier whose phase has all its {found.count} arrivals", position)
        found.bytes += expected
        found.lacking -= 1
        np.maximum(found.gathered, self.seen[block, warp], out=found.gathered)
        self.seen[block, warp, warp] += 1
        self._turn(found)

    def _turn(self, found: Barrier) -> None:
        if found.lacking or found.bytes:
            return
        found.phases += 1
        found.lacking = found.count
        np.maximum(found.released, found.gathered, out=found.released)
        found.released[self.warps + found.number] = found.phases
        found.gathered[:] = 0
        self.turns += 1

    def is_over(self, thread: int, position: int, address: int, parity: int) -> bool:
        """Whether the phase of this parity is over; then the thread's warp knows what its barrier does."""
        if parity not in (0, 1):
            raise Fault(f"expected a parity of 0 or 1 but got {parity}", position)
        block, warp = self.place_of(thread)
        found = self.barrier(thread, position, address)
        if found.phases % 2 == parity:
            return False
        np.maximum(self.seen[block, warp], found.released, out=self.seen[block, warp])
        return True

    def join(self, blocks: Array) -> None:
        """All threads of these blocks have met."""
        own = np.arange(self.warps)
        for block in blocks:
            self.seen[block] = self.seen[block].max(0)
            self.seen[block, own, own] += 1

    # --- copies

    def begin(self, thread: int, position: int, address: int, places: Array, data: Array, start: int) -> None:
        """A thread begins a copy of `data` to `places` in the shared memory of its block; `start` is the first one's address."""
        block, warp = self.place_of(thread)
        barrier = self.barrier(thread, position, address)
        lines = np.arange(start // LINE, (start + data.size - 1) // LINE + 1)
        if self.arriving[block, lines].any():
            raise Fault("a copy begins into shared memory that another copy is still to fill", position)
        self._check_reads(block, warp, lines, position, "a copy")
        self.arriving[block, lines] = True
        self.filler[block, lines] = barrier.number + 1
        self.phase[block, lines] = barrier.phases + 1
        self.read[block, lines] = 0
        self.copies.append(Copy(block, barrier, places, data, lines))

    def _check_reads(self, block: int, warp: int, lines: Array, position: int, what: str) -> None:
        late = self.read[block, lines] > self.seen[block, warp, : self.warps]
        late[:, warp] = self.read[block, lines, warp] == _NOT_YET
        if late.any():
            reader = int(np.flatnonzero(late.any(0))[0])
            is_open = (self.read[block, lines, reader] == _NOT_YET).any()
            why = "products under way still read" if is_open else f"warp {reader} has read, of which this one has not waited to hear,"
            raise Fault(f"{what} overwrites shared memory that {why}", position)

    def deliver(self) -> bool:
        """Let all copies arrive; whether there was one."""
        copies, self.copies = self.copies, []
        for copy in copies:
            self.t.shared.bytes[copy.places] = copy.data
            self.arriving[copy.block, copy.lines] = False
            copy.barrier.bytes -= copy.data.size
            self._turn(copy.barrier)
        return bool(copies)

    # --- reads and writes

    def _check_filled(self, block: int, warps: Any, lines: Array, position: int, what: str) -> None:
        """The lines may be read by these warps, as far as copies are concerned."""
        if self.arriving[block, lines].any():
            raise Fault(f"{what} reads shared memory that a copy is still to fill: it has not waited for the copy's barrier", position)
        filler = self.filler[block, lines]
        known = self.seen[block][np.atleast_1d(warps)][:, self.warps + np.maximum(filler - 1, 0)]
        if ((filler > 0) & (known < self.phase[block, lines])).any():
            raise Fault(f"{what} reads shared memory that a copy has filled, but has not waited for the copy's barrier", position)

    def touch(self, chosen: Array, addresses: Array, size: int, what: str, writes: bool) -> None:
        """Threads load or store, one access each."""
        lines = addresses.astype(np.int64) // LINE
        blocks, warps = self.t.block_of[chosen], self.t.thread_of[chosen] // WARP
        concerned = (self.filler[blocks, lines] > 0) | self.read[blocks, lines].any(1)
        for position in np.flatnonzero(concerned):
            block, warp, line = int(blocks[position]), int(warps[position]), lines[position : position + 1]
            if not writes:
                self._check_filled(block, warp, line, int(position), what)
                self.read[block, line, warp] = np.maximum(self.read[block, line, warp], self.seen[block, warp, warp])
                continue
            if self.arriving[block, line].any():
                raise Fault(f"{what} writes to shared memory that a copy is still to fill", int(position))
            self._check_reads(block, warp, line, int(position), what)

    # --- products

    def multiply(self, block: int, warps: Array, lines: Array, position: int) -> None:
        """A warpgroup begins a product that reads these lines."""
        if (self.filler[block, lines] == 0).any():
            raise Fault("a product reads shared memory that no copy has filled", position)
        self._check_filled(block, warps, lines, position, "a product")
        for warp in warps:
            self.read[block, lines, warp] = _NOT_YET
            self.products.setdefault((block, int(warp)), []).append((int(self.groups[block, warp]), lines))

    def commit(self, block: int, warp: int) -> None:
        self.groups[block, warp] += 1

    def wait(self, block: int, warp: int, pending: int) -> int:
        """The warp waits for its products but for those of the latest `pending` groups; the number of the first group that is left."""
        first = int(self.groups[block, warp]) - pending
        before = self.products.get((block, warp), [])
        left = [(group, lines) for group, lines in before if group >= first]
        for group, lines in before:
            if group < first:
                self.read[block, lines, warp] = self.seen[block, warp, warp]
        for _, lines in left:
            self.read[block, lines, warp] = _NOT_YET
        self.products[block, warp] = left
        return first
