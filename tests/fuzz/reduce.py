"""Making a text that shows a fault small."""

import time
from collections.abc import Callable

from tests.fuzz.texts import TOKEN


def smallest(text: str, shows: Callable[[str], bool], seconds: float = 15.0) -> str:
    """A part of `text` for which `shows` still holds: no line and no token can be left out, unless the time is up."""
    end = time.monotonic() + seconds
    for split in (lambda t: t.splitlines(keepends=True), TOKEN.findall):
        parts = split(text)
        size = max(1, len(parts) // 2)
        while parts:
            at, found = 0, False
            while at < len(parts) and time.monotonic() < end:
                shorter = parts[:at] + parts[at + size :]
                if shows("".join(shorter)):
                    parts, found = shorter, True
                else:
                    at += size
            if time.monotonic() >= end or (size == 1 and not found):
                break
            size = max(1, size // 2)
        text = "".join(parts)
    return text
