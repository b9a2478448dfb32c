"""Checksums of long contents, by blocks and threads."""

from __future__ import annotations

import os
import struct
import zlib

import pytest

from polyreme.runtime import checksum, side_by_side
from polyreme.runtime.checksum import BLOCK_BYTES, checksum_bytes, checksums


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES + 77])
def test_each_block_has_its_crc(size: int) -> None:
    data = os.urandom(size)
    expected = [zlib.crc32(data[i : i + BLOCK_BYTES]) for i in range(0, size, BLOCK_BYTES)]
    assert checksums(data) == checksums(memoryview(data)) == struct.pack(f"<{len(expected)}I", *expected)
    assert checksum_bytes(size) == 4 * len(expected)


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
