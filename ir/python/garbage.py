"""Python's search for cyclic garbage, left out while modules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collect_new", "leave_garbage", "leave_to_the_end", "set_aside", "without_collections"]

_left = False


@contextmanager
def without_collections(soon: bool = True) -> Iterator[None]:
    """No search for garbage inside. Ops and values point at each other, so the search looks at all of them again and again: half the time
    of compiling a network went there. What is erased meanwhile is freed by the first search afterwards; unless it is wanted `soon`, by the
    first one through everything there is. This holds for the whole process, other threads included.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            if not soon:
                _let_age()
            gc.enable()


def _let_age() -> None:
    # To set everything aside and take it back makes all of it old, at no cost. What others have set aside is left to them.
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


def leave_to_the_end() -> None:
    """What is garbage by now goes when this process ends, which is about to: Python would look through everything once more."""
    gc.freeze()


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
    gc.freeze()


def set_aside() -> None:
    """In such a process, let `collect_new` look at nothing that was made so far: what was imported, and a million ops of kernels when the
    next part of a model begins.
    """
    if _left:
        gc.freeze()
