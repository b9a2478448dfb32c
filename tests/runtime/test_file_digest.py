"""Digests of files: remembered while nothing changes, and never longer."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from polyreme.runtime import file_digest
from polyreme.runtime.cache import Cache
from polyreme.runtime.file_digest import PIECE_BYTES, digest_of_files


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that were read since."""
    found: list[str] = []
    read = file_digest._read

    def counted(path: str) -> str:
        found.append(path)
        return read(path)

    monkeypatch.setattr(file_digest, "_read", counted)
    return found


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were some seconds later."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 10)


def test_a_file_is_read_once(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    settle(monkeypatch)
    first = digest_of_files([tmp_path / "a"], Cache(tmp_path / "cache"))
    assert digest_of_files([tmp_path / "a"], Cache(tmp_path / "cache")) == first
    assert len(reads) == 1


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    """It could be changed once more within the same tick of its file system's clock."""
    (tmp_path / "a").write_bytes(b"weights")
    for _ in range(2):
        digest_of_files([tmp_path / "a"], Cache(tmp_path / "cache"))
    assert len(reads) == 2


@pytest.mark.parametrize("way", ["written", "replaced", "with its old time"])
def test_a_change_of_equal_size_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"weights")
    settle(monkeypatch)
    cache = Cache(tmp_path / "cache")
    first, status = digest_of_files([path], cache), path.stat()
    if way == "replaced":
        (tmp_path / "b").write_bytes(b"weighty")
        os.replace(tmp_path / "b", path)
    else:
        time.sleep(0.02)
        path.write_bytes(b"weighty")
    if way == "with its old time":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest_of_files([path], cache) != first


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 5])
def test_every_byte_counts_whatever_the_size(tmp_path: Path, size: int) -> None:
    cache = Cache(None)
    path = tmp_path / "a"
    data = bytearray(os.urandom(size))
    path.write_bytes(data)
    first = digest_of_files([path], cache)
    assert digest_of_files([path], cache) == first
    for at in {0, size // 2, size - 1} if size else ():
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        assert digest_of_files([path], cache) != first
    path.write_bytes(data + b"\0")
    assert digest_of_files([path], cache) != first


def test_the_border_between_files_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"ab")
    (tmp_path / "b").write_bytes(b"c")
    first = digest_of_files([tmp_path / "a", tmp_path / "b"], Cache(None))
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"bc")
    assert digest_of_files([tmp_path / "a", tmp_path / "b"], Cache(None)) != first


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        digest_of_files([tmp_path / "nothing"], Cache(None))
