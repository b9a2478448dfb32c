"""Collectives from GPU to GPU: a `Communicator` over NCCL, by ctypes on its library.

Ranks meet, and tell each other what they are about to do, by another communicator (`meeting`, over MPI or between threads), so that a call
that others do not make is an error that says so before NCCL could wait for it forever. Data moves on a stream of its own, beside the
kernels: it waits for what was launched before the call, and kernels that are launched after `wait` wait for it, on the device; Python waits
for nothing. So the buckets of gradients that the plan starts early are on their way while the backward goes on.

NCCL adds up in an order of its own: all ranks have the same bits, but not those of other communicators.

A thread watches calls under way. One that NCCL reports to have failed, or that is not done in time, is given up, with all others
(`ncclCommAbort`); whoever waits, calls again, or looks at a value of the device gets the error, which names this rank and the call.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyreme.runtime.collectives import PATIENCE, Array, CollectiveError, Pending, Step, ThreadedCommunicator, check_reduction
from polyreme.runtime.gpu.arrays import DeviceArray

__all__ = ["NcclCommunicator", "NcclError", "load_library"]

ID_BYTES = 128
# What NCCL calls things, by nccl.h.
DTYPES = {
    "int8": 0, "uint8": 1, "bool": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
REDUCTIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "mean": 4}
IN_PROGRESS = 7
# Seconds between two looks at what is under way.
LOOK = 0.01


class NcclError(CollectiveError):
    """No NCCL, or a call of it that failed."""


class _Id(Structure):
    _fields_ = [("bytes", c_char * ID_BYTES)]


_BUFFER, _COUNT, _COMM, _STREAM = c_void_p, c_size_t, c_void_p, c_void_p
SIGNATURES: dict[str, list[Any]] = {
    "ncclGetUniqueId": [POINTER(_Id)],
    "ncclCommInitRank": [POINTER(c_void_p), c_int, _Id, c_int],
    "ncclCommDestroy": [_COMM],
    "ncclCommAbort": [_COMM],
    "ncclCommGetAsyncError": [_COMM, POINTER(c_int)],
    "ncclAllReduce": [_BUFFER, _BUFFER, _COUNT, c_int, c_int, _COMM, _STREAM],
    "ncclBroadcast": [_BUFFER, _BUFFER, _COUNT, c_int, c_int, _COMM, _STREAM],
    "ncclAllGather": [_BUFFER, _BUFFER, _COUNT, c_int, _COMM, _STREAM],
    "ncclReduceScatter": [_BUFFER, _BUFFER, _COUNT, c_int, c_int, _COMM, _STREAM],
    "ncclSend": [_BUFFER, _COUNT, c_int, c_int, _COMM, _STREAM],
    "ncclRecv": [_BUFFER, _COUNT, c_int, c_int, _COMM, _STREAM],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}
# What a call that failed gave, for people; most say more in NCCL_DEBUG=WARN.
ERRORS = {
    1: "CUDA failed", 2: "the system failed", 3: "NCCL failed inside", 4: "an argument is wrong", 5: "NCCL was used wrongly",
    6: "another rank failed",
}  # fmt: skip


def load_library() -> Any:
    """NCCL's library."""
    if sys.platform == "win32":
        raise OSError("there is no NCCL for Windows")
    return ctypes.CDLL("libnccl.so.2")


class NcclFunctions:
    """The functions of NCCL."""

    def __init__(self) -> None:
        try:
            library = load_library()
            self._functions = {name: getattr(library, name) for name in SIGNATURES}
        except (OSError, AttributeError) as error:
            raise NcclError(f"several GPUs talk to each other by NCCL (2.10 or newer), but it cannot be loaded: {error}") from None
        for name, function in self._functions.items():
            function.argtypes, function.restype = SIGNATURES[name], c_int

    def call(self, name: str, step: Step, rank: int, *arguments: Any) -> None:
        """Call a function; `NcclError` names the rank and the call where it fails."""
        failed = self.tried(name, *arguments)
        if failed not in (0, IN_PROGRESS):
            raise NcclError(f"NCCL failed in rank {rank}, in {step}: {name} says {ERRORS.get(failed, f'error {failed}')}")

    def tried(self, name: str, *arguments: Any) -> int:
        """Call a function; the number of its error."""
        return int(self._functions[name](*arguments))


@dataclass
class _Call:
    """A call that the stream was asked, with what must stay as long as it is under way."""

    step: Step
    keeps: Any
    event: Any = None
    since: float = 0.0


class _OnDevice:
    """The result of a call: kernels that are launched after `wait` have it."""

    def __init__(self, communicator: NcclCommunicator, started: Any, results: Any):
        self._communicator, self._started, self._results = communicator, started, results
        self._waited = False

    def wait(self) -> Any:
        call = self._started.wait()
        self._communicator.raise_failure()
        if not self._waited:
            with self._communicator.copies.lock:
                self._communicator.stream.let_kernels_wait(call.event)
            self._waited = True
        return self._results


class NcclCommunicator(ThreadedCommunicator):
    """This process, with its GPU, among the ranks of `meeting`, which talk by this one from then on. `copies` are the arrays on the GPU."""

    on_device = True

    def __init__(self, meeting: ThreadedCommunicator, copies: Any, patience: float = PATIENCE):
        super().__init__(meeting.rank, meeting.size, patience)
        self.meeting, self.copies = meeting, copies
        self.stream = copies.driver.side_stream()
        if self.stream is None:
            raise NcclError("expected a device with streams for NCCL")
        self._nccl = NcclFunctions()
        self._comm: Any = None
        self._underway: list[_Call] = []
        self._watched = threading.Condition()
        self._watcher: threading.Thread | None = None
        copies.checks.append(self.raise_failure)

    # --- calls

    def all_reduce(self, arrays: Sequence[Array], reduce: str, step: Step) -> Pending:
        check_reduction(reduce, arrays[0].dtype)
        if any(a.dtype != arrays[0].dtype for a in arrays):
            raise ValueError(f"expected arrays of one dtype but got {', '.join(sorted({str(a.dtype) for a in arrays}))}")
        given = [self._there(a, reduce) for a in arrays]
        made = [self._new(a.shape, a.dtype) for a in arrays]

        def work() -> None:
            for source, target in zip(given, made, strict=True):
                self._ask("ncclAllReduce", step, *_places(source, target), source.size, _kind(source), REDUCTIONS[reduce])

        return self._on_stream(step, work, given, made)

    def broadcast(self, array: Array, root: int, step: Step) -> Pending:
        if not 0 <= root < self.size:
            raise ValueError(f"expected the number of a rank, 0 to {self.size - 1}, but got {root}")
        source = self._there(array)
        made = self._new(array.shape, array.dtype)
        work = lambda: self._ask("ncclBroadcast", step, *_places(source, made), source.size, _kind(source), root)
        return self._on_stream(step, work, source, made)

    def all_gather(self, array: Array, step: Step) -> Pending:
        source = self._there(array)
        made = self._new((self.size, *array.shape), array.dtype)
        work = lambda: self._ask("ncclAllGather", step, *_places(source, made), source.size, _kind(source))
        return self._on_stream(step, work, source, made)

    def reduce_scatter(self, array: Array, reduce: str, step: Step) -> Pending:
        check_reduction(reduce, array.dtype)
        if array.ndim == 0 or array.shape[0] % self.size:
            raise ValueError(f"expected a first axis that {self.size} ranks can share but got shape {list(array.shape)}")
        source = self._there(array, reduce)
        made = self._new((array.shape[0] // self.size, *array.shape[1:]), array.dtype)
        work = lambda: self._ask("ncclReduceScatter", step, *_places(source, made), made.size, _kind(source), REDUCTIONS[reduce])
        return self._on_stream(step, work, source, made)

    def send_parts(self, parts: Sequence[Array], step: Step) -> Pending:
        """Start giving part i to rank i; the result are the parts for this rank, which are all as large as its own one."""
        given = [self._there(part) for part in parts]
        own = given[self.rank]
        made = [self._new(own.shape, own.dtype) for _ in given]

        def work() -> None:
            for other, (source, target) in enumerate(zip(given, made, strict=True)):
                self._ask("ncclSend", step, source.memory.address, source.size, _kind(source), other)
                self._ask("ncclRecv", step, target.memory.address, target.size, _kind(target), other)

        return self._on_stream(step, work, given, made)

    def _there(self, array: Any, reduce: str = "") -> DeviceArray:
        """The array on this rank's device; an error where NCCL has no elements like its."""
        if array.dtype.name not in DTYPES or (array.dtype.kind == "b" and reduce in ("sum", "prod")):
            raise ValueError(f"expected elements that NCCL can move{f' and take the {reduce} of' if reduce else ''} but got {array.dtype}")
        if type(array) is DeviceArray and array.memory.owner is self.copies:
            return array
        with self.copies.lock:
            made: DeviceArray = self.copies.sent(np.asarray(array))
        return made

    def _new(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        with self.copies.lock:
            made: DeviceArray = self.copies.new_array(shape, dtype)
        return made

    def _on_stream(self, step: Step, work: Callable[[], None], given: Any, made: Any) -> Pending:
        """Ask the stream for a call behind what was launched so far, when all ranks have come to it."""
        launched = self.stream.mark_kernels()
        call = _Call(step, (given, made))

        def ask() -> _Call:
            self._open(step)
            # Without the lock of the arrays: who holds that may wait for the device, and the device for this.
            self.stream.wait(launched)
            self._nccl.call("ncclGroupStart", step, self.rank)
            try:
                work()
            finally:
                self._nccl.call("ncclGroupEnd", step, self.rank)
            call.event, call.since = self.stream.mark(), time.monotonic()
            self._watch(call)
            return call

        return _OnDevice(self, self._start(step, ask), made)

    def _ask(self, name: str, step: Step, *arguments: Any) -> None:
        self._nccl.call(name, step, self.rank, *arguments, self._comm, self.stream.handle)

    # --- ranks

    def exchange(self, header: bytes, step: Step, patience: float) -> list[bytes]:
        return self.meeting.exchange(header, step, patience)

    def _open(self, step: Step) -> None:
        """Meet the other ranks in NCCL, at the first call."""
        if self._comm is not None:
            return
        self.copies.driver.enter()
        name = _Id()
        if self.rank == 0:
            self._nccl.call("ncclGetUniqueId", step, self.rank, ctypes.byref(name))
        told = np.frombuffer(bytes(name), np.uint8).copy()
        self.meeting.send_all(told, 0, step)
        comm = c_void_p()
        self._nccl.call("ncclCommInitRank", step, self.rank, ctypes.byref(comm), self.size, _Id.from_buffer_copy(told.tobytes()), self.rank)
        self._comm = comm

    def leave(self) -> None:
        with self._watched:
            self._watched.notify_all()
        if self.raise_failure in self.copies.checks:
            self.copies.checks.remove(self.raise_failure)
        if self._comm is not None and self._failure is None:
            self._nccl.call("ncclCommDestroy", Step("the end"), self.rank, self._comm)
        elif self._comm is not None:
            self._give_up()
        self._comm = None
        self.meeting._failure = self.meeting._failure or self._failure
        self.meeting.leave()

    # --- watching

    def raise_failure(self) -> None:
        """Raise what ended the group, if something did."""
        if self._failure is not None:
            raise self._failure

    def _watch(self, call: _Call) -> None:
        with self._watched:
            self._underway.append(call)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._look_on, name=f"watch of rank {self.rank}", daemon=True)
                self._watcher.start()
            self._watched.notify_all()

    def _look_on(self) -> None:
        """Forget calls that are done, and give up all of them when one fails or takes too long."""
        self.copies.driver.enter()
        while self._failure is None:
            with self._watched:
                if self._closed and not self._underway:
                    return
                self._watched.wait(LOOK if self._underway else None)
            self._look()

    def _look(self) -> None:
        with self._watched:
            waiting = list(self._underway)
        done = [call for call in waiting if call.event.is_done()]
        failed = c_int()
        if self._comm is not None:
            self._nccl.tried("ncclCommGetAsyncError", self._comm, ctypes.byref(failed))
        with self._watched:
            self._underway = [call for call in self._underway if not any(call is d for d in done)]
            first = self._underway[0] if self._underway else None
        if first is None:
            return
        if failed.value not in (0, IN_PROGRESS):
            self._fail(f"NCCL failed in rank {self.rank}, in {first.step}: {ERRORS.get(failed.value, f'error {failed.value}')}")
        elif time.monotonic() - first.since > self.patience:
            self._fail(f"rank {self.rank} has waited {self.patience:g} s for other ranks to move their data, in {first.step}")

    def _fail(self, message: str) -> None:
        # The error is there before what waits on the device goes on without its data.
        self._failure = NcclError(message)
        self._give_up()

    def _give_up(self) -> None:
        comm, self._comm = self._comm, None
        if comm is not None:
            self._nccl.tried("ncclCommAbort", comm)


def _places(source: DeviceArray, target: DeviceArray) -> tuple[int, int]:
    return source.memory.address, target.memory.address


def _kind(array: DeviceArray) -> int:
    return DTYPES[array.dtype.name]
