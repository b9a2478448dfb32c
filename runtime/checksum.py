"""Checksums of what is too long for a slow function: one CRC-32 per block of some MiB, computed by several threads.

They find damage, as a digest does, but not malice, which a digest without a secret finds no better.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib

BLOCK_BYTES = 4 << 20
# Of so many bytes a thread more is started sooner than they are read.
THREAD_BYTES = 32 << 20


def checksum_bytes(count: int) -> int:
    """How many bytes the checksums of `count` bytes have."""
    return -(-count // BLOCK_BYTES) * 4


def checksums(data: bytes | memoryview) -> bytes:
    """The CRC-32 of each block, the last of which may be shorter, as little-endian numbers one after the other."""
    view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
    blocks = range(0, len(view), BLOCK_BYTES)
    found = [0] * len(blocks)

    def work(first: int, step: int) -> None:
        for i in range(first, len(blocks), step):
            # Without the interpreter lock.
            found[i] = zlib.crc32(view[blocks[i] : blocks[i] + BLOCK_BYTES])

    count = max(1, min(processors(), 4, len(view) // THREAD_BYTES))
    others = [threading.Thread(target=work, args=(i, count)) for i in range(1, count)]
    for thread in others:
        thread.start()
    work(0, count)
    for thread in others:
        thread.join()
    return struct.pack(f"<{len(found)}I", *found)


def processors() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
