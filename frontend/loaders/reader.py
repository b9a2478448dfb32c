"""Reading bytes from a file that may be anything: every length is checked against what is left before it is used.

`Cursor` walks a piece of a file and knows where it is, so that every error names the file, the offset and the field. `fields` reads one
protobuf message by field numbers; unknown fields are passed over, as protobuf asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn

from polyreme.loaders.errors import LoaderError

__all__ = ["Cursor", "fields", "floats", "message", "number", "numbers"]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Field = tuple[int, "int | Cursor", int]
# Genuine messages nest a handful of levels deep: program, block, variable, type, tensor.
MAX_NESTING = 16


class Cursor:
    """A place in `data[start:end]`; `what` is the field being read, for messages."""

    __slots__ = ("at", "data", "depth", "end", "file", "what")

    def __init__(self, data: memoryview, file: str, start: int = 0, end: int | None = None, what: str = "the file", depth: int = 0):
        self.data, self.file, self.at, self.what, self.depth = data, file, start, what, depth
        self.end = len(data) if end is None else end

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise LoaderError(f"{self.file}: at byte {self.at if at is None else at}, in {self.what}: {message}")

    @property
    def left(self) -> int:
        return self.end - self.at

    def take(self, count: int, what: str = "") -> memoryview:
        """The next bytes."""
        if not 0 <= count <= self.left:
            self.fail(f"expected {count} bytes{' for ' + what if what else ''} but {self.left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def u32(self, what: str) -> int:
        return int(struct.unpack("<I", self.take(4, what))[0])

    def i32(self, what: str) -> int:
        return int(struct.unpack("<i", self.take(4, what))[0])

    def u64(self, what: str) -> int:
        return int(struct.unpack("<Q", self.take(8, what))[0])

    def varint(self) -> int:
        """An unsigned number of at most 64 bits, seven at a time."""
        start, value = self.at, 0
        for shift in range(0, 70, 7):
            if self.at >= self.end:
                self.fail("a number ends too early", start)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value
        return self.fail("expected a number of at most 64 bits", start)

    def inside(self, count: int, what: str) -> Cursor:
        """A cursor over the next `count` bytes, which this one steps over."""
        start = self.at
        self.take(count, what)
        if self.depth >= MAX_NESTING:
            self.fail(f"expected at most {MAX_NESTING} levels of nesting", start)
        return Cursor(self.data, self.file, start, start + count, what, self.depth + 1)

    def text(self) -> str:
        """All that is left, as UTF-8."""
        start = self.at
        try:
            return bytes(self.take(self.left)).decode("utf-8")
        except UnicodeDecodeError:
            self.fail("expected text in UTF-8", start)


def fields(message: Cursor, names: dict[int, str]) -> Iterator[Field]:
    """(number, value, offset) of each field with a number in `names`: an unsigned number for a number, a cursor for bytes; fixed ones as
    cursors too.
    """
    owner = message.what
    while message.left:
        start = message.at
        tag = message.varint()
        number, kind = tag >> 3, tag & 7
        if number == 0:
            message.fail("expected a field number above 0", start)
        what = f"{owner}.{names[number]}" if number in names else f"field {number} of {owner}"
        value: int | Cursor
        if kind == VARINT:
            value = message.varint()
        elif kind == BYTES:
            value = message.inside(message.varint(), what)
        elif kind in (FIXED32, FIXED64):
            value = message.inside(4 if kind == FIXED32 else 8, what)
        else:
            message.fail(f"expected a field of a known kind but got kind {kind}", start)
        if number in names:
            yield number, value, start


def number(value: int | Cursor, owner: Cursor, what: str) -> int:
    """A field's value that must be a number, signed."""
    if isinstance(value, Cursor):
        owner.fail(f"expected a number as {what} but got bytes")
    return value - (1 << 64) if value >= 1 << 63 else value


def numbers(value: int | Cursor, owner: Cursor, what: str) -> list[int]:
    """A repeated number's values, packed or one."""
    if not isinstance(value, Cursor):
        return [number(value, owner, what)]
    found = []
    while value.left:
        found.append(number(value.varint(), value, what))
    return found


def message(value: int | Cursor, owner: Cursor, what: str) -> Cursor:
    """A field's value that must be bytes."""
    if not isinstance(value, Cursor):
        owner.fail(f"expected bytes as {what} but got a number")
    return value


def floats(value: int | Cursor, owner: Cursor, what: str, width: int = 4) -> list[float]:
    """A repeated float's values, packed or one."""
    held = message(value, owner, what)
    if held.left % width:
        held.fail(f"expected floats of {width} bytes but got {held.left} bytes")
    return [v for (v,) in struct.iter_unpack("<f" if width == 4 else "<d", held.take(held.left))]
