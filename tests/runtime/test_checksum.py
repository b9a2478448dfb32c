"""Checksums of long contents, by blocks and threads."""

from __future__ import annotations

import os
import random
import struct
import zlib

import pytest

from polyreme.runtime import checksum, side_by_side
from polyreme.runtime.checksum import BLOCK_BYTES, ROW_WORDS, checksum_bytes, checksums

ROW_BYTES = 8 * ROW_WORDS


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES + 77])
def test_each_block_has_its_own(size: int) -> None:
    data = os.urandom(size)
    expected = b"".join(checksums(data[i : i + BLOCK_BYTES]) for i in range(0, size, BLOCK_BYTES))
    assert checksums(data) == checksums(memoryview(data)) == expected
    assert checksum_bytes(size) == len(expected)


def test_a_checksum_is_of_the_sums_of_rows_and_columns_and_of_the_bytes_behind_them() -> None:
    data = os.urandom(3 * ROW_BYTES + 13)
    words = struct.unpack(f"<{3 * ROW_WORDS}Q", data[: 3 * ROW_BYTES])
    sums = [sum(words[i::ROW_WORDS]) for i in range(ROW_WORDS)] + [sum(words[i : i + ROW_WORDS]) for i in range(0, len(words), ROW_WORDS)]
    assert checksums(data) == struct.pack(
        "<I", zlib.crc32(struct.pack(f"<{len(sums)}Q", *(x % 2**64 for x in sums)) + data[3 * ROW_BYTES :])
    )


def test_damage_shows() -> None:
    """What goes wrong on disks and in memory: bits that flip, alone and in the same place of two words, and sectors that are lost, stale or
    in each other's place.
    """
    data = os.urandom(40 * ROW_BYTES + 999)
    found = checksums(data)
    rng = random.Random(0)
    for _ in range(200):
        bit = 1 << rng.randrange(8)
        changed = bytearray(data)
        for place in rng.sample(range(0, len(data), 8), 2):
            changed[place] ^= bit
            assert checksums(bytes(changed)) != found
    for size in (8, 512, 4096, ROW_BYTES):
        for _ in range(20):
            a, b = (slice(size * i, size * i + size) for i in rng.sample(range(len(data) // size), 2))
            for one, other in ((bytes(size), data[b]), (data[b], data[b]), (data[b], data[a])):
                changed = bytearray(data)
                changed[a], changed[b] = one, other
                assert checksums(bytes(changed)) != found


def test_any_number_of_threads_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = os.urandom(5 * BLOCK_BYTES + 3)
    alone = checksums(data)
    monkeypatch.setattr(checksum, "THREAD_BYTES", BLOCK_BYTES)
    for count in (1, 2, 3, 16):
        monkeypatch.setattr(side_by_side, "processors", lambda count=count: count)
        assert checksums(data) == alone


def test_threads_are_no_more_than_the_work_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "processors", lambda: 3)
    for worth, count in ((0, 1), (1, 1), (2, 2), (9, 3)):
        began: list[tuple[int, int]] = []
        side_by_side.side_by_side(lambda i, n, began=began: began.append((i, n)), worth)
        assert sorted(began) == [(i, count) for i in range(count)]


def test_where_parts_end_makes_no_difference() -> None:
    data = os.urandom(2 * BLOCK_BYTES + 1000)
    whole = checksums(data)
    for cuts in ([], [1], [BLOCK_BYTES], [BLOCK_BYTES - 1, BLOCK_BYTES + 1], [0, 5, 5, 2 * BLOCK_BYTES + 999]):
        ends = [0, *cuts, len(data)]
        assert checksums(*(memoryview(data)[a:b] for a, b in zip(ends, ends[1:], strict=False))) == whole
    assert checksums(data, b"") == whole and checksums(data[:-1], b"\0") != whole or data[-1] == 0
