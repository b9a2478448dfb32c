"""Python's search for cyclic garbage, left out while modules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collect_new", "leave_garbage", "set_aside", "without_collections"]

_left = False


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


def leave_garbage() -> None:
    """No search from here on in a process that was forked for some work: what is garbage goes when it ends. A search would look at all that
    its parent had.
    """
    global _left
    _left = True
    gc.disable()


def set_aside() -> None:
    """In such a process, let `collect_new` look at nothing that was made so far: a million ops of kernels, when the next part of a model
    begins.
    """
    if _left:
        gc.freeze()
