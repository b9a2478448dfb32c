"""Collectives between processes: a `Communicator` over MPI, by mpi4py.

Once it is made, only the communicator's thread calls MPI, until the end. What the ranks are about to do is exchanged by messages that are
polled for, so that waiting for a slow rank takes no processor; once all are there, data moves by MPI's own blocking collectives. With
OpenMPI's fault tolerance (`mpiexec --with-ft ulfm`) a killed process is an error in the others, which name it; without it, mpiexec ends
them.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyreme.runtime.collectives import HEADER_BYTES, PATIENCE, Array, CollectiveError, LostRankError, Step, ThreadedCommunicator
from polyreme.runtime.errors import RuntimeFault

__all__ = ["EXTRA", "MissingMpi", "MpiCommunicator", "is_installed"]

EXTRA = "pip install 'polyreme[distributed]'"
HEADER_TAG = 1
FAREWELL = 1.0  # seconds


class MissingMpi(RuntimeFault, ImportError):
    """Several processes were asked for, but there is no MPI."""

    code = "E0904"


def is_installed() -> bool:
    """Whether mpi4py is there."""
    return importlib.util.find_spec("mpi4py") is not None


def load_mpi() -> Any:
    """The module `mpi4py.MPI`, MPI initialized. At the end of the process MPI is finalized by the communicator, which knows whether the
    others are alive.
    """
    if not is_installed():
        raise MissingMpi(f"several processes talk to each other by MPI, but mpi4py is not installed; {EXTRA}")
    import mpi4py

    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise MissingMpi(f"mpi4py found no MPI library ({error}); {EXTRA}") from error
    if MPI.Is_finalized():
        raise CollectiveError("expected MPI to be running but this process has left its group, which it can do only once")
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise CollectiveError(
            "expected MPI to be initialized for calls from any thread (MPI_THREAD_SERIALIZED) but it was initialized for fewer"
        )
    return MPI


class MpiCommunicator(ThreadedCommunicator):
    """This process among all that mpiexec started."""

    def __init__(self, patience: float = PATIENCE):
        self._mpi = MPI = load_mpi()
        # Of our own, so that messages of the user's do not mix with ours; errors come back instead of ending the process.
        self._world = MPI.COMM_WORLD.Dup()
        self._world.Set_errhandler(MPI.ERRORS_RETURN)
        super().__init__(self._world.rank, self._world.size, patience)
        atexit.register(self._end_of_process)

    # --- moving bytes

    def exchange(self, header: bytes, step: Step, patience: float) -> list[bytes]:
        others = [r for r in range(self.size) if r != self.rank]
        found = [bytearray(header if r == self.rank else HEADER_BYTES) for r in range(self.size)]

        def talk() -> None:
            sent = [self._world.Isend([header, self._mpi.BYTE], r, HEADER_TAG) for r in others]
            awaited = [self._world.Irecv([found[r], self._mpi.BYTE], r, HEADER_TAG) for r in others]
            deadline = time.monotonic() + patience
            polls = 0
            arrived = [False] * len(others)
            while not all(arrived):
                arrived = [done or request.Test() for done, request in zip(arrived, awaited, strict=True)]
                if time.monotonic() > deadline:
                    raise self.late([r for r, done in zip(others, arrived, strict=True) if not done], step, patience)
                polls += 1
                # Awake for the first tenth of a millisecond or so, then ever sleepier.
                time.sleep(0 if polls < 50 else min(1e-3, 1e-5 * (polls - 49)))
            # Small enough to be on their way already.
            self._mpi.Request.Waitall(sent)

        self._call(talk, step)
        return [bytes(h) for h in found]

    def all_to_all(self, parts: Sequence[Array], step: Step) -> list[Array]:
        counts = [p.nbytes for p in parts]
        mine = counts[self.rank]
        got = np.empty((self.size, mine), np.uint8)
        byte = self._mpi.BYTE
        whole = _whole(parts)
        sent = _bytes(whole if whole is not None else np.concatenate(parts))
        self._call(
            lambda: self._world.Alltoallv(
                [sent, counts, _offsets(counts), byte], [got, [mine] * self.size, _offsets([mine] * self.size), byte]
            ),
            step,
        )
        return [row.view(parts[0].dtype) for row in got]

    def gather(self, part: Array, into: Sequence[Array], step: Step) -> None:
        counts = [p.nbytes for p in into]
        target = _whole(into)
        whole = _bytes(target if target is not None else np.empty(sum(p.size for p in into), part.dtype))
        byte = self._mpi.BYTE
        self._call(lambda: self._world.Allgatherv([_bytes(part), byte], [whole, counts, _offsets(counts), byte]), step)
        if target is None:
            for share, at, count in zip(into, _offsets(counts), counts, strict=True):
                share[...] = whole[at : at + count].view(part.dtype)

    def send_all(self, array: Array, root: int, step: Step) -> None:
        self._call(lambda: self._world.Bcast([_bytes(array), self._mpi.BYTE], root), step)

    def _call(self, work: Callable[[], Any], step: Step) -> None:
        try:
            work()
        except self._mpi.Exception as error:
            gone = self._failed()
            if gone or error.Get_error_class() in (getattr(self._mpi, "ERR_PROC_FAILED", None), getattr(self._mpi, "ERR_REVOKED", None)):
                raise self.lost(gone, step) from None
            raise CollectiveError(f"MPI failed in {step}: {error.Get_error_string()}") from error

    def _failed(self) -> list[int]:
        """The ranks that MPI knows to be gone; none where it does not tell."""
        try:
            self._world.Ack_failed()
            group = self._world.Get_failed()
            return sorted(self._mpi.Group.Translate_ranks(group, range(group.size), self._world.group))
        except (AttributeError, NotImplementedError, self._mpi.Exception):
            return []

    # --- the end

    def _end_of_process(self) -> None:
        error = getattr(sys, "last_value", None)
        try:
            self.close(f"{type(error).__name__}: {error}" if error is not None else "")
        except CollectiveError as fault:
            # Too late to raise: whoever started the process learns of it by the exit code.
            print(f"error: {fault}", file=sys.stderr, flush=True)
            os._exit(1)

    def close(self, error: str = "") -> None:
        atexit.unregister(self._end_of_process)
        self._error = error
        super().close(error)

    def leave(self) -> None:
        if isinstance(self._failure, LostRankError) and self.size > 2:
            # Let the others find the rank that was lost before this one is gone, too.
            time.sleep(FAREWELL)
        # Without all of them it would wait for those that are gone.
        if self._failure is None and not self._error and not self._mpi.Is_finalized():
            self._mpi.Finalize()


def _offsets(counts: Sequence[int]) -> list[int]:
    return [sum(counts[:i]) for i in range(len(counts))]


def _whole(parts: Sequence[Array]) -> Array | None:
    """The array that the parts are when put together in order, if they are views of one; saves a copy."""
    base = parts[0].base
    if not isinstance(base, np.ndarray) or not base.flags.c_contiguous or base.dtype != parts[0].dtype:
        return None
    at = start = base.__array_interface__["data"][0]
    for part in parts:
        if part.base is not base or part.__array_interface__["data"][0] != at:
            return None
        at += part.nbytes
    return base if at == start + base.nbytes else None


def _bytes(array: Array) -> Array:
    """The array's memory, also of dtypes that MPI does not know."""
    return array.reshape(-1).view(np.uint8)
