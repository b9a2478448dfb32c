"""Lowering nn to tensor does not change what is computed: op by op, cleaned up or not, and for random modules."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, i64, scalar_type
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.transforms.cleanup import Canonicalize, Cse, Dce
from tests.nn_cases import CASES, UNIFORM, numbers_close
from tests.strategies import modules

CLEANUP = (Canonicalize(), Cse(), Dce())


def lowered(module, *passes):
    copy = module.clone()
    for step in passes:
        step.run(copy)
        verify(copy)
    return copy


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("case", [*CASES, UNIFORM], ids=repr)
def test_lowering_keeps_what_an_op_computes(case, dtype):
    case = case.typed(dtype)
    module = case.module()
    before = expect(module, case.arrays)
    for passes in ((nn_to_tensor,), (*CLEANUP, nn_to_tensor, *CLEANUP)):
        after = lowered(module, *passes)
        assert {op.dialect for op in after.walk()} <= {"builtin", "func", "tensor"}
        assert not before.misfits(evaluate(after, case.arrays))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules("nn"))
def test_lowering_keeps_what_random_modules_compute(sample):
    after = lowered(sample.module, *CLEANUP, nn_to_tensor, *CLEANUP)
    assert not expect(sample.module, sample.inputs).misfits(evaluate(after, sample.inputs))


# --- symbolic sizes

N, H = symbol("N"), symbol("H")


def built(types, body):
    func = Func.empty("main", types, (), [f"x{i}" for i in range(len(types))])
    b = Builder.at_end(func.block)
    made = body(b, *func.args)
    b(Return, [made])
    module = Module.empty()
    module.block.append(func.finish())
    verify(module)
    return module


def image_network(b, x, w, label):
    y = b(nn.Conv, x, w, strides=(2, 1), padding=(1, 1, 1, 1))
    y = b(nn.Relu, y)
    y = b(nn.AvgPool, y, kernel=(2, 3), strides=(1, 2), padding=(1, 1, 0, 1), ceil_mode=True)
    y = b(nn.MaxPool, y, kernel=(2, 2), strides=(1, 1), padding=(0, 1, 1, 0))
    y = b(nn.Mean, y, axis=(2, 3))
    return b(nn.Mean, b(nn.CrossEntropy, y, label))


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("height", [5, 6, 9])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_lowering_serves_every_batch_and_height(batch, height):
    types = [TensorType((N, 2, H, 7), f32), TensorType((4, 2, 3, 3), f32), TensorType((N, 1), i64)]
    module = built(types, image_network)
    random = np.random.default_rng(3)
    inputs = [random.normal(size=(batch, 2, height, 7)), random.normal(size=(4, 2, 3, 3)), random.integers(0, 4, (batch, 1))]
    inputs = [inputs[0].astype(np.float32), inputs[1].astype(np.float32), inputs[2]]
    for passes in ((nn_to_tensor,), (*CLEANUP, nn_to_tensor, *CLEANUP)):
        (got,) = evaluate(lowered(module, *passes), inputs)
        numbers_close(got, evaluate(module, inputs)[0], np.float32)


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize(
    "body",
    [
        lambda b, x: b(nn.MatMul, x, x, transpose_y=True),
        lambda b, x: b(nn.Reshape, x, shape=(3 * N, 2)),
        lambda b, x: b(nn.Slice, x, starts=(0, 1), stops=(N, 6), strides=(1, 2)),
        lambda b, x: b(nn.Sub, x, b(nn.Mean, x, axis=(0,), keepdims=True)),
        lambda b, x: b(nn.Concat, [x, x], axis=0),
        lambda b, x: b(nn.BroadcastTo, b(nn.Sum, x, axis=(1,), keepdims=True), shape=(2, N, 6)),
        lambda b, x: b(nn.Mul, x, b(nn.Cast, b(nn.Iota, shape=(N, 6), axis=0, dtype=i64), dtype=f32)),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_lowering_serves_any_number_of_rows(body, rows):
    module = built([TensorType((N, 6), f32)], body)
    x = np.random.default_rng(4).normal(size=(rows, 6)).astype(np.float32)
    (got,) = evaluate(lowered(module, nn_to_tensor, *CLEANUP), [x])
    numbers_close(got, evaluate(module, [x])[0], np.float32)


# --- values held by numbers


@pytest.mark.parametrize("low, high, maps", [(0.0, 6.0, ["min", "max"]), (-1.0, -1.0, ["min", "max"]), (2.0, 1.0, None)])
def test_a_value_held_within_known_bounds_becomes_a_min_and_a_max(low, high, maps):
    def body(b, x):
        bounds = [b(nn.Full, value=v, shape=(), dtype=f32) for v in (low, high)]
        inner = b(nn.Where, b(nn.GreaterEqual, x, bounds[1]), bounds[1], x)
        return b(nn.Where, b(nn.LessEqual, x, bounds[0]), bounds[0], inner)

    x = np.array([-np.inf, -2, -1, -0.0, 0, 0.5, 1.5, 2, 6, 7, np.inf, np.nan], np.float32)
    module = built([TensorType(x.shape, f32)], body)
    after = lowered(module, nn_to_tensor, Dce())
    np.testing.assert_array_equal(evaluate(after, [x])[0], evaluate(module, [x])[0])
    found = [op.fn for op in after.walk() if op.name == "tensor.map"]
    assert found == maps if maps else "select" in found


@pytest.mark.parametrize(
    ("kernel", "strides", "windows"),
    [
        ((5, 5), (1, 1), 2),
        ((13, 13), (1, 1), 2),
        ((3, 3), (1, 1), 1),
        ((5, 5), (3, 3), 1),
        ((9, 4), (2, 1), 2),
        ((3, 3, 3), (2, 2, 2), 1),
        ((5, 5, 5), (1, 1, 1), 3),
    ],
)
def test_the_largest_of_wide_windows_is_found_axis_by_axis(kernel, strides, windows):
    x = np.random.default_rng(0).standard_normal((2, 2, *(14, 15, 6)[: len(kernel)]))
    x.ravel()[::37] = np.nan
    module = built(
        [TensorType(x.shape, scalar_type("float64"))],
        lambda b, v: b(nn.MaxPool, v, kernel=kernel, strides=strides, padding=(1, 2) * len(kernel), ceil_mode=True),
    )
    made = lowered(module, nn_to_tensor)
    assert sum(isinstance(op, tensor.Window) for op in made.walk()) == windows
    np.testing.assert_array_equal(evaluate(made, [x])[0], evaluate(module, [x])[0])
