"""Collective calls between ranks: what they compute, in which order they run, and how a rank learns that the others do something else.

A `Communicator` runs its calls one after another on a thread of its own, so that computing goes on meanwhile; `wait` on what a call gave
back ends the overlap. Before any data moves, all ranks exchange what they are about to do (`Step`). A difference is a `MismatchError` that
says what each rank is doing and where; a rank that is gone is a `LostRankError` that names it. After either the communicator is of no more
use.

Reductions combine the ranks' contributions in the order of the ranks, element by element: each rank adds up one share of the elements and
hands it to all. So the bits of a result depend on the contributions alone, neither on how arrays are grouped into calls nor on timing, and
are the same in all ranks.

How bytes move is for subclasses: between threads here (`LocalGroup`), between processes in `runtime/mpi.py`.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from polyreme.runtime.errors import RuntimeFault

__all__ = [
    "REDUCTIONS", "CollectiveError", "Communicator", "LocalGroup", "LostRankError", "MismatchError", "OneRank", "Pending", "Step",
    "ThreadedCommunicator",
]  # fmt: skip

Array = np.ndarray[Any, Any]

# How contributions are combined. A mean is a sum that is divided by the number of ranks at the end.
REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}

# Seconds that a rank waits for the others to arrive at a call.
PATIENCE = 1800.0
# Of a message about a step: its digest, which ranks compare, and its text, which only people read.
DIGEST_BYTES = 16
HEADER_BYTES = 1024
HISTORY = 4096


class CollectiveError(RuntimeFault, RuntimeError):
    """A collective call that cannot be completed."""

    code = "E0901"


class MismatchError(CollectiveError):
    """Ranks that make different collective calls."""

    code = "E0902"


class LostRankError(CollectiveError):
    """Ranks that are gone; `ranks` are their numbers."""

    code = "E0903"

    def __init__(self, message: str, ranks: Sequence[int]):
        super().__init__(message)
        self.ranks = tuple(ranks)


@dataclass(frozen=True)
class Step:
    """One collective call.

    `kind` is its op, `detail` what besides must be equal in all ranks (shapes, dtype, bucket), `schedule` the fingerprint of the plan that
    it belongs to, and `place` the line that made it in this rank, which may differ.
    """

    kind: str
    detail: str = ""
    place: str = ""
    schedule: str = ""

    def __str__(self) -> str:
        plan = f", schedule {self.schedule}" if self.schedule else ""
        return f"{self.kind}{f' ({self.detail}{plan})' if self.detail else ''}{f' at {self.place}' if self.place else ''}"

    def header(self, number: int) -> bytes:
        """What is told to the other ranks about call `number`."""
        agreed = "\0".join((str(number), self.kind, self.detail, self.schedule))
        digest = hashlib.blake2b(agreed.encode(), digest_size=DIGEST_BYTES).digest()
        return (digest + str(self).encode())[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0")


def header_text(header: bytes) -> str:
    return header[DIGEST_BYTES:].rstrip(b"\0").decode(errors="replace")


class Pending(Protocol):
    """A call under way."""

    def wait(self) -> Any:
        """Its result, once it is there; raises what went wrong."""


class Communicator(Protocol):
    """A rank's end of a group. All ranks must make the same calls in the same order."""

    rank: int
    size: int
    history: deque[Step]

    def all_reduce(self, arrays: Sequence[Array], reduce: str, step: Step) -> Pending:
        """Start combining arrays of one dtype, element by element, over all ranks; the result is a list of arrays of the same shapes."""

    def broadcast(self, array: Array, root: int, step: Step) -> Pending:
        """Start giving everyone the array of rank `root`; the others' arrays say shape and dtype."""

    def all_gather(self, array: Array, step: Step) -> Pending:
        """Start gathering the arrays of all ranks, stacked along a new first axis."""

    def reduce_scatter(self, array: Array, reduce: str, step: Step) -> Pending:
        """Start combining arrays over all ranks and giving each rank its share of the first axis."""

    def barrier(self, step: Step) -> None:
        """Wait until all ranks have come here."""

    def close(self, error: str = "") -> None:
        """Leave the group: with the others, or with an error, which they learn of at their next call."""


def check_reduction(reduce: str, dtype: np.dtype[Any]) -> None:
    if reduce not in REDUCTIONS:
        raise ValueError(f"expected a reduction ({', '.join(REDUCTIONS)}) but got '{reduce}'")
    if reduce == "mean" and dtype.kind in "iub":
        raise ValueError(f"expected floats to take the mean of but got {dtype}")


def combine(parts: Sequence[Array], reduce: str) -> Array:
    """The parts combined in their order. Floats of 16 bits are added up in 32."""
    dtype = parts[0].dtype
    narrow = dtype.itemsize == 2 and dtype.kind not in "iu"
    total = parts[0].astype(np.float32 if narrow else dtype)
    for part in parts[1:]:
        REDUCTIONS[reduce](total, part.astype(np.float32) if narrow else part, out=total)
    if reduce == "mean":
        total /= total.dtype.type(len(parts))
    return total.astype(dtype) if narrow else total


def cuts(count: int, ranks: int) -> list[int]:
    """Where `count` elements are cut into one share per rank."""
    return [count * i // ranks for i in range(ranks + 1)]


class Ready:
    """A result that is there already."""

    def __init__(self, result: Any):
        self.result = result

    def wait(self) -> Any:
        return self.result


class OneRank:
    """The group of a process that is alone: every call gives back what it is given."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.history: deque[Step] = deque(maxlen=HISTORY)

    def all_reduce(self, arrays: Sequence[Array], reduce: str, step: Step) -> Pending:
        for array in arrays:
            check_reduction(reduce, array.dtype)
        self.history.append(step)
        return Ready(list(arrays))

    def broadcast(self, array: Array, root: int, step: Step) -> Pending:
        self.history.append(step)
        return Ready(array)

    def all_gather(self, array: Array, step: Step) -> Pending:
        self.history.append(step)
        return Ready(array[None])

    def reduce_scatter(self, array: Array, reduce: str, step: Step) -> Pending:
        check_reduction(reduce, array.dtype)
        self.history.append(step)
        return Ready(array)

    def barrier(self, step: Step) -> None:
        self.history.append(step)

    def close(self, error: str = "") -> None:
        pass


class _Started:
    """A call handed to the communicator's thread."""

    def __init__(self, future: Future[Any]):
        self.future = future

    def wait(self) -> Any:
        try:
            return self.future.result()
        except CollectiveError as error:
            # Where the user waits tells more than where the communicator's thread was.
            raise error.with_traceback(None) from None


class ThreadedCommunicator:
    """The part of a communicator that does not depend on how bytes move: order, agreement, and the arithmetic.

    Subclasses define `exchange`, `all_to_all`, `gather` and `send_all`, which block, and run on the communicator's thread only.
    """

    def __init__(self, rank: int, size: int, patience: float = PATIENCE):
        self.rank, self.size, self.patience = rank, size, patience
        self.history: deque[Step] = deque(maxlen=HISTORY)
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._number = 0
        self._closed = False

    # --- for subclasses

    def exchange(self, header: bytes, step: Step, patience: float) -> list[bytes]:
        """The headers of all ranks, by rank."""
        raise NotImplementedError

    def all_to_all(self, parts: Sequence[Array], step: Step) -> list[Array]:
        """Part i goes to rank i, from each rank comes a part of the size of this rank's own."""
        raise NotImplementedError

    def gather(self, part: Array, into: Sequence[Array], step: Step) -> None:
        """Everyone's flat part, put into the flat arrays of their sizes."""
        raise NotImplementedError

    def send_all(self, array: Array, root: int, step: Step) -> None:
        """Overwrite the flat array by that of rank `root`."""
        raise NotImplementedError

    def leave(self) -> None:
        """Let go of what the group holds, after the last call."""

    # --- calls

    def all_reduce(self, arrays: Sequence[Array], reduce: str, step: Step) -> Pending:
        check_reduction(reduce, arrays[0].dtype)
        if any(a.dtype != arrays[0].dtype for a in arrays):
            raise ValueError(f"expected arrays of one dtype but got {', '.join(sorted({str(a.dtype) for a in arrays}))}")

        def work() -> list[Array]:
            flat = np.concatenate([a.reshape(-1) for a in arrays])
            at = cuts(flat.size, self.size)
            shares = [flat[at[i] : at[i + 1]] for i in range(self.size)]
            mine = combine(self.all_to_all(shares, step), reduce)
            self.gather(mine, shares, step)
            ends = np.cumsum([a.size for a in arrays])
            return [flat[end - a.size : end].reshape(a.shape) for a, end in zip(arrays, ends)]

        return self._start(step, work)

    def broadcast(self, array: Array, root: int, step: Step) -> Pending:
        if not 0 <= root < self.size:
            raise ValueError(f"expected the number of a rank, 0 to {self.size - 1}, but got {root}")

        def work() -> Array:
            copy = np.array(array, order="C")
            self.send_all(copy.reshape(-1), root, step)
            return copy

        return self._start(step, work)

    def all_gather(self, array: Array, step: Step) -> Pending:
        def work() -> Array:
            made = np.empty((self.size, *array.shape), array.dtype)
            self.gather(np.ascontiguousarray(array).reshape(-1), [made[i].reshape(-1) for i in range(self.size)], step)
            return made

        return self._start(step, work)

    def reduce_scatter(self, array: Array, reduce: str, step: Step) -> Pending:
        check_reduction(reduce, array.dtype)
        if array.ndim == 0 or array.shape[0] % self.size:
            raise ValueError(f"expected a first axis that {self.size} ranks can share but got shape {list(array.shape)}")

        def work() -> Array:
            rows = array.shape[0] // self.size
            whole = np.ascontiguousarray(array)
            shares = [whole[i * rows : (i + 1) * rows].reshape(-1) for i in range(self.size)]
            return combine(self.all_to_all(shares, step), reduce).reshape(rows, *array.shape[1:])

        return self._start(step, work)

    def barrier(self, step: Step) -> None:
        self._start(step, lambda: None).wait()

    def close(self, error: str = "") -> None:
        """Leave the group; an error when the others do something else instead."""
        if self._closed:
            return
        self._closed = True
        had_failed = self._failure is not None
        self._enqueue(Step("the end", error), None)
        assert self._thread is not None
        self._thread.join()
        self.leave()
        if self._failure is not None and not had_failed and not error:
            raise self._failure

    # --- the thread

    @property
    def failure(self) -> BaseException | None:
        """What ended the group, if something did."""
        return self._failure

    def _start(self, step: Step, work: Callable[[], Any]) -> Pending:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise CollectiveError(f"expected a group that is still there but rank {self.rank} has left it, before {step}")
        self.history.append(step)
        return self._enqueue(step, work)

    def _enqueue(self, step: Step, work: Callable[[], Any] | None) -> Pending:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=f"collectives of rank {self.rank}", daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._calls.put((step, work, future))
        return _Started(future)

    def _serve(self) -> None:
        while True:
            step, work, future = self._calls.get()
            if self._failure is None:
                try:
                    self._agree(step, last=work is None)
                    future.set_result(work() if work is not None else None)
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                    self._failure = error
                    future.set_exception(error)
            else:
                future.set_exception(self._failure)
            if work is None:
                return

    def _agree(self, step: Step, last: bool) -> None:
        self._number += 1
        mine = step.header(self._number)
        # One that ends with an error tells the others, if they come by soon; they may be lost as well.
        hurried = last and step.detail
        headers = self.exchange(mine, step, 3.0 if hurried else self.patience)
        if all(h[:DIGEST_BYTES] == mine[:DIGEST_BYTES] for h in headers):
            return
        doing = "; ".join(f"rank {i} is at {header_text(h)}" for i, h in enumerate(headers))
        raise MismatchError(f"expected all ranks to make the same collective call, number {self._number}, but {doing}")

    def lost(self, ranks: Sequence[int], step: Step) -> LostRankError:
        """The error of a rank that waits in `step` for ranks that are gone."""
        who = (
            f"rank {ranks[0]} was lost"
            if len(ranks) == 1
            else f"ranks {', '.join(map(str, ranks))} were lost"
            if ranks
            else "a rank was lost"
        )
        return LostRankError(f"{who} (the process ended, perhaps killed) while rank {self.rank} was in {step}", ranks)

    def late(self, ranks: Sequence[int], step: Step, patience: float) -> CollectiveError:
        """The error of a rank that has waited long enough."""
        who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))} have"
        return CollectiveError(f"{who} not come within {patience:g} s to where rank {self.rank} waits, in {step}")


# --- ranks as threads of one process


class LocalGroup:
    """`size` ranks in one process, each a thread with its communicator: for tests, and for several devices of one process."""

    def __init__(self, size: int, patience: float = PATIENCE):
        self.size = size
        self.lost: set[int] = set()
        self._changed = threading.Condition()
        self._given: dict[tuple[int, int], Any] = {}
        self._taken: dict[int, int] = {}
        self.communicators = [LocalCommunicator(self, rank, patience) for rank in range(size)]

    def lose(self, rank: int) -> None:
        """As if the process of `rank` had been killed."""
        with self._changed:
            self.lost.add(rank)
            self._changed.notify_all()

    def meet(self, rank: int, turn: int, value: Any, deadline: float) -> dict[int, Any]:
        """What each rank gave in this turn; of those that are lost or late nothing."""
        with self._changed:
            if rank not in self.lost:
                self._given[turn, rank] = value
            self._changed.notify_all()
            everyone = range(self.size)
            self._changed.wait_for(
                lambda: all(r in self.lost or (turn, r) in self._given for r in everyone), max(0.0, deadline - time.monotonic())
            )
            found = {r: self._given[turn, r] for r in everyone if (turn, r) in self._given}
            self._taken[turn] = self._taken.get(turn, 0) + 1
            if self._taken[turn] == self.size:
                del self._taken[turn]
                for r in everyone:
                    self._given.pop((turn, r), None)
            return found

    def run(self, function: Callable[[LocalCommunicator], Any]) -> list[Any]:
        """`function(communicator)` in a thread per rank; their results, or the first error. A rank that fails counts as ended."""
        results: list[Any] = [None] * self.size
        errors: dict[int, BaseException] = {}

        def rank_main(communicator: LocalCommunicator) -> None:
            ended = ""
            try:
                results[communicator.rank] = function(communicator)
            except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
                errors[communicator.rank] = error
                ended = f"{type(error).__name__}: {error}"
            if communicator.rank in self.lost:
                return
            try:
                communicator.close(ended)
            except CollectiveError as error:
                errors[communicator.rank] = error

        threads = [threading.Thread(target=rank_main, args=(c,), name=f"rank {c.rank}", daemon=True) for c in self.communicators]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The cause stands before what it caused in others.
        for error in sorted(errors.values(), key=lambda e: isinstance(e, CollectiveError)):
            raise error
        return results


class LocalCommunicator(ThreadedCommunicator):
    """One rank of a `LocalGroup`."""

    def __init__(self, group: LocalGroup, rank: int, patience: float):
        super().__init__(rank, group.size, patience)
        self.group = group
        self._turn = 0

    def leave(self) -> None:
        if self._failure is not None:
            self.group.lose(self.rank)

    def _meet(self, value: Any, step: Step, patience: float) -> list[Any]:
        self._turn += 1
        found = self.group.meet(self.rank, self._turn, value, time.monotonic() + patience)
        missing = [r for r in range(self.size) if r not in found]
        if missing:
            gone = [r for r in missing if r in self.group.lost]
            raise self.lost(gone, step) if gone else self.late(missing, step, patience)
        return [found[r] for r in range(self.size)]

    def exchange(self, header: bytes, step: Step, patience: float) -> list[bytes]:
        return self._meet(header, step, patience)

    def all_to_all(self, parts: Sequence[Array], step: Step) -> list[Array]:
        found = [given[self.rank].copy() for given in self._meet(parts, step, self.patience)]
        # Nobody writes to what he gave before all have read it.
        self._meet(None, step, self.patience)
        return found

    def gather(self, part: Array, into: Sequence[Array], step: Step) -> None:
        for target, given in zip(into, self._meet(part, step, self.patience), strict=True):
            target[...] = given
        self._meet(None, step, self.patience)

    def send_all(self, array: Array, root: int, step: Step) -> None:
        given = self._meet(array if self.rank == root else None, step, self.patience)[root]
        if self.rank != root:
            array[...] = given
        self._meet(None, step, self.patience)
