"""Single elements taken from computed places, beside the evaluator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyreme.dialects import nn, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.types import TensorType, i64, scalar_type
from polyreme.lowering.kernels.general.loops import build_scatter, build_take
from polyreme.lowering.kernels.general.take import LEAST, taken_elements
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.transforms.fuse import Fuse
from tests.lowering import products

# Elements whose places a quarter of 32 KiB holds.
RUN = 1024


def module_of(size, shape, dtype="float32", positions="int64", after=None):
    """x[2 * which + row], `row` being a column of numbers; with `after`, a function of what is taken."""
    column = (*shape[:-1], 1)
    types = [
        TensorType((size,), scalar_type(np.dtype(dtype))),
        TensorType(shape, scalar_type(np.dtype(positions))),
        TensorType(column, scalar_type(np.dtype(positions))),
    ]
    main = Func.empty("main", types, arg_names=("x", "which", "row"), arg_roles=("input",) * 3)
    b = Builder.at_end(main.block)
    x, which, row = main.args
    places = b(tensor.Map, b(tensor.Map, which, which, fn="add"), row, fn="add")
    taken = b(tensor.Gather, x, places, axis=0)
    b.insert(Return([b(tensor.Map, taken, fn=after) if after else taken]))
    module = Module.empty()
    module.block.append(main.finish())
    return module


def check(module, arrays):
    (got,), (want,) = compile_module(module.clone()).load().run(arrays), evaluate(module, arrays)
    np.testing.assert_array_equal(got, want)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_elements_come_from_where_their_places_say(data):
    rows = data.draw(st.lists(st.integers(1, 3), max_size=2))
    length = data.draw(st.one_of(st.integers(1, 200), st.integers(RUN - 9, RUN + 9), st.integers(2 * RUN, 2 * RUN + 70)))
    size = data.draw(st.integers(1, 4000))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int8", "float16", "int64", "bool"]))
    positions = data.draw(st.sampled_from(["int64", "int32"]))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = (*rows, length)
    # Negative places count from the end, and some are outside.
    which, row = random.integers(-size, size + 2, shape).astype(positions), random.integers(-3, 3, (*rows, 1)).astype(positions)
    check(module_of(size, shape, dtype, positions), [random.integers(0, 100, size).astype(dtype), which, row])


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.lists(st.integers(1, 3), max_size=1),
    st.integers(1, 300),
    st.integers(1, 80),
    st.integers(0, 99),
)
def test_elements_of_all_rows_are_taken_at_the_same_places(rows, outer, length, size, seed):
    random = np.random.default_rng(seed)
    types = [TensorType((*rows, size), scalar_type(np.dtype("float32"))), TensorType((*outer, length), i64)]
    main = Func.empty("main", types, arg_roles=("input",) * 2)
    b = Builder.at_end(main.block)
    b.insert(Return([b(tensor.Gather, *main.args, axis=len(rows))]))
    module = Module.empty()
    module.block.append(main.finish())
    check(module, [random.standard_normal((*rows, size)).astype("float32"), random.integers(-size, size + 2, (*outer, length))])


@pytest.mark.parametrize("shape", [(3, 100), (2, 1100), (1, 63), (5, 1)])
def test_sizes_may_be_open(shape):
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(500).astype("float32"), random.integers(-200, 200, shape), random.integers(0, 9, (shape[0], 1))]
    got = compile_module(module_of(symbol("S"), (symbol("N"), symbol("M")))).load().run(arrays)[0]
    np.testing.assert_array_equal(got, arrays[0][np.clip(np.where((p := 2 * arrays[1] + arrays[2]) < 0, p + 500, p), 0, 499)])


def test_what_computes_the_places_of_single_elements_is_a_part_of_their_kernel():
    for after in (None, "neg"):
        module = module_of(500, (8, 100), after=after)
        Fuse().run(module)
        (fused,) = [op for op in module.function("main").block if op.dialect == "tensor"]
        assert isinstance(fused, tensor.Fused)


def test_places_of_whole_rows_are_computed_once_before():
    main = Func.empty("main", [TensorType((50, 40), scalar_type(np.dtype("float32"))), TensorType((30,), i64)], arg_roles=("input",) * 2)
    b = Builder.at_end(main.block)
    x, which = main.args
    b.insert(Return([b(tensor.Gather, x, b(tensor.Map, which, which, fn="add"), axis=0)]))
    module = Module.empty()
    module.block.append(main.finish())
    Fuse().run(module)
    assert [op.name for op in module.function("main").block if op.dialect == "tensor"] == ["tensor.map", "tensor.gather"]


def test_short_rows_and_whole_rows_are_left_to_other_loops():
    def gather(x, which):
        main = Func.empty("main", [TensorType(x, scalar_type(np.dtype("float32"))), TensorType(which, i64)], arg_roles=("input",) * 2)
        return Builder.at_end(main.block)(tensor.Gather, *main.args, axis=0)

    assert taken_elements([gather((100,), (3, LEAST))]) is not None
    assert taken_elements([gather((100,), (3, LEAST - 1))]) is None
    assert taken_elements([gather((100, 8), (3, LEAST))]) is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_what_is_added_at_some_places_needs_no_zeros(dtype):
    element = scalar_type(np.dtype(dtype))
    main = Func.empty(
        "main", [TensorType((9, 40), element), TensorType((30, 40), element), TensorType((30,), i64)], arg_roles=("input",) * 3
    )
    b = Builder.at_end(main.block)
    x, updates, which = main.args
    b.insert(Return([b(nn.Add, b(nn.ScatterAdd, updates, which, axis=0, size=9), x)]))
    module = Module.empty()
    module.block.append(main.finish())
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 9, (9, 40)).astype(dtype), random.integers(0, 9, (30, 40)).astype(dtype), random.integers(0, 9, 30)]
    check(module, arrays)
    lowered = lower(module, to="tensor")
    assert len([op for op in lowered.walk() if isinstance(op, tensor.Full)]) == (dtype == "float16")


def as_kernels(module, way, schedule=None):
    """The kernels by a schedule, or what is chosen first and the others."""
    target = find_target("x86-64-avx512")
    fused = lower(module, target, "tensor")
    return products.candidates_of(fused, way, target) if schedule is None else products.as_said(fused, way, str(schedule), target)


@pytest.mark.parametrize("shape", [(3, 100), (2, 1100)])
def test_runs_of_any_length_take_the_same_elements(shape):
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(500).astype("float32"), random.integers(-200, 200, shape), random.integers(0, 9, (shape[0], 1))]
    module = module_of(500, shape)
    own, *others = as_kernels(module, build_take)
    assert own.run == RUN and {other.run for other in others} == {RUN // 4, RUN * 4}
    for schedule in (own, *others):
        found = evaluate(as_kernels(module, build_take, schedule), arrays)[0]
        np.testing.assert_array_equal(found, evaluate(module, arrays)[0])
    products.check_refused(
        lower(module, find_target("x86-64-avx512"), "tensor"), build_take, find_target("x86-64-avx512"),
        [("run = 1024", "run = 0"), ("run = 1024", "run = 200000"), ("lanes = 8", "lanes = 16"), (", masked", "")],
    )  # fmt: skip


def test_columns_of_a_scatter_may_be_done_in_any_runs():
    element, target = scalar_type(np.dtype("float32")), find_target("x86-64-avx512")
    types = [TensorType((9, 5000), element), TensorType((30, 5000), element), TensorType((30,), i64)]
    main = Func.empty("main", types, arg_roles=("input",) * 3)
    b = Builder.at_end(main.block)
    x, updates, which = main.args
    b.insert(Return([b(tensor.Scatter, x, which, updates, axis=0, fn="add")]))
    module = Module.empty()
    module.block.append(main.finish())
    random = np.random.default_rng(0)
    arrays = [*(random.standard_normal(shape).astype("float32") for shape in ((9, 5000), (30, 5000))), random.integers(-9, 9, 30)]
    own, *others = as_kernels(module, build_scatter)
    assert others and own.columns > others[0].columns
    for schedule in (own, *others):
        found = evaluate(as_kernels(module, build_scatter, schedule), arrays)[0]
        np.testing.assert_allclose(found, evaluate(module, arrays)[0], rtol=0, atol=1e-5)
    changes = [("lanes = 16", "lanes = 8"), (f"columns = {own.columns}", "columns = 0"), (", masked", "")]
    products.check_refused(lower(module, target, "tensor"), build_scatter, target, changes)
