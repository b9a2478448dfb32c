"""Every case of `paddle.fluid` against what 1.8.5 gave, and the report of `tests/coverage_fluid.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyreme.fluid as fluid
from polyreme.fluid.layers import labelling, regions, sequence_lod
from tests.coverage_fluid import NEVER, OUT_OF_SCOPE, TOLD, reason, survey
from tests.fluid.test_empty_sequences import REFUSED
from tests.fluid_api.record import run_under_paddle, stored
from tests.fluid_api.table import differences, load

ROOT = Path(__file__).parents[2]
CASES = load()
# Of these, which compile many programs each, only some run by default.
LONGER = {
    "alignments", "book", "clicks", "decoding", "detection", "distributions", "early", "empty", "features", "index", "kinds", "labelling",
    "layers", "levels", "places", "region_targets", "regions", "searches", "shapes", "slopes", "tables",
    "windows",
}  # fmt: skip
QUICK = {
    "adam_of_tables",
    "adam_of_tables_in_dygraph_mode",
    "alignments_cost",
    "anchors_are_drawn",
    "arrays_grow_by_fewer_rows",
    "boxes_are_matched",
    "clips_of_tables_in_dygraph_mode",
    "comparisons_take_their_last_arguments_in_order",
    "free_sizes_are_less_than_nothing",
    "kinds_of_variables",
    "levels_go_through_branches",
    "loops_by_functions_know_some_sizes_only_when_they_run",
    "other_optimizers_of_tables_in_dygraph_mode",
    "places_are_waves",
    "rates_fall",
    "rows_of_more_tables",
    "results_that_keep_levels_and_those_that_do_not",
    "recurrent_layers_over_sequences_without_rows",
    "sequences_are_expanded",
    "sequences_get_other_levels",
    "sequences_without_rows",
    "tables_under_declarative",
    "the_first_of_equal_rows_learns",
    "ways_through_labels_cost",
    "words_are_hashed",
}


def _marked(name: str) -> Any:
    function = CASES[name].function
    longer = function.__module__.rpartition("cases_")[2] in LONGER and function.__name__ not in QUICK
    return pytest.param(name, marks=pytest.mark.slow if longer else ())


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return stored()


@pytest.mark.parametrize("name", [_marked(name) for name in CASES])
def test_a_program_of_the_fluid_time_gives_what_paddle_gave(name: str, kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")  # and set back behind the case
    case = CASES[name]
    fingerprint, expected = (case.fingerprint, None) if case.older else kept.get(name, (None, None))
    assert fingerprint == case.fingerprint, "is not recorded as it stands: run `python -m tests.fluid_api.record`"
    found = differences(case.run(fluid, np), expected)
    assert not found, "\n".join(found)


@pytest.mark.peer
def test_what_is_kept_is_what_paddle_gives(kept: dict[str, Any]) -> None:
    for i, (fingerprint, outcome) in run_under_paddle().items():
        assert kept[i][0] == fingerprint and not differences(outcome, kept[i][1]), i


def test_functions_of_sequences_have_cases_of_some_without_rows() -> None:
    named = {name.rpartition(".")[2] for case in CASES.values() if case.function.__module__.endswith("cases_empty") for name in case.names}
    of_images = {"deformable_conv", "im2sequence"}
    asked = {*sequence_lod.__all__, *labelling.__all__, *regions.__all__} - of_images
    assert asked - named == {name for name in REFUSED if name in asked}


@pytest.mark.slow
def test_names_of_sequences_go_over_sequences_of_all_kinds() -> None:
    rows = survey()
    assert {row.name: row.lacking for row in rows.values() if row.lacking} == {}
    assert {row.name: row.wrong for row in rows.values() if row.wrong} == {}
    assert all(rows["paddle.fluid.layers." + name].kinds.of_sequences for name in NEVER)


def test_a_name_that_is_not_there_has_a_reason() -> None:
    rows = survey(run=False)
    assert [row.name for row in rows.values() if not row.present and not reason(OUT_OF_SCOPE, row.name)] == []
    for name, file in TOLD.items():
        assert name.rpartition(".")[2] in (ROOT / file).read_text(encoding="utf-8")
