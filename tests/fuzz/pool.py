"""Cases in worker processes under a watchdog: neither a crash of the interpreter nor a loop in C code stops the run."""

import multiprocessing
import resource
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait

from tests.fuzz.cases import CASES, Outcome

CHUNK = 40  # cases that a worker is given at a time
WATCHDOG = 150.0  # seconds without a sign of life; cases limit their own time, and that of making a fault small, long before
MEMORY = 6 << 30  # bytes of address space


def _work(kind: str, seed: int, channel: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    known: set[str] = set()
    for numbers in iter(channel.recv, None):
        for number in numbers:
            start = time.process_time()
            outcome = CASES[kind](seed, number, known)
            known |= {outcome.fault} if outcome.fault else set()
            channel.send((number, outcome, time.process_time() - start))


class _Worker:
    def __init__(self, kind: str, seed: int):
        context = multiprocessing.get_context("fork")
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(kind, seed, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.left: deque[int] = deque()
        self.heard = time.monotonic()

    def give(self, numbers: list[int]) -> None:
        self.left.extend(numbers)
        self.channel.send(numbers)
        self.heard = time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.channel.close()


def run_cases(kind: str, seed: int, count: int, workers: int, deadline: float) -> Iterator[tuple[int, Outcome, float]]:
    """(number, outcome, seconds) of cases 0 … count - 1 as they are done, until `deadline` on the monotonic clock."""
    numbers = iter(range(count))
    pool = [_Worker(kind, seed) for _ in range(min(workers, count))]
    try:
        for worker in pool:
            worker.give(list(islice(numbers, CHUNK)))
        while pool and time.monotonic() < deadline:
            ready = wait([worker.channel for worker in pool], timeout=1.0)
            for worker in list(pool):
                lost = ""
                if worker.channel in ready:
                    try:
                        number, outcome, seconds = worker.channel.recv()
                        worker.left.popleft()
                        worker.heard = time.monotonic()
                        yield number, outcome, seconds
                    except EOFError:
                        worker.process.join()
                        lost = f"the process ended with code {worker.process.exitcode}"
                elif time.monotonic() - worker.heard > WATCHDOG:
                    lost = f"hang: no sign of life for {WATCHDOG:.0f} s"
                if lost:
                    # The rest of its cases go to a new process, without the one that it was lost in.
                    worker.end()
                    number, *rest = worker.left
                    yield number, Outcome(fault=lost, text=f"case {number}"), 0.0
                    pool[pool.index(worker)] = worker = _Worker(kind, seed)
                    worker.give(rest)
                if not worker.left:
                    more = list(islice(numbers, CHUNK))
                    if more:
                        worker.give(more)
                    else:
                        pool.remove(worker)
                        worker.end()
    finally:
        for worker in pool:
            worker.end()
