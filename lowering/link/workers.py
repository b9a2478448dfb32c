"""Work shared out to forked processes, never more of them than cores.

llvmlite holds one lock for all of LLVM, and Python one for itself, so threads would not help. A forked process has everything that its
parent had, so work can be any function without arguments; only its outcome travels. A process with Python threads is not forked, because
one of them might hold a lock that nobody in the child would ever release.

No wait is endless. Work that a process did not finish, because it was killed, failed, or did not go on for `POLYREME_COMPILE_SECONDS`, is
done by the process that waited. That process also does everything if the system grants no further process. Work that crashed a process is
not tried again. A process that dies takes along those that it forked.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.python.garbage import leave_garbage
from polyreme.ir.python.records import dataclass
from polyreme.ir.timing import Timing, apart, note_apart
from polyreme.lowering.machines.linux import PR_SET_PDEATHSIG

__all__ = ["EarlyWorks", "in_child_process", "run_in_child", "share_out", "workers_for"]

T = TypeVar("T")
_NUMBER = struct.Struct("=I")
# What a pipe holds at least: the numbers of all works are in it before anyone takes one.
_MOST_WORKS = select.PIPE_BUF // _NUMBER.size
_in_child_process = False


def workers_for(works: int) -> int:
    """How many processes, this one included, work on so many things: as many as POLYREME_JOBS says, by default as there are cores."""
    if works < 2 or works > _MOST_WORKS or not _may_fork():
        return 1
    return min(config.jobs(), config.processors(), works)


def _may_fork() -> bool:
    # Ranks of one program have the cores shared out among them already.
    return hasattr(os, "fork") and threading.active_count() == 1 and config.launched().size == 1


def in_child_process() -> bool:
    """Whether this process was forked here to do some work."""
    return _in_child_process


def run_in_child(work: Callable[[], T]) -> T:
    """The outcome of `work`, done in a process of its own, so that its memory goes when it is done; here, where no process can be forked.
    """
    job = _fork(work) if _may_fork() else None
    return work() if job is None else _sent(_join(*job, config.compile_seconds()), work)


def share_out(works: Sequence[Callable[[], T]], workers: int) -> list[T]:
    """The outcomes of all works, in their order. Works are taken one after the other by whoever is free, so the longest should come first.

    An error in another process is raised here again, as a `PolyremeError` with its diagnostics; no process outlives the call.
    """
    if workers < 2:
        return [work() for work in works]
    queue = _queue_of(range(len(works)))
    try:
        jobs = [job for _ in range(workers - 1) if (job := _fork(partial(_work, works, queue))) is not None]
        try:
            done = _work(works, queue)
        finally:
            outcomes = _join_all(jobs)
    finally:
        os.close(queue)
    for outcome in outcomes:
        done.update(_sent(outcome, dict))
    return [done[i] if i in done else works[i]() for i in range(len(works))]


class EarlyWorks(Generic[T]):
    """Works that other processes begin while this one still finds out what there is to do.

    Works are added as they become known, and given to a process by `start`, which a process forked then does until somebody takes back what
    it has not begun. No process outlives the `with` block.
    """

    def __init__(self) -> None:
        self._most = workers_for(_MOST_WORKS) - 1
        self._works: list[Callable[[], T]] = []
        self._given = 0
        self._batches: list[tuple[tuple[int, int], int]] = []  # what `_fork` gave, and the queue of its works
        self._outcomes: list[Any] = []

    def __enter__(self) -> EarlyWorks[T]:
        return self

    def __exit__(self, *_: object) -> None:
        for job, queue in self._batches:
            os.close(queue)
            _join(*job, 0)

    def add(self, work: Callable[[], T]) -> int:
        """The number of a further work."""
        self._works.append(work)
        return len(self._works) - 1

    def may_start(self) -> bool:
        """Whether there may be one more process."""
        self._end([batch for batch in self._batches if _has_sent(batch[0][1])])
        return len(self._batches) < self._most

    def start(self) -> None:
        """Let another process begin what was added since the last time."""
        numbers = range(self._given, min(self._given + _MOST_WORKS, len(self._works)))
        queue = _queue_of(numbers)
        job = _fork(partial(_work, self._works, queue))
        if job is None:
            os.close(queue)
            return
        self._batches.append((job, queue))
        self._given = numbers.stop

    def take_back(self) -> set[int]:
        """The numbers of the works that are done or will be; the others, which nobody has begun, are not begun any more."""
        left = set(range(self._given, len(self._works)))
        for _, queue in self._batches:
            left.update(_numbers_in(queue))
        return set(range(len(self._works))) - left

    def outcomes(self) -> dict[int, T]:
        """What was done, by number, once all processes have ended: of lost ones nothing. Errors are raised as by `share_out`."""
        self._end(self._batches)
        done: dict[int, T] = {}
        for outcome in self._outcomes:
            done.update(_sent(outcome, dict))
        return done

    def _end(self, batches: Sequence[tuple[tuple[int, int], int]]) -> None:
        self._batches = [batch for batch in self._batches if batch not in batches]
        for _, queue in batches:
            os.close(queue)
        self._outcomes += _join_all([job for job, _ in batches])


def _queue_of(numbers: Sequence[int]) -> int:
    """A pipe from which processes take numbers until there is none left."""
    queue, feed = os.pipe()
    os.write(feed, b"".join(map(_NUMBER.pack, numbers)))
    os.close(feed)
    return queue


def _numbers_in(queue: int) -> Iterator[int]:
    while taken := os.read(queue, _NUMBER.size):
        yield _NUMBER.unpack(taken)[0]


def _work(works: Sequence[Callable[[], T]], queue: int) -> dict[int, T]:
    """Do what is left in the queue; the outcomes by number."""
    return {number: works[number]() for number in _numbers_in(queue)}


def _join_all(jobs: Sequence[tuple[int, int]]) -> list[Any]:
    """The outcomes of children, each of which has one thing left to do."""
    # Half the time, so that whoever waits for this process sees it done.
    deadline = time.monotonic() + config.compile_seconds() / 2
    return [_join(*job, max(0.0, deadline - time.monotonic())) for job in jobs]


def _sent(outcome: Any, instead: Callable[[], T]) -> T:
    """What a child has sent; what it sent as an error is raised, and what it warned of said once for all children. Where nothing came, what
    `instead` gives.
    """
    if isinstance(outcome, _Done):
        for message, category, filename, line in outcome.warnings:
            warnings.warn_explicit(message, category, filename, line, registry=_WARNED)
        note_apart(outcome.steps)
        outcome = outcome.outcome
    if isinstance(outcome, PolyremeError):
        raise outcome
    if isinstance(outcome, _Crash):
        raise PolyremeError(f"expected machine code but the process that generates it failed: it crashed ({outcome.signal})", code="E0807")
    if isinstance(outcome, _Lost):
        warnings.warn(f"a process that compiles {outcome.why}: what it was to do is done in this one", RuntimeWarning, stacklevel=3)
    sent: T = instead() if isinstance(outcome, (_Fault, _Lost)) else outcome
    return sent


@dataclass(frozen=True)
class _Done:
    """What a child sends: its outcome, what it would have warned of, as text, class, file and line, and what its steps took, if anyone
    measures.
    """

    outcome: Any
    warnings: list[tuple[str, type[Warning], str, int]]
    steps: Timing | None


@dataclass(frozen=True)
class _Crash:
    """What ended a child at once, and would end this process, too."""

    signal: str


@dataclass(frozen=True)
class _Fault:
    """What failed in a child in another way, which shows where when it is done again."""


@dataclass(frozen=True)
class _Lost:
    """What ended a child, and says nothing of its work: somebody killed it, the system for its memory for example, or it did not go on."""

    why: str


_CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
# What children have warned of.
_WARNED: dict[Any, int] = {}
# How long a child may take to end when it has sent its outcome, or was killed.
_END_SECONDS = 10.0


def _fork(work: Callable[[], Any]) -> tuple[int, int] | None:
    """A child that does `work`; its pickled outcome comes through the pipe that is returned with its process id. None where the system has
    no process to give.
    """
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python 3.12 warns of any thread; those here are the pool's, which take no locks of ours and do not exist in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            child = os.fork()
        except OSError:
            os.close(read)
            os.close(write)
            return None
    if child:
        os.close(write)
        return child, read
    # The child must not return into the caller's code, run its exit handlers or flush its files.
    global _in_child_process
    _in_child_process = True
    status = 1
    try:
        os.close(read)
        _die_with(parent)
        leave_garbage()
        with warnings.catch_warnings(record=True) as told, apart() as steps:
            try:
                outcome = work()
            except PolyremeError as error:
                outcome = error
            except Exception:
                outcome = _Fault()
        with os.fdopen(write, "wb") as pipe:
            said = [(str(w.message), w.category, w.filename, w.lineno) for w in told]
            pickle.dump(_Done(outcome, said, steps), pipe, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _die_with(parent: int) -> None:
    """Let the system kill this process when the one that forked it ends, where it can."""
    if hasattr(libc := ctypes.CDLL(None), "prctl"):
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _join(child: int, read: int, seconds: float) -> Any:
    """What came of a child, which has ended then: what it has `_Done`, or a `_Crash`, a `_Fault` or that it was `_Lost`. It is waited for
    so many seconds.
    """
    status = None
    try:
        data = _received(read, seconds)
        if data is not None:
            status = _ended(child, _END_SECONDS)
    finally:
        os.close(read)
        if status is None:
            # Also when the wait was interrupted.
            os.kill(child, signal.SIGKILL)
            _ended(child, _END_SECONDS)
    if status is None:
        return _Lost(f"did not end within {seconds:.0f} seconds (POLYREME_COMPILE_SECONDS is {config.compile_seconds()})")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return _Crash(name) if os.WTERMSIG(status) in _CRASHES else _Lost(f"was ended by {name}")
    return pickle.loads(data) if not status and data else _Fault()


def _has_sent(read: int) -> bool:
    """Whether a child has sent its outcome, or has ended without one."""
    poll = select.poll()
    poll.register(read, select.POLLIN)
    return bool(poll.poll(0))


def _received(read: int, seconds: float) -> bytes | None:
    """All that comes through a pipe until its other end is closed; None if that takes longer."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    poll.register(read, select.POLLIN)
    parts: list[bytes] = []
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        part = os.read(read, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None


def _ended(child: int, seconds: float) -> int | None:
    """The status of a child that ends by then, else None."""
    deadline = time.monotonic() + seconds
    pause = 0.0001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
