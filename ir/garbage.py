"""Python's search for cyclic garbage, left out while modules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collect_new", "without_collections"]


@contextmanager
def without_collections() -> Iterator[None]:
    """No search for garbage inside. Ops and values point at each other, so the search looks at all of them again and again: half the time
    of compiling a network went there. What is erased meanwhile is freed by the first search afterwards. This holds for the whole process,
    other threads included.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def collect_new() -> None:
    """Free what was made and dropped since collections stopped, or since the last call: erased constants hold the weights of a network.
    Nothing is looked at twice.
    """
    if not gc.isenabled():
        gc.collect(0)
