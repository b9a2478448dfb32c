"""The line on a terminal that says what a long compilation is doing.

It is drawn by whoever compiles, this process or one forked from it, when the next step begins (`ir/timing.py` tells): no thread and no
timer, since a process with threads may not be forked.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from polyreme.cli.reports import is_quiet
from polyreme.ir import config
from polyreme.ir.timing import heard

PATIENCE = 2.0
"""Seconds that a compilation takes before anything is said."""
BETWEEN = 0.1
"""Seconds from one drawing to the next."""
# Steps that the user has no other word for.
WORDS = {"emit-llvm": "writing LLVM IR", "llvm": "machine code", "verify": "verifying", "link": "linking"}


clock = time.monotonic
ERASE = "\r\x1b[2K"


class Progress:
    """Draws on `stream`, a terminal of `columns`, what `title` is at, once that has taken `PATIENCE` by `clock`, and once in `BETWEEN` at
    most.
    """

    def __init__(self, title: str, stream: TextIO, columns: int, clock: Callable[[], float]):
        self._title, self._stream, self._columns, self._clock = title, stream, columns, clock
        self._start = clock()
        self._next = self._start + PATIENCE

    def step(self, name: str) -> None:
        """A step begins."""
        now = self._clock()
        if now >= self._next:
            self._next = now + BETWEEN
            text = f"{self._title}: {WORDS.get(name, name)} ({now - self._start:.0f} s)"
            # A line that wraps could not be drawn over.
            self._draw(text if len(text) < self._columns else text[: max(0, self._columns - 2)] + "…")

    def clear(self) -> None:
        """Remove the line, which another process may have drawn."""
        if self._clock() - self._start >= PATIENCE:
            self._draw("")

    def _draw(self, text: str) -> None:
        # In one go: several processes may draw.
        self._stream.write(ERASE + text)
        self._stream.flush()


@contextmanager
def progress(title: str) -> Iterator[None]:
    """While this is open, a compilation that takes long says on standard error what it is at, if that is a terminal which can be drawn on;
    not with `--quiet` or `POLYREME_PROGRESS=0`, nor where `POLYREME_DEBUG` prints more.
    """
    if is_quiet() or not config.shows_progress() or config.debug_level() or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_dumb_terminal:
        yield
        return
    drawn = Progress(f"compiling {title}", sys.stderr, console.width, clock)
    try:
        with heard(drawn.step):
            yield
    finally:
        drawn.clear()
