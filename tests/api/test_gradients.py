"""Gradients of every case that has some agree with differences in float64, and those of compiled programs with eager ones."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

import polyreme as paddle
from tests.api.gradients import ON_PURPOSE, by_a_program, by_differences, by_name
from tests.api.table import load

CASES = by_name()
# Of these names the default run compiles a case.
COMPILED = ("paddle.matmul", "paddle.nn.functional.conv2d", "paddle.nn.functional.layer_norm", "paddle.put_along_axis")


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_that_differences_show(name: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        faults = [fault for case in CASES[name] for fault in by_differences(case, Counter())]
    assert not faults, "\n".join(faults)


def test_gradients_that_are_others_on_purpose_are_so() -> None:
    count: Counter[str] = Counter()
    for start in ON_PURPOSE:
        for case in (case for cases in CASES.values() for case in cases if case.id.startswith(start)):
            before = count["inputs whose gradients are others on purpose"]
            assert not by_differences(case, count)
            if count["inputs whose gradients are others on purpose"] > before:
                break
        else:
            pytest.fail(f"no gradient of a case that begins with {start!r} is another one: take it off the list")


@pytest.mark.parametrize("name", [name if name in COMPILED else pytest.param(name, marks=pytest.mark.slow) for name in CASES])
def test_gradients_of_a_program_are_those_of_eager_mode(name: str) -> None:
    cases = CASES[name][:1] if name in COMPILED else CASES[name]
    with warnings.catch_warnings(action="ignore"):
        faults = [fault for case in cases for fault in by_a_program(case, Counter())]
    assert not faults, "\n".join(faults)


def test_a_gradient_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in load().values() if case.id.startswith("paddle.tanh(f32[3,5])"))
    right = paddle.grad

    def wrong(outputs, inputs, *args, **kwargs):
        return [g * 1.001 for g in right(outputs, inputs, *args, **kwargs)]

    monkeypatch.setattr(paddle, "grad", wrong)
    assert by_differences(case, Counter())
