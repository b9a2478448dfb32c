"""Evaluation: inputs are checked by name, sizes are bound, failures are located."""

import tracemalloc

import numpy as np
import pytest

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import EvaluateError, evaluate, random_inputs, resolve, resolve_all, with_sizes
from polyreme.ir.text import parse_module
from polyreme.ir.types import TensorType, f32

MATMUL = parse_module(
    """
func @main(%x: tensor<NxKxf32>, %w: tensor<Kx3xf32>) -> tensor<Nx3xf32> {
  %y = tensor.contract %x, %w {spec = "nk,km->nm"}
  return %y
}
"""
)
X, W = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)


def test_sizes_are_bound_from_the_inputs():
    np.testing.assert_array_equal(evaluate(MATMUL, [X, W])[0], np.full((2, 3), 4, np.float32))
    assert evaluate(MATMUL, [X[:0], W])[0].shape == (0, 3)
    with pytest.raises(EvaluateError):
        resolve(symbol("N"))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], "expected 2 inputs for '@main' but got 1"),
        ([X[0], W], "expected the argument 'x' of '@main' to be tensor<NxKxf32> but got float32[4]"),
        ([X.astype(np.float64), W], "expected the argument 'x' of '@main' to be tensor<NxKxf32> but got float64[2, 4]"),
        ([X, W[:, :2]], "expected the argument 'w' of '@main' to be tensor<Kx3xf32> but got float32[4, 2], with N = 2, K = 4"),
        ([X, W[:3]], "expected the argument 'w' of '@main' to be tensor<Kx3xf32> but got float32[3, 3], with K = 4 from another argument"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs, message):
    with pytest.raises(EvaluateError) as caught:
        evaluate(MATMUL, inputs)
    assert message in str(caught.value)


def test_sizes_that_follow_from_others_are_checked():
    module = parse_module("func @main(%x: tensor<Nxf32>, %y: tensor<(2*N+1)xf32>) -> tensor<Nxf32> {\n return %x\n}")
    evaluate(module, [np.zeros(2, np.float32), np.zeros(5, np.float32)])
    with pytest.raises(
        EvaluateError, match=r"expected the argument 'y' of '@main' to be tensor<\(2\*N\+1\)xf32> but got float32\[4\], with N = 2"
    ):
        evaluate(module, [np.zeros(2, np.float32), np.zeros(4, np.float32)])


def test_resolve_asks_for_the_sizes_of_the_run():
    n = symbol("N")
    with with_sizes({"N": 3}):
        assert resolve_all((n, 2 * n + 1, 5)) == (3, 7, 5)
    with pytest.raises(EvaluateError, match="no value for the size 'N'"):
        resolve(n)


def test_a_reference_that_disagrees_with_inference_is_found(monkeypatch):
    monkeypatch.setattr(tensor.Map, "reference", staticmethod(lambda xs, *, fn, dtype: xs[0].astype(np.float64)))
    module = parse_module('func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n %y = tensor.map %x {fn = "exp"}\n return %y\n}', "net.tir")
    with pytest.raises(EvaluateError, match=r"net.tir:2:7: error\[E0308\]: 'tensor.map' should make tensor<2xf32> but made float64\[2\]"):
        evaluate(module, [np.zeros(2, np.float32)])


def test_a_failure_of_numpy_is_located(monkeypatch):
    def reference(xs, *, fn, dtype):
        raise IndexError("index 7 is out of bounds")

    monkeypatch.setattr(tensor.Map, "reference", staticmethod(reference))
    module = parse_module('func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n %y = tensor.map %x {fn = "exp"}\n return %y\n}', "net.tir")
    with pytest.raises(EvaluateError, match=r"net.tir:2:7: error\[E0308\]: 'tensor.map' failed: index 7 is out of bounds"):
        evaluate(module, [np.zeros(2, np.float32)])


def test_endless_calls_are_stopped():
    module = parse_module(
        "func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n %y = func.call %x {callee = @main} : tensor<2xf32>\n return %y\n}"
    )
    with pytest.raises(EvaluateError, match="expected at most 64 calls inside each other"):
        evaluate(module, [np.zeros(2, np.float32)])


COPY = """
func @main(%x: buffer<Nx2xf32>, %y: buffer<Nx2xf32>) attributes {arg_roles = ["input", "output"]} {
  %zero = kernel.size {value = 0} : index
  %n = kernel.size {value = SIZE} : index
  kernel.for %zero, %n { (%i: index)
    %v = kernel.load %x, %i : f32
    kernel.store %v, %y, %i
    kernel.yield
  }
  return
}
"""


def test_buffers_are_written_in_place_or_made():
    module = parse_module(COPY.replace("SIZE", "2*N"))
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((3, 2), np.float32)
    assert evaluate(module, [x, y])[0] is y
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(evaluate(module, [x])[0], x)


def test_what_no_store_reached_is_nan():
    result = evaluate(parse_module(COPY.replace("SIZE", "N")), [np.ones((2, 2), np.float32)])[0]
    np.testing.assert_array_equal(result, [[1, 1], [np.nan, np.nan]])


def test_a_position_outside_of_a_buffer_is_an_error():
    with pytest.raises(EvaluateError, match="'kernel.load'"):
        evaluate(parse_module(COPY.replace("SIZE", "2*N+1")), [np.ones((2, 2), np.float32)])


def test_random_inputs_fit_and_repeat():
    func = MATMUL.function()
    x, w = random_inputs(func, seed=1, size=4)
    assert (x.shape, w.shape, x.dtype) == ((4, 4), (4, 3), np.float32)
    np.testing.assert_array_equal(x, random_inputs(func, seed=1, size=4)[0])
    assert [a.shape for a in random_inputs(parse_module(COPY.replace("SIZE", "N")).function())] == [(3, 2)]


def test_random_inputs_have_imaginary_parts():
    """Else a pass could mix up the parts of complex numbers, and no run before and after would show it."""
    (z,) = random_inputs(parse_module("func @main(%z: tensor<9xcomplex<f32>>) { return }").function())
    assert z.real.any() and z.imag.any() and not np.array_equal(z.real, z.imag)


@pytest.mark.parametrize("fn", ["add", "sub", "mul", "min", "max"])
def test_single_positions_are_reckoned_with_as_arrays_of_them_are(fn: str) -> None:
    least, most = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    for a, b in [(3, 4), (-7, 5), (most, 1), (least, 1), (most, most), (least, -1)]:
        one = kernel.Apply.reference([np.int64(a), np.int64(b)], fn=fn, dtype=None)
        several = kernel.Apply.reference([np.array([a, a]), np.array([b, b])], fn=fn, dtype=None)
        assert type(one) is np.int64 and list(several) == [one, one]


def test_values_that_nobody_reads_any_more_give_their_memory_back():
    main = Func.empty("main", [TensorType((1 << 20,), f32)], arg_roles=("input",))
    b = Builder.at_end(main.block)
    value = first = b(tensor.Map, main.args[0], fn="neg")
    for _ in range(12):
        value = b(tensor.Map, value, fn="neg")
    b.insert(Return([b(tensor.Map, value, first, fn="add")]))
    main.finish()
    module = Module.empty()
    module.block.append(main)
    array = np.ones(1 << 20, "float32")
    evaluate(module, [array])  # what is imported on the way
    tracemalloc.start()
    (found,) = evaluate(module, [array])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found, -2 * array)
    assert peak < 5 * array.nbytes
