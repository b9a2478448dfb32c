"""Every case of the dynamic-graph API against what Paddle 3.3.1 gave, one test a name."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import polyreme
from tests.api.compare import differences
from tests.api.differences import ON_PURPOSE
from tests.api.outcome import run_case
from tests.api.peer import python, run_under_paddle
from tests.api.record import stored
from tests.api.table import Case, load

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
        found = differences(case, run_case(case, polyreme), expected)
        if found and case.id not in ON_PURPOSE:
            complaints.append("\n    ".join([case.id, *found]))
        elif not found and case.id in ON_PURPOSE:
            complaints.append(f"{case.id}\n    is listed as different on purpose but agrees")
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_gives_what_paddle_gave(name: str, kept: dict[str, tuple[int, Any]]) -> None:
    _compare(BY_NAME[name], kept)


@pytest.mark.peer
@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_gives_what_paddle_gives(name: str, live: dict[str, tuple[int, Any]]) -> None:
    _compare(BY_NAME[name], live)


def test_every_difference_on_purpose_belongs_to_a_case() -> None:
    assert set(ON_PURPOSE) <= set(CASES)
