"""What holds at every level: modules are valid, read back as they were printed, and compute what they computed before."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.ir.debug.tolerance import expect
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import verify
from polyreme.lowering.pipeline import lower
from tests.strategies import modules

TO = pytest.mark.parametrize("to", ["tensor", "kernel"])
SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@TO
@SETTINGS
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


# Kernels are made of the groups that `fuse` forms; others, such as those with arrays in them, are refused by name.
@pytest.mark.parametrize(
    ("level", "to"), [("nn", "tensor"), ("nn", "kernel"), ("tensor", "tensor"), ("tensor", "kernel"), ("fused", "tensor")]
)
@SETTINGS
@given(st.data())
def test_lowering_does_not_change_what_is_computed(level, to, data):
    sample = data.draw(modules(level))
    expected = expect(sample.module, sample.inputs)
    assert not expected.misfits(evaluate(lower(sample.module, to=to), sample.inputs))
