"""Work that is shared out to forked processes, never more of them than cores.

llvmlite holds one lock for all of LLVM, and Python one for itself, so threads would not help. A forked process has everything that its parent had, so that work can
be any function without arguments; only its outcome travels. A process with threads of Python's is not forked: one of them might hold a lock that nobody in
the child would ever open again.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError

__all__ = ["apart", "share_out", "workers_for"]

T = TypeVar("T")
_NUMBER = struct.Struct("=I")
# What a pipe holds at least: the numbers of all works are in it before anyone takes one.
_MOST_WORKS = 4096 // _NUMBER.size


def workers_for(works: int) -> int:
    """How many processes, this one included, work on so many things: as many as POLYREME_JOBS says, by default as there are cores."""
    if works < 2 or works > _MOST_WORKS or not _may_fork():
        return 1
    return min(config.jobs(), config.processors(), works)


def _may_fork() -> bool:
    # Ranks of one program have the cores shared out among them already.
    return hasattr(os, "fork") and threading.active_count() == 1 and config.launched().size == 1


def apart(work: Callable[[], T]) -> T:
    """The outcome of `work`, done in a process of its own, so that its memory goes when it is done; here, where no process can be forked."""
    if not _may_fork():
        return work()
    outcome = _join(*_fork(work))
    if isinstance(outcome, PolyremeError):
        raise outcome
    # What failed in another way shows where when it fails here.
    return work() if isinstance(outcome, _Fault) else outcome  # type: ignore[no-any-return]


def share_out(works: Sequence[Callable[[], T]], workers: int) -> list[T]:
    """The outcomes of all works, in their order. Works are taken one after the other by whoever is free, so the longest should come first.

    An error in another process is raised here again, as a `PolyremeError` with its diagnostics; no process outlives the call.
    """
    if workers < 2:
        return [work() for work in works]
    queue, feed = os.pipe()
    os.write(feed, b"".join(map(_NUMBER.pack, range(len(works)))))
    os.close(feed)
    try:
        jobs = [_fork(partial(_work, works, queue)) for _ in range(workers - 1)]
        try:
            done = _work(works, queue)
        finally:
            outcomes = [_join(*job) for job in jobs]
    finally:
        os.close(queue)
    for outcome in outcomes:
        if isinstance(outcome, PolyremeError):
            raise outcome
        if isinstance(outcome, _Fault):
            raise PolyremeError(f"expected machine code but the process that generates it failed: {outcome.what}", code="E0807")
        done.update(outcome)
    return [done[i] for i in range(len(works))]


def _work(works: Sequence[Callable[[], T]], queue: int) -> dict[int, T]:
    """Do what is left in the queue; the outcomes by number."""
    done: dict[int, T] = {}
    while taken := os.read(queue, _NUMBER.size):
        (number,) = _NUMBER.unpack(taken)
        done[number] = works[number]()
    return done


@dataclass(frozen=True)
class _Fault:
    """What went wrong in a child in a way that is nobody's to mend."""

    what: str


def _fork(work: Callable[[], Any]) -> tuple[int, int]:
    """A child that does `work`; its pickled outcome comes through the pipe that is returned with its process id."""
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python 3.12 warns of any thread; those here are the pool's, which take no locks of ours and do not exist in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        os.close(write)
        return child, read
    # The child must not return into the caller's code, run its exit handlers or flush its files.
    status = 1
    try:
        os.close(read)
        try:
            outcome = work()
        except PolyremeError as error:
            outcome = error
        except Exception as error:
            outcome = _Fault(f"{type(error).__name__}: {error}")
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(outcome, pipe, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _join(child: int, read: int) -> Any:
    """The outcome of a child: an error of its own, or a `_Fault`, when it failed."""
    outcome: Any = None
    try:
        with os.fdopen(read, "rb") as pipe:
            outcome = pickle.load(pipe)
    except (EOFError, pickle.UnpicklingError):
        # Nothing, or not all of it: the status says why.
        outcome = None
    finally:
        _, status = os.waitpid(child, 0)
    return outcome if not status else _Fault(f"it ended with status {status}")
