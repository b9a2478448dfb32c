"""What steps took: a tree of named times, filled by whoever runs while it is open.

    with timed("compile") as root:
        with timed("parse"): ...
        with timed("lower"): ...      # opens parts of its own
    print(root.table())

Parts of one step that have the same name are one part, run several times. Without an open step `timed` measures what is its own only, so
that deep code may say what it is without knowing who listens.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field

from polyreme.ir import config
from polyreme.ir.python.records import dataclass

__all__ = ["Timing", "announce", "apart", "heard", "note_apart", "open_timing", "reported", "timed"]


@dataclass(slots=True)
class Timing:
    """`seconds` in `count` runs of the step called `name`, the parts included. `detailed` asks the step for parts that cost time to
    measure.
    """

    name: str
    seconds: float = 0.0
    count: int = 0
    detailed: bool = False
    parts: dict[str, Timing] = field(default_factory=dict)

    def part(self, name: str) -> Timing:
        """The part of that name, made when it is first asked for."""
        found = self.parts.get(name)
        if found is None:
            found = self.parts[name] = Timing(name, detailed=self.detailed)
        return found

    def add(self, seconds: float) -> None:
        """One more run."""
        self.seconds += seconds
        self.count += 1

    def join(self, other: Timing) -> None:
        """The runs of a step of that name that were measured elsewhere."""
        self.seconds += other.seconds
        self.count += other.count
        for part in other.parts.values():
            self.part(part.name).join(part)

    @property
    def rest(self) -> float:
        """Seconds that no part accounts for."""
        return max(0.0, self.seconds - sum(p.seconds for p in self.parts.values()))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Timing]]:
        """This step and all parts with how deep they are, in the order in which they first ran."""
        yield depth, self
        for part in self.parts.values():
            yield from part.walk(depth + 1)

    def table(self) -> str:
        """A line per step: milliseconds, its share of the whole, its name indented, and how often it ran if more than once."""
        whole = self.seconds or 1.0
        lines = []
        for depth, step in self.walk():
            times = f"  ({step.count} times)" if step.count > 1 else ""
            lines.append(f"{step.seconds * 1e3:10.2f} ms {step.seconds / whole:6.1%}  {'  ' * depth}{step.name}{times}")
        return "\n".join(lines)


# What the steps of forked processes are gathered under.
APART = "other processes"

_open: ContextVar[Timing | None] = ContextVar("timing", default=None)


def open_timing() -> Timing | None:
    """The step that runs now, None when nobody measures."""
    return _open.get()


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def heard(listener: Callable[[str], None]) -> Iterator[None]:
    """Call `listener` with the name of each step that begins while this is open, here and in processes that are forked meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(name: str) -> None:
    """Tell who listens that a step begins, or goes on: one that is too small to be measured."""
    if (listener := _listener.get()) is not None:
        listener(name)


@contextmanager
def timed(name: str, detailed: bool = False) -> Iterator[Timing]:
    """Measure the `with` as a part of the step that is open, or as a tree of its own; `detailed` holds for what is inside, too."""
    outer = _open.get()
    step = Timing(name, detailed=detailed) if outer is None else outer.part(name)
    step.detailed = step.detailed or detailed
    token = _open.set(step)
    announce(name)
    start = time.perf_counter()
    try:
        yield step
    finally:
        step.add(time.perf_counter() - start)
        _open.reset(token)


@contextmanager
def apart() -> Iterator[Timing | None]:
    """What is measured inside, for whoever forked this process while a step was open; None where nobody measures."""
    outer = _open.get()
    if outer is None:
        yield None
        return
    token = _open.set(step := Timing(APART, detailed=outer.detailed))
    try:
        yield step
    finally:
        _open.reset(token)


def note_apart(steps: Timing | None) -> None:
    """Let the step that is open have what `apart` gave in another process. Such steps run at the same time as others: their shares come on
    top.
    """
    outer = _open.get()
    if outer is None or steps is None or not steps.parts:
        return
    steps.seconds, steps.count = sum(part.seconds for part in steps.parts.values()), 1
    outer.part(APART).join(steps)


@contextmanager
def reported(name: str) -> Iterator[Timing]:
    """As `timed`, and with POLYREME_DEBUG from 1 on in detail; the table goes to standard error when no step is open around it."""
    wanted = config.debug_level() >= 1
    alone = _open.get() is None
    with timed(name, wanted) as step:
        yield step
    if wanted and alone:
        print(step.table(), file=sys.stderr)
