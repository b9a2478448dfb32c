"""Notes on what compiled functions do, for whoever asks: a line each, once for each place."""

from __future__ import annotations

import logging

from polyreme.ir.diagnostics import Location

__all__ = ["LOGGER", "remark", "say"]

LOGGER = logging.getLogger("polyreme.jit")
_said: set[tuple[str, int, str]] = set()


def say(name: str, reason: str, location: Location) -> None:
    """Warn that `name` is no single program, since `reason`, at `location`: once for each place and reason in a process."""
    remark(name, f"it runs in parts: {reason}", location)


def remark(name: str, text: str, location: Location) -> None:
    """Warn of something else about `name`, as `say` does."""
    key = location.file, location.line, text
    if key not in _said:
        _said.add(key)
        LOGGER.warning("%s: note: '%s': %s", location or "here", name, text)
