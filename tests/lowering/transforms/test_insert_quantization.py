"""Products by constants brought into eight bits: which are found, what is observed, and what the rewritten module computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import nn
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32
from polyreme.ir.verify import verify
from polyreme.lowering.transforms.insert_quantization import (
    QuantizedSteps,
    constant_of,
    find_products,
    quantize_products,
    quantize_weight,
    steps_between,
    steps_of,
    tidy_for_quantization,
    with_operands_returned,
)

random = np.random.default_rng(8)


def module_of(shape: tuple[int, ...], body: Any) -> Module:
    func = Func.empty("main", [TensorType(shape, f32)], (), ["x"])
    b = Builder.at_end(func.block)
    b(Return, [body(b, func.args[0])])
    module = Module.empty()
    module.block.append(func.finish())
    verify(module)
    return module


def constant(b: Builder, array: Any, name: str = "") -> Any:
    made = b(nn.Constant, value=Dense(np.asarray(array, np.float32)))
    made.name = name
    return made


WEIGHT = random.standard_normal((6, 4)).astype("float32")


def two_products(b: Builder, x: Any) -> Any:
    """x W + x Wᵀᵀ: one weight as it is and one seen through a transpose."""
    turned = b(nn.Transpose, constant(b, WEIGHT.T, "second.weight"), perm=(1, 0))
    return b(nn.Add, b(nn.Linear, x, constant(b, WEIGHT, "first.weight")), b(nn.MatMul, x, turned))


def test_weights_are_found_through_what_moves_them() -> None:
    module = module_of((3, 6), two_products)
    (first, second), left = find_products(module.function())
    assert (first.name, first.kind, first.axis, second.name, second.kind, second.axis) == ("first", "linear", 1, "second", "matmul", 1)
    np.testing.assert_array_equal(second.weight, WEIGHT)
    assert not left and constant_of(module.function().args[0]) is None


@pytest.mark.parametrize(
    ("shape", "body", "reason"),
    [
        ((1, 2, 5), lambda b, x: b(nn.Conv, x, constant(b, np.ones((2, 1, 3))), groups=2), "depthwise"),
        (
            (1, 2, 5),
            lambda b, x: b(nn.ConvTranspose, x, constant(b, np.ones((2, 1, 3)))),
            "transposed convolutions are not computed in integers",
        ),
        ((4, 4), lambda b, x: b(nn.Linear, x, x), "its weight is not constant"),
        ((4, 3), lambda b, x: b(nn.MatMul, constant(b, np.ones((2, 4))), x), "its weight is no matrix on the right"),
        ((4, 3), lambda b, x: b(nn.MatMul, x, constant(b, np.full((3, 2), np.inf))), "its weight has elements that are not finite"),
        ((4, 3), lambda b, x: b(nn.MatMul, b(nn.Cast, x, dtype=TensorType((), f32).dtype), b(nn.Add, x, x), transpose_y=True), None),
    ],
    ids=["depthwise", "transposed", "not constant", "on the left", "not finite", "two activations"],
)
def test_what_cannot_be_taken_is_told_with_its_reason(shape: tuple[int, ...], body: Any, reason: str | None) -> None:
    found, left = find_products(module_of(shape, body).function())
    assert not found and [entry.reason.split(":")[0] for entry in left] == ([] if reason is None else [reason])


def test_batch_norms_are_folded_before_weights_are_looked_at() -> None:
    def body(b: Builder, x: Any) -> Any:
        y = b(nn.Conv, x, constant(b, np.ones((2, 1, 3)), "conv.weight"))
        return b(nn.BatchNorm, y, *(constant(b, v) for v in ([0, 0], [3, 8], [2, 3], [1, 1])), epsilon=1.0)

    module = module_of((1, 1, 5), body)
    tidy_for_quantization(module)
    verify(module)
    ((product,), _) = find_products(module.function())
    assert product.name == "conv"
    np.testing.assert_allclose(product.weight[:, 0, 0], [1, 1])


def test_operands_are_returned_once_however_many_products_take_them() -> None:
    module = module_of((3, 6), two_products)
    products, _ = find_products(module.function())
    observed, places = with_operands_returned(module, products)
    verify(observed)
    x = random.standard_normal((3, 6)).astype("float32")
    answer, seen = evaluate(observed, [x])
    assert places == [0, 0]
    np.testing.assert_array_equal(seen, x)
    np.testing.assert_array_equal(answer, evaluate(module, [x])[0])


def test_the_rewritten_module_computes_with_what_the_integers_stand_for() -> None:
    module = module_of((3, 6), two_products)
    x = random.uniform(-1, 3, (3, 6)).astype("float32")
    products, _ = find_products(module.function())
    step, zero = steps_between(float(x.min()), float(x.max()))
    counts, weight_step = quantize_weight(WEIGHT, np.abs(WEIGHT).max(0), 1)
    quantize_products(products, {name: QuantizedSteps(step, zero, counts, weight_step) for name in ("first", "second")})
    verify(module)
    assert sum(isinstance(op, nn.QuantizeLinear) for op in module.walk()) == 1, "both take the same integers"
    rounded = (np.clip(np.rint(x / step) + zero, -128, 127) - zero) * step
    np.testing.assert_allclose(evaluate(module, [x])[0], 2 * rounded @ (counts * weight_step), rtol=1e-5, atol=1e-5)


def test_an_image_that_a_convolution_takes_in_steps_is_added_in_steps_too() -> None:
    def body(b: Builder, x: Any) -> Any:
        first = b(nn.Relu, b(nn.Add, x, x))
        y = b(nn.Conv, first, constant(b, np.eye(3)[:, :, None]))
        return b(nn.Add, b(nn.Mul, y, y), first)

    module = module_of((2, 3, 5), body)
    x = random.standard_normal((2, 3, 5)).astype("float32")
    (product,), _ = find_products(module.function())
    quantize_products([product], {product.name: QuantizedSteps(*steps_between(0, 5), np.eye(3, dtype=np.int8)[:, :, None], np.float32(1))})
    verify(module)
    step = 5 / 255
    rounded = np.clip(np.rint(np.maximum(2 * x, 0) / step), 0, 255) * step
    np.testing.assert_allclose(evaluate(module, [x])[0], rounded**2 + rounded, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("least", "greatest"), [(0.0, 6.0), (-0.17, 3.4), (-5.0, 5.0), (2.0, 3.0), (-3.0, -1.0), (0.0, 0.0)])
@pytest.mark.parametrize("bits", [8, 4])
def test_steps_reach_from_the_least_to_the_greatest_number_and_have_0_among_them(least: float, greatest: float, bits: int) -> None:
    step, zero = steps_between(least, greatest, bits)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert low <= zero <= high
    width = float(step)
    ends = (low - zero) * width, (high - zero) * width
    assert ends[0] <= min(least, 0) + width and ends[1] >= max(greatest, 0) - width
    assert ends[1] - ends[0] == pytest.approx(max(greatest, 0) - min(least, 0), rel=1e-6, abs=1e-29)


def test_weights_use_their_range_and_nothing_beyond() -> None:
    counts, step = quantize_weight(WEIGHT, np.abs(WEIGHT).max(0), 1)
    assert counts.dtype == np.int8 and (np.abs(counts).max(0) == 127).all()
    np.testing.assert_allclose(counts * step, WEIGHT, atol=float(step.max()) * 0.501)
    np.testing.assert_array_equal(quantize_weight(np.zeros((2, 2), np.float32), np.zeros(2), 1)[0], 0)
    assert steps_of(7.0, 4) == 1.0
