"""Entries that are made where they will lie: found when they are whole, and never before."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from polyreme.runtime.artifact import CONSTANTS_AT, Artifact
from polyreme.runtime.cache import HEAD_BYTES, LARGE_BYTES, SPARE_BYTES, Cache, digest_of
from polyreme.runtime.checksum import BLOCK_BYTES, checksums
from tests.runtime.native import scale_artifact

KEY = digest_of("model")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def drafted(cache: Cache) -> Artifact:
    """An artifact whose constants were written before the rest."""
    whole = scale_artifact()
    draft = cache.draft(CONSTANTS_AT + len(whole.constants))
    assert draft is not None
    draft.write(CONSTANTS_AT + 5, bytes(whole.constants)[5:])
    draft.write(CONSTANTS_AT, bytes(whole.constants)[:5])
    return Artifact(whole.manifest, whole.code, draft.mapped()[CONSTANTS_AT:], draft)


def test_an_entry_that_is_made_in_its_file_is_the_one_that_is_written_at_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "a")
    artifact = drafted(cache)
    assert artifact == scale_artifact()
    assert cache.mapped(KEY) is None and not cache.entries()
    assert artifact.draft is not None and cache.keep_draft(KEY, artifact.draft, artifact.finish)
    other = Cache(tmp_path / "b")
    assert other.keep(KEY, *scale_artifact().parts())
    kept = cache.mapped(KEY)
    assert kept is not None and kept == other.mapped(KEY)
    assert Artifact.from_bytes(kept) == scale_artifact()
    (one,), (two,) = files(tmp_path / "a"), files(tmp_path / "b")
    assert one.stat().st_mode == two.stat().st_mode and [e.size for e in cache.entries()] == [e.size for e in other.entries()]


def test_what_nobody_writes_to_a_draft_is_zeros_to_its_end(tmp_path: Path) -> None:
    draft = Cache(tmp_path).draft(100)
    assert draft is not None
    draft.write(10, b"x")
    assert bytes(draft.mapped()) == bytes(10) + b"x" + bytes(89)


def test_a_draft_that_nobody_keeps_leaves_nothing(tmp_path: Path) -> None:
    draft = Cache(tmp_path).draft(100)
    assert draft is not None and len(files(tmp_path)) == 1
    draft.write(0, bytes(100))
    del draft
    assert not files(tmp_path)


def test_the_constants_of_a_kept_draft_can_still_be_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    artifact = drafted(cache)
    assert artifact.draft is not None
    cache.keep_draft(KEY, artifact.draft, artifact.finish)
    cache.clear()
    assert bytes(artifact.constants) == bytes(scale_artifact().constants)


def test_a_disk_that_is_full_at_the_end_takes_nothing_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    artifact = drafted(cache)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert artifact.draft is not None
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert not cache.keep_draft(KEY, artifact.draft, artifact.finish)
    assert not files(tmp_path) and bytes(artifact.constants) == bytes(scale_artifact().constants)


def test_an_entry_that_turns_out_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    whole = scale_artifact()
    size = HEAD_BYTES + len(whole.to_bytes())
    for limit, kept in ((size - 1, False), (size, True)):
        cache = Cache(tmp_path, limit=limit)
        artifact = drafted(cache)
        assert artifact.draft is not None and cache.keep_draft(KEY, artifact.draft, artifact.finish) is kept
        assert len(files(tmp_path)) == kept and artifact == whole


def test_there_is_no_draft_without_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Cache(None).draft(10) is None
    assert Cache(tmp_path, limit=1000).draft(1000) is None
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="unusable"):
        assert Cache(tmp_path / "file" / "cache").draft(10) is None
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 1 << 40, SPARE_BYTES + LARGE_BYTES))
    assert Cache(tmp_path).draft(LARGE_BYTES + 1) is None and Cache(tmp_path).draft(10) is not None


@pytest.mark.parametrize("count", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 77])
def test_checksums_of_some_at_a_time_are_those_of_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("polyreme.runtime.draft.CHECKED_BYTES", BLOCK_BYTES)
    data = np.random.default_rng(count).bytes(count)
    draft = Cache(tmp_path).draft(100 + count)
    assert draft is not None
    draft.write(100, data)
    assert draft.checksums(100, count) == checksums(data)
