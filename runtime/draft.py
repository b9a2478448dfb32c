"""A file of the cache that is being made: large parts are written to their places, by any process, before the others are known."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from polyreme.runtime.checksum import BLOCK_BYTES, checksums
from polyreme.runtime.files import in_parts

CHECKED_BYTES = 4 * BLOCK_BYTES

class Draft:
    """The file of an entry to be, under a name that nobody looks for. What is at byte 0 of the entry is at byte `start` of the file."""

    def __init__(self, file: int, path: Path, start: int):
        self._file = file
        self._path = path
        self._start = start

    def write(self, at: int, part: bytes | memoryview) -> None:
        """Write a part of the entry to its place. `OSError` where the disk does not take it."""
        left = memoryview(part).cast("B")
        while left:
            count = os.pwrite(self._file, left, self._start + at)
            at, left = at + count, left[count:]

    @property
    def size(self) -> int:
        """Bytes of the file as it is."""
        return os.fstat(self._file).st_size

    def mapped(self) -> memoryview:
        """The entry, with zeros where nobody has written yet, read-only."""
        return memoryview(mmap.mmap(self._file, 0, prot=mmap.PROT_READ))[self._start :]

    def checksums(self, at: int, count: int) -> bytes:
        """`checksums` of so many bytes from `at` on. They are looked at some at a time: the process never has all of them in its memory."""
        written = memoryview(mmap.mmap(self._file, 0, prot=mmap.PROT_READ))[self._start + at :][:count]
        return b"".join(map(checksums, in_parts(written, CHECKED_BYTES)))

    def keep(self, path: Path, head: bytes, mode: int) -> None:
        """Be the file at `path` from now on, with `head` in front of the entry. `OSError` where it cannot be."""
        self.write(-self._start, head)
        os.fchmod(self._file, mode)
        os.replace(self._path, path)
        self.close()

    def close(self) -> None:
        """Let go of the file, which is gone then if it was not kept."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._path.unlink(missing_ok=True)

    def __del__(self) -> None:
        self.close()
