"""Elementwise results past the caches in whole lines: the same numbers at any place in memory, each written once."""

from dataclasses import replace

import numpy as np
import pytest

from polyreme.dialects import kernel, tensor
from polyreme.dialects.kernel.common import lanes_of
from polyreme.ir.dims import Dim, symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.types import f32, f64, i8
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import TARGETS, host
from polyreme.lowering.pipeline import BUILDERS
from polyreme.lowering.schedule.bufferize import TensorToKernel
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering.schedule.test_tensor_to_kernel import lowered, module_of, softmax

# Caches so small that arrays of a test are larger.
SMALL = {"caches": (4 << 10, 8 << 10, 16 << 10), "memory_streams": 8, "serial_cycles": 500, "grain_cycles": 500}
WIDTHS = {"whole lines": {}, "half lines": {"vector_bytes": 32}, "no masks": {"vector_bytes": 32, "masked": False}}


N = symbol("N")


def chain(fn):
    def make(b, x, *rows):
        y = b(tensor.Map, x, x, fn="mul")
        for row in rows:
            y = b(tensor.Map, y, b(tensor.Broadcast, row, shape=x.type.shape), fn="add")
        return b(tensor.Map, y, fn=fn)

    return make


def case(shape, dtype, fn):
    return module_of([(shape, dtype), *([((1, shape[1]), dtype)] if len(shape) > 1 else [])], chain(fn))


def at_offset(array, bytes):
    """A copy of an array that begins so many bytes behind a line of memory."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 64 + bytes
    found = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def counts(module):
    """Beginnings of lines, lines asked for, and stores of whole vectors past the caches."""
    ops = list(module.walk())
    stores = [op for op in ops if isinstance(op, kernel.Store) and op.streaming and op.align is not None]
    return sum(isinstance(op, kernel.UntilAligned) for op in ops), sum(isinstance(op, kernel.Prefetch) for op in ops), len(stores)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("fn", ["abs", "tanh"])
@pytest.mark.parametrize("shape", [(6001,), (7, 1024), (6, 1001)])
def test_arrays_at_any_place_in_memory_by_any_number_of_threads(shape, fn, dtype, width):
    module = case(shape, dtype, fn)
    made = lowered(module, replace(host(), **SMALL, **WIDTHS[width]))
    assert counts(made)[0] == 1
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(dtype.np) for s in (shape, (1, *shape[1:]))[: len(shape)]]
    (expected,) = evaluate(module, inputs)
    np.testing.assert_allclose(evaluate(made, inputs)[0], expected, rtol=1e-6)
    executable = load(build_artifact(made.clone(), host(), "lines"))
    before, first = get_num_threads(), None
    try:
        for threads, read, written in ((1, 0, 0), (1, 16, 8), (2, 8, 40), (3, 56, 16)):
            set_num_threads(threads)
            out = at_offset(np.full(shape, np.nan, dtype.np), written)
            executable.run([at_offset(x, read) for x in inputs], [out])
            first = out if first is None else first
            np.testing.assert_array_equal(out, first)
    finally:
        set_num_threads(before)
    np.testing.assert_allclose(first, expected, rtol=1e-6)


def test_results_of_two_types_and_an_operand_of_bytes():
    def make(b, x, y):
        z = b(tensor.Map, b(tensor.Map, x, fn="cast", dtype=f32), y, fn="add")
        return z, b(tensor.Map, z, fn="cast", dtype=f64)

    module = module_of([((5003,), i8), ((5003,), f32)], make)
    made = lowered(module, replace(host(), **SMALL))
    assert counts(made)[0] == 1
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-9, 9, 5003).astype(np.int8), rng.standard_normal(5003).astype(np.float32)]
    for expected, on_numpy, native in zip(
        evaluate(module, inputs), evaluate(made, inputs), load(build_artifact(made.clone(), host(), "two")).run(inputs), strict=True
    ):
        np.testing.assert_array_equal(on_numpy, expected)
        np.testing.assert_array_equal(native, expected)


def test_results_in_the_place_of_operands():
    module = case((40, 1024), f32, "tanh")
    made = PassManager([TensorToKernel(replace(host(), **SMALL), BUILDERS)], verify_each=True).run(module.clone())
    assert counts(made)[0] > 1
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((40, 1024), (1, 1024))]
    (got,) = load(build_artifact(made, host(), "in_place")).run(inputs)
    np.testing.assert_allclose(got, evaluate(module, inputs)[0], rtol=1e-6)


def test_only_large_results_of_elementwise_loops_and_only_where_the_target_says_so():
    def made(shape=(1 << 16,), fn="abs", **of_target):
        return counts(lowered(case(shape, f32, fn), replace(TARGETS["x86-64-avx512"], **{**SMALL, **of_target})))

    assert made() == (1, 1, 1)
    # Functions that wait take two vectors at once.
    assert made(fn="tanh") == (1, 2, 1)
    # Of a row that all rows are added to, nothing is asked for.
    assert made((64, 1024)) == (1, 1, 1)
    assert made((256, 256)) == made(memory_streams=1) == made(caches=(32 << 10, 1 << 20, 16 << 20)) == (0, 0, 0)
    target = replace(TARGETS["x86-64-avx512"], **SMALL)
    assert counts(lowered(module_of([((64, 1024), f32)], lambda b, x: softmax(b, x, 1)), target)) == (0, 0, 0)
    assert counts(lowered(module_of([((64, 1024), f32)] * 2, lambda b, x, y: b(tensor.Concat, [x, y], axis=1)), target)) == (0, 0, 0)


@pytest.mark.parametrize(("width", "streams"), [(256, True), (254, False)])
def test_rows_that_begin_between_two_pieces_are_not_streamed(width: int, streams: bool):
    module = module_of([((64, width - 2), f32)], lambda b, x: b(tensor.Pad, x, low=(0, 1), high=(0, 1), interior=(0, 0), value=0.0))
    made = lowered(module, replace(TARGETS["x86-64-avx512"], **SMALL))
    assert any(isinstance(op, kernel.Store) and op.streaming for op in made.walk()) == streams
    x = np.random.default_rng(3).standard_normal((64, width - 2)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(made, [x])[0], np.pad(x, ((0, 0), (1, 1))))


@pytest.mark.parametrize(
    ("name", "size", "fn", "lanes"),
    [
        ("x86-64-avx512", 64, "tanh", 32), ("x86-64-avx512", 63, "tanh", 16), ("x86-64-avx512", N, "tanh", 32),
        ("x86-64-avx2", 64, "tanh", 32), ("x86-64-avx2", 63, "tanh", 16),
        ("x86-64-avx2", 31, "tanh", 8), ("x86-64-avx2", N, "tanh", 16), ("x86-64-avx2", 64, "erf", 32), ("x86-64-avx2", 64, "sin", 16),
        ("x86-64-avx2", 64, "abs", 8), ("x86-64-avx512", 64, "sin", 16), ("aarch64", 64, "tanh", 4),
    ],
)  # fmt: skip
def test_functions_that_wait_take_several_vectors_at_once(name: str, size: Dim, fn: str, lanes: int):
    made = lowered(module_of([((size,), f32)], lambda b, x: b(tensor.Map, x, fn=fn)), TARGETS[name])
    assert max(lanes_of(op.result.type) for op in made.walk() if isinstance(op, kernel.Load)) == lanes


def test_how_many_elements_come_before_a_line():
    memory = np.zeros(64, np.float32)
    assert [kernel.UntilAligned.reference(memory, i, bytes=64) for i in (0, 1, 15, 16, 17)] == [0, 15, 1, 0, 15]
