"""Memory for arenas and constants."""

from __future__ import annotations

import mmap
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from polyreme.runtime.memory import LARGE_PAGE, LARGE_PAGES_FROM, NEAR_BYTES, address_of, aligned_empty
from polyreme.runtime.shared_code import constants_of
from tests.runtime.native import fixed_artifact

on_linux = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="needs pages of several sizes")


@pytest.mark.parametrize("count", [0, 1, 4096, LARGE_PAGES_FROM - 1, LARGE_PAGES_FROM, 3 << 20])
def test_memory_is_aligned_as_asked_and_can_be_written(count: int) -> None:
    memory = aligned_empty(count, 128)
    assert memory.nbytes == count and memory.flags.writeable and memory.dtype == np.uint8
    if count:
        assert address_of(memory) % 128 == 0
        memory[:] = 7
        assert int(memory.sum()) == 7 * count


@on_linux
@pytest.mark.parametrize("count", [LARGE_PAGES_FROM, LARGE_PAGE - 1, LARGE_PAGE, LARGE_PAGE + 1])
def test_large_memory_is_a_number_of_whole_large_pages(count: int) -> None:
    memory = aligned_empty(count)
    mapped = memory.base
    assert isinstance(mapped, np.ndarray) and address_of(memory) % LARGE_PAGE == 0
    assert address_of(mapped) + mapped.nbytes >= address_of(memory) + -(-count // LARGE_PAGE) * LARGE_PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
def test_large_memory_is_not_shared_with_a_forked_process() -> None:
    memory = aligned_empty(LARGE_PAGES_FROM)
    memory[:] = 1
    child = os.fork()
    if not child:
        memory[:] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert int(memory[0]) == 1


@on_linux
def test_constants_that_caches_can_hold_are_copied_to_large_pages_and_others_stay() -> None:
    for count, moves in ((LARGE_PAGES_FROM // 2, False), (LARGE_PAGES_FROM, True), (NEAR_BYTES + 64, False)):
        given = np.arange(count + 128, dtype=np.uint8)
        given = given[-given.ctypes.data % 64 :][:count]
        made = constants_of(replace(fixed_artifact(), pieces=memoryview(given)))
        assert np.array_equal(made, given) and (address_of(made) != given.ctypes.data) == moves


def test_more_memory_than_there_is_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        aligned_empty(1 << 50)
