"""Large data is looked through some at a time; of a mapped file no more than that is in memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from polyreme.runtime.checksum import SUM_LANES, weights_sum
from polyreme.runtime.files import PART_BYTES, in_parts, write_atomically
from polyreme.runtime.library import weights_header
from tests.ir.test_mapped import file_bytes_in_memory


def file_of(path: Path, count: int) -> memoryview:
    path.write_bytes(np.random.default_rng(1).bytes(count))
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 20])
def test_parts_are_the_whole(count: int) -> None:
    data = bytes(range(count))
    parts = list(in_parts(data, 8))
    assert b"".join(parts) == data
    assert [len(part) for part in parts[:-1]] == [8] * (len(parts) - 1)


@pytest.mark.parametrize("count", [0, 5, 8 * SUM_LANES, 3 * (8 * SUM_LANES << 11) + 8 * SUM_LANES + 3])
def test_sums_and_headers_of_a_mapped_file_are_those_of_its_bytes(tmp_path: Path, count: int) -> None:
    mapped = file_of(tmp_path / "weights", count + 64)[64:]
    assert weights_sum(mapped) == weights_sum(bytes(mapped))
    assert weights_header(mapped) == weights_header(bytes(mapped))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what is in memory")
def test_a_mapped_file_is_summed_copied_and_told_apart_without_being_in_memory(tmp_path: Path) -> None:
    mapped = file_of(tmp_path / "weights", 3 * PART_BYTES)
    before, most = file_bytes_in_memory(), 0
    for part in in_parts(mapped):
        np.frombuffer(part, np.uint8).max()
        most = max(most, file_bytes_in_memory() - before)
    assert PART_BYTES // 2 < most < 2 * PART_BYTES
    for look in (weights_sum, weights_header, lambda data: write_atomically(tmp_path / "copy", data)):
        look(mapped)
        assert file_bytes_in_memory() - before < PART_BYTES // 2
    assert (tmp_path / "copy").read_bytes() == mapped
