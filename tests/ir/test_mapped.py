"""Pages of mapped files go out of memory when they are not needed for a while, and nothing else does."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from polyreme.ir.attributes import Dense
from polyreme.ir.mapped import let_go
from polyreme.runtime.memory import LARGE_PAGES_FROM, aligned_empty


def file_bytes_in_memory() -> int:
    status = Path("/proc/self/status").read_text()
    # A file of a folder that is in memory itself counts as shared memory.
    return sum(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(("RssFile", "RssShmem")))


def mapped(path: Path, **how: int) -> np.ndarray:
    path.write_bytes(np.arange(2 << 20, dtype=np.float32).tobytes())
    with open(path, "r+b") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, **how))
    return np.frombuffer(view[4096:], np.float32).reshape(-1, 1024)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what is in memory")
def test_pages_of_a_file_go_and_come_back(tmp_path: Path) -> None:
    array = mapped(tmp_path / "weights", prot=mmap.PROT_READ)
    total = array.sum(dtype=np.float64)
    before = file_bytes_in_memory()
    let_go(array[1:])
    assert file_bytes_in_memory() < before - (6 << 20)
    assert array.sum(dtype=np.float64) == total


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what is in memory")
def test_constants_are_told_apart_by_few_pages_of_their_file(tmp_path: Path) -> None:
    constant = Dense(mapped(tmp_path / "weights", prot=mmap.PROT_READ))
    other = np.arange(2 << 20, dtype=np.float32)[1024:].reshape(-1, 1024)
    before = file_bytes_in_memory()
    assert hash(constant) == hash(Dense(other))
    assert file_bytes_in_memory() < before + (5 << 20)
    other[0, 0] += 1
    assert constant != Dense(other), "all elements are compared where those that are looked at first are equal"


def test_what_may_have_been_written_stays(tmp_path: Path) -> None:
    copied = mapped(tmp_path / "weights", access=mmap.ACCESS_COPY)
    large = aligned_empty(2 * LARGE_PAGES_FROM)
    plain = np.empty(1000, np.uint8)
    for array in (copied, large, plain):
        array[...] = 7
        let_go(array)
        assert (array == 7).all()
