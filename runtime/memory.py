"""Arrays in memory: where they begin, on which pages they lie, and their dtypes by name."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Any

import numpy as np

# Where constants and arenas begin: whole cache lines.
ALIGNMENT = 64
# Memory from so many bytes on lies on pages of the larger size: what is read again and again then fills the second-level cache evenly, not
# as chance has put small pages.
LARGE_PAGES_FROM, LARGE_PAGE = 256 << 10, 2 << 20
# Constants up to this size are copied to large pages, which takes a millisecond or two.
NEAR_BYTES = 8 << 20


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where the first element of a contiguous array stands."""
    try:
        # Quicker than `array.ctypes`, but refused for read-only and for empty arrays, and for bfloat16.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # numpy says so from Python 3.12 on only
    except (TypeError, ValueError, BufferError):
        return int(array.ctypes.data)


def aligned_empty(count: int, alignment: int = 64) -> np.ndarray[Any, Any]:
    """`count` bytes at a multiple of `alignment` (a power of two up to 2 MiB); on large pages from `LARGE_PAGES_FROM` bytes on, where the
    system has them.
    """
    if count >= LARGE_PAGES_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        # numpy asks for large pages itself, but from 4 MiB on only, and for memory that begins in the middle of one.
        with contextlib.suppress(OSError):  # a kernel without them, or no memory, which is then told of in the usual way
            # Whole ones: where the last one ends outside of what is mapped, the system makes small ones.
            mapped = mmap.mmap(-1, (-(-count // LARGE_PAGE) + 1) * LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            mapped.madvise(mmap.MADV_HUGEPAGE)
            return _from_multiple(np.frombuffer(mapped, np.uint8), LARGE_PAGE, count)
    return _from_multiple(np.empty(count + alignment, np.uint8), alignment, count)


def near_constants(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes of constants at a whole cache line: where they are, if that is one, else copied. Those that caches can hold are copied anyway,
    to large pages: a file's small ones are where chance has put them, which fills the second-level cache unevenly.
    """
    near = LARGE_PAGES_FROM <= len(given) <= NEAR_BYTES
    if len(given) and given.ctypes.data % ALIGNMENT == 0 and not near:
        return given
    constants = aligned_empty(max(1, len(given)), ALIGNMENT)
    constants[: len(given)] = given
    return constants


def _from_multiple(memory: np.ndarray[Any, Any], alignment: int, count: int) -> np.ndarray[Any, Any]:
    start = -memory.ctypes.data % alignment
    return memory[start : start + count]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The dtype that a manifest names; bfloat16 is `ml_dtypes`'."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
