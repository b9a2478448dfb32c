"""Checksums of what is too long for a slow function: one CRC-32 per block of some MiB, computed by several threads.

They find damage, as a digest does, but not malice, which a digest without a secret finds no better.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from polyreme.runtime.side_by_side import side_by_side

BLOCK_BYTES = 4 << 20
# Of so many bytes a thread more is started sooner than they are read.
THREAD_BYTES = 32 << 20


def checksum_bytes(count: int) -> int:
    """How many bytes the checksums of `count` bytes have."""
    return -(-count // BLOCK_BYTES) * 4


def checksums(*parts: bytes | memoryview) -> bytes:
    """The CRC-32 of each block of the parts, one after the other; the last one may be shorter. Little-endian numbers, in their order."""
    blocks = _blocks([memoryview(part).cast("B") for part in parts if len(part)])
    found = [0] * len(blocks)

    def work(first: int, step: int) -> None:
        for i in range(first, len(blocks), step):
            for piece in blocks[i]:
                # Without the interpreter lock.
                found[i] = zlib.crc32(piece, found[i])

    side_by_side(work, sum(map(len, parts)) // THREAD_BYTES)
    return struct.pack(f"<{len(found)}I", *found)


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
