"""Arrays that lie in files."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def let_go(array: np.ndarray[Any, Any]) -> None:
    """Takes the pages of a file that an array was mapped from, to be read only, out of this process' memory: they come back when somebody
    looks at them. Nothing for any other array.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else base
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and not mapped.closed:
        with memoryview(mapped) as view:
            is_for_reading = view.readonly
        # What was written to memory of its own would be lost.
        if is_for_reading:
            mapped.madvise(mmap.MADV_DONTNEED)
