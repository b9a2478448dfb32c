"""`polyreme cache`: what is kept is shown, limited, cleared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyreme.cli import run_command
from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError
from polyreme.runtime.cache import Cache, digest_of
from tests.runtime.native import scale_artifact


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv("POLYREME_CACHE_LIMIT", raising=False)
    return tmp_path / "kept"


def fill(folder: Path) -> None:
    cache = Cache(folder)
    cache.put(digest_of("model"), scale_artifact().to_bytes())
    cache.put(digest_of("object"), b"\x7fELF and so on")
    cache.put(digest_of("odd"), b"something else")


def test_the_entries_are_shown_by_kind_and_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    assert run_command(["cache"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{folder}: 3 entries of ") and "at most 4.29 GB" in text
    assert f"model {scale_artifact().name}\n" in text
    assert all(f"  {kind:8}     1 " in text for kind in ("model", "kernel", "unknown"))


def test_json_tells_all_of_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    assert run_command(["cache", "show", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["limit"] == 4 << 30 and told["bytes"] == sum(e["bytes"] for e in told["entries"])
    assert sorted(e["kind"] for e in told["entries"]) == ["kernel", "model", "unknown"]


def test_only_those_used_last_are_listed_unless_all_are_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(15):
        Cache(folder).put(digest_of(str(i)), b"x")
    assert run_command(["cache"]) == 0 and "and 5 used before" in capsys.readouterr().out
    assert run_command(["cache", "show", "--all"]) == 0 and "used before" not in capsys.readouterr().out


def test_a_limit_is_kept_and_holds_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(10):
        Cache(folder).put(digest_of(str(i)), bytes(1000))
    assert run_command(["cache", "limit", "5kB"]) == 0
    assert capsys.readouterr().out == f"{folder} holds at most 5 kB\n"
    assert len(Cache(folder).entries()) == 4
    assert run_command(["cache"]) == 0 and "at most 5 kB" in capsys.readouterr().out


def test_clearing_leaves_nothing_but_the_limit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    Cache(folder).keep_limit(1 << 20)
    assert run_command(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 3 entries of ")
    assert not Cache(folder).entries() and Cache(folder).limit == 1 << 20


def test_damaged_entries_are_shown_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    for entry in Cache(folder).entries():
        entry.path.write_bytes(entry.path.read_bytes()[:100])
    assert run_command(["cache"]) == 0
    assert "3 entries" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["limit"], 2, "expected a size, such as 500MB, after 'limit'"),
        (["clear", "5"], 2, "and after nothing else"),
        (["limit", "much"], 1, "expected the limit to be a number of bytes, such as 500MB or 2GiB, but got 'much'"),
        (["wipe"], 2, "wipe"),
    ],
)
def test_mistakes_are_told(folder: Path, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["cache", *arguments]) == code
    assert message in capsys.readouterr().err


def test_without_a_cache_there_is_nothing_to_show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("POLYREME_CACHE", "off")
    assert run_command(["cache"]) == 1
    assert "POLYREME_CACHE says 'off'" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("4096", 4096), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("2kb", 2000)])
def test_sizes_are_read_as_people_write_them(text: str, count: int) -> None:
    assert config.parse_bytes(text, "it") == count


def test_the_limit_from_the_environment_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYREME_CACHE_LIMIT", "2MB")
    assert config.cache_limit() == 2_000_000
    monkeypatch.setenv("POLYREME_CACHE_LIMIT", "a lot")
    with pytest.raises(PolyremeError, match="expected POLYREME_CACHE_LIMIT to be a number of bytes"):
        config.cache_limit()
