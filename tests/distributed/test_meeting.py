"""Ranks that meet in a folder before MPI is up."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from polyreme.distributed.meeting import given_up, meet
from polyreme.runtime.collectives import LostRankError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "meeting"
    made.mkdir()
    monkeypatch.setenv("POLYREME_MEETING", str(made))
    return made


def test_all_that_come_go_on(folder: Path) -> None:
    faults: list[BaseException] = []

    def come(rank: int) -> None:
        try:
            meet(rank, 3, 10)
        except BaseException as error:
            faults.append(error)

    ranks = [threading.Thread(target=come, args=(rank,)) for rank in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert not faults and not given_up(folder)


def test_those_that_do_not_come_are_named_and_the_others_give_up_too(folder: Path) -> None:
    with pytest.raises(LostRankError, match=r"expected ranks 1, 2 of 3 in init_parallel_env within 0.05 s") as caught:
        meet(0, 3, 0.05)
    assert caught.value.ranks == (1, 2) and given_up(folder)
    start = time.monotonic()
    with pytest.raises(LostRankError, match="expected rank 2 of 3"):
        meet(1, 3, 60)
    assert time.monotonic() - start < 5


def test_ranks_do_not_outlive_their_launcher(folder: Path) -> None:
    threading.Timer(0.1, shutil.rmtree, [folder]).start()
    start = time.monotonic()
    with pytest.raises(LostRankError, match="expected rank"):
        meet(0, 2, 60)
    assert time.monotonic() - start < 5


def test_plain_mpiexec_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYREME_MEETING", raising=False)
    meet(0, 2, 0.0)
