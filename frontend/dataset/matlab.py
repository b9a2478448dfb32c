"""Vectors of numbers in a MATLAB file of version 5 (the MathWorks' "MAT-File Format", chapter 1): a header of 128 bytes, then elements.

An element is a tag (its kind and how many bytes it has), its bytes, and padding to a multiple of 8. Short ones have both in one word of 8
bytes. A matrix is an element of elements: flags, sizes, name, numbers.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["read_vectors"]

HEADER = 128
COMPRESSED, MATRIX = 15, 14
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# An element may not grow beyond this when it is unpacked.
LIMIT = 1 << 24


def read_vectors(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The real matrices of a file by name, their numbers in one row; `ValueError` for anything that is not such a file."""
    if len(data) < HEADER or data[126:128] != b"IM":
        raise ValueError("expected a MATLAB file of version 5, little-endian, but its header says otherwise")
    return dict(_matrix(content) for kind, content in _elements(data[HEADER:]) if kind == MATRIX)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kinds and contents, compressed ones unpacked."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise ValueError("expected a whole element in a MATLAB file but it ends within a tag")
        kind, size = struct.unpack_from("<II", data, at)
        start = at + 8
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(data) or (start == at + 4 and size > 4):
            raise ValueError(f"expected {size} bytes in an element of a MATLAB file but it ends before them")
        content = data[start : start + size]
        at = at + 8 if start == at + 4 else start + size + (0 if kind == COMPRESSED else -size % 8)
        if kind == COMPRESSED:
            yield from _elements(_unpacked(content))
        else:
            yield kind, content


def _unpacked(content: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(content, LIMIT)
    except zlib.error as error:
        raise ValueError(f"expected a compressed element in a MATLAB file but it is damaged: {error}") from None


def _matrix(content: bytes) -> tuple[str, np.ndarray[Any, Any]]:
    parts = list(_elements(content))
    if len(parts) < 4 or parts[3][0] not in NUMBERS:
        raise ValueError("expected a matrix of real numbers in a MATLAB file but it holds something else")
    kind, numbers = parts[3]
    dtype = np.dtype("<" + NUMBERS[kind])
    if len(numbers) % dtype.itemsize:
        raise ValueError(f"expected whole numbers of {dtype.itemsize} bytes in a matrix of a MATLAB file but got {len(numbers)} bytes")
    return parts[2][1].decode("latin-1"), np.frombuffer(numbers, dtype)
