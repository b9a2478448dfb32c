"""Transposed convolutions: by phases they compute what the definition says, with fewer products."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.dialects.nn.conv import transposed_sizes
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import TensorType, f64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor


def lowered(x: tuple[Any, ...], weight: Any, constant: bool = True, **attributes: Any) -> tuple[Module, Module]:
    """`nn.conv_transpose` at `nn` level, and as tensor ops."""
    kinds = [TensorType(x, f64)] + ([] if constant else [TensorType(weight.shape, f64)])
    main = Func.empty("main", kinds, arg_names=("x", "w")[: len(kinds)], arg_roles=("input",) * len(kinds))
    b = Builder.at_end(main.block)
    w = b(nn.Constant, value=weight) if constant else main.args[1]
    b.insert(Return([b(nn.ConvTranspose, main.args[0], w, **attributes)]))
    module = Module.empty()
    module.block.append(main.finish())
    made: Module = module.clone()
    PassManager([Stage("tensor", nn_to_tensor)]).run(made)
    verify(made)
    return module, made


def products(module: Module) -> int:
    """Multiplications in the contracts of a module."""
    found = [op for op in module.walk() if isinstance(op, tensor.Contract)]
    return sum(prod(tensor.ContractSpec(op.spec).sizes(op.a.type.shape, op.b.type.shape).values()) for op in found)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_transposed_convolution_computes_what_the_definition_says(data: st.DataObject) -> None:
    spatial, groups = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 1, 2]))
    numbers = lambda low, high: tuple(data.draw(st.integers(low, high)) for _ in range(spatial))
    places, kernel, strides, dilations = (
        numbers(1, 5),
        numbers(1, 4),
        numbers(1, 3),
        numbers(1, 2) if data.draw(st.booleans()) else (1,) * spatial,
    )
    pads = tuple((data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in range(spatial))
    least = transposed_sizes(places, kernel, strides, pads, dilations)
    assume(all(n > 0 for n in least))
    sizes = tuple(n + data.draw(st.integers(0, s - 1)) for n, s in zip(least, strides, strict=True))
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 2 * groups, *places)), rng.standard_normal((2 * groups, 3, *kernel))
    padding = tuple(n for pair in pads for n in pair)
    before, after = lowered(
        x.shape, w, data.draw(st.booleans()), strides=strides, padding=padding, dilations=dilations, groups=groups, sizes=sizes
    )
    given_arrays = [x, w][: len(before.function("main").args)]
    (expected,), (got,) = evaluate(before, given_arrays), evaluate(after, given_arrays)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("taps", "stride", "most"), [(4, 2, 5 * 5 * 2 * 2), (2, 2, 4 * 4), (3, 2, 5 * 5 * 2 * 2)])
def test_phases_multiply_by_few_zeros(taps: int, stride: int, most: int) -> None:
    """Places of the operand (one more where taps reach over), times taps of a phase, for each phase and pair of channels."""
    _, made = lowered((1, 3, 4, 4), np.ones((3, 5, taps, taps)), strides=(stride, stride), padding=(1, 1, 1, 1) if taps == 4 else ())
    assert products(made) <= most * stride**2 * 3 * 5
    assert not any(isinstance(op, tensor.Pad) and any(op.interior) for op in made.walk())
    # Weights that are known are put in order once.
    assert not any(isinstance(op, tensor.Reverse) for op in made.walk())


def test_the_batch_and_the_sizes_of_the_image_may_be_symbolic() -> None:
    n, h, w = map(symbol, "NHW")
    before, made = lowered((n, 2, h, w), np.random.default_rng(0).standard_normal((2, 3, 4, 4)), strides=(2, 2), padding=(1, 1, 1, 1))
    assert not any(isinstance(op, tensor.Pad) and any(op.interior) for op in made.walk())
    x = np.random.default_rng(1).standard_normal((2, 2, 3, 5))
    np.testing.assert_allclose(evaluate(made, [x])[0], evaluate(before, [x])[0], rtol=1e-12, atol=1e-12)
