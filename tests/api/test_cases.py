"""Every case of the dynamic-graph API against what Paddle 3.3.1 gave, one test a name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import polyreme
from tests.api.compare import differences
from tests.api.differences import ON_PURPOSE, Difference, unexplained
from tests.api.outcome import run_case
from tests.api.peer import python, run_under_paddle
from tests.api.record import stored
from tests.api.table import Case, load

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
CASES = load()
BY_NAME: dict[str, list[Case]] = defaultdict(list)
for case in CASES.values():
    BY_NAME[case.names[0]].append(case)


@pytest.fixture(scope="module")
def kept() -> dict[str, tuple[int, Any]]:
    return stored({c.subject for c in CASES.values()})


@pytest.fixture(scope="module")
def live() -> dict[str, tuple[int, Any]]:
    if python() is None:
        pytest.skip("needs Paddle 3.3.1")
    return run_under_paddle(list(CASES))


def _compare(cases: list[Case], outcomes: dict[str, tuple[int, Any]]) -> None:
    complaints = []
    for case in cases:
        fingerprint, expected = outcomes.get(case.id, (None, None))
        if fingerprint != case.fingerprint:
            complaints.append(f"{case.id}\n    is not recorded as it stands: run `python -m tests.api.record {case.subject}`")
            continue
        found = unexplained(case.id, differences(case, run_case(case, polyreme), expected))
        if found:
            complaints.append("\n    ".join([case.id, *found]))
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_gives_what_paddle_gave(name: str, kept: dict[str, tuple[int, Any]]) -> None:
    _compare(BY_NAME[name], kept)


@pytest.mark.peer
@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_gives_what_paddle_gives(name: str, live: dict[str, tuple[int, Any]]) -> None:
    _compare(BY_NAME[name], live)


@pytest.mark.parametrize("difference", ON_PURPOSE, ids=lambda d: d.case)
def test_what_differs_on_purpose_differs_and_is_told(difference: Difference, kept: dict[str, tuple[int, Any]]) -> None:
    concerned = [c for c in CASES.values() if c.id.startswith(difference.case)]
    assert any(differences(c, run_case(c, polyreme), kept[c.id][1]) for c in concerned), "agrees with Paddle by now: take it off the list"
    assert difference.reason in PAGE.read_text(encoding="utf-8").replace("\n", " "), "is not on docs/differences.md"
