"""A line of text, or a bar, about how far a loop is."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

__all__ = ["ProgressBar"]


class ProgressBar:
    """Writes on standard output how many of `num` steps (None: nobody knows) are done, with values and the time a step takes.

    `verbose` 1 draws a bar, over the last one where the output is a terminal; 2 and 3 write a line; 0 nothing.
    """

    WIDTH = 30

    def __init__(self, num: int | None = None, verbose: int = 1, name: str = "step"):
        if isinstance(num, int) and num <= 0:
            raise TypeError(f"expected num to be None or a number of steps above 0 but got {num}")
        self._num, self._verbose, self._name = num, verbose, name
        columns = get_terminal_size().columns or 80
        self._width = max(0, min(self.WIDTH, int(columns * 0.6), columns - 50))
        self._written = 0
        self._start = time.time()

    def update(self, current: int, values: Sequence[tuple[str, Any]] = ()) -> None:
        """Tell that `current` steps are done, and of `values`: pairs of a name and a number or a list of them."""
        if not self._verbose:
            return
        each = (time.time() - self._start) / current if current else 0.0
        told = "".join(
            f" - {name}:" + "".join(f" {_number(v)}" for v in (value if isinstance(value, list) else [value])) for name, value in values
        )
        text = (self._bar(current, each, told) if self._verbose == 1 else self._count(current) + told + self._speed(each) + "\n")
        sys.stdout.write(text)
        sys.stdout.flush()

    def _count(self, current: int) -> str:
        return f"{self._name} {current:3}" if self._num is None else f"{self._name} {current:{len(str(self._num))}d}/{self._num}"

    def _bar(self, current: int, each: float, told: str) -> str:
        before = "\b" * self._written + "\r" if sys.stdout.isatty() else "\n"
        text = self._count(current)
        if self._num is not None:
            done = int(self._width * (current / self._num))
            head = ("=" * (done - 1) + (">" if current < self._num else "=")) if done else ""
            text += f" [{head:.<{self._width}}]"
            if current < self._num:
                told += f" - ETA: {_duration(int(each * (self._num - current)))}"
        text += told + self._speed(each)
        # Blanks over what a longer line left.
        line, self._written = text.ljust(self._written), len(text)
        return before + line + ("\n" if self._num is None or current >= self._num else "")

    def _speed(self, each: float) -> str:
        if each >= 1 or each == 0:
            return f" - {each:.0f}s/{self._name}"
        return f" - {each * 1e3:.0f}ms/{self._name}" if each >= 1e-3 else f" - {each * 1e6:.0f}us/{self._name}"


def _number(value: Any) -> str:
    if getattr(value, "size", None) == 1 and hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 else f"{value:.4e}"


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if seconds > 3600:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if seconds > 60 else f"{seconds}s"
