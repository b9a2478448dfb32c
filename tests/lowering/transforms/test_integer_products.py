"""From quantised models to products of bytes: which products become integers, and that they say the same as in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import ScalarType, TensorType, f32, i8, i16, u8
from polyreme.lowering.machines.memory import ROWS_OF_WEIGHTS
from polyreme.lowering.machines.targets import TARGETS, Target, find_target
from polyreme.lowering.pipeline import compile_module, lower
from tests.lowering.emit.test_int8_dot_products import WITH_VNNI

Array = np.ndarray[Any, Any]
N = symbol("N")
# Machines that multiply bytes, and pairs of 16-bit numbers, and what activations are in memory there.
KINDS = pytest.mark.parametrize(("target", "kind"), [(WITH_VNNI, u8), (TARGETS["x86-64-avx2"], i16)], ids=["bytes", "pairs"])


class Model(Builder):
    """A quantised model being written: layers as a converted model has them."""

    def __init__(self, shape: tuple[Dim, ...], seed: int = 0):
        self.main = Func.empty("main", [TensorType(shape, f32)], arg_names=["x"], arg_roles=("input",))
        self.rng = np.random.default_rng(seed)
        super().__init__(self.main.block, None)

    def constant(self, array: Any) -> Value:
        made: Value = self(nn.Constant, value=np.asarray(array))
        return made

    def steps(self, x: Value, scale: float, zero: int | None = None) -> Value:
        """x in steps and back."""
        s, z = self.constant(np.float32(scale)), None if zero is None else self.constant(np.int8(zero))
        made: Value = self(nn.DequantizeLinear, self(nn.QuantizeLinear, x, s, z), s, z)
        return made

    def weight(self, shape: tuple[int, ...], axis: int) -> Value:
        counts = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = (self.rng.random(shape[axis]) * 0.01 + 1e-3).astype(np.float32)
        made: Value = self(nn.DequantizeLinear, self.constant(counts), self.constant(scales), None, axis=axis)
        return made

    def conv(self, x: Value, out: int, taps: int, stride: int = 1, pad: int = 0, groups: int = 1) -> Value:
        channels = x.type.shape[1] // groups  # type: ignore[union-attr, operator]
        bias = self.constant(self.rng.standard_normal(out).astype(np.float32))
        made: Value = self(
            nn.Conv,
            x,
            self.weight((out, channels, taps, taps), 0),
            bias,
            strides=(stride,) * 2,
            padding=(pad,) * 4,
            dilations=(1, 1),
            groups=groups,
        )
        return made

    def module(self, *results: Value) -> Module:
        self.insert(Return(list(results)))
        self.main.finish()
        module = Module.empty()
        module.block.append(self.main)
        return module


def integer_contracts(module: Module) -> list[str]:
    return [op.spec for op in lower(module, to="tensor", verify=True).walk() if isinstance(op, tensor.Contract) and op.dtype is not None]


def float_contracts(module: Module) -> int:
    return sum(isinstance(op, tensor.Contract) and op.dtype is None for op in lower(module, to="tensor").walk())


def check(module: Module, *inputs: Array, flips: float = 0.0) -> None:
    """The lowered module and its machine code give what the model in floats gives: up to float32's rounding, and where a number is so near
    to a half that this rounding decides, up to `flips`, what one step more or less of some activations makes of the result.
    """
    wanted = evaluate(module, inputs)
    tensors = [lower(module, target, to="tensor") for target in (WITH_VNNI, TARGETS["x86-64-avx2"])]
    for got in (*(evaluate(made, inputs) for made in tensors), compile_module(module).load().run(list(inputs))):
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=max(flips, 1e-5) * float(np.abs(b).max()))


@pytest.mark.parametrize("zero", [None, -128, 5])
def test_a_linear_layer_counts_in_integers_whatever_stands_for_zero(zero: int | None):
    b = Model((7, 36))
    module = b.module(b(nn.Linear, b.steps(b.main.args[0], 0.03, zero), b.weight((36, 21), 1), b.constant(np.ones(21, np.float32))))
    assert integer_contracts(module) == ["mk,kn->mn"] and float_contracts(module) == 0
    check(module, np.random.default_rng(1).standard_normal((7, 36)).astype(np.float32) * 2)


def test_what_lies_outside_of_the_range_is_clipped_infinities_too():
    b = Model((2, 8))
    module = b.module(b(nn.Linear, b.steps(b.main.args[0], 0.01, -100), b.weight((8, 4), 1), None))
    x = np.array(
        [[np.inf, -np.inf, 1e30, -1e30, 5.0, -5.0, 0.0, -0.0], [0.005, 0.015, -0.005, 0.025, 2.27, 2.28, -0.28, -0.29]], np.float32
    )
    check(module, x)


def test_a_product_without_a_whole_number_of_words_is_filled_up_with_weights_of_zero():
    b = Model((5, 30))
    module = b.module(b(nn.Linear, b.steps(b.main.args[0], 0.03), b.weight((30, 9), 1), None))
    assert integer_contracts(module) == ["mk,kn->mn"]
    check(module, np.random.default_rng(2).standard_normal((5, 30)).astype(np.float32))


def test_a_matrix_by_a_transposed_constant_and_a_free_number_of_rows_are_integers_too():
    b = Model((N, 3, 16))
    module = b.module(b(nn.MatMul, b.steps(b.main.args[0], 0.02), b.weight((10, 16), 0), transpose_y=True))
    assert len(integer_contracts(module)) == 1
    for rows in (1, 4):
        check(module, np.random.default_rng(rows).standard_normal((rows, 3, 16)).astype(np.float32))


@pytest.mark.parametrize(
    ("channels", "taps", "stride", "pad", "zero"),
    [(3, 7, 2, 3, None), (8, 3, 1, 1, -128), (16, 1, 1, 0, 3), (12, 1, 2, 0, None), (6, 3, 2, 1, -7)],
)
def test_a_convolution_of_an_image_from_outside_is_an_integer_one(channels: int, taps: int, stride: int, pad: int, zero: int | None):
    b = Model((2, channels, 11, 13))
    module = b.module(b.conv(b.steps(b.main.args[0], 0.02, zero), 18, taps, stride, pad))
    assert len(integer_contracts(module)) == 1 and float_contracts(module) == 0
    check(module, np.random.default_rng(3).standard_normal((2, channels, 11, 13)).astype(np.float32))


def bottleneck() -> Module:
    """The pieces of a residual network: a stem with its pooling, a block with a convolution beside it, the mean of all pixels, and a
    classifier.
    """
    b = Model((1, 3, 20, 20), seed=5)
    x = b(nn.MaxPool, b(nn.Relu, b.conv(b.steps(b.main.args[0], 0.02), 16, 3, 2, 1)), kernel=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    shared = b.steps(x, 0.05, -128)
    y = b(nn.Relu, b.conv(shared, 12, 1))
    y = b.conv(b.steps(y, 0.02, -128), 32, 3, 1, 1)
    x = b(nn.Relu, b(nn.Add, y, b.conv(shared, 32, 1)))
    y = b.conv(b.steps(x, 0.03, -128), 32, 3, 1, 1)
    x = b(nn.Relu, b(nn.Add, y, x))
    mean = b(nn.Reshape, b(nn.Mean, x, axis=(2, 3), keepdims=False), shape=(1, 32))
    return b.module(b(nn.Linear, b.steps(mean, 0.02, -128), b.weight((32, 10), 1), None))


@KINDS
def test_a_residual_network_moves_bytes_between_its_layers(target: Target, kind: ScalarType):
    module = bottleneck()
    tensors = lower(module, target, to="tensor", verify=True)
    assert len(integer_contracts(module)) == 6 and float_contracts(module) == 0
    # Two convolutions of one activation share its bytes, what is pooled is bytes already, and no layer reads floats but the residual sums
    # and the mean.
    made = [v.type.dtype for op in tensors.function().block for v in op.results if isinstance(op, tensor.Fused)]
    # The classifier has a single row.
    assert made.count(kind) == 6 - (kind == i16) and made.count(u8) + made.count(i16) == 6
    check(module, np.random.default_rng(6).standard_normal((1, 3, 20, 20)).astype(np.float32), flips=0.02)


@KINDS
def test_products_of_few_rows_read_weights_of_eight_bits(target: Target, kind: ScalarType):
    for rows, wanted in ((1, u8), (ROWS_OF_WEIGHTS - 1, u8), (ROWS_OF_WEIGHTS, kind), (N, kind)):
        b = Model((rows, 16))
        x = b.steps(b.main.args[0], 0.03)
        module = b.module(b(nn.Linear, x, b.weight((16, 12), 1), None), b(nn.Linear, x, b.weight((16, 9), 1), None))
        contracts = [op for op in lower(module, target, to="tensor").walk() if isinstance(op, tensor.Contract)]
        assert [op.a.type.dtype for op in contracts] == [wanted] * len(contracts)
        check(module, np.random.default_rng(1).standard_normal((40 if rows is N else rows, 16)).astype(np.float32))


def test_activations_may_be_read_by_products_of_many_rows_and_of_few():
    b = Model((1, 8, 6, 6))
    x = b.steps(b(nn.Relu, b.conv(b.steps(b.main.args[0], 0.03), 16, 1)), 0.05, -128)
    few = b(nn.Linear, b(nn.Reshape, x, shape=(8, 72)), b.weight((72, 10), 1), None)
    module = b.module(b.conv(x, 16, 3, pad=1), few)
    check(module, np.random.default_rng(4).standard_normal((1, 8, 6, 6)).astype(np.float32), flips=0.01)


@pytest.mark.parametrize("zero", [None, -128, 5])
def test_a_sum_reads_the_bytes_that_a_product_reads(zero: int | None):
    b = Model((2, 8, 6, 6))
    x = b.steps(b(nn.Relu, b.conv(b.steps(b.main.args[0], 0.03, zero), 16, 1)), 0.05, zero)
    module = b.module(b(nn.Relu, b(nn.Add, b.conv(x, 16, 3, pad=1), x)))
    assert len(integer_contracts(module)) == 2
    made = lower(module, to="tensor")
    assert not [op for op in made.walk() if isinstance(op, tensor.Map) and op.result.type.dtype == i8]
    check(module, np.random.default_rng(4).standard_normal((2, 8, 6, 6)).astype(np.float32), flips=0.01)


@KINDS
@pytest.mark.parametrize(("zero", "relu"), [(None, True), (-128, True), (5, True), (-128, False), (-100, False)])
def test_what_is_pooled_is_bytes_already(zero: int | None, relu: bool, target: Target, kind: ScalarType):
    b = Model((1, 8, 15, 15))
    x = b.conv(b.steps(b.main.args[0], 0.03), 16, 3, pad=1)
    x = b(nn.MaxPool, b(nn.Relu, x) if relu else x, kernel=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    module = b.module(b.conv(b.steps(x, 0.05, zero), 16, 1))
    pools = [op for op in lower(module, target, to="tensor", verify=True).walk() if isinstance(op, tensor.Reduce)]
    assert [op.result.type.dtype for op in pools] == [kind] and len(integer_contracts(module)) == 2
    check(module, np.random.default_rng(8).standard_normal((1, 8, 15, 15)).astype(np.float32) * 2, flips=0.02)


def test_maxima_that_are_read_as_floats_too_stay_floats():
    b = Model((1, 8, 8, 8))
    x = b(nn.MaxPool, b.conv(b.steps(b.main.args[0], 0.03), 16, 3, pad=1), kernel=(2, 2), strides=(2, 2), padding=(0, 0, 0, 0))
    module = b.module(b.conv(b.steps(x, 0.05), 16, 1), x)
    assert [op.result.type.dtype for op in lower(module, to="tensor").walk() if isinstance(op, tensor.Reduce)] == [f32]
    check(module, np.random.default_rng(9).standard_normal((1, 8, 8, 8)).astype(np.float32), flips=0.02)


@pytest.mark.parametrize("zero", [None, -128, 5])
def test_a_sum_that_is_rounded_has_the_next_scale_in_its_factors(zero: int | None):
    b = Model((2, 8, 6, 6))
    x = b.steps(b(nn.Relu, b.conv(b.steps(b.main.args[0], 0.03), 16, 1)), 0.05, zero)
    y = b(nn.Relu, b(nn.Add, b.conv(x, 16, 3, pad=1), x))
    module = b.module(b.conv(b.steps(y, 0.2, -128), 16, 1))
    made = [op.fn for op in lower(module, to="tensor", verify=True).walk() if isinstance(op, tensor.Map)]
    # Only the input is multiplied by something: all other products are part of sums.
    assert made.count("mul") == 1 and made.count("fma") == 4
    check(module, np.random.default_rng(4).standard_normal((2, 8, 6, 6)).astype(np.float32), flips=0.02)


def test_weights_that_are_not_known_and_products_of_two_activations_stay_floats():
    b = Model((2, 4, 8, 8))
    q = b.steps(b.main.args[0], 0.02)
    module = b.module(b(nn.MatMul, q, q, transpose_y=True))
    assert integer_contracts(module) == [] and float_contracts(module) == 1
    check(module, np.random.default_rng(7).standard_normal((2, 4, 8, 8)).astype(np.float32))


def test_depthwise_convolutions_and_results_of_one_column_stay_floats():
    b = Model((1, 8, 9, 9))
    x = b.conv(b.steps(b.main.args[0], 0.02), 8, 3, pad=1, groups=8)
    module = b.module(b(nn.Linear, b.steps(b(nn.Reshape, x, shape=(8, 81)), 0.05), b.weight((81, 1), 1), None))
    assert integer_contracts(module) == [] and float_contracts(module) == 2
    check(module, np.random.default_rng(8).standard_normal((1, 8, 9, 9)).astype(np.float32), flips=0.02)


def test_weights_in_bytes_of_a_product_in_floats_are_floats_before_it_runs():
    b = Model((5, 80))
    module = b.module(b(nn.Linear, b.main.args[0], b.weight((80, 70), 1), None))
    made = [v.type.dtype for op in lower(module, to="tensor").function().block for v in op.results]
    assert made == [f32, f32]
    check(module, np.random.default_rng(10).standard_normal((5, 80)).astype(np.float32))


@pytest.mark.parametrize("sizes", [(11,), (5, 6, 7)])
def test_signals_and_volumes_are_products_of_bytes_too(sizes: tuple[int, ...]):
    b = Model((2, 6, *sizes))
    rank = len(sizes)
    w = b.weight((9, 6, *(3,) * rank), 0)
    module = b.module(
        b(
            nn.Conv,
            b.steps(b.main.args[0], 0.02, -3),
            w,
            None,
            strides=(1,) * rank,
            padding=(1,) * (2 * rank),
            dilations=(1,) * rank,
            groups=1,
        )
    )
    assert len(integer_contracts(module)) == 1
    assert any(op.sym_name.startswith("conv_") for op in lower(module).functions)
    check(module, np.random.default_rng(11).standard_normal((2, 6, *sizes)).astype(np.float32))


def test_groups_of_many_channels_are_integers():
    b = Model((1, 32, 7, 7))
    module = b.module(b.conv(b.steps(b.main.args[0], 0.02, -128), 32, 3, pad=1, groups=2))
    assert len(integer_contracts(module)) == 1
    check(module, np.random.default_rng(9).standard_normal((1, 32, 7, 7)).astype(np.float32))


def test_sums_that_might_not_fit_in_32_bits_stay_floats():
    b = Model((1, 66000))
    module = b.module(b(nn.Linear, b.steps(b.main.args[0], 0.02), b.weight((66000, 2), 1), None))
    assert integer_contracts(module) == []


def test_a_gpu_computes_in_floats():
    b = Model((4, 16))
    module = b.module(b(nn.Linear, b.steps(b.main.args[0], 0.02), b.weight((16, 8), 1), None))
    lowered = lower(module, find_target("cuda"), to="tensor")
    assert all(op.dtype is None for op in lowered.walk() if isinstance(op, tensor.Contract))
