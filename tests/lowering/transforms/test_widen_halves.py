"""Products of 16-bit floats: computed in float32, rounded once per op, and weights that few rows read stay 16 bits wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import polyreme as paddle
from polyreme.compiled.inspection import model_module
from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.evaluate import evaluate
from polyreme.ir.text import parse_module
from polyreme.ir.types import BufferType, ScalarType, TensorType, bf16, element_type, f16, f32, index
from polyreme.lowering.machines.memory import ROWS_OF_WEIGHTS
from polyreme.lowering.machines.targets import TARGETS, find_target, host
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.transforms.widen_halves import WidenHalves
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.kernel_modules import compiled, finish, one_function

Array = np.ndarray[Any, Any]
SPECS = ["mk,kn->mn", "mk,nk->mn", "km,kn->mn", "bmk,bkn->bmn", "bmk,kn->bmn"]
SIZES = st.one_of(st.integers(1, 20), st.sampled_from([31, 33, 48, 65, 97]))
HALVES = st.sampled_from([bf16, f16])
QUICK = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# One rounding of each type, of numbers that differ by the order of their sums.
ROUNDING = {bf16: 2**-7, f16: 2**-9}


def product_of(
    spec: str, sizes: dict[str, int], dtype: ScalarType, constant: bool, ending: bool, seed: int = 0
) -> tuple[Module, list[Array]]:
    """`relu(contract(a, b) + bias)`, or the contract alone; b is a constant or an argument."""
    rng = np.random.default_rng(seed)
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    a, b = (rng.standard_normal([sizes[c] for c in letters]).astype(dtype.np) for letters in (left, right))
    bias = rng.standard_normal([1] * (len(out) - 1) + [sizes[out[-1]]]).astype(dtype.np)
    inputs = [a, bias] if constant else [a, bias, b]
    main = Func.empty("main", [TensorType(x.shape, dtype) for x in inputs], arg_names=["a", "bias", "b"][: len(inputs)])
    build = Builder.at_end(main.block)
    weight = build(tensor.Constant, value=b) if constant else main.args[2]
    y = build(tensor.Contract, main.args[0], weight, spec=spec)
    if ending:
        y = build(tensor.Map, build(tensor.Map, y, main.args[1], fn="add"), build(tensor.Full, value=0.0, shape=(), dtype=dtype), fn="max")
    build.insert(Return([y]))
    main.finish()
    module = Module.empty()
    module.block.append(main)
    return module, inputs


def assert_rounded_alike(got: Array, expected: Array, dtype: ScalarType) -> None:
    assert got.dtype == expected.dtype == dtype.np
    wide = expected.astype(np.float64)
    assert np.abs(got.astype(np.float64) - wide).max() <= 2 * ROUNDING[dtype] * max(1.0, np.abs(wide).max())


CASES = {"spec": st.sampled_from(SPECS), "dtype": HALVES, "constant": st.booleans(), "ending": st.booleans()}


@QUICK
@given(**CASES, m=SIZES, n=SIZES, k=SIZES)
@example(spec="mk,kn->mn", dtype=bf16, constant=True, ending=True, m=1, n=784, k=513)
@example(spec="mk,nk->mn", dtype=f16, constant=True, ending=True, m=ROWS_OF_WEIGHTS, n=130, k=65)
@example(spec="mk,nk->mn", dtype=bf16, constant=False, ending=False, m=3, n=130, k=65)
@example(spec="mk,kn->mn", dtype=bf16, constant=False, ending=False, m=ROWS_OF_WEIGHTS + 1, n=130, k=65)
def test_machine_code_for_16_bit_products_is_one_rounding_from_their_meaning(
    spec: str, dtype: ScalarType, constant: bool, ending: bool, m: int, n: int, k: int
) -> None:
    module, inputs = product_of(spec, {"m": m, "n": n, "k": k, "b": 2}, dtype, constant, ending)
    (expected,) = evaluate(module, inputs)
    code = compile_module(module).load()
    before = get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            set_num_threads(threads)
            results.append(np.array(code.run(inputs)[0]))
    finally:
        set_num_threads(before)
    assert_rounded_alike(results[0], expected, dtype)
    assert results[0].tobytes() == results[1].tobytes()


@settings(QUICK, max_examples=8)
@given(
    **CASES,
    m=st.integers(1, 20),
    n=st.integers(1, 40),
    k=st.integers(1, 40),
    target=st.sampled_from(["x86-64", "x86-64-avx2", "x86-64-avx512", "aarch64"]),
)
def test_16_bit_kernels_of_every_target_stay_inside_of_their_buffers(
    spec: str, dtype: ScalarType, constant: bool, ending: bool, m: int, n: int, k: int, target: str
) -> None:
    module, inputs = product_of(spec, {"m": m, "n": n, "k": k, "b": 2}, dtype, constant, ending)
    assert_rounded_alike(evaluate(lower(module, TARGETS[target]), inputs)[0], evaluate(module, inputs)[0], dtype)


@pytest.mark.parametrize("spec", ["mk,kn->mn", "mk,nk->mn"])
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (ROWS_OF_WEIGHTS, 16), (ROWS_OF_WEIGHTS + 1, 32)])
def test_weights_stay_16_bits_wide_for_few_rows(rows: int, width: int, spec: str) -> None:
    """The packed constant is as narrow as the weights, or as wide as what is computed with."""
    module, _ = product_of(spec, {"m": rows, "n": 256, "k": 128}, bf16, True, True)
    main = lower(module, host()).function("main")
    assert max(element_type(op.result.type).bits for op in main.walk() if isinstance(op, kernel.Data)) == width


def test_what_a_product_gives_to_another_is_stored_as_it_will_be_read() -> None:
    """Rounded to 16 bits, as each op is, but kept in float32: no product converts its rows again and again."""
    main = Func.empty("main", [TensorType((40, 64), bf16)], arg_names=["x"])
    b = Builder.at_end(main.block)
    rng = np.random.default_rng(0)
    value: Any = main.args[0]
    for _ in range(2):
        value = b(tensor.Contract, value, b(tensor.Constant, value=rng.standard_normal((64, 64)).astype(bf16.np)), spec="mk,kn->mn")
    b.insert(Return([value]))
    module = Module.empty()
    module.block.append(main.finish())
    kernels = lower(module, host())
    buffers = [op for op in kernels.function("main").walk() if isinstance(op, kernel.Alloc)]
    assert {element_type(op.result.type) for op in buffers} == {f32}
    x = rng.standard_normal((40, 64)).astype(bf16.np)
    assert_rounded_alike(evaluate(kernels, [x])[0], evaluate(module, [x])[0], bf16)


@pytest.mark.parametrize("dtype", [bf16, f16])
def test_the_pass_leaves_no_contract_of_16_bit_floats(dtype: ScalarType) -> None:
    module, inputs = product_of("bmk,bkn->bmn", {"m": 3, "n": 5, "k": 7, "b": 2}, dtype, False, True)
    wide = module.clone()
    WidenHalves().run(wide)
    assert {element_type(op.result.type) for op in wide.walk() if isinstance(op, tensor.Contract)} == {f32}
    np.testing.assert_array_equal(evaluate(wide, inputs)[0].astype(np.float32), evaluate(module, inputs)[0].astype(np.float32))


def test_products_for_gpus_keep_their_type() -> None:
    """Tensor cores take 16-bit floats as they are."""
    module, _ = product_of("mk,kn->mn", {"m": 32, "n": 32, "k": 32}, bf16, False, False)
    on_gpu = lower(module, find_target("cuda:sm_80"), to="tensor")
    assert {element_type(op.result.type) for op in on_gpu.walk() if isinstance(op, tensor.Contract)} == {bf16}


@pytest.mark.parametrize("lanes_on", [1, 2, 3, 15])
@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
@pytest.mark.parametrize("target", ["native", "x86-64-avx2", "x86-64"])
def test_a_store_of_some_rounded_lanes_leaves_what_stands_behind_them(target: str, dtype: ScalarType, lanes_on: int) -> None:
    machine = find_target(target)
    if machine.arch != host().arch:
        pytest.skip("this machine is of another kind")
    module, (x, y), b = one_function([BufferType((16,), f32)], [BufferType((32,), dtype)])
    zero = b(kernel.Constant, value=0, dtype=index)
    wide = b(kernel.Load, x, zero, lanes=16)
    last = b(kernel.Apply, b(kernel.Broadcast, b(kernel.Constant, value=7.0, dtype=f32), lanes=16), fn="cast", dtype=dtype)
    b(kernel.Store, last, y, zero)
    b(kernel.Store, last, y, b(kernel.Constant, value=16, dtype=index))
    mask = b(kernel.LaneMask, b(kernel.Constant, value=lanes_on, dtype=index), lanes=16)
    b(kernel.Store, b(kernel.Apply, wide, fn="cast", dtype=dtype), y, b(kernel.Constant, value=3, dtype=index), mask)
    finish(b)
    given = np.linspace(-1, 1, 16, dtype=np.float32)
    expected = np.full(32, 7.0, dtype.np)
    expected[3 : 3 + lanes_on] = given[:lanes_on].astype(dtype.np)
    (got,) = compiled(module, [given], machine)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))


WEIGHTS = """
func @main(%x: {x}, %w: {w}) -> {y} attributes {{arg_roles = ["input", "param"]}} {{
  %y = {op} : {y}
  return %y
}}
"""


@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
@pytest.mark.parametrize(
    ("x", "w", "y", "op"),
    [
        ("4x20", "20x33", "4x33", "nn.matmul %x, %w"),
        ("40x20", "130x20", "40x130", "nn.matmul %x, %w {transpose_y = true}"),
        ("2x16x8x8", "32x16x3x3", "2x32x8x8", "nn.conv %x, %w {padding = [1, 1, 1, 1]}"),
    ],
)
def test_weights_that_are_arguments_are_widened_and_packed_when_they_change(x: str, w: str, y: str, op: str, dtype: ScalarType) -> None:
    module = parse_module(WEIGHTS.format(x=f"tensor<{x}x{dtype}>", w=f"tensor<{w}x{dtype}>", y=f"tensor<{y}x{dtype}>", op=op))
    rng = np.random.default_rng(0)
    image, weight = (rng.standard_normal(a.type.shape).astype(dtype.np) for a in module.function().args)
    made = lower(module, host(), prepare="always", verify=True)
    main, prepare = made.function("main"), made.function("prepare")
    packed = evaluate(made, [np.ones(1, np.int64), weight], function="prepare")
    assert "w" not in main.arg_names, "main reads the packed weight only"
    named = {
        "x": image,
        **dict(zip([n for n, role in zip(prepare.arg_names, prepare.arg_roles, strict=True) if role == "output"], packed, strict=True)),
    }
    given = [named[n] for n, role in zip(main.arg_names, main.arg_roles, strict=True) if role != "output"]
    assert_rounded_alike(evaluate(made, given)[0], evaluate(module, [image, weight])[0], dtype)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_recurrent_weights_stay_16_bits_wide(kind: str, dtype: str) -> None:
    layer = getattr(paddle.nn, kind)(24, 40)
    layer.astype(dtype)
    module = model_module(layer, [paddle.static.InputSpec([2, 5, 24], dtype, "x")], freeze=True)
    kernels = lower(module, host())
    recurrent = [
        op for op in kernels.function("main").walk() if isinstance(op, kernel.Call) and str(op.callee).lstrip("@").startswith("recurrence")
    ]
    assert len(recurrent) == 1
    assert sum(element_type(v.type) in (bf16, f16) for v in recurrent[0].operands) == 1
    x = np.random.default_rng(0).standard_normal((2, 5, 24)).astype(module.function().args[0].type.dtype.np)
    for got, expected in zip(evaluate(kernels, [x]), evaluate(module, [x]), strict=True):
        assert_rounded_alike(got, expected, module.function().args[0].type.dtype)
