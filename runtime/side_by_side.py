"""Threads of Python for work that takes no interpreter lock, such as reading, hashing and checking what is long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

# More threads than this wait for the same memory.
MOST = 4


def side_by_side(work: Callable[[int, int], None], worth: int) -> None:
    """`work(i, count)` for each i below `count`, in threads that have ended then; the first in this one. It must not raise.

    There are as many as the work is `worth`, at least one, and no more than the process may use processors.
    """
    count = max(1, min(processors(), MOST, worth))
    others = [threading.Thread(target=work, args=(i, count)) for i in range(1, count)]
    for thread in others:
        thread.start()
    work(0, count)
    for thread in others:
        thread.join()


def processors() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
