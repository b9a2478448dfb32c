"""Where the extreme of a long row stands, by sweeps in vectors."""

import numpy as np
import pytest

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.types import TensorType, i32, i64, scalar_type
from polyreme.lowering.pipeline import compile_module
from polyreme.lowering.transforms.argmax import ExtremesInTwoPasses


def module_of(shape, dtype, fn, axis=-1, keepdims=False, positions=i64):
    main = Func.empty("main", [TensorType(shape, scalar_type(np.dtype(dtype)))], arg_roles=("input",))
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.ArgReduce, main.args[0], fn=fn, axis=axis % len(shape), keepdims=keepdims, dtype=positions)]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


def left(module):
    ExtremesInTwoPasses().run(module)
    return [op for op in module.walk() if isinstance(op, tensor.ArgReduce)]


@pytest.mark.parametrize("fn", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
def test_the_first_extreme_of_a_row_is_found(dtype, fn):
    random = np.random.default_rng(0)
    for shape in ((3, 16), (2, 5, 33), (1, 1000), (0, 20)):
        x = random.integers(0, 9, shape).astype(dtype)
        executable = compile_module(module_of(shape, dtype, fn)).load()
        np.testing.assert_array_equal(executable.run([x])[0], getattr(np, f"arg{fn}")(x, -1))


@pytest.mark.parametrize("fn", ["max", "min"])
def test_the_first_nan_of_a_row_comes_before_all_numbers(fn):
    x = np.random.default_rng(0).standard_normal((5, 40)).astype("float32")
    x[1, 7] = x[1, 30] = np.nan
    x[2, 3], x[2, 5] = np.inf, np.nan
    x[3], x[4] = np.nan, -np.inf
    executable = compile_module(module_of((symbol("N"), symbol("M")), "float32", fn, keepdims=True, positions=i32)).load()
    for rows in (x, x[:, :17], x[:2]):
        got = executable.run([rows])[0]
        assert got.dtype == np.int32
        np.testing.assert_array_equal(got, getattr(np, f"arg{fn}")(rows, -1, keepdims=True))


def test_short_rows_and_columns_are_looked_through_element_by_element():
    assert left(module_of((4, 15), "float32", "max"))
    assert left(module_of((40, 40), "float32", "max", axis=0))
    assert not left(module_of((4, 16), "float32", "max"))
    assert not left(module_of((4, symbol("N")), "float32", "max"))
