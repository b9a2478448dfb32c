"""Random modules are valid, run, and survive printing, cloning and generic form."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from tests.strategies import LEVELS as ALL_LEVELS
from tests.strategies import modules

LEVELS = pytest.mark.parametrize("level", ALL_LEVELS)
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def assert_identical(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


@LEVELS
@SETTINGS
@given(st.data())
def test_a_random_module_is_valid_and_computes_finite_numbers(level, data):
    sample = data.draw(modules(level))
    verify(sample.module)
    assert all(np.isfinite(r).all() for r in evaluate(sample.module, sample.inputs))


@LEVELS
@pytest.mark.parametrize("generic", [False, True], ids=["readable", "generic"])
@SETTINGS
@given(st.data())
def test_a_module_read_back_is_the_same_and_computes_the_same(level, generic, data):
    sample = data.draw(modules(level))
    text = print_module(sample.module, generic)
    again = parse_module(text)
    verify(again)
    assert print_module(again, generic) == text
    assert print_module(again) == print_module(sample.module)
    assert_identical(evaluate(again, sample.inputs), evaluate(sample.module, sample.inputs))


@LEVELS
@SETTINGS
@given(st.data())
def test_a_clone_is_the_same_and_shares_no_part_with_the_original(level, data):
    sample = data.draw(modules(level))
    copy = sample.module.clone()
    verify(copy)
    assert print_module(copy) == print_module(sample.module)
    assert not set(copy.walk()) & set(sample.module.walk())
