"""Reductions of everything: in rows, which several threads share, with the same result for any number of them."""

import numpy as np
import pytest

from polyreme.dialects import kernel, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, scalar_type
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.transforms.long_reductions import ReduceRowsFirst
from polyreme.runtime.threads import get_num_threads, set_num_threads


def module_of(shape, fn="add", dtype="float32", axes=None, keepdims=False, squares=False):
    main = Func.empty("main", [TensorType(shape, scalar_type(np.dtype(dtype)))], arg_roles=("input",))
    b = Builder.at_end(main.block)
    (x,) = main.args
    reduced = b(tensor.Map, x, x, fn="mul") if squares else x
    b.insert(Return([b(tensor.Reduce, reduced, fn=fn, axes=tuple(range(len(shape))) if axes is None else axes, keepdims=keepdims)]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


def steps(module):
    """The axes of each reduction that is left."""
    ReduceRowsFirst().run(module)
    return [op.axes for op in module.walk() if isinstance(op, tensor.Reduce)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("shape", "keepdims"), [((1031, 1021), False), ((4, 40, 3, 1200), True), ((1, 700, 1, 769), False)])
@pytest.mark.parametrize("fn", ["add", "max"])
def test_everything_is_reduced_to_the_same_bits_by_any_number_of_threads(shape, keepdims, dtype, fn):
    module = module_of(shape, fn, dtype, keepdims=keepdims, squares=True)
    assert len(steps(module.clone())) == 2
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    executable = compile_module(module).load()
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2, 3, 8):
            set_num_threads(threads)
            found.append(executable.run([x])[0])
    finally:
        set_num_threads(before)
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    np.testing.assert_allclose(found[0], evaluate(module, [x])[0], rtol=1e-5)


def test_one_nan_is_the_sum_and_the_largest_of_all():
    x = np.ones((1024, 600), np.float32)
    x[700, 599] = np.nan
    for fn in ("add", "max"):
        assert np.isnan(compile_module(module_of(x.shape, fn)).load().run([x])[0])


def test_rows_are_as_many_as_keep_threads_loaded_and_no_shorter_than_pays():
    assert steps(module_of((1024, 1024))) == [(1,), (0, 1)]
    assert steps(module_of((8, 64, 56, 56))) == [(2, 3), (0, 1, 2, 3)]
    assert steps(module_of((16, 64, 56, 56))) == [(1, 2, 3), (0, 1, 2, 3)]
    assert steps(module_of((1 << 20, 8))) == [(0, 1)]


def test_what_one_thread_does_as_well_or_16_bits_would_round_stays_one_reduction():
    assert steps(module_of((146, 1023))) == [(0, 1)]
    assert steps(module_of((147, 1023))) == [(1,), (0, 1)]
    assert steps(module_of((1 << 20,))) == [(0,)]
    assert steps(module_of((1024, 1024), axes=(1,))) == [(1,)]
    assert steps(module_of((4, 512, 1024), axes=(1, 2))) == [(1, 2)]
    assert steps(module_of((symbol("N"), 1024))) == [(0, 1)]
    assert steps(module_of((1024, 1024), dtype="float16")) == [(0, 1)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("fn", ["add", "max"])
def test_all_pixels_are_reduced_for_each_channel_to_the_same_bits_by_any_number_of_threads(fn, keepdims):
    shape = (6, 31, 29, 40)
    module = module_of(shape, fn, axes=(0, 1, 2), keepdims=keepdims, squares=True)
    assert steps(module.clone()) == [(2,), (0, 1, 2)]
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    executable = compile_module(module).load()
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            set_num_threads(threads)
            found.append(executable.run([x])[0])
    finally:
        set_num_threads(before)
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    np.testing.assert_allclose(found[0], evaluate(module, [x])[0], rtol=1e-5)


def test_channels_of_which_each_task_has_some_and_few_pixels_stay_one_reduction():
    pixels = (0, 1, 2)
    assert steps(module_of((8, 112, 112, 64), axes=pixels)) == [(2,), pixels]
    assert steps(module_of((16, 56, 56, 64), axes=pixels)) == [(1, 2), pixels]
    assert steps(module_of((4, 8, 28, 28, 128), axes=(1, 2, 3))) == [(2, 3), (1, 2, 3)]
    assert steps(module_of((8, 8, 8, 128), axes=pixels)) == [pixels]
    assert steps(module_of((8, 7, 7, 2048), axes=pixels)) == [pixels]
    assert steps(module_of((4096, 4, 64), axes=(0, 1))) == [(0, 1)]
    assert steps(module_of((64, 8, 56, 56), axes=(0, 2, 3))) == [(0, 2, 3)]
    assert steps(module_of((symbol("N"), 56, 56, 64), axes=pixels)) == [pixels]


def test_sums_side_by_side_cost_as_many_vectors_as_they_are_wide_and_threads_share_them():
    module = lower(module_of((8, 56, 56, 64), axes=(2,)), find_target("x86-64-avx512"))
    assert any(isinstance(op, kernel.Parallel) for op in module.walk())
    module = lower(module_of((8, 56, 8, 64), axes=(2,)), find_target("x86-64-avx512"))
    assert not any(isinstance(op, kernel.Parallel) for op in module.walk())
