"""Placing guards: it converges, and where the guards hold no op makes a negative size."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn
from polyreme.ir import dims
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import EvaluateError, evaluate
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import verify
from polyreme.lowering.transforms.solve_sizes import SolveDims

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), st.integers(0, 4), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("pad"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("window"), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)),
    ),
    min_size=1,
    max_size=5,
)


def chain(steps):
    """A function that cuts, pads and slides along the one axis of its argument, whose size is free."""
    func = Func.empty("main", [TensorType((dims.symbol("N"),), f32)], arg_names=["x"])
    value = func.args[0]
    for kind, a, b, c in steps:
        (size,) = value.type.shape
        if kind == "slice":
            op = nn.Slice(value, starts=(a,), stops=(size - b,), strides=(c,))
        elif kind == "pad":
            op = nn.Pad(value, padding=(a, b), interior=(c,))
        else:
            op = nn.Window(value, axes=(0,), sizes=(a,), strides=(b,), dilations=(c,))
        func.block.append(op)
        if kind == "window":
            op = nn.Sum(op.result, axis=(1,))
            func.block.append(op)
        value = op.result
    func.block.append(Return([value]))
    module = Module.empty()
    module.block.append(func.finish())
    return module


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 12))
def test_where_the_guards_hold_everything_has_a_size_and_elsewhere_the_call_is_refused(steps, count):
    module = chain(steps)
    bare = module.clone()
    SolveDims().run(module)
    verify(module)
    text = print_module(module)
    SolveDims().run(module)
    assert print_module(module) == text == print_module(parse_module(text))
    guards = [Guard.parse(g) for g in module.function().guards]
    x = np.arange(count, dtype=np.float32)
    sizes = {"N": count}
    shapes = [d for op in bare.function().block for r in op.results for d in r.type.shape]
    if all(dims.evaluate(g.size, sizes) >= 0 for g in guards):
        assert all(dims.evaluate(d, sizes) >= 0 for d in shapes)
        np.testing.assert_array_equal(evaluate(module, [x])[0], evaluate(bare, [x])[0])
    else:
        try:
            evaluate(module, [x])
        except EvaluateError as error:
            assert any(g.words in error.message for g in guards)
        else:
            raise AssertionError("expected the call to be refused")
