"""Names for parameters and layers: `linear_0`, `linear_1`, … per kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from polyreme.names import listed

__all__ = ["generate", "guard", "switch"]

_counters: Counter[str] = Counter()


def generate(key: str) -> str:
    """`key_N` with the next number of `key`."""
    number = _counters[key]
    _counters[key] += 1
    return f"{key}_{number}"


def switch(new_counters: Counter[str] | None = None) -> Counter[str]:
    """Start to count anew (or on from `new_counters`); returns the counters used so far."""
    global _counters
    old, _counters = _counters, Counter() if new_counters is None else new_counters
    return old


@contextmanager
def guard(new_counters: Counter[str] | None = None) -> Iterator[None]:
    """Count anew inside the `with`, and go on as before after it."""
    old = switch(new_counters)
    try:
        yield
    finally:
        switch(old)

__dir__ = listed(__name__)
