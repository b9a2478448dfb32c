"""Worker processes of a loader: they fetch and collate batches, end when asked, and report their errors.

The parent hands out numbered tasks, one queue per worker, and reads results from one pipe per worker; a worker that dies or fails becomes
an error in the parent that names it. A worker whose parent is gone ends by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from polyreme.io.collate import to_arrays
from polyreme.io.dataset import IterableDataset
from polyreme.ir.diagnostics import PolyremeError

_POLL_SECONDS = 1.0


class WorkerError(PolyremeError, RuntimeError):
    """A worker that raised, died or took too long."""

    code = "E1002"


@dataclass(frozen=True)
class WorkerInfo:
    """What `get_worker_info` tells inside a worker."""

    id: int
    num_workers: int
    dataset: Any
    seed: int


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker this process is; None in the main process."""
    return _info


@dataclass(frozen=True)
class Job:
    """What every worker needs. `indexed` tells a dataset with an index from a stream."""

    dataset: Any
    collate: Callable[[Any], Any]
    batch_size: int | None
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None

    @property
    def indexed(self) -> bool:
        return not isinstance(self.dataset, IterableDataset)

    def fetch(self, indices: Any) -> Any:
        """The batch of an indexed dataset; one sample when batching is off."""
        if isinstance(indices, list):
            return self.collate([self.dataset[i] for i in indices])
        return self.collate(self.dataset[indices])

    def stream(self) -> Iterator[Any]:
        """The batches of a stream."""
        if self.batch_size is None:
            yield from (self.collate(sample) for sample in self.dataset)
            return
        batch: list[Any] = []
        for sample in self.dataset:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate(batch)


def _work(job: Job, worker: int, count: int, seed: int, channel: Connection, inherited: Sequence[Connection]) -> None:
    """The loop of a worker: receives (number, indices), sends (number, kind, content). `inherited` are ends of the parent's, which a forked
    process has, too.
    """
    global _info
    import numpy as np

    # As long as one is open here, nobody sees that the parent is gone: whoever sends would wait for ever.
    for end in inherited:
        end.close()
    parent = os.getppid()
    np.random.seed((seed + worker) % 2**32)
    _info = WorkerInfo(worker, count, job.dataset, seed + worker)
    stream: Iterator[Any] | None = None
    try:
        if job.worker_init_fn is not None:
            job.worker_init_fn(worker)
        while True:
            while not channel.poll(_POLL_SECONDS):
                if os.getppid() != parent:
                    return
            task = channel.recv()
            if task is None:
                return
            number, indices = task
            if job.indexed:
                channel.send((number, "batch", to_arrays(job.fetch(indices))))
                continue
            stream = job.stream() if stream is None else stream
            try:
                channel.send((number, "batch", to_arrays(next(stream))))
            except StopIteration:
                channel.send((number, "end", None))
    except (KeyboardInterrupt, ConnectionError, EOFError):
        return
    except Exception as error:
        channel.send((-1, "error", (f"{type(error).__name__}: {error}", traceback.format_exc())))


class WorkerPool:
    """The workers of one pass over the data; `close` ends them, and so does garbage collection."""

    def __init__(self, job: Job, count: int, seed: int, timeout: float = 0):
        # Forked where the system can: datasets need not be picklable then, as Paddle's users expect.
        forks = sys.platform == "linux"
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        self.timeout, self.seed = timeout, seed
        self.processes: list[Any] = []
        self.channels: list[Connection] = []
        for worker in range(count):
            ours, theirs = context.Pipe()
            inherited = (*self.channels, ours) if forks else ()
            process = context.Process(target=_work, args=(job, worker, count, seed, theirs, inherited), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.channels.append(ours)

    def send(self, worker: int, number: int, indices: Any) -> None:
        try:
            self.channels[worker].send((number, indices))
        except (BrokenPipeError, OSError):
            self._report_death(worker)

    def receive(self, workers: list[int]) -> tuple[int, int, str, Any]:
        """The next answer of any of `workers`: (worker, number, kind, content). Errors of workers are raised here."""
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while True:
            left = _POLL_SECONDS if deadline is None else max(deadline - time.monotonic(), 0)
            ready = wait([self.channels[w] for w in workers], min(left, _POLL_SECONDS))
            for channel in ready:
                worker = self.channels.index(channel)  # type: ignore[arg-type]
                try:
                    number, kind, content = self.channels[worker].recv()
                except (EOFError, OSError):
                    self._report_death(worker)
                    raise
                if kind == "error":
                    message, trace = content
                    raise WorkerError(f"worker {worker} of the DataLoader failed with {message}\n{trace.rstrip()}")
                return worker, number, kind, content
            for worker in workers:
                if not self.processes[worker].is_alive() and not self.channels[worker].poll():
                    self._report_death(worker)
            if deadline is not None and time.monotonic() >= deadline:
                raise WorkerError(f"expected a batch from the DataLoader's workers within {self.timeout} s but none came")

    def _report_death(self, worker: int) -> None:
        process = self.processes[worker]
        process.join(_POLL_SECONDS)
        raise WorkerError(f"worker {worker} of the DataLoader (pid {process.pid}) ended unexpectedly with exit code {process.exitcode}")

    def close(self) -> None:
        """Ask every worker to end, and end those that do not."""
        for channel in self.channels:
            try:
                channel.send(None)
            except (BrokenPipeError, OSError):
                pass  # it has ended already
            channel.close()
        for process in self.processes:
            process.join(_POLL_SECONDS)
            if process.is_alive():
                process.terminate()
                process.join(_POLL_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
        self.processes, self.channels = [], []

    def __del__(self) -> None:
        self.close()
