"""Channels with Go's meaning, for the threads of one run of a program: its own, and one per Go block.

All channels of a run share a lock, so that it is always known who waits for what: when all do, none can go on, which is an error in the
thread of the program. Go blocks that still wait, or only poll, when the program has ended are ended too.
"""

from __future__ import annotations

import contextvars
import random
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from polyreme.ir.diagnostics import Diagnostic
from polyreme.ir.python.records import dataclass
from polyreme.static.operator import Operator, RunError

__all__ = ["Action", "ChannelError", "DeadlockError", "Session", "current_session", "session"]

Array = np.ndarray[Any, Any]

# Go blocks have so many seconds to end once their program has, and then so many once they were told to.
PATIENCE, LAST_PATIENCE = 10.0, 2.0


class ChannelError(RunError):
    """A channel that is used as it cannot be: sent to when it is closed, closed twice."""


class DeadlockError(RunError):
    """All threads of a program wait for each other."""


class EndedError(Exception):
    """Ends the thread of a Go block."""


@dataclass
class Channel:
    """`dtype` is None for one that takes arrays of all."""

    dtype: np.dtype[Any] | None
    capacity: int
    name: str
    buffer: deque[Array] = field(default_factory=deque)
    senders: deque[tuple[Waiter, int]] = field(default_factory=deque)
    receivers: deque[tuple[Waiter, int]] = field(default_factory=deque)
    closed: bool = False


@dataclass(frozen=True)
class Action:
    """To send `value` to a channel, or with None to receive from it."""

    channel: int
    value: Array | None = None


class Waiter:
    """A thread that waits until one of several actions is done: `chosen` says which, and `value` and `ok` what came of it."""

    def __init__(self, lock: Any, op: Operator, actions: Sequence[tuple[Channel, Action]]):
        self.op, self.actions = op, actions
        self.woken = threading.Condition(lock)
        self.chosen: int | None = None
        self.value: Array | None = None
        self.ok = False
        self.error: Exception | None = None

    def text(self) -> str:
        what = [f"to {'receive from' if a.value is None else 'send to'} '{channel.name}'" for channel, a in self.actions]
        return f"'{self.op.type}' waits {', or '.join(what) or 'for nothing: it has no cases'}"


class Session:
    """One run of a program: its channels, the variables that its threads share, and who waits."""

    def __init__(self, scope: Any) -> None:
        self.scope = scope
        self.lock = threading.RLock()
        self.channels: list[Channel] = []
        self.shared: dict[str, Array] = {}
        self.waiting: dict[Waiter, None] = {}
        self.live = 1  # threads that have not ended, the program's own among them
        self.ended = False  # the program's own has
        self.stopped = False
        self.failure: Exception | None = None
        self.done = threading.Condition(self.lock)
        self.threads: list[threading.Thread] = []
        self.own = threading.get_ident()
        self._random = random.Random(0)

    # --- channels

    def make(self, dtype: np.dtype[Any] | None, capacity: int, name: str) -> int:
        with self.lock:
            self.channels.append(Channel(dtype, capacity, name))
            return len(self.channels) - 1

    def close(self, number: int, op: Operator) -> None:
        """Wake all who wait: receivers with nothing, senders with an error."""
        with self.lock:
            self.check_going_on()
            channel = self.channels[number]
            if channel.closed:
                raise ChannelError(f"expected an open channel to close but '{channel.name}' is closed already", op.location)
            channel.closed = True
            for waiter, index in list(channel.receivers):
                self._finish(waiter, index, None, False)
            for waiter, _ in list(channel.senders):
                self._fail(waiter, self._closed(channel, waiter.op))

    def choose(self, op: Operator, actions: Sequence[Action], has_default: bool) -> tuple[int | None, Array | None, bool]:
        """Do one of the actions that can be done, chosen at random; without any wait for one, or with a default give None.

        Which, and of a receiving one the value, None if the channel is closed and empty, and whether there was one.
        """
        with self.lock:
            self.check_going_on()
            pairs = [(self.channels[a.channel], a) for a in actions]
            for channel, action in pairs:
                if action.value is not None and channel.dtype is not None and channel.dtype != action.value.dtype:
                    raise ChannelError(
                        f"expected {channel.dtype} to send to '{channel.name}' but '{op.type}' got {action.value.dtype}", op.location
                    )
            ready = [i for i, (channel, action) in enumerate(pairs) if self._is_ready(channel, action)]
            if ready:
                return self._do(op, pairs, self._random.choice(ready))
            if has_default:
                if self.ended and threading.get_ident() != self.own:
                    raise EndedError  # it polls, and nobody is left whom that would serve
                return None, None, False
            return self._wait(Waiter(self.lock, op, pairs))

    @staticmethod
    def _is_ready(channel: Channel, action: Action) -> bool:
        if action.value is None:
            return bool(channel.buffer or channel.senders or channel.closed)
        return bool(channel.closed or channel.receivers or len(channel.buffer) < channel.capacity)

    def _do(self, op: Operator, pairs: Sequence[tuple[Channel, Action]], index: int) -> tuple[int, Array | None, bool]:
        channel, action = pairs[index]
        if action.value is not None:
            if channel.closed:
                raise self._closed(channel, op)
            if channel.receivers:
                self._finish(*channel.receivers[0], action.value, True)
            else:
                channel.buffer.append(action.value)
            return index, None, True
        value = channel.buffer.popleft() if channel.buffer else None
        if channel.senders:
            # The first who waits takes the place that is free now, or hands over directly.
            waiter, theirs = channel.senders[0]
            given = waiter.actions[theirs][1].value
            assert given is not None
            self._finish(waiter, theirs, None, True)
            if value is None:
                value = given
            else:
                channel.buffer.append(given)
        return index, value, value is not None

    def _closed(self, channel: Channel, op: Operator) -> ChannelError:
        return ChannelError(f"expected an open channel but '{op.type}' sends to '{channel.name}', which is closed", op.location)

    # --- waiting

    def _wait(self, waiter: Waiter) -> tuple[int, Array | None, bool]:
        self.waiting[waiter] = None
        for index, (channel, action) in enumerate(waiter.actions):
            (channel.receivers if action.value is None else channel.senders).append((waiter, index))
        try:
            self._look_for_deadlock()
            while waiter.chosen is None and waiter.error is None:
                waiter.woken.wait()
        finally:
            self._leave(waiter)
        if waiter.error is not None:
            raise waiter.error
        assert waiter.chosen is not None
        return waiter.chosen, waiter.value, waiter.ok

    def _finish(self, waiter: Waiter, index: int, value: Array | None, ok: bool) -> None:
        waiter.chosen, waiter.value, waiter.ok = index, value, ok
        self._leave(waiter)
        waiter.woken.notify_all()

    def _fail(self, waiter: Waiter, error: Exception) -> None:
        waiter.error = error
        self._leave(waiter)
        waiter.woken.notify_all()

    def _leave(self, waiter: Waiter) -> None:
        if self.waiting.pop(waiter, waiter) is waiter:
            return
        for channel, _ in waiter.actions:
            for queue in (channel.receivers, channel.senders):
                for entry in [e for e in queue if e[0] is waiter]:
                    queue.remove(entry)

    def _look_for_deadlock(self) -> None:
        if len(self.waiting) < self.live - self.ended:
            return
        if not self.ended and self.waiting:
            notes = tuple(Diagnostic(waiter.text(), waiter.op.location) for waiter in self.waiting)
            message = f"expected an operator that can go on but all {len(notes)} threads of the program wait: deadlock"
            self.failure = self.failure or DeadlockError(Diagnostic(message, notes[0].location, notes))
        self.stop()

    # --- threads

    def go(self, run: Callable[[], Any], name: str) -> None:
        """Run a function in a thread of its own."""
        context = contextvars.copy_context()
        with self.lock:
            self.check_going_on()
            self.live += 1
            thread = threading.Thread(target=context.run, args=(self._run, run), name=name, daemon=True)
            self.threads.append(thread)
        thread.start()

    def _run(self, run: Callable[[], Any]) -> None:
        failure: Exception | None = None
        try:
            run()
        except EndedError:
            pass
        except Exception as error:
            failure = error
        with self.lock:
            self.live -= 1
            if failure is not None and not self.stopped:
                self.failure = self.failure or failure
                self.stop()
            elif self.waiting:
                self._look_for_deadlock()
            self.done.notify_all()

    def check_going_on(self) -> None:
        """An error where the run was stopped. The program's own thread goes on when only its Go blocks were."""
        with self.lock:
            if self.stopped and threading.get_ident() != self.own:
                raise EndedError
            if self.failure is not None:
                raise self.failure

    def stop(self) -> None:
        """Tell all threads to end."""
        with self.lock:
            self.stopped = True
            for waiter in list(self.waiting):
                self._fail(waiter, EndedError())
            self.done.notify_all()

    def join(self) -> None:
        """The program has come to its end: let Go blocks go on until they end, or wait; their first error is raised."""
        with self.lock:
            self.ended = True
            if self.live > 1:
                self._look_for_deadlock()
            self.done.wait_for(lambda: self.live == 1 or self.failure is not None, PATIENCE)
            if self.live > 1 and self.failure is None:
                self.stop()
                if not self.done.wait_for(lambda: self.live == 1, LAST_PATIENCE):
                    warnings.warn(f"{self.live - 1} Go blocks go on though the program has ended", RuntimeWarning, stacklevel=2)
            if self.failure is not None:
                raise self.failure


_current: contextvars.ContextVar[Session | None] = contextvars.ContextVar("session", default=None)


def current_session() -> Session:
    """The run that this thread belongs to."""
    found = _current.get()
    if found is None:
        raise RunError("expected a program that an executor runs: Go blocks and channels have no meaning outside of one")
    return found


@contextmanager
def session(scope: Any) -> Iterator[Session]:
    """A run of a program, whose persistable variables are in `scope`. However it ends, its threads do, too."""
    made = Session(scope)
    token = _current.set(made)
    try:
        yield made
    except EndedError:
        raise made.failure or RunError("the program was stopped") from None
    finally:
        _current.reset(token)
        made.stop()
        for thread in made.threads:
            thread.join(LAST_PATIENCE)
