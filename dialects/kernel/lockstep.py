"""The meaning of a grid on numpy: blocks one after another, the threads of a block in turns from barrier to barrier.

Each thread of a block is a coroutine that runs until it reaches an op that several threads do together (a barrier, a shuffle, a matrix
product) or ends. Only one of them runs at a time, the last one first, so that the outcome of a race shows and is the same in every run.
When none can go on, whoever waits for the same op is answered; threads that wait for different ones are a fault of the kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import field
from typing import Any

from polyreme.ir.core import Op
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.python.records import dataclass

WARP = 32


@dataclass(frozen=True)
class Meeting:
    """What a thread waits for: that all of `threads` threads with consecutive numbers (a warp, a warpgroup; all of its block for 0) come to
    `op`; `answer` makes each one's result from all their values. With `until` it waits for that alone.
    """

    op: Op
    threads: int
    value: Any
    answer: Callable[[Sequence[Any]], Sequence[Any]]
    until: Callable[[], bool] | None = None


@dataclass
class Block:
    """The memory that the threads of a block share, by the op that asks for it, and the counted barriers in it (`warpgroups.py`)."""

    memory: dict[Op, Any] = field(default_factory=dict)
    barriers: dict[tuple[int, int], Any] = field(default_factory=dict)


@dataclass
class Thread:
    """One thread of the grid: where it stands, and how it meets the others."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    place: tuple[int, ...]
    position: tuple[int, ...]
    shared: Block
    number: int
    meet: Callable[[Meeting], Any]
    copies: list[list[tuple[Any, Any, Any]]] = field(default_factory=lambda: [[]])


_here: ContextVar[Thread | None] = ContextVar("thread", default=None)


def this_thread(op: str) -> Thread:
    """The thread of the grid that is running; an error outside a launch."""
    thread = _here.get()
    if thread is None:
        raise PolyremeError(f"'{op}' expected to run in a kernel that 'kernel.launch' starts", code="E0309")
    return thread


def run_grid(grid: Sequence[int], block: Sequence[int], body: Callable[[], Any], kernel: str) -> None:
    """Run `body` once per thread; `this_thread` says which."""
    for place in _places(grid):
        _run_block(tuple(grid), tuple(block), place, body, kernel)


def _places(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Every position in a grid of these sizes, the first axis fastest."""
    places: list[tuple[int, ...]] = [()]
    for size in reversed(sizes):
        places = [(i, *rest) for rest in places for i in range(size)]
    return places


def _run_block(grid: tuple[int, ...], block: tuple[int, ...], place: tuple[int, ...], body: Callable[[], Any], kernel: str) -> None:
    shared = Block()
    runners: list[_Coroutine] = []
    for number, position in enumerate(_places(block)):
        thread = Thread(grid, block, place, position, shared, number, lambda meeting: None)
        runners.append(_Coroutine(thread, body))
    waiting: dict[int, Meeting] = {}
    try:
        answers: dict[int, Any] = dict.fromkeys(range(len(runners)))
        while answers:
            for number in sorted(answers, reverse=True):
                meeting = runners[number].resume(answers[number])
                if meeting is not None:
                    waiting[number] = meeting
            answers = _meet(waiting, len(runners), kernel, place)
            for number in answers:
                del waiting[number]
    finally:
        for runner in runners:
            runner.stop()


def _meet(waiting: dict[int, Meeting], count: int, kernel: str, place: tuple[int, ...]) -> dict[int, Any]:
    """Answers for those that can go on; none when all have ended."""
    answers: dict[int, Any] = dict.fromkeys(n for n, meeting in waiting.items() if meeting.until is not None and meeting.until())
    for start in range(0, count, WARP):
        first = waiting.get(start)
        if first is None or first.until is not None or not first.threads or start % first.threads:
            continue
        group = range(start, min(start + first.threads, count))
        if all(n in waiting and waiting[n].op is first.op for n in group):
            if len(group) < first.threads:
                raise PolyremeError(
                    f"'{first.op.name}' expected {'warps' if first.threads == WARP else 'warpgroups'} of {first.threads} threads but "
                    f"'@{kernel}' has one of {len(group)}",
                    first.op.location,
                    code="E0309",
                )
            answers.update(zip(group, first.answer([waiting[n].value for n in group]), strict=True))
    first = next(iter(waiting.values()), None)
    if answers or first is None:
        return answers
    if not first.threads and len(waiting) == count and all(m.op is first.op for m in waiting.values()):
        return dict.fromkeys(range(count))
    stuck = next(((n, m) for n, m in sorted(waiting.items()) if m.until is not None), None)
    if stuck is not None:
        raise PolyremeError(
            f"'{stuck[1].op.name}' waits in thread {stuck[0]} of block {list(place)} of '@{kernel}', where no thread can go on",
            stuck[1].op.location,
            code="E0309",
        )
    number, meeting = min(waiting.items())
    other = next((n for n in range(count) if n not in waiting), None)
    if other is None:
        other = next((n for n, m in sorted(waiting.items()) if m.op is not meeting.op), number)
        where = f"thread {other} is at another '{waiting[other].op.name}'"
    else:
        where = f"thread {other} has ended"
    who = {0: "the block", WARP: "the warp"}.get(meeting.threads, "the warpgroup")
    text = (
        f"'{meeting.op.name}' expected all threads of {who} but in block {list(place)} of '@{kernel}' thread {number} is there and {where}"
    )
    raise PolyremeError(text, meeting.op.location, code="E0309")


class _Stopped(BaseException):
    """Ends a coroutine whose block has failed elsewhere."""


class _Coroutine:
    """One thread of the block, in a thread of the system that runs only while `resume` waits for it."""

    def __init__(self, thread: Thread, body: Callable[[], Any]):
        thread.meet = self._pause
        self._body = body
        self._thread = thread
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._meeting: Meeting | None = None
        self._answer: Any = None
        self._error: BaseException | None = None
        self._ended = False
        self._stopping = False
        context = copy_context()
        self._runner = threading.Thread(target=context.run, args=(self._run,), daemon=True)
        self._started = False

    def resume(self, answer: Any) -> Meeting | None:
        """Run up to the next meeting; None at the end. An error of the body is raised here."""
        self._answer, self._meeting = answer, None
        if self._started:
            self._go.release()
        else:
            self._started = True
            self._runner.start()
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._meeting

    def stop(self) -> None:
        """End a coroutine that waits and will not be resumed."""
        if self._started and not self._ended:
            self._stopping = True
            self._go.release()
            self._done.acquire()
        if self._started:
            self._runner.join()

    def _run(self) -> None:
        _here.set(self._thread)
        try:
            self._body()
        except _Stopped:
            pass
        except BaseException as error:  # handed to whoever resumed this coroutine
            self._error = error
        self._ended = True
        self._done.release()

    def _pause(self, meeting: Meeting) -> Any:
        self._meeting = meeting
        self._done.release()
        self._go.acquire()
        if self._stopping:
            raise _Stopped
        return self._answer
