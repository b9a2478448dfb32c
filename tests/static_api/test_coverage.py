"""The report of `tests/coverage_static.py`: every name is there and tested, or it says why not, and none is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coverage_static import ABSENT, ELSEWHERE, SIGNATURES, UNTESTED, Row, survey

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return survey(run=False)


def test_every_name_is_there(rows: dict[str, Row]) -> None:
    assert {name for name, row in rows.items() if not row.present} == set(ABSENT)


def test_every_name_is_tested_or_there_is_a_reason(rows: dict[str, Row]) -> None:
    assert {name for name, row in rows.items() if row.present and not row.tested} == set(UNTESTED)


def test_names_tested_elsewhere_are_known_and_stand_in_their_files(rows: dict[str, Row]) -> None:
    for name, (file, _) in ELSEWHERE.items():
        assert not rows[name].cases, f"{name} has cases by now: take it off the list"
        assert name.rpartition(".")[2] in (ROOT / file).read_text(encoding="utf-8")


def test_signatures_are_paddles(rows: dict[str, Row]) -> None:
    assert {name: row.signature_fault for name, row in rows.items() if row.signature_fault} == {}
    assert set(SIGNATURES) <= set(rows)
