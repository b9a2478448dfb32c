"""Programs that train give what they gave under Paddle 3.3.1: eagerly, and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.ir.diagnostics import PolyremeError
from tests.training.programs import PROGRAMS
from tests.training.record import recorded, run

# Of these the default run compiles steps, too.
COMPILED = ("the_rate_of_a_schedule_is_logged", "gradients_are_gathered_over_four_steps", "groups_of_parameters_and_one_more_later")
# Whose calls are no single programs: with `full_graph=True` they are refused, by line.
IN_PARTS = {
    "the_rate_of_a_schedule_is_logged",
    "the_rate_is_an_input_of_the_net",
    "a_trainer_that_counts_and_prints",
    "losses_are_kept_as_numbers",
    "gradients_are_gathered_over_four_steps",
    "losses_that_are_not_finite_are_left_out",
    "keys_of_a_queue_and_an_encoder_that_follows",
    "images_are_made_harder_by_their_gradients",
    "rows_are_mixed_by_numbers_of_numpy",
    "hooks_see_and_change_gradients",
    "hooks_come_and_go_between_steps",
    "a_metric_and_a_mean_within_the_step",
}


@pytest.fixture(scope="module")
def wanted() -> Any:
    return recorded("programs.npz")


@pytest.fixture(autouse=True)
def _of_mixed_precision_nothing_is_said() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*can only be enabled on CUDAPlace")
        yield


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].shape == values.shape, name
        np.testing.assert_allclose(found[name].astype(float), values.astype(float), rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_trains_as_under_paddle(name: str, wanted: Any) -> None:
    compare(run(paddle, PROGRAMS[name]), wanted[name])


@pytest.mark.parametrize("name", [name if name in COMPILED else pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS])
def test_a_program_with_compiled_steps_trains_as_under_paddle(name: str, wanted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    compare(run(paddle, PROGRAMS[name], paddle.jit.to_static), wanted[name])
    shown = capsys.readouterr().out
    run(paddle, PROGRAMS[name])
    assert shown == capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_whole_steps_trains_as_under_paddle_or_is_refused(name: str, wanted: Any) -> None:
    compiled = lambda function: paddle.jit.to_static(function, full_graph=True)
    if name in IN_PARTS:
        with pytest.raises(PolyremeError, match=r"programs.\w+\.py:\d+"):
            run(paddle, PROGRAMS[name], compiled)
    else:
        compare(run(paddle, PROGRAMS[name], compiled), wanted[name])
