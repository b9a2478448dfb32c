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
from typing import Any, TypeVar

from polyreme.ir import config
from polyreme.ir.diagnostics import Diagnostic, PolyremeError

__all__ = ["share_out", "workers_for"]

T = TypeVar("T")
_NUMBER = struct.Struct("=I")
# What a pipe holds at least: the numbers of all works are in it before anyone takes one.
_MOST_WORKS = 4096 // _NUMBER.size


def workers_for(works: int) -> int:
    """How many processes, this one included, work on so many things: as many as POLYREME_JOBS says, by default as there are cores."""
    if works < 2 or works > _MOST_WORKS or not hasattr(os, "fork") or threading.active_count() > 1 or config.launched().size > 1:
        return 1
    return min(config.jobs(), config.processors(), works)


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
        jobs = [_fork(works, queue) for _ in range(workers - 1)]
        done: dict[int, T] = {}
        try:
            _work(works, queue, done)
        finally:
            outcomes = [_join(*job) for job in jobs]
    finally:
        os.close(queue)
    for outcome in outcomes:
        if isinstance(outcome, PolyremeError):
            raise outcome
        done.update(outcome)
    return [done[i] for i in range(len(works))]


def _work(works: Sequence[Callable[[], T]], queue: int, done: dict[int, T]) -> None:
    """Do what is left in the queue."""
    while taken := os.read(queue, _NUMBER.size):
        (number,) = _NUMBER.unpack(taken)
        done[number] = works[number]()


def _fork(works: Sequence[Callable[[], Any]], queue: int) -> tuple[int, int]:
    """A child that works on the queue; its pickled outcomes come through the pipe that is returned with its process id."""
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
        done: dict[int, Any] = {}
        try:
            _work(works, queue, done)
            outcome: Any = done
        except PolyremeError as error:
            outcome = type(error)(error.diagnostics, code=error.code)
        except Exception as error:
            outcome = PolyremeError(f"a process that generates code failed: {type(error).__name__}: {error}", code="E0807")
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(outcome, pipe)
        status = 0
    finally:
        os._exit(status)


def _join(child: int, read: int) -> Any:
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not data:
        return PolyremeError(Diagnostic(f"expected machine code but the process that generates it ended with status {status}"), code="E0807")
    return pickle.loads(data)
