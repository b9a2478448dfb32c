"""Files that are written whole or not at all, and looked through a part at a time."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["in_parts", "is_device", "umask", "write_atomically"]

PART_BYTES = 16 << 20


def in_parts(data: bytes | memoryview, size: int = PART_BYTES) -> Iterator[memoryview]:
    """The bytes of `data` from the first to the last, `size` at a time. Of a file that is mapped for reading alone, the pages leave this
    process' memory after each part: they come back when somebody looks at them.
    """
    view = memoryview(data).cast("B")
    mapped = view.obj if isinstance(view.obj, mmap.mmap) and view.readonly and hasattr(mmap, "MADV_DONTNEED") else None
    for start in range(0, len(view), size):
        yield view[start : start + size]
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def write_atomically(path: str | os.PathLike[str], *parts: bytes | memoryview, mode: int = 0o666) -> None:
    """Write a file so that a reader sees the old content or the new, never a part. `mode` is narrowed by the umask. What is no file, such
    as /dev/null, is written into as it is.
    """
    path = Path(path)
    if is_device(path):
        with path.open("wb") as device:
            for part in parts:
                device.write(part)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                for piece in in_parts(part):
                    file.write(piece)
        os.chmod(temporary, mode & ~umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def is_device(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder, and may not be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def umask() -> int:
    """The bits that new files of this process lack."""
    # The process's umask can only be read by setting it, which other threads would see; Linux also shows it here.
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        return 0o077
    return 0o022
