"""Complex numbers and their parts, which have no row in the table of cases since that is run in real types."""

import numpy as np
import pytest

from polyreme.dialects import nn
from polyreme.ir.diagnostics import InferError
from polyreme.ir.types import TensorType, c64, c128, f32, f64, i32
from polyreme.lowering.pipeline import compile_module
from tests.nn_cases import OF_COMPLEX, Case

SHAPES = [(), (0, 3), (1,), (3, 5)]
PARTS = {np.dtype("complex64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("float64")}


def numbers(shape, dtype):
    rng = np.random.default_rng(5)
    return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", PARTS, ids=str)
def test_parts_are_half_as_wide_and_make_the_number_again(dtype, shape):
    x = numbers(shape, dtype)
    real, imag = nn.Real.reference(x), nn.Imag.reference(x)
    assert real.dtype == imag.dtype == PARTS[dtype] and real.shape == imag.shape == shape
    for number, a, b in zip(x.ravel().tolist(), real.ravel().tolist(), imag.ravel().tolist(), strict=True):
        assert (number.real, number.imag) == (a, b)
    again = nn.Complex.reference(real, imag)
    assert again.dtype == dtype
    np.testing.assert_array_equal(again, x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", PARTS, ids=str)
def test_a_conjugate_has_the_imaginary_part_negated(dtype, shape):
    x = numbers(shape, dtype)
    found = nn.Conj.reference(x)
    assert found.dtype == dtype
    assert [complex(n.real, -n.imag) for n in x.ravel().tolist()] == found.ravel().tolist()


def test_parts_are_the_memory_of_nothing_else():
    x = numbers((4,), np.dtype("complex64"))
    assert not np.shares_memory(nn.Real.reference(x), x) and not np.shares_memory(nn.Imag.reference(x), x)


def test_types_of_results():
    assert nn.Real.infer(TensorType((2, 3), c64)) == TensorType((2, 3), f32)
    assert nn.Imag.infer(TensorType((2, 3), c128)) == TensorType((2, 3), f64)
    assert nn.Conj.infer(TensorType((), c64)) == TensorType((), c64)
    assert nn.Complex.infer(TensorType((2, 1), f32), TensorType((3,), f32)) == TensorType((2, 3), c64)


@pytest.mark.parametrize(
    ("op", "types"),
    [(nn.Real, [f32]), (nn.Imag, [i32]), (nn.Conj, [f64]), (nn.Complex, [f32, f64]), (nn.Complex, [i32, i32])],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_other_elements_are_refused(op, types):
    with pytest.raises(InferError, match="expected"):
        op.infer(*(TensorType((2,), t) for t in types))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", sorted(OF_COMPLEX, key=lambda op: op.name), ids=lambda op: op.name)
def test_machine_code_gives_what_the_reference_does(op, shape):
    x = numbers(shape, np.dtype("complex64"))
    operands = (x.real.copy(), x.imag.copy()) if op is nn.Complex else (x,)
    (got,) = compile_module(Case(op.name, op, operands).module()).load().run(list(operands))
    want = op.reference(*operands)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
