"""Kernels along an axis in order: running combinations and sorting, beside their references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import tensor
from polyreme.dialects.arrays import cumulate_array, order_array
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, f32, scalar_type
from polyreme.lowering.kernels.general.sort import build_sort, choose_sort, find_sorted, radix_cycles
from polyreme.lowering.kernels.plan import Request
from polyreme.lowering.kernels.way import cycles_of
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module
from polyreme.lowering.transforms.sort_short_rows import CountRanks
from polyreme.runtime.threads import get_num_threads, set_num_threads
from tests.lowering import products

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8"]
SHAPES = [(1,), (5,), (3, 100), (2, 1), (0, 4), (3, 0), (2, 3, 70), (1, 1000), (5, 33)]


def module_of(shape, dtype, *makes):
    main = Func.empty("main", [TensorType(shape, dtype)], arg_roles=("input",))
    b = Builder.at_end(main.block)
    b.insert(Return([make(b, main.args[0]) for make in makes]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


def run(x, *makes, target=None):
    """What each of `makes` gives for `x`, by one module."""
    return compile_module(module_of(x.shape, scalar_type(x.dtype), *makes), target).load().run([x])


def numbers(shape, dtype, seed=0):
    """With equal ones among them; floats with nan, infinities and both zeros."""
    random = np.random.default_rng(seed)
    low = 0 if dtype == "uint8" else -40
    x = random.integers(low, 40, shape).astype(dtype)
    if x.dtype.kind == "f":
        odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-8], dtype)
        places = random.random(shape) < 0.2
        x[places] = random.choice(odd, int(places.sum()))
    return x


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_positions_sort_rows_of_any_length_and_keep_the_order_of_equals(dtype, descending):
    counts = (None, 1, 7)
    for shape in SHAPES:
        x = numbers(shape, dtype)
        results = run(x, *(lambda b, v, count=count: b(tensor.Argsort, v, descending=descending, count=count) for count in counts))
        for count, got in zip(counts, results, strict=True):
            np.testing.assert_array_equal(got, order_array(x, -1, descending)[..., :count], err_msg=f"{shape} {count}")


@settings(max_examples=20)
@given(st.data())
def test_one_kernel_sorts_rows_of_any_number_and_length(data):
    n, m = symbol("N"), symbol("M")
    descending, count = data.draw(st.booleans()), data.draw(st.sampled_from([None, 3, 20]))
    module = module_of((n, m), f32, lambda b, v: b(tensor.Argsort, v, descending=descending, count=count))
    executable = compile_module(module).load()
    for _ in range(3):
        x = numbers((data.draw(st.integers(0, 70)), data.draw(st.integers(0, 300))), "float32", data.draw(st.integers(0, 9)))
        np.testing.assert_array_equal(executable.run([x])[0], order_array(x, -1, descending)[:, :count])


def test_counting_ranks_gives_the_same_positions():
    for dtype in ("float32", "int64", "bool"):
        for descending in (False, True):
            for count in (None, 2):
                x = numbers((3, 9), dtype)
                module = module_of(
                    x.shape, scalar_type(x.dtype), lambda b, v, d=descending, c=count: b(tensor.Argsort, v, descending=d, count=c)
                )
                CountRanks().run(module)
                assert not any(isinstance(op, tensor.Argsort) for op in module.walk())
                np.testing.assert_array_equal(evaluate(module, [x])[0], order_array(x, -1, descending)[:, :count])


def test_only_rows_that_are_short_enough_are_ranked_by_counting():
    for length, stays in ((32, False), (33, True)):
        module = module_of((2, length), f32, lambda b, v: b(tensor.Argsort, v))
        CountRanks(32).run(module)
        assert any(isinstance(op, tensor.Argsort) for op in module.walk()) == stays


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fn", ["add", "mul", "max", "min"])
def test_running_combinations_along_each_axis_are_those_of_the_reference(dtype, fn):
    for shape in [*SHAPES, (7, 40, 33)]:
        x = numbers(shape, dtype)
        if fn in ("add", "mul") and x.dtype.kind == "f":
            x = np.random.default_rng(1).uniform(0.9, 1.1, shape).astype(dtype)
        results = run(x, *(lambda b, v, axis=axis: b(tensor.Cumulate, v, fn=fn, axis=axis) for axis in range(len(shape))))
        for axis, got in enumerate(results):
            wanted = cumulate_array(x, fn, axis)
            if fn in ("max", "min") or x.dtype.kind != "f":
                np.testing.assert_array_equal(got, wanted, err_msg=f"{shape} {axis}")
            else:
                np.testing.assert_allclose(
                    got.astype("f8"), wanted.astype("f8"), rtol=2e-3 if dtype == "float16" else 2e-5, err_msg=f"{shape} {axis}"
                )


@settings(max_examples=20)
@given(st.data())
def test_one_kernel_adds_up_rows_and_columns_of_any_size(data):
    axis = data.draw(st.integers(0, 2))
    module = module_of((symbol("N"), symbol("M"), 3), f32, lambda b, v: b(tensor.Cumulate, v, fn="add", axis=axis))
    executable = compile_module(module).load()
    for _ in range(3):
        shape = (data.draw(st.integers(0, 50)), data.draw(st.integers(0, 600)), 3)
        x = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
        np.testing.assert_array_equal(executable.run([x])[0], cumulate_array(x, "add", axis))


@pytest.mark.parametrize("target", ["x86-64-v1", "x86-64-v3"])
def test_machines_without_masks_do_the_same(target):
    x = numbers((9, 77), "float32")
    machine = find_target(target)
    for count in (None, 5):
        (got,) = run(x, lambda b, v, count=count: b(tensor.Argsort, v, count=count), target=machine)
        np.testing.assert_array_equal(got, order_array(x, -1, False)[:, :count])
    whole = np.random.default_rng(0).integers(-9, 9, (9, 77)).astype("float32")
    for axis in (0, 1):
        (got,) = run(whole, lambda b, v, axis=axis: b(tensor.Cumulate, v, fn="add", axis=axis), target=machine)
        np.testing.assert_array_equal(got, whole.cumsum(axis))


def test_results_do_not_depend_on_the_number_of_threads():
    before = get_num_threads()
    x = np.random.default_rng(0).standard_normal((300, 257)).astype("float32")
    try:
        for make in (
            lambda b, v: b(tensor.Cumulate, v, fn="add", axis=1),
            lambda b, v: b(tensor.Cumulate, v, fn="add", axis=0),
            lambda b, v: b(tensor.Argsort, v),
        ):
            executable = compile_module(module_of(x.shape, f32, make)).load()
            results = []
            for threads in (1, 2):
                set_num_threads(threads)
                results.append(executable.run([x])[0])
            np.testing.assert_array_equal(*results)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("count", [None, 1, 7, 64])
def test_sorts_say_what_was_chosen_and_others_give_the_same_positions(count):
    x, target = numbers((3, 100), "float32"), find_target("x86-64-avx512")
    module = module_of(x.shape, f32, lambda b, v: b(tensor.Argsort, v, descending=True, count=count))
    (own, *others) = products.candidates_of(module, build_sort, target)
    assert own.walk == (count in (1, 7)) and [other.walk for other in others] == ([not own.walk] if count else [])
    for schedule in (own, *others):
        found = evaluate(products.as_said(module, build_sort, str(schedule), target), [x])[0]
        np.testing.assert_array_equal(found, order_array(x, -1, True)[..., :count])


def test_schedules_of_other_sorts_are_refused():
    target = find_target("x86-64-avx512")
    few = module_of((3, 100), f32, lambda b, v: b(tensor.Argsort, v, count=7))
    whole = module_of((3, 100), f32, lambda b, v: b(tensor.Argsort, v))
    assert str(products.candidates_of(few, build_sort, target)[0]) == "sort<walk>"
    products.check_refused(few, build_sort, target, [("walk", "walk, tasks = 3"), ("<walk>", ""), ("walk", "walk, nest = nest<axes = 1>")])
    assert str(products.candidates_of(whole, build_sort, target)[0]) == "sort<tasks = 64>"
    products.check_refused(whole, build_sort, target, [("tasks = 64", "walk"), ("tasks = 64", "tasks = 0")])


@pytest.mark.parametrize(
    ("length", "count", "walks"),
    [(64, 5, True), (1000, 10, True), (10_000, 64, True), ("N", 64, True), (512, 64, False), (1000, 100, False), ("N", 1000, False)],
)
def test_what_is_estimated_to_take_less_is_chosen_for_the_first_few(length, count, walks):
    size = symbol(length) if isinstance(length, str) else length
    module = module_of((8, size), f32, lambda b, v: b(tensor.Argsort, v, count=count))
    assert products.candidates_of(module, build_sort, find_target("x86-64-avx512"))[0].walk == walks


@pytest.mark.parametrize("length", [64, 1000, 100_000])
def test_the_estimate_of_a_sort_is_near_what_its_kernel_does(length):
    request = Request(module_of((1, length), f32, lambda b, v: b(tensor.Argsort, v)).function("main"), find_target("x86-64-avx512"))
    found = find_sorted(request)
    assert 1 / 3 < radix_cycles(found) / cycles_of(build_sort.plan(found, choose_sort(found)), request) < 3.1
