"""Learning-rate schedules: the rates of Paddle 3.3.1, states that go on where they left, options that are refused."""

import json
from pathlib import Path

import pytest

from polyreme.optimizer import lr
from tests.fixtures.make_schedules import CASES, rates

EXPECTED = json.loads((Path(__file__).parents[1] / "fixtures" / "schedules.json").read_text())


@pytest.fixture(scope="module")
def found():
    return rates(lr)


@pytest.mark.parametrize("case", EXPECTED)
def test_rates_are_those_of_paddle(case, found):
    assert found[case] == pytest.approx(EXPECTED[case], rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_state_goes_on_where_it_left(name):
    options = CASES[name][0]
    first, second = getattr(lr, name)(**options), getattr(lr, name)(**options)
    for _ in range(4):
        first.step()
    second.set_state_dict(first.state_dict())
    assert second() == first()
    first.step()
    second.step()
    assert second() == pytest.approx(first(), rel=1e-14)


def test_a_rate_by_lambda():
    schedule = lr.LambdaDecay(0.5, lambda n: 0.9**n)
    product = lr.MultiplicativeDecay(0.5, lambda n: 0.9)
    for step in range(5):
        assert schedule() == pytest.approx(0.5 * 0.9**step) and product() == pytest.approx(0.5 * 0.9**step)
        schedule.step()
        product.step()


def test_going_to_a_step_directly():
    schedule = lr.StepDecay(0.5, step_size=3, gamma=0.5)
    schedule.step(7)
    assert schedule() == 0.125 and schedule.last_epoch == 7


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ExponentialDecay", {"learning_rate": 0.5, "gamma": 1.5}),
        ("StepDecay", {"learning_rate": 0.5, "step_size": 0}),
        ("MultiStepDecay", {"learning_rate": 0.5, "milestones": [5, 2]}),
        ("PiecewiseDecay", {"boundaries": [3], "values": [0.1]}),
        ("OneCycleLR", {"max_learning_rate": 1.0, "total_steps": 0}),
        ("LinearLR", {"learning_rate": 0.5, "total_steps": 5, "start_factor": 2.0}),
        ("ReduceOnPlateau", {"learning_rate": 0.5, "mode": "up"}),
    ],
)
def test_options_that_make_no_schedule_are_refused(name, options):
    with pytest.raises(ValueError):
        getattr(lr, name)(**options)
