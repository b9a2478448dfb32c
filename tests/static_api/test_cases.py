"""Every case of `paddle.static` against what Paddle gave, one test a case."""

from __future__ import annotations

from typing import Any

import pytest

import polyreme
from tests.api.compare import differences
from tests.api.outcome import run_case
from tests.static_api.record import run_under_paddle, stored
from tests.static_api.table import VERSIONS, Case, load

CASES = load()


@pytest.fixture(scope="module")
def kept() -> dict[str, tuple[int, Any]]:
    return stored()


def _compare(case: Case, outcomes: dict[str, tuple[int, Any]]) -> None:
    fingerprint, expected = outcomes.get(case.id, (None, None))
    if fingerprint != case.fingerprint:
        pytest.fail(f"is not recorded as it stands: run `python -m tests.static_api.record {case.subject}`", pytrace=False)
    found = differences(case, run_case(case, polyreme), expected)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_what_paddle_gave(name: str, kept: dict[str, tuple[int, Any]]) -> None:
    _compare(CASES[name], kept)


@pytest.mark.peer
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_kept_is_what_paddle_gives(version: str, kept: dict[str, tuple[int, Any]]) -> None:
    own = [i for i, case in CASES.items() if case.subject == version]
    for i, (fingerprint, outcome) in run_under_paddle(version, own).items():
        assert kept[i][0] == fingerprint
        assert not differences(CASES[i], outcome, kept[i][1]), i
