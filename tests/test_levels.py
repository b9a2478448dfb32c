"""Modules of every level are valid, print, and read back as they were, however they came about."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.pipeline import lower
from tests.strategies import modules


@pytest.mark.parametrize("to", ["tensor", "kernel"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_lowered_module_reads_back_as_it_was_printed(to, data):
    module = lower(data.draw(modules("nn")).module, to=to)
    verify(module)
    for generic in (False, True):
        text = print_module(module, generic)
        again = parse_module(text)
        verify(again)
        assert print_module(again, generic) == text
        assert print_module(again) == print_module(module)
