"""Every name is covered in every aspect, or the report says why not; and what it says holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.compare import cannot_say
from tests.api.outcome import Failure, Leaf
from tests.api.reasons import ASPECTS, KINDS, NOTHING_FLOWS, OPTIONS, REASONS, REFUSED, Reason, asked
from tests.api.record import stored
from tests.api.table import load
from tests.coverage_api import Row, add_traits, rows_of_names, survey


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[int, Any]]:
    return stored({c.subject for c in load().values()})


@pytest.fixture(scope="module")
def rows(outcomes: dict[str, tuple[int, Any]]) -> dict[str, Row]:
    found = rows_of_names()
    add_traits(found, outcomes)
    return found


@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_name_is_covered_or_there_is_a_reason(aspect: str, rows: dict[str, Row]) -> None:
    assert [n for n, row in rows.items() if asked(aspect, n) and not row.covers(aspect)] == []


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{', '.join(reason.aspects)} since {reason.text}")
def test_a_reason_is_none_where_cases_cover_the_aspect(reason: Reason, rows: dict[str, Row]) -> None:
    aspects = [aspect for aspect in ASPECTS if aspect in reason.aspects]
    assert [(n, a) for n in reason.each() for a in aspects if rows[n].covers(a)] == [], "covered by now: take them off the list"
    if "shapes" in reason.aspects:
        assert [n for n in reason.each() if all(rows[n].covers(kind) for kind in KINDS if kind != "broadcast")] == []


def test_what_paddle_is_said_to_refuse_it_refuses(outcomes: dict[str, tuple[int, Any]]) -> None:
    refusing = {
        (name, kind)
        for i, case in load().items()
        if case.raises and isinstance(outcomes[i][1], Failure)
        for name in case.names
        for kind in case.traits
    }
    assert {(name, kind) for reason in REFUSED for name in reason.each() for kind in reason.aspects} <= refusing


def test_a_name_has_one_reason_and_is_known(rows: dict[str, Row]) -> None:
    names = [name for reason in NOTHING_FLOWS for name in reason.each()]
    assert len(names) == len(set(names)) and set(names) <= rows.keys()


def test_where_nothing_is_said_to_flow_paddle_gives_no_gradient(outcomes: dict[str, tuple[int, Any]]) -> None:
    silent = {name for reason in NOTHING_FLOWS for name in reason.each()}
    faults = []
    for i, case in load().items():
        expected = outcomes[i][1]
        if case.single and case.names[0] in silent and "gradient" in case.traits and not cannot_say(expected):
            needing = [leaf for leaf in _leaves(expected["result"]) if "float" in leaf.dtype and leaf.stop_gradient is False]
            faults += [i] if needing or any(True for _ in _leaves(expected["grad"])) else []
    assert not faults


def _leaves(value: Any) -> Iterator[Leaf]:
    if isinstance(value, Leaf):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)


@pytest.mark.slow
def test_a_case_gives_every_option_another_value_than_its_default() -> None:
    rows = survey()
    assert {row.name: row.options - row.given for row in rows if row.options - row.given} == {}
    assert not OPTIONS.keys() & {option for row in rows for option in row.options}
