"""MATLAB files of version 5 with vectors in them, as published datasets have."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

# By numpy's name: how an element's content is stored, and the class of the array.
STORED = {"uint8": (2, 9), "uint16": (4, 11), "float64": (9, 6)}


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + b"\0" * (-len(content) % 8)


def matrix(name: str, values: np.ndarray[Any, Any]) -> bytes:
    kind, array_class = STORED[values.dtype.name]
    short = struct.pack("<I4s", 1 | len(name) << 16, name.encode()) if len(name) <= 4 else element(1, name.encode())
    sizes = struct.pack("<ii", 1, len(values))
    return element(14, element(6, struct.pack("<II", array_class, 0)) + element(5, sizes) + short + element(kind, values.tobytes()))


def matlab(*matrices: bytes) -> bytes:
    packed = [zlib.compress(m) for m in matrices]
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(struct.pack("<II", 15, len(p)) + p for p in packed)
