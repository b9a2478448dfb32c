"""Notes on what compiled functions do, for whoever asks: a line each, once for each place."""

from __future__ import annotations

import logging

from polyreme.ir.diagnostics import Location

__all__ = ["LOGGER", "say"]

LOGGER = logging.getLogger("polyreme.jit")
_said: set[tuple[str, int, str]] = set()


def say(name: str, reason: str, location: Location) -> None:
    """Warn that `name` is no single program, since `reason`, at `location`: once for each place and reason in a process."""
    key = location.file, location.line, reason
    if key in _said:
        return
    _said.add(key)
    LOGGER.warning("%s: note: '%s' runs in parts: %s", location or "here", name, reason)
