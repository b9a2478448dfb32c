"""Files of events as TensorBoard and VisualDL's readers of them take: scalars by tag and step.

A file is a row of records: the length (8 bytes), a checksum of it, the data, a checksum of that. The data is a protocol buffer `Event`.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Any

from polyreme.utils.shown import Shown

__all__ = ["EventWriter"]


class EventWriter(Shown):
    """Writes scalars to a new file in `folder`, which is made when missing. `close` ends it; what was flushed is there before, too."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = os.fspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        began = time.time()
        # The number keeps files of one second and process apart.
        number = sum(name.startswith("events.out.tfevents.") for name in os.listdir(self.folder))
        self.path = os.path.join(self.folder, f"events.out.tfevents.{int(began):010d}.{socket.gethostname()}.{os.getpid()}.{number}")
        self._file: Any = open(self.path, "xb")
        self._write(_double(1, began) + _bytes(3, b"brain.Event:2"))
        self.flush()

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Note that `tag` was `value`, which is kept as float32, at a step of at least 0."""
        scalar = _bytes(1, tag.encode()) + _float(2, value)
        self._write(_double(1, time.time()) + _integer(2, step) + _bytes(5, _bytes(1, scalar)))

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()

    def close(self) -> None:
        """Write the rest and end the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        self._file.write(length + _checksum(length) + event + _checksum(event))


# --- protocol buffers: fields by their number and kind


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _float(number: int, value: float) -> bytes:
    return _varint(number << 3 | 5) + struct.pack("<f", value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


# --- checksums: CRC-32C, turned and moved by a number so that checksums of checksums are safe


def _table() -> list[int]:
    made = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        made.append(byte)
    return made


_TABLE = _table()


def _checksum(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
