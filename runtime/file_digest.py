"""Digests of files, remembered for as long as the system says that a file has not changed.

What tells an unchanged file is what git looks at: device, inode, size, and the times of the last change of its content and of its entry. A
file that was changed just before it was read could be changed once more without another time: its digest is not remembered yet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from polyreme.runtime.cache import Cache, digest_of
from polyreme.runtime.side_by_side import side_by_side

PIECE_BYTES = 8 << 20
# Times of files tell changes apart that are so many seconds from each other, on every file system.
SETTLED_SECONDS = 2.5


def digest_of_files(paths: Sequence[str | os.PathLike[str]], cache: Cache) -> str:
    """What tells the contents of these files from any others. `OSError` for one that cannot be read."""
    return digest_of(*(_digest_of_file(os.path.realpath(path), cache) for path in paths))


def stamp_of(path: str | os.PathLike[str]) -> str:
    """What changes when the file does. `OSError` where there is none."""
    status = os.stat(path)
    return f"{os.path.realpath(path)} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _digest_of_file(path: str, cache: Cache) -> str:
    stamp = stamp_of(path)
    known = cache.get(digest_of("file", stamp))
    if known is not None:
        return known.decode()
    began = time.time()
    digest = _read(path)
    status = os.stat(path)
    if stamp_of(path) == stamp and max(status.st_mtime, status.st_ctime) < began - SETTLED_SECONDS:
        cache.put(digest_of("file", stamp), digest.encode())
    return digest


def _read(path: str) -> str:
    """The digest of the digests of a file's pieces, which threads make side by side."""
    import hashlib

    file = os.open(path, os.O_RDONLY)
    try:
        pieces = range(0, os.fstat(file).st_size, PIECE_BYTES)
        found = [b""] * len(pieces)
        faults: list[OSError] = []

        def work(first: int, step: int) -> None:
            memory = bytearray(min(PIECE_BYTES, os.fstat(file).st_size))
            try:
                for i in range(first, len(pieces), step):
                    count = os.preadv(file, [memory], pieces[i])
                    # Processors have instructions for it, so it is quicker than BLAKE2.
                    found[i] = hashlib.sha256(memoryview(memory)[:count]).digest()
            except OSError as error:
                faults.append(error)

        side_by_side(work, len(pieces) // 2)
        if faults:
            raise faults[0]
        return digest_of(*found)
    finally:
        os.close(file)
