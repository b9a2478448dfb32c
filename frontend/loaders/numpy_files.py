"""`.npy` and `.npz` files of numbers, which anybody may have written.

numpy itself parses the header as Python, takes element types that make it divide by zero, and allocates what a header promises before it
looks at the file. Here a header has one form, and what it promises must be there.
"""

from __future__ import annotations

import errno
import math
import os
import re
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

__all__ = ["archive_in", "array_in", "is_archive", "part_of", "read_npy", "read_npz"]

Array = np.ndarray[Any, Any]

MAGIC = b"\x93NUMPY"
MAX_RANK = 32
# What an archive may become when it is unpacked, beyond so many bytes: genuine arrays rarely shrink to a tenth.
MOST_EXPANSION, FREE_BYTES = 100, 1 << 26
_FIELD = rb"'(?:descr'\s*:\s*'[^'\\]{1,16}'|fortran_order'\s*:\s*(?:True|False)|shape'\s*:\s*\([0-9,\sL]*\))"
_HEADER = re.compile(rb"\s*\{\s*" + _FIELD + rb"\s*,\s*" + _FIELD + rb"\s*,\s*" + _FIELD + rb"\s*,?\s*\}\s*")
_DESCR = re.compile(rb"'descr'\s*:\s*'([<>=|]?(?:b1|\?|[iu][1248]|f[248]|c(?:8|16)|[SUV][0-9]{1,9}))'")
_ORDER = re.compile(rb"'fortran_order'\s*:\s*True")
_SHAPE = re.compile(rb"'shape'\s*:\s*\(([^)]*)\)")
_SIZES = re.compile(rb"\s*(?:(?:[0-9]{1,19}L?\s*,\s*)*[0-9]{1,19}L?\s*,?\s*)?")
# What an archive of somebody else can make `zipfile` raise: a `RuntimeError` tells of a password.
ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError, EOFError, KeyError, ValueError)


def array_in(data: memoryview, name: str) -> Array:
    """The array in the contents of a `.npy` file, where it lies; `name` is what errors call it. What is wrong is a `ValueError`."""
    if bytes(data[:6]) != MAGIC or len(data) < 12 or data[6] not in (1, 2, 3):
        raise ValueError(f"expected an array written by numpy.save in {name}")
    size, start = struct.unpack_from("<H", data, 8) + (10,) if data[6] == 1 else struct.unpack_from("<I", data, 8) + (12,)
    header = bytes(data[start : start + min(size, _MOST_HEADER)])
    kind, sizes = _DESCR.search(header), _SHAPE.search(header)
    once = all(header.count(word) == 1 for word in (b"'descr'", b"'fortran_order'", b"'shape'"))
    whole = size <= _MOST_HEADER and once and _HEADER.fullmatch(header)
    if not whole or kind is None or sizes is None or not _SIZES.fullmatch(sizes[1]):
        raise ValueError(f"expected the sizes and the plain element type of an array in {name} but got {header[:80]!r}")
    shape = tuple(int(part.strip().rstrip(b"L")) for part in sizes[1].split(b",") if part.strip())
    dtype = np.dtype(kind[1].decode())
    numbers = data[start + size :]
    # numpy counts the elements of empty arrays too, as if no size were 0.
    countable = dtype.itemsize and len(shape) <= MAX_RANK and math.prod(d for d in shape if d) < 1 << 48
    if not countable or len(numbers) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"expected one array in {name} but it has {len(numbers)} bytes for {dtype}{list(shape)}")
    array = np.frombuffer(numbers, dtype)
    return array.reshape(shape[::-1]).T if _ORDER.search(header) else array.reshape(shape)


# numpy reads no longer ones either.
_MOST_HEADER = 10_000


def archive_in(stream: BinaryIO) -> zipfile.ZipFile:
    """The archive in an open file, which somebody else closes. A `ValueError` where it is damaged or no archive, where two parts have one
    name or one says that it is longer than the file, as much memory as Python would take for it, and where its parts become much more than
    the file: a bomb.
    """
    count = os.fstat(stream.fileno()).st_size
    try:
        archive = zipfile.ZipFile(stream)
    except ARCHIVE_ERRORS as error:
        raise _archive_error(error) from None
    becomes = sum(part.file_size for part in archive.infolist())
    if becomes > FREE_BYTES + MOST_EXPANSION * count:
        raise ValueError(f"expected at most {MOST_EXPANSION} times its {count} bytes but its parts become {becomes}")
    for part in archive.infolist():
        if part.compress_size > count:
            raise ValueError(f"expected parts within its {count} bytes but '{part.filename}' says that it has {part.compress_size}")
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise ValueError("expected parts of different names")
    return archive


def part_of(archive: zipfile.ZipFile, name: str) -> bytes:
    """The contents of a part. A `ValueError` where there is none of this name, or it is damaged, or packed in a way that Python does not
    know or with a password.
    """
    try:
        return archive.read(name)
    except ARCHIVE_ERRORS as error:
        raise _archive_error(error) from None


def _archive_error(error: Exception) -> Exception:
    """What is wrong with the archive; an error of the disk stays what it is. (Places before the file are invalid arguments.)"""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
        return error
    return ValueError(str(error.args[0] if isinstance(error, KeyError) else error) or type(error).__name__)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an archive of arrays, by its first bytes. A missing file is a `FileNotFoundError`."""
    with open(path, "rb") as stream:
        return stream.read(2) == b"PK"


def read_npy(path: str | os.PathLike[str]) -> Array:
    """The one array in a `.npy` file. A missing file is a `FileNotFoundError`, what is wrong with it a `ValueError`."""
    data = Path(path).read_bytes()
    if data[:2] == b"PK":
        raise ValueError("it is an archive of several arrays")
    return _writable(array_in(memoryview(data), os.fspath(path)))


def read_npz(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays by name in a `.npz` file. A missing file is a `FileNotFoundError`, what is wrong with it a `ValueError`."""
    with open(path, "rb") as stream, archive_in(stream) as archive:
        return {
            part.removesuffix(".npy"): _writable(array_in(memoryview(part_of(archive, part)), part)) for part in archive.namelist()
        }


def _writable(array: Array) -> Array:
    return array.copy(order="K").astype(array.dtype.newbyteorder("="), copy=False)
