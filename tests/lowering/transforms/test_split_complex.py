"""Complex numbers compile as their parts: the same results as by the evaluator, after every pass and as machine code."""

import numpy as np
import pytest

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.types import TensorType, c64, c128, f32, f64, i1, i64
from polyreme.ir.verify import verify
from polyreme.lowering.decompose.nn_to_tensor import nn_to_tensor
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.transforms.split_complex import SplitComplex

N = symbol("N")
TYPES = pytest.mark.parametrize("dtype", [c64, pytest.param(c128, marks=pytest.mark.slow)], ids=str)


def module_of(types, build):
    main = Func.empty("main", [TensorType(shape, dtype) for shape, dtype in types], arg_roles=("input",) * len(types))
    b = Builder.at_end(main.block)
    made = build(b, *main.args)
    b(Return, made if isinstance(made, tuple) else (made,))
    module = Module.empty()
    module.block.append(main.finish())
    verify(module)
    return module


def data_of(types, size=5):
    rng = np.random.default_rng(len(types))
    arrays = []
    for shape, dtype in types:
        shape = tuple(n if isinstance(n, int) else size for n in shape)
        if dtype.kind == "c":
            arrays.append((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype.np))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(dtype.np) if not dtype.is_float else rng.standard_normal(shape).astype(dtype.np))
    return arrays


def check(types, build, size=5):
    """Every pass keeps what the module means, and its machine code gives that."""
    module, arrays = module_of(types, build), data_of(types, size)
    lower(module, verify=True, inputs=arrays)
    for got, want in zip(compile_module(module).load().run(arrays), evaluate(module, arrays), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(
            got, want, rtol=1e-12 if want.dtype.itemsize == 16 else 1e-5, atol=1e-5 if want.dtype == np.complex64 else 1e-12
        )


@TYPES
@pytest.mark.parametrize("op", [nn.Add, nn.Sub, nn.Mul, nn.Div, nn.Equal, nn.NotEqual])
def test_elementwise_ops_of_two_operands_repeat_sizes_of_1(op, dtype):
    check([((N, 3), dtype), ((1, 3), dtype)], lambda b, x, y: (b(op, x, y), b(op, x, x)))
    check([((N, 3), dtype), ((), dtype)], lambda b, x, y: b(op, y, x))


@TYPES
def test_parts_and_numbers_made_of_parts(dtype):
    check([((N, 3), dtype)], lambda b, x: (b(nn.Real, x), b(nn.Imag, x), b(nn.Conj, x), b(nn.Neg, x)))
    check([((N, 3), dtype), ((3,), dtype)], lambda b, x, y: b(nn.Complex, b(nn.Imag, x), b(nn.Real, y)))
    check([((), dtype)], lambda b, x: b(nn.Mul, x, b(nn.Conj, x)))


def test_division_neither_overflows_nor_divides_by_0_where_the_quotient_is_a_number():
    x = np.array([3e30 + 3e30j, 1 + 2j, 1e-30 + 0j, 5j, 2 + 1j], np.complex64)
    y = np.array([2e30 - 1e30j, 0 + 2j, 1e-30 - 1e-30j, 3 + 0j, 1e-20 + 1e20j], np.complex64)
    (got,) = compile_module(module_of([((5,), c64)] * 2, lambda b, x, y: b(nn.Div, x, y))).load().run([x, y])
    np.testing.assert_allclose(got, x / y, rtol=1e-6)


@TYPES
def test_what_moves_elements_moves_both_parts(dtype):
    def moved(b, x):
        flipped = b(nn.Flip, b(nn.Transpose, x, perm=(1, 0)), axes=(0,))
        return b(nn.Concat, [b(nn.Reshape, flipped, shape=(5, 3, 1)), b(nn.Reshape, x, shape=(5, 3, 1))], axis=2), b(
            nn.Slice, x, starts=(1, 0), stops=(3, 5), strides=(1, 2)
        )

    check([((3, 5), dtype)], moved)
    check([((3, N), dtype)], lambda b, x: b(tensor.Pad, x, low=(1, 0), high=(0, 2), interior=(0, 0), value=3.0))
    check([((N, 4), dtype), ((2,), i64)], lambda b, x, i: b(tensor.Gather, x, i, axis=0))
    check([((N, 4), dtype), ((2,), i64), ((2, 4), dtype)], lambda b, x, i, u: b(tensor.Scatter, x, i, u, axis=0, fn="add"))
    check([((N, 4), dtype), ((N, 1), i1)], lambda b, x, c: b(tensor.Map, c, x, b(tensor.Full, value=0.5, dtype=dtype), fn="select"))


@TYPES
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_sums(dtype, axes):
    check([((N, 40), dtype)], lambda b, x: b(nn.Sum, b(nn.Mul, x, x), axis=axes))


@TYPES
def test_products_of_matrices(dtype):
    check([((N, 7), dtype), ((7, 9), dtype)], lambda b, x, y: b(nn.MatMul, x, y))
    weight = data_of([((7, 9), dtype)])[0]
    check(
        [((2, N, 7), dtype)],
        lambda b, x: b(nn.Add, b(nn.MatMul, x, b(nn.Constant, value=weight)), b(nn.Full, value=1, shape=(9,), dtype=dtype)),
    )


@pytest.mark.parametrize("real, dtype", [(f32, c64), (f64, c128), (i64, c64)])
def test_real_numbers_become_complex_ones_and_back(real, dtype):
    check([((N, 3), real), ((3,), dtype)], lambda b, x, y: b(nn.Mul, b(nn.Cast, x, dtype=dtype), y))
    check([((3,), dtype)], lambda b, x: (b(nn.Cast, x, dtype=c64), b(nn.Cast, x, dtype=c128), b(nn.Cast, x, dtype=i1)))


def test_an_argument_is_returned_as_it_is():
    check([((N, 3), c64)], lambda b, x: (x, b(nn.Add, x, x), x))


def test_a_chain_of_complex_ops_is_one_kernel_that_reads_numbers_where_they_stand():
    module = lower(module_of([((N, 8), c64)] * 2, lambda b, x, y: b(nn.Add, b(nn.Mul, x, y), b(nn.Conj, x))))
    assert len(list(module.functions)) == 2  # `main` is the other one


def test_what_has_no_code_is_an_error_that_names_it():
    with pytest.raises(PolyremeError, match=r"expected real numbers for 'tensor.reduce' by 'mul' but got complex ones"):
        lower(module_of([((4,), c64)], lambda b, x: b(tensor.Reduce, x, fn="mul", axes=(0,))))


def test_real_functions_are_left_alone():
    module = module_of([((4,), f32)], lambda b, x: b(nn.Exp, x))
    made = PassManager([nn_to_tensor]).run(module.clone())
    before = str(made)
    assert str(PassManager([SplitComplex()]).run(made)) == before
