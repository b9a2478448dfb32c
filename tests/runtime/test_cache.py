"""The cache: what is damaged is absent, what cannot be written is only slower."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from polyreme.runtime import cache as cache_module
from polyreme.runtime.cache import Cache, digest_of


def key(i: int) -> str:
    return digest_of(str(i))


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("??/*"))


def test_what_was_put_is_found_by_another_process(tmp_path: Path) -> None:
    Cache(tmp_path).put(key(1), b"machine code")
    program = f"from polyreme.runtime.cache import Cache; print(Cache({str(tmp_path)!r}).get({key(1)!r}))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "b'machine code'"


def test_an_unknown_key_is_absent(tmp_path: Path) -> None:
    assert Cache(tmp_path).get(key(1)) is None


def test_keys_differ_when_the_border_between_parts_moves() -> None:
    assert digest_of("ab", "c") != digest_of("a", "bc") != digest_of("abc")


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "extend", "rename"])
def test_a_damaged_entry_is_absent_and_removed(tmp_path: Path, damage: str) -> None:
    Cache(tmp_path).put(key(1), bytes(range(200)))
    (path,) = entries(tmp_path)
    data = bytearray(path.read_bytes())
    wanted = key(1)
    if damage == "flip":
        data[100] ^= 4
    elif damage == "rename":
        wanted = key(2)
        (tmp_path / wanted[:2]).mkdir(exist_ok=True)
        path = path.rename(tmp_path / wanted[:2] / wanted)
    path.write_bytes({"truncate": data[:-1], "empty": b"", "extend": data + b"x"}.get(damage, data))
    cache = Cache(tmp_path)
    assert cache.get(wanted) is None
    assert not path.exists()
    cache.put(wanted, b"again")
    assert Cache(tmp_path).get(wanted) == b"again"


def test_every_single_byte_of_an_entry_is_guarded(tmp_path: Path) -> None:
    Cache(tmp_path).put(key(1), b"code")
    (path,) = entries(tmp_path)
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        assert Cache(tmp_path).get(key(1)) is None, f"byte {i} is not guarded"


def test_a_folder_that_cannot_be_made_warns_once_and_the_entry_stays_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    cache = Cache(blocked / "cache")
    with pytest.warns(RuntimeWarning, match="unusable") as caught:
        for i in range(5):
            cache.put(key(i), b"code")
            assert cache.get(key(i)) == b"code"
            assert cache.get(key(100 + i)) is None
    assert len(caught) == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_folder_still_gives_its_entries(tmp_path: Path) -> None:
    Cache(tmp_path).put(key(1), b"code")
    for folder in [*tmp_path.glob("??"), tmp_path]:
        folder.chmod(0o555)
    cache = Cache(tmp_path)
    assert cache.get(key(1)) == b"code"
    with pytest.warns(RuntimeWarning, match="unusable"):
        cache.put(key(2), b"more")


def test_a_full_disk_warns_once_and_leaves_no_part_of_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put(key(1), b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key(2), b"code")
    assert cache.get(key(1)) == b"code"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_the_least_recently_used_entries_go_when_the_limit_is_reached(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=5000)
    now = time.time()
    for i in range(4):
        cache.put(key(i), bytes(1000))
        os.utime(tmp_path / key(i)[:2] / key(i), (now - 100 + i, now - 100 + i))
    Cache(tmp_path, limit=5000).get(key(0))
    cache.put(key(4), bytes(1000))
    fresh = Cache(tmp_path, limit=5000)
    assert fresh.get(key(1)) is None, "the oldest entry is still there"
    assert fresh.get(key(0)) and fresh.get(key(4)), "an entry in use was removed"
    assert sum(p.stat().st_size for p in entries(tmp_path)) <= 5000


def test_left_overs_of_interrupted_writes_are_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(key(1), b"code")
    (path,) = entries(tmp_path)
    old, new = path.parent / ".old.tmp", path.parent / ".new.tmp"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (0, 0))
    Cache(tmp_path).put(key(2), b"code")
    assert not old.exists()
    assert new.exists(), "another process may be writing it"


def test_memory_is_bounded() -> None:
    cache = Cache(None, memory_limit=3000)
    for i in range(10):
        cache.put(key(i), bytes(1000))
    assert [i for i in range(10) if cache.get(key(i)) is not None] == [7, 8, 9]


def test_a_key_that_is_no_digest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a digest"):
        Cache(tmp_path).get("../../etc/passwd")


def test_clear_forgets_everything(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(key(1), b"code")
    cache.clear()
    assert cache.get(key(1)) is None
    assert entries(tmp_path) == []


def test_a_limit_kept_in_the_folder_holds_for_every_process(tmp_path: Path) -> None:
    Cache(tmp_path).keep_limit(3000)
    other = Cache(tmp_path)
    assert other.limit == 3000
    for i in range(20):
        other.put(key(i), bytes(500))
    assert sum(entry.size for entry in other.entries()) <= 3000
    assert Cache(tmp_path).get(key(19)) == bytes(500)
    assert Cache(tmp_path, limit=7000).limit == 7000, "what a process is told goes first"


def test_a_smaller_limit_removes_what_was_not_used_for_longest(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for i in range(4):
        cache.put(key(i), bytes(1000))
        os.utime(cache._path(key(i)), (1000 + i, 1000 + i))
    os.utime(cache._path(key(0)), (5000, 5000))
    cache.keep_limit(2400)
    assert [entry.key for entry in cache.entries()] == [key(0), key(3)]


@pytest.mark.parametrize("text", ["", "much", "-1", "9" * 40, "\xff"])
def test_a_damaged_limit_is_none(tmp_path: Path, text: str) -> None:
    Cache(tmp_path).put(key(1), b"code")
    (tmp_path / "limit").write_text(text, encoding="latin-1")
    assert Cache(tmp_path).limit == Cache(None).limit
    assert Cache(tmp_path).get(key(1)) == b"code"


def test_entries_are_told_with_their_size_and_last_use(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(key(1), b"first")
    cache.put(key(2), b"second")
    os.utime(cache._path(key(1)), (5e9, 5e9))
    first, second = cache.entries()
    assert (first.key, second.key, first.used) == (key(1), key(2), 5e9)
    assert second.size == second.path.stat().st_size and second.part(0, 3) == b"sec"
    assert cache.clear() == (2, first.size + second.size) and not cache.entries()


# --- what is mapped


def test_what_was_kept_is_mapped_where_it_lies(tmp_path: Path) -> None:
    assert Cache(tmp_path).keep(key(1), b"head", memoryview(b"constants"))
    found = Cache(tmp_path).mapped(key(1))
    assert found is not None and bytes(found) == b"headconstants" and found.readonly
    assert Cache(tmp_path).get(key(1)) is None, "it is not read as what has a checksum in front of it"
    assert Cache(tmp_path).mapped(key(2)) is None


def test_what_is_mapped_begins_at_a_cache_line(tmp_path: Path) -> None:
    import numpy as np

    Cache(tmp_path).keep(key(1), bytes(100))
    found = Cache(tmp_path).mapped(key(1))
    assert np.frombuffer(found, np.uint8).ctypes.data % 64 == 0


def test_what_is_mapped_stays_when_the_entry_goes(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.keep(key(1), b"x" * 10_000)
    found = cache.mapped(key(1))
    cache.keep(key(1), b"y" * 10_000)
    cache.clear()
    assert found is not None and bytes(found) == b"x" * 10_000
    assert cache.mapped(key(1)) is None


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:20], lambda data: b"z" + data[1:], lambda data: data[:20] + b"z" + data[21:]]
)
def test_an_entry_with_a_damaged_head_is_not_mapped(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    Cache(tmp_path).keep(key(1), b"constants")
    (path,) = entries(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert Cache(tmp_path).mapped(key(1)) is None
    assert not path.exists()


def test_an_entry_under_another_name_is_not_mapped(tmp_path: Path) -> None:
    Cache(tmp_path).keep(key(1), b"constants")
    (path,) = entries(tmp_path)
    other = tmp_path / key(2)[:2] / key(2)
    other.parent.mkdir(exist_ok=True)
    path.rename(other)
    assert Cache(tmp_path).mapped(key(2)) is None


def test_what_does_not_fit_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1000)
    assert not cache.keep(key(1), bytes(1000))
    assert not Cache(None).keep(key(1), b"small") and Cache(None).mapped(key(1)) is None
    assert cache.keep(key(2), bytes(100)) and cache.mapped(key(2)) is not None


def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=cache_module.SPARE_BYTES + (1 << 20)))
    with pytest.warns(
        RuntimeWarning, match="2 MiB is not kept there: less than that and 1 GiB for others is free on its disk; POLYREME_CACHE"
    ):
        assert not cache.keep(key(1), bytes(2 << 20)) and list(tmp_path.glob("??/*")) == []
    assert cache.keep(key(2), bytes(1000)), "what is small is kept while there is place"


def test_mapped_entries_count_towards_the_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=5000)
    for i in range(5):
        cache.keep(key(i), bytes(2000))
        os.utime(tmp_path / key(i)[:2] / key(i), (time.time() - 100 + i,) * 2)
    assert sum(p.stat().st_size for p in entries(tmp_path)) <= 5000
    assert cache.mapped(key(4)) is not None and cache.mapped(key(0)) is None


def test_of_many_entries_few_are_looked_at(tmp_path, monkeypatch):
    def cache(limit):
        made = Cache(tmp_path, limit)
        monkeypatch.setattr(made, "_entries", lambda: pytest.fail("all entries are looked at"))
        return made

    first = Cache(tmp_path, 1 << 30)
    for i in range(1200):
        first.put(digest_of(str(i)), bytes(100))
    monkeypatch.setattr("polyreme.runtime.cache.FEW", 50)
    whole = sum(size for _, size, _ in first._entries())
    second = cache(1 << 30)
    second.put(digest_of("more"), bytes(100))
    assert 0.5 * whole < second._disk_bytes < 2 * whole
    near = cache(whole)
    with pytest.raises(pytest.fail.Exception, match="all entries"):
        near.put(digest_of("even more"), bytes(100))
