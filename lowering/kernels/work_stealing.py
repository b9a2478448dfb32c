"""Work stealing: a thread that has done its own work items takes those of another.

Work that is divided in advance waits for the slowest thread, or for one that comes late. Here each thread has items of its own, and takes
them from the first one on, by tickets. A thread without items takes those of another, from the last one back, while they are open. The
results of an item stay where the thread that did it put them, until the thread that finishes last combines all of them. So a thread that
leaves this to another one takes no further items.
"""

from __future__ import annotations

from polyreme.ir.core import Value
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import i64, index
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.machines.memory import LINE_BYTES

# Elements of a cache line, which no two threads share.
LINE = LINE_BYTES // i64.bytes
FROM_END = 1 << 32
# Items that are not open yet count as so many that were taken.
CLOSED = 1 << 20


class Note:
    """The record of a thread's items: how many were `TAKEN` from the first one on, plus `FROM_END` times those from the last one back; how
    many are `DONE`; then what they `LEFT`, for each item one more than the position of its results, or 0.
    """

    TAKEN, DONE, LEFT = range(3)


@dataclass(frozen=True)
class Tickets:
    """Who takes which of a thread's items, noted in `memory`: `elements` of i64 for each thread, for at most `items` items."""

    code: Code
    memory: Value
    items: int

    @staticmethod
    def elements(items: int) -> int:
        return -(-(Note.LEFT + items) // LINE) * LINE

    def begin(self, thread: Index, are_open: Value) -> None:
        """No item of a thread is taken yet."""
        code, notes = self.code, self._notes(thread)
        with code.loop(0, self.elements(self.items), name="note") as note:
            code.store(code.constant(0, i64), self.memory, code.add(notes, note.iv))
        self._store(code.apply("select", are_open, code.value(0), code.value(CLOSED)), notes)

    def open(self, thread: Index) -> None:
        """Opens the items of a thread to others, if they were not open."""
        code, notes = self.code, self._notes(thread)
        opened = code.apply("select", self.are_open(thread), code.value(0), code.value(-CLOSED))
        code.fetch_add(opened, self.memory, code.add(notes, Note.TAKEN))

    def are_open(self, thread: Index) -> Value:
        return self.code.apply("lt", self.code.value(self.code.mod(self._load(self._notes(thread)), FROM_END)), self.code.value(CLOSED))

    def take(self, thread: Index, count: Index, is_own: Value) -> Value:
        """The next of the `count` items of a thread, which are open: from the first one on if they are the own ones, else from the last one
        back.

        `count` or more if there is none.
        """
        code = self.code
        taken = code.fetch_add(
            code.apply("select", is_own, code.value(1), code.value(FROM_END)), self.memory, code.add(self._notes(thread), Note.TAKEN)
        )
        at_end = code.div(taken, FROM_END)
        at_start = code.sub(taken, code.mul(at_end, FROM_END))
        item = code.apply("select", is_own, code.value(at_start), code.value(code.sub(code.sub(count, 1), at_end)))
        is_left = code.apply("lt", code.value(code.add(at_start, at_end)), code.value(count))
        return code.apply("select", is_left, item, code.value(count))

    def leave(self, thread: Index, item: Index, place: Index) -> None:
        """Notes that the results of an item, still to be combined, are at this place."""
        self._store(self.code.add(place, 1), self.code.add(self._notes(thread), Note.LEFT, item))

    def left(self, thread: Index, item: Index) -> Value:
        """One more than the place of an item's results that are still to be combined, or 0. It is told once."""
        at = self.code.add(self._notes(thread), Note.LEFT, item)
        place = self._load(at)
        self._store(0, at)
        return place

    def are_done(self, thread: Index, did: Index, count: Index) -> Value:
        """Whether all items are done, with the `did` items of the caller, who then sees what the others left."""
        before = self.code.fetch_add(did, self.memory, self.code.add(self._notes(thread), Note.DONE))
        return self.code.apply("eq", self.code.value(self.code.add(before, did)), self.code.value(count))

    def _notes(self, thread: Index) -> Index:
        return self.code.mul(thread, self.elements(self.items))

    def _load(self, at: Index) -> Value:
        return self.code.apply("cast", self.code.load(self.memory, at), dtype=index)

    def _store(self, x: Index, at: Index) -> None:
        self.code.store(self.code.apply("cast", self.code.value(x), dtype=i64), self.memory, at)


@dataclass(frozen=True)
class Variables:
    """Numbers that a thread keeps while it works."""

    code: Code
    memory: Value

    @classmethod
    def of(cls, code: Code, count: int) -> Variables:
        return cls(code, code.scratch(count, i64))

    def set(self, which: Index, x: Index) -> None:
        self.code.store(self.code.apply("cast", self.code.value(x), dtype=i64), self.memory, which)

    def get(self, which: Index) -> Value:
        return self.code.apply("cast", self.code.load(self.memory, which), dtype=index)

    def note(self, which: Index, condition: Value) -> None:
        self.set(which, self.code.apply("select", condition, self.code.value(1), self.code.value(0)))

    def is_on(self, which: Index) -> Value:
        return self.code.apply("ne", self.get(which), self.code.value(0))
