"""Convolutions of volumes as convolutions of images, whose planes lie beside each other as channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager, Stage
from polyreme.ir.types import TensorType, f32, f64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor


def convolution(shape: tuple[Any, ...], weight: Any, constant: bool = True, **numbers: Any) -> Module:
    types = [TensorType(shape, f64), *([] if constant else [TensorType(weight.shape, f64)])]
    main = Func.empty("main", types, arg_names=["x", "w"][: len(types)])
    b = Builder.at_end(main.block)
    b.insert(Return([b(nn.Conv, main.args[0], b(nn.Constant, value=weight) if constant else main.args[1], **numbers)]))
    module = Module.empty()
    module.block.append(main.finish())
    verify(module)
    return module


def lowered(module: Module) -> Module:
    made = PassManager([Stage("tensor", nn_to_tensor)]).run(module.clone())
    verify(made)
    return made


def check(module: Module, *inputs: Any) -> Module:
    """The lowered module, which computes the same."""
    made = lowered(module)
    for expected, got in zip(evaluate(module, list(inputs)), evaluate(made, list(inputs)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max(initial=1))
    return made


def test_bytes_are_multiplied_where_they_stand() -> None:
    main = Func.empty("main", [TensorType((1, 16, 3, 4, 4), f32)], arg_names=["x"])
    b = Builder.at_end(main.block)
    scale, zero = b(nn.Full, value=0.1, shape=(), dtype=f32), b(nn.Constant, value=np.array(3, np.int8))
    steps = b(nn.DequantizeLinear, b(nn.QuantizeLinear, main.args[0], scale, zero, bit_length=8), scale, zero)
    b.insert(Return([b(nn.Conv, steps, b(nn.Constant, value=np.ones((2, 16, 3, 3, 3), np.float32)), padding=(1,) * 6)]))
    module = Module.empty()
    module.block.append(main.finish())
    assert windows(lowered(module)) == [3]


def windows(module: Module) -> list[int]:
    """Axes that each window slides along."""
    return [len(op.axes) for op in module.walk() if isinstance(op, tensor.Window)]


small = st.integers(0, 2)


@settings(max_examples=40, deadline=None)
@given(
    depth=st.integers(1, 5),
    taps=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    before=small,
    after=small,
    moved=st.sampled_from([1, 2]),
    constant=st.booleans(),
)
def test_planes_stacked_as_channels_give_what_volumes_do(
    depth: int, taps: int, stride: int, dilation: int, before: int, after: int, moved: int, constant: bool
) -> None:
    if before + depth + after < (taps - 1) * dilation + 1:
        return
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((2, 16, depth, 4, 5)), rng.standard_normal((3, 16, taps, 3, 3))
    module = convolution(
        x.shape, weight, constant, strides=(stride, moved, moved), padding=(before, after, 1, 0, 1, 2), dilations=(dilation, 1, 1)
    )
    assert windows(check(module, x, *([] if constant else [weight]))) == [2]


def test_taps_that_see_padding_alone_are_not_multiplied() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((1, 16, 1, 4, 4)), rng.standard_normal((2, 16, 3, 3, 3))
    made = check(convolution(x.shape, weight, padding=(1,) * 6), x)
    (product,) = [op for op in made.walk() if isinstance(op, tensor.Contract)]
    assert product.b.type.shape == (2, 16, 3, 3)  # type: ignore[union-attr]


def test_the_depth_and_the_batch_may_be_free() -> None:
    rng = np.random.default_rng(0)
    module = convolution((symbol("N"), 16, symbol("D"), 4, 4), rng.standard_normal((2, 16, 3, 3, 3)), padding=(1,) * 6)
    for batch, depth in ((1, 3), (3, 1)):
        check(module, rng.standard_normal((batch, 16, depth, 4, 4)))


@pytest.mark.parametrize(
    ("channels", "kernel", "numbers"),
    [(4, (3, 3, 3), {}), (16, (3, 1, 1), {}), (16, (3, 3, 3), {"dilations": (1, 2, 2)}), (16, (3, 3, 3), {"groups": 2})],
)
def test_other_volumes_are_read_in_place(channels: int, kernel: tuple[int, ...], numbers: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((1, channels, 3, 6, 6)), rng.standard_normal((2, channels // numbers.get("groups", 1), *kernel))
    assert windows(check(convolution(x.shape, weight, **numbers), x)) == [3]
