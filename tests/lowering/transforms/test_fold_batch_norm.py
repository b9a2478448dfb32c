"""Batch norms are folded into products by constants, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyreme as paddle
from polyreme.dialects import kernel, nn
from polyreme.dialects.nn import BatchNorm, Constant
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, scalar_type
from polyreme.ir.verify import verify
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import lower
from polyreme.lowering.transforms import fold_norm
from polyreme.lowering.transforms.fold_norm import FoldBatchNorm

RNG = np.random.default_rng(4)
N = symbol("N")


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return (RNG.normal(size=shape) + 0.5).astype(dtype)


def module(body: Any, *types: TensorType) -> Module:
    """A module whose `main` is `body(b, constant, *arguments)`."""
    func = Func.empty("main", types)
    b = Builder.at_end(func.block)
    made = body(b, lambda array: b(Constant, value=Dense(array)), *func.args)
    b(Return, list(made) if isinstance(made, tuple) else [made])
    whole = Module.empty()
    whole.block.append(func.finish())
    verify(whole)
    return whole


def folded(whole: Module) -> Module:
    made: Module = whole.clone()
    FoldBatchNorm().run(made)
    verify(made)
    return made


def norms(whole: Module) -> int:
    return sum(isinstance(op, BatchNorm) for op in whole.walk())


def statistics(constant: Any, channels: int, affine: bool = True, dtype: Any = np.float32) -> list[Any]:
    vectors = [
        draw(channels, dtype=dtype),
        np.abs(draw(channels, dtype=dtype)) + dtype(0.1),
        *([draw(channels, dtype=dtype), draw(channels, dtype=dtype)] if affine else []),
    ]
    return [constant(v) for v in vectors]


IMAGES = TensorType((N, 3, 6, 5), f32)
GROUPED = {"groups": 3, "padding": (1, 1, 1, 1), "strides": (2, 1)}


@pytest.mark.parametrize(
    "body",
    [
        lambda b, c, x: b(nn.BatchNorm, b(nn.Conv, x, c(draw(4, 3, 3, 2))), *statistics(c, 4)),
        lambda b, c, x: b(nn.BatchNorm, b(nn.Conv, x, c(draw(6, 1, 3, 3)), c(draw(6)), **GROUPED), *statistics(c, 6), epsilon=1e-3),
        lambda b, c, x: b(nn.BatchNorm, b(nn.Conv, x, c(draw(4, 3, 1, 1))), *statistics(c, 4, affine=False)),
        lambda b, c, x: b(nn.BatchNorm, b(nn.Transpose, b(nn.Conv, x, c(draw(4, 3, 2, 2))), perm=(0, 2, 3, 1)), *statistics(c, 4), axis=-1),
        lambda b, c, x: b(nn.BatchNorm, b(nn.Linear, x, c(draw(5, 7)), c(draw(7))), *statistics(c, 7), axis=3),
    ],
    ids=["plain", "grouped with a bias", "without weights", "channels at the end", "linear"],
)
def test_a_norm_of_a_product_by_constants_becomes_part_of_it(body: Any) -> None:
    whole = module(body, IMAGES)
    made = folded(whole)
    assert norms(made) == 0
    x = draw(2, 3, 6, 5)
    assert not expect(whole, [x]).misfits(evaluate(made, [x]))


def test_it_is_a_product_with_a_bias_that_has_the_values_of_the_equation() -> None:
    weight, mean, variance, scale, shift = draw(2, 3, 1, 1), draw(2), np.float32([0.5, 2]), draw(2), draw(2)
    made = folded(
        module(lambda b, c, x: b(nn.BatchNorm, b(nn.Conv, x, c(weight)), *map(c, (mean, variance, scale, shift)), epsilon=0.0), IMAGES)
    )
    (conv,) = (op for op in made.walk() if isinstance(op, nn.Conv))
    s = scale.astype(np.float64) / np.sqrt(variance)
    np.testing.assert_array_equal(conv.weight.producer().value.array, (weight * s.reshape(2, 1, 1, 1)).astype(np.float32))
    np.testing.assert_array_equal(conv.bias.producer().value.array, (shift - mean * s).astype(np.float32))


def used_twice(b: Any, c: Any, x: Any) -> Any:
    y = b(nn.Conv, x, c(draw(4, 3, 1, 1)))
    return b(nn.BatchNorm, y, *statistics(c, 4)), y


def overflowing(b: Any, c: Any, x: Any) -> Any:
    return b(nn.BatchNorm, b(nn.Conv, x, c(draw(2, 3, 1, 1))), c(draw(2)), c(np.zeros(2, np.float32)), epsilon=0.0)


HALF = TensorType((N, 3, 6, 5), scalar_type(np.dtype(np.float16)))


@pytest.mark.parametrize(
    ("body", "types"),
    [
        (lambda b, c, x, w: b(nn.BatchNorm, b(nn.Conv, x, w), *statistics(c, 4)), (IMAGES, TensorType((4, 3, 1, 1), f32))),
        (
            lambda b, c, x, m: b(nn.BatchNorm, b(nn.Conv, x, c(draw(4, 3, 1, 1))), m, c(np.ones(4, np.float32))),
            (IMAGES, TensorType((4,), f32)),
        ),
        (used_twice, (IMAGES,)),
        (overflowing, (IMAGES,)),
        (lambda b, c, x: b(nn.BatchNorm, b(nn.Conv, x, c(draw(4, 3, 1, 1))), *statistics(c, 6), axis=2), (IMAGES,)),
        (lambda b, c, x: b(nn.BatchNorm, b(nn.Relu, b(nn.Conv, x, c(draw(4, 3, 1, 1)))), *statistics(c, 4)), (IMAGES,)),
    ],
    ids=["weights of the caller", "statistics of the caller", "another use", "a variance of 0", "other axis", "an activation between"],
)
def test_other_norms_stay(body: Any, types: Any) -> None:
    whole = module(body, *types)
    assert norms(folded(whole)) == norms(whole) == 1


def test_a_norm_of_16_bit_floats_becomes_a_scale_and_a_shift_in_float32_and_leaves_the_weights() -> None:
    whole = module(
        lambda b, c, x: b(nn.BatchNorm, b(nn.Conv, x, c(draw(4, 3, 1, 1, dtype=np.float16))), *statistics(c, 4, dtype=np.float16)), HALF
    )
    made = folded(whole)
    assert (norms(whole), norms(made)) == (1, 0)
    constants = [op.value.array.dtype for op in made.walk() if isinstance(op, nn.Constant)]
    assert constants.count(np.float32) == 2
    x = draw(2, 3, 6, 5, dtype=np.float16)
    np.testing.assert_allclose(evaluate(made, [x])[0], evaluate(whole, [x])[0], rtol=2**-10, atol=2**-12)


def test_a_model_for_inference_is_compiled_without_its_norms_and_computes_what_it_did() -> None:
    from polyreme.compiled.inspection import model_module

    paddle.seed(1)
    net = paddle.nn.Sequential(
        paddle.nn.Conv2D(3, 4, 3, padding=1, bias_attr=False), paddle.nn.BatchNorm2D(4), paddle.nn.ReLU(),
        paddle.nn.Conv2D(4, 4, 3, groups=2), paddle.nn.BatchNorm2D(4),
    )  # fmt: skip
    for _ in range(3):
        net(paddle.to_tensor(draw(4, 3, 6, 6)))
    net.eval()
    spec = [paddle.static.InputSpec([None, 3, 6, 6], "float32", "x")]
    whole = model_module(paddle.jit.to_static(net, input_spec=spec), spec, True)
    assert norms(whole) == 2
    assert norms(lower(whole, to="nn")) == 0
    x = draw(2, 3, 6, 6)
    np.testing.assert_allclose(evaluate(lower(whole, to="tensor"), [x])[0], net(paddle.to_tensor(x)).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"])
def test_folded_weights_are_made_when_they_are_packed_and_by_nothing_before(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling has no large weights in memory twice: a network's are hundreds of megabytes."""
    made: list[Any] = []
    monkeypatch.setattr(fold_norm, "_scaled", lambda weight, *rest: made.append(weight.shape) or weight)
    shapes = {"whole lanes": (32, 32, 3, 3), "few channels": (5, 32, 1, 1), "few rows": (64, 32, 7, 7)}
    for name, shape in shapes.items():

        def body(b: Any, constant: Any, x: Any, shape: tuple[int, ...] = shape) -> Any:
            return b(nn.Relu, b(nn.BatchNorm, b(nn.Conv, x, constant(draw(*shape))), *statistics(constant, shape[0])))

        program = lower(module(body, TensorType((1, 32, 14, 14), f32)), find_target(target))
        assert sum(isinstance(op, kernel.Data) for op in program.walk()) and not made, name
