"""Checksums of what is too long for a slow function: one per block of some MiB, computed by several threads.

They find damage, as a digest does, but not malice, which a digest without a secret finds no better. A block is a matrix of 64-bit words
here, and its checksum the CRC-32 of the sums of its columns and of its rows: numpy adds words about as fast as memory gives them, unlike
a CRC of all bytes. What is changed in a way that no sum shows differs in two rows and two columns at least,
in words that make up for each other exactly.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import chain

import numpy as np

from polyreme.runtime.files import in_parts
from polyreme.runtime.side_by_side import side_by_side

BLOCK_BYTES = 4 << 20
# Of so many bytes a thread more is started sooner than they are read.
THREAD_BYTES = 32 << 20
# Words of a row, and rows that are still in the cache when they are added up the other way.
ROW_WORDS, NEAR_ROWS = 1024, 64


def checksum_bytes(count: int) -> int:
    """How many bytes the checksums of `count` bytes have."""
    return -(-count // BLOCK_BYTES) * 4


def checksums(*parts: bytes | memoryview) -> bytes:
    """The checksum of each block of the parts, one after the other; the last one may be shorter. Little-endian numbers, in their order."""
    blocks = _blocks([memoryview(part).cast("B") for part in parts if len(part)])
    found = [0] * len(blocks)

    def work(first: int, step: int) -> None:
        for i in range(first, len(blocks), step):
            found[i] = _checksum(blocks[i][0] if len(blocks[i]) == 1 else b"".join(blocks[i]))

    side_by_side(work, sum(map(len, parts)) // THREAD_BYTES)
    return struct.pack(f"<{len(found)}I", *found)


def _checksum(block: bytes | memoryview) -> int:
    """Of what a whole row lacks, all bytes count. Nearly all of it is done without the interpreter lock."""
    count = len(block) // (8 * ROW_WORDS)
    words = np.frombuffer(block, "<u8", count * ROW_WORDS).reshape(count, ROW_WORDS)
    columns, rows = np.zeros(ROW_WORDS, "<u8"), np.empty(count, "<u8")
    for i in range(0, count, NEAR_ROWS):
        near = words[i : i + NEAR_ROWS]
        columns += np.add.reduce(near, axis=0)
        np.add.reduce(near, axis=1, out=rows[i : i + NEAR_ROWS])
    return zlib.crc32(block[8 * words.size :], zlib.crc32(rows.data, zlib.crc32(columns.data)))


def checksums_of(parts: Sequence[memoryview]) -> list[int]:
    """The CRC-32 of each part as a whole."""
    found = [0] * len(parts)
    # So that each thread has long ones and short ones.
    order = sorted(range(len(parts)), key=lambda i: -len(parts[i]))

    def work(first: int, step: int) -> None:
        for i in order[first::step]:
            found[i] = zlib.crc32(parts[i])

    side_by_side(work, sum(map(len, parts)) // THREAD_BYTES)
    return found


def _blocks(views: Sequence[memoryview]) -> list[list[memoryview]]:
    """What lies in each block: pieces of the views."""
    blocks: list[list[memoryview]] = []
    left = 0  # of the block begun last
    for view in views:
        start = 0
        while start < len(view):
            if not left:
                blocks.append([])
                left = BLOCK_BYTES
            piece = view[start : start + left]
            blocks[-1].append(piece)
            start += len(piece)
            left -= len(piece)
    return blocks


# What `capi_check.ll` does as well: words of 64 bits in rows of so many, and the odd factor that spreads them.
SUM_LANES = 1024
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ROW_BYTES = 8 * SUM_LANES
# Rows of a part that is looked at before its pages may go.
_ROWS_AT_ONCE = 1 << 11


def weights_sum(data: bytes | memoryview) -> int:
    """A checksum of 64 bits that a library can work out without tables: each lane of a row is mixed into what stands there, then all lanes
    into one number. A word that has changed, whichever, always changes it.
    """
    view = memoryview(data).cast("B")
    end = len(view) // _ROW_BYTES * _ROW_BYTES
    last = np.zeros(SUM_LANES, "<u8")
    last.view(np.uint8)[: len(view) - end] = view[end:]
    lanes, high = np.zeros(SUM_LANES, "<u8"), np.empty(SUM_LANES, "<u8")
    for part in chain(in_parts(view[:end], _ROWS_AT_ONCE * _ROW_BYTES), [last.data.cast("B")]):
        for row in np.frombuffer(part, "<u8").reshape(-1, SUM_LANES):
            lanes ^= row
            lanes *= _SPREAD
            np.right_shift(lanes, 32, out=high)
            lanes ^= high
    total = len(view)
    for lane in lanes.tolist():
        total = ((total ^ lane) * int(_SPREAD)) % (1 << 64)
        total ^= total >> 32
    return total
