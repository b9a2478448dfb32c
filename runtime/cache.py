"""The cache of compiled code: bytes by key, in memory and in a folder.

How much a folder may hold is the process's to say, or else stands in the folder itself, in a file `limit`, for all processes.

Keys are digests of everything that an entry depends on (`digest_of`). An entry carries a checksum; one that does not match is removed and
reported as absent, so it is compiled again and never trusted. Large entries that have checksums of their own are mapped in place of being
read (`keep`, `mapped`). Entries are written whole or not at all, and never changed, so processes may share a folder and what they have
mapped. A folder that cannot be read or written costs time, not correctness: it is warned about once.

What lies there is run, and a checksum has no secret. So entries are taken from, and put into, folders alone that are the user's own and
that nobody else may write to.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from polyreme.runtime.digest import blake2b
from polyreme.runtime.draft import Draft
from polyreme.runtime.files import umask, write_atomically

MAGIC = b"polyreme-cache2\n"
DIGEST_BYTES = 32
# What an entry says of itself: the magic, whether its checksum is in front of it or its own matter, and the checksum. What follows is at a
# whole cache line.
CHECKED, OWN = b"checked\0".ljust(16, b"\0"), b"own\0".ljust(16, b"\0")
HEAD_BYTES = len(MAGIC) + len(CHECKED) + DIGEST_BYTES
# Models lie there with their weights as kernels want them, so that the next start need not make them: this holds a few of hundreds of
# megabytes.
DEFAULT_DISK_BYTES = 4 << 30
DEFAULT_MEMORY_BYTES = 64 << 20
# Of a disk with less than this free, entries of this size take nothing: others need it more than the next start does.
SPARE_BYTES, LARGE_BYTES = 1 << 30, 1 << 20
STALE_SECONDS = 3600
# Of how many folders entries are counted to estimate those of all, and the fewest that tell anything.
SAMPLED, FEW = 16, 1000
LIMIT_FILE = "limit"
# Less the process's umask. Nobody but the owner may write what is run.
FILE_MODE, FOLDER_MODE = 0o644, 0o755


def digest_of(*parts: bytes | str) -> str:
    """A key that depends on every part and on where one ends and the next begins."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@functools.cache
def cache_in(folder: Path | None, limit: int | None = None) -> Cache:
    """The one cache of this process for a folder; None for memory only. `limit` as for `Cache`."""
    return Cache(folder, limit)


class Entry(NamedTuple):
    """An entry on disk: its bytes with all that belongs to it, and when it was last used, in seconds since 1970."""

    key: str
    size: int
    used: float
    path: Path

    def part(self, start: int, count: int) -> bytes:
        """`count` of its bytes, unchecked: for people, not for use."""
        with open(self.path, "rb") as file:
            file.seek(HEAD_BYTES + start)
            return file.read(count)


class Cache:
    """Bytes by key. `folder` None keeps them in memory only. Least recently used entries go first when a limit is reached.

    `limit` is how many bytes the folder may hold, by default what `keep_limit` left there, or 4 GiB; `memory_limit` is for this process
    alone.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int | None = None, memory_limit: int = DEFAULT_MEMORY_BYTES):
        self.folder = Path(folder) if folder is not None else None
        self._limit = limit
        self.memory_limit = memory_limit
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._memory_bytes = 0
        # What the folder holds, as far as is known: None until it was looked through.
        self._disk_bytes: int | None = None
        self._lock = threading.RLock()
        self._is_own: bool | None = None  # None until the folder is there and was looked at
        # Whether a warning was given, in memory that processes forked from here share.
        self._warned = mmap.mmap(-1, 1)

    def get(self, key: str) -> bytes | None:
        """The entry, or None when there is none that is whole."""
        _check_key(key)
        with self._lock:
            if key in self._memory:
                self._memory.move_to_end(key)
                return self._memory[key]
        data = self._read(key)
        if data is not None:
            self._remember(key, data)
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keep `data`; what the disk does not take stays in memory."""
        _check_key(key)
        self._remember(key, data)
        self._write(key, CHECKED, _checksum(key, data), data)

    def keep(self, key: str, *parts: bytes | memoryview) -> bool:
        """Keep what has checksums of its own, for `mapped`; whether the folder has taken it."""
        _check_key(key)
        return self._write(key, OWN, _checksum(key), *parts)

    def draft(self, size: int) -> Draft | None:
        """A file to make an entry of at least this size in, for `keep_draft`; None if the folder has no room for it."""
        if self.folder is None or HEAD_BYTES + size > self.limit:
            return None
        # Where left-overs are looked for.
        drafts = self.folder / "00"
        try:
            if not self._made(drafts) or not _has_room(self.folder, size):
                return None
            file, name = tempfile.mkstemp(prefix=".draft.", suffix=".tmp", dir=drafts)
            draft = Draft(file, Path(name), HEAD_BYTES)
            # What nobody writes is zeros, also at the end.
            os.ftruncate(file, HEAD_BYTES + size)
        except OSError as error:
            self._warn(f"compiled code is not kept on disk: {error}")
            return None
        return draft

    def keep_draft(self, key: str, draft: Draft, finish: Callable[[Draft], None]) -> bool:
        """Keep what was written to a draft, when `finish` has written the rest: as `keep` does."""
        _check_key(key)
        path = self._path(key)
        try:
            finish(draft)
            size = draft.size
            if size > self.limit:
                draft.close()
                return False
            if not self._made(path.parent):
                draft.close()
                return False
            draft.keep(path, MAGIC + OWN + _checksum(key), FILE_MODE & ~umask())
        except OSError as error:
            draft.close()
            self._warn(f"compiled code is not kept on disk: {error}")
            return False
        self._note_written(path, size)
        return True

    def mapped(self, key: str) -> memoryview | None:
        """What `keep` kept, as it lies on disk: read-only, and not checked, but for being that entry. `remove` it where it is found to be
        damaged.
        """
        _check_key(key)
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                if not self._is_trusted(path, file.fileno()):
                    return None
                # All pages at once, if the system can, in place of one fault after the other.
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                found = memoryview(mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ))
        except FileNotFoundError:
            return None
        except ValueError:
            # An empty file cannot be mapped.
            _remove(path)
            return None
        except OSError as error:
            self._warn(f"compiled code is not read from disk: {error}")
            return None
        if found[:HEAD_BYTES] != MAGIC + OWN + _checksum(key):
            _remove(path)
            return None
        _note_use(path)
        return found[HEAD_BYTES:]

    def remove(self, key: str) -> None:
        """Forget an entry."""
        _check_key(key)
        with self._lock:
            self._memory_bytes -= len(self._memory.pop(key, b""))
        if self.folder is not None:
            _remove(self._path(key))

    def clear(self) -> tuple[int, int]:
        """Forget all entries, on disk too; how many there were and their bytes."""
        with self._lock:
            self._memory.clear()
            self._memory_bytes = 0
            gone = [(size, path) for _, size, path in self._entries() if _remove(path)]
            self._disk_bytes = None
            return len(gone), sum(size for size, _ in gone)

    def entries(self) -> list[Entry]:
        """What the folder holds, the most recently used first."""
        return [Entry(path.name, size, used, path) for used, size, path in sorted(self._entries(), reverse=True)]

    @property
    def limit(self) -> int:
        """How many bytes the folder may hold."""
        if self._limit is None:
            self._limit = self._kept_limit()
        return self._limit

    def keep_limit(self, limit: int) -> None:
        """Let the folder hold at most so many bytes, for all processes that are told nothing else; removes at once what is too much.
        `OSError` when it cannot be written.
        """
        if self.folder is None:
            raise ValueError("expected a folder to keep a limit in but the cache is in memory only")
        if not self._made(self.folder):
            raise PermissionError(errno.EPERM, "it is not the user's own", str(self.folder))
        write_atomically(self.folder / LIMIT_FILE, f"{limit}\n".encode(), mode=FILE_MODE)
        with self._lock:
            self._limit = limit
            self._evict(None)

    def _kept_limit(self) -> int:
        if self.folder is None:
            return DEFAULT_DISK_BYTES
        try:
            text = (self.folder / LIMIT_FILE).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return DEFAULT_DISK_BYTES
        return int(text) if text.isdecimal() and len(text) < 20 else DEFAULT_DISK_BYTES

    # --- memory

    def _remember(self, key: str, data: bytes) -> None:
        with self._lock:
            self._memory_bytes += len(data) - len(self._memory.pop(key, b""))
            self._memory[key] = data
            while self._memory_bytes > self.memory_limit and self._memory:
                _, dropped = self._memory.popitem(last=False)
                self._memory_bytes -= len(dropped)

    # --- disk

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / key

    def _write(self, key: str, kind: bytes, digest: bytes, *parts: bytes | memoryview) -> bool:
        """Whether the folder has taken the entry."""
        size = HEAD_BYTES + sum(map(len, parts))
        if self.folder is None or size > self.limit:
            return False
        path = self._path(key)
        try:
            if not self._made(path.parent):
                return False
            if not _has_room(path.parent, size):
                self._warn(
                    f"compiled code of {size >> 20} MiB is not kept there: less than that and {SPARE_BYTES >> 30} GiB for others is free "
                    f"on its disk; POLYREME_CACHE names another folder"
                )
                return False
            write_atomically(path, MAGIC + kind + digest, *parts, mode=FILE_MODE)
        except OSError as error:
            self._warn(f"compiled code is not kept on disk: {error}")
            return False
        self._note_written(path, size)
        return True

    # --- whose it is

    def _made(self, folder: Path) -> bool:
        """Make the cache's folder, or one in it, writable by its owner alone; whether what is there now is the user's own."""
        assert self.folder is not None
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for made in dict.fromkeys((self.folder, folder)):
            with contextlib.suppress(FileExistsError):
                made.mkdir(mode=FOLDER_MODE)
        return self._is_trusted(folder)

    def _is_trusted(self, path: Path, file: int | None = None) -> bool:
        """Whether the cache's folder is the user's own, and the one that `path` is in, and the open `file` if there is one."""
        assert self.folder is not None
        if self._is_own is None:
            self._is_own = self._check_own(self.folder, self.folder)
        if not self._is_own:
            return False
        if file is None:
            return path == self.folder or self._check_own(path, path)
        return self._check_own(path.parent, path.parent) and self._check_own(path, file)

    def _check_own(self, path: Path, what: Path | int) -> bool:
        status = os.stat(what)
        fault = _whose(status)
        if fault:
            self._warn(
                f"compiled code is neither taken from there nor kept there: {path} {fault}, and what lies there is run (let nobody but its "
                "owner write to it, `chmod go-w`, or name another folder in POLYREME_CACHE)"
            )
        return not fault

    def _note_written(self, path: Path, size: int) -> None:
        with self._lock:
            if self._disk_bytes is None:
                self._disk_bytes = self._estimated()
            else:
                self._disk_bytes += size
            if self._disk_bytes is None or self._disk_bytes > self.limit:
                self._evict(path)

    def _read(self, key: str) -> bytes | None:
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                if not self._is_trusted(path, file.fileno()):
                    return None
                entry = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"compiled code is not read from disk: {error}")
            return None
        data = entry[HEAD_BYTES:]
        if entry[:HEAD_BYTES] != MAGIC + CHECKED + _checksum(key, data):
            _remove(path)
            return None
        _note_use(path)
        return data

    def _estimated(self) -> int | None:
        """About how many bytes there are, from a sixteenth of the folders, among which keys are spread evenly: a hundred thousand entries
        take seconds to look at. None where few entries make that a guess, or where the limit may be near.
        """
        if self.folder is None:
            return None
        folders = [entry for entry in _scanned(self.folder) if len(entry.name) == 2]
        sample = folders[:: len(folders) // SAMPLED or 1]
        sizes: list[int] = []
        for entry in (file for folder in sample for file in _scanned(folder)):
            with contextlib.suppress(OSError):  # removed by another process meanwhile
                sizes.append(entry.stat().st_size)
        total = sum(sizes) * len(folders) // max(len(sample), 1)
        return total if len(sizes) >= FEW and total * 3 // 2 < self.limit else None

    def _entries(self) -> list[tuple[float, int, Path]]:
        """(time of last use, bytes, path) of every entry; left-overs of interrupted writes are removed on the way."""
        found = []
        if self.folder is None:
            return []
        stale = time.time() - STALE_SECONDS
        for folder in _scanned(self.folder):
            if len(folder.name) != 2 or not folder.is_dir():
                continue
            for file in _scanned(folder):
                left_over = file.name.endswith(".tmp")
                if not left_over and not _is_key(file.name):
                    continue
                try:
                    status = file.stat()
                except OSError:
                    # Removed by another process meanwhile.
                    continue
                if not left_over:
                    found.append((status.st_mtime, status.st_size, Path(file)))
                elif status.st_mtime < stale:
                    _remove(Path(file))
        return found

    def _evict(self, newest: Path | None) -> None:
        """Where the folder holds too much, remove the least recently used entries, but not `newest`, until a tenth of the limit is free."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        if total > self.limit:
            for _, size, path in entries:
                if total <= self.limit * 9 // 10:
                    break
                if path != newest and _remove(path):
                    total -= size
        self._disk_bytes = total

    def _warn(self, message: str) -> None:
        if not self._warned[0]:
            self._warned[0] = 1
            warnings.warn(f"the cache folder '{self.folder}' is unusable, {message}", RuntimeWarning, stacklevel=3)


def _whose(status: os.stat_result) -> str:
    """Why what has this status is not the user's own to trust; empty if it is."""
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return f"belongs to the user {status.st_uid}, not to {os.geteuid()}"
    if status.st_mode & 0o022:
        return f"may be written to by others (its mode is {status.st_mode & 0o777:o})"
    return ""


def _scanned(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; nothing where it cannot be read. A folder may have a hundred thousand entries, of which paths alone
    would take seconds.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _has_room(folder: Path, size: int) -> bool:
    """Whether the folder's disk takes `size` bytes and leaves others theirs."""
    return size <= LARGE_BYTES or shutil.disk_usage(folder).free >= size + SPARE_BYTES


def _note_use(path: Path) -> None:
    """Let an entry be the last to go."""
    # The time of last use orders eviction only; a read-only folder is never evicted from.
    with contextlib.suppress(OSError):
        os.utime(path)


def _checksum(key: str, data: bytes = b"") -> bytes:
    # The key is covered too: an entry under a wrong name is as bad as a wrong entry.
    digest = blake2b(key.encode(), digest_size=DIGEST_BYTES)
    digest.update(data)
    return digest.digest()


def _is_key(key: str) -> bool:
    return len(key) >= 8 and not set(key) - set("0123456789abcdef")


def _check_key(key: str) -> None:
    if not _is_key(key):
        raise ValueError(f"expected a digest in hexadecimal as the key but got {key!r}")


def _remove(path: Path) -> bool:
    """Whether the file is gone."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True
