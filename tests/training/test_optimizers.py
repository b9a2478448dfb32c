"""Every optimizer with its options takes the twenty steps that it takes under Paddle 3.3.1, eagerly and compiled; its state has the same
names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from tests.training.optimizers import CASES, trained
from tests.training.record import recorded

# Of these the default run compiles steps, too.
COMPILED = ("AdamW, some decay", "Momentum, the norm of all is clipped", "NAdam, groups, plain")


@pytest.fixture(scope="module")
def wanted() -> Any:
    return recorded("optimizers.npz")


def compare(name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    # A search along a line stops by comparing losses that hardly differ.
    tolerance = 1e-9 if "float64" in name else 1e-3 if "LBFGS" in name else 1e-4
    for what, values in wanted.items():
        assert found[what].shape == values.shape and found[what].dtype == values.dtype, what
        np.testing.assert_allclose(found[what], values, rtol=tolerance, atol=tolerance / 10 * max(np.abs(values).max(), 1e-6), err_msg=what)


def test_what_was_recorded_is_all(wanted: Any) -> None:
    assert wanted.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps_are_those_of_paddle(name: str, wanted: Any) -> None:
    compare(name, trained(paddle, name), wanted[name])


@pytest.mark.parametrize("name", [name if name in COMPILED else pytest.param(name, marks=pytest.mark.slow) for name in CASES])
def test_twenty_compiled_steps_are_those_of_paddle(name: str, wanted: Any) -> None:
    # LBFGS looks at losses as it goes: it runs in parts.
    compiled = lambda function: paddle.jit.to_static(function, full_graph="LBFGS" not in name)
    compare(name, trained(paddle, name, compiled), wanted[name])
