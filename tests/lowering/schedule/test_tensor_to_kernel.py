"""From fused tensor ops to kernels: the same results before and after, on numpy and as machine code."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from polyreme.dialects import kernel, mt19937, tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import symbol
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PassManager
from polyreme.ir.text import parse_module
from polyreme.ir.types import TensorType, f32, f64, i1, i32, i64, u8, u64
from polyreme.lowering.kernels.general.cumulate import build_cumulate
from polyreme.lowering.kernels.general.loops import build_loops
from polyreme.lowering.kernels.general.random import build_random
from polyreme.lowering.kernels.general.sort import build_sort
from polyreme.lowering.kernels.sequence.scan import build_scan
from polyreme.lowering.link.artifact import build_artifact, load
from polyreme.lowering.machines.targets import TARGETS, find_target
from polyreme.lowering.pipeline import BUILDERS, compile_module, lower
from polyreme.lowering.schedule.bufferize import TensorToKernel, outline_constants
from polyreme.lowering.transforms.fuse import Fuse
from tests.strategies import modules

N = symbol("N")
RELAXED = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
GENERIC = (build_random, build_scan, build_cumulate, build_sort, build_loops)


def module_of(types, build):
    """A module whose `main` takes tensors of (shape, dtype) and returns what `build(b, *args)` gives."""
    func = Func.empty("main", [TensorType(shape, dtype) for shape, dtype in types])
    b = Builder.at_end(func.block)
    made = build(b, *func.args)
    b(Return, made if isinstance(made, tuple) else (made,))
    module = Module.empty()
    module.block.append(func.finish())
    return module


def lowered(module, target=None, builders=BUILDERS):
    """The module at kernel level, verified after each pass."""
    return PassManager([Fuse(), TensorToKernel(target or find_target(), builders)], verify_each=True).run(module.clone())


def native(module):
    """What a kernel-level module gives as machine code on this machine."""
    final = module.clone()
    constants = outline_constants(final)
    return load(build_artifact(final, find_target(), "model", constants)).run


def assert_same(got, expected):
    for g, e in zip(got, expected, strict=True):
        assert (g.shape, g.dtype) == (e.shape, e.dtype)
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5)


def random_input(shape, dtype, size, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal([n if isinstance(n, int) else size for n in shape]) * 3
    return numbers.astype(dtype.np) if dtype != u8 else np.abs(numbers).astype(np.uint8)


def check(types, build, sizes=(5,), builders=GENERIC):
    """Kernels compute what the tensor ops say: vectors with and without masks on numpy, and machine code; for each value of N."""
    module = module_of(types, build)
    made = lowered(module, builders=builders)
    narrow = lowered(module, TARGETS["x86-64"], builders)
    run = native(made)
    for size in sizes:
        inputs = [random_input(shape, dtype, size, seed) for seed, (shape, dtype) in enumerate(types)]
        expected = evaluate(module, inputs)
        assert_same(evaluate(made, inputs), expected)
        assert_same(evaluate(narrow, inputs), expected)
        assert_same(run(inputs), expected)
    return made


def softmax(b, x, axis):
    peak = b(tensor.Reduce, x, fn="max", axes=(axis,), keepdims=True)
    e = b(tensor.Map, b(tensor.Map, x, peak, fn="sub"), fn="exp")
    return b(tensor.Map, e, b(tensor.Reduce, e, fn="add", axes=(axis,), keepdims=True), fn="div")


@RELAXED
@given(modules("tensor"))
def test_loops_compute_what_random_tensor_modules_say(sample):
    expected = evaluate(sample.module, sample.inputs)
    assert_same(evaluate(lowered(sample.module, builders=GENERIC), sample.inputs), expected)
    assert_same(evaluate(lowered(sample.module, TARGETS["aarch64"], GENERIC), sample.inputs), expected)


@RELAXED
@given(modules("tensor"))
def test_all_builders_compute_what_random_tensor_modules_say(sample):
    expected = evaluate(sample.module, sample.inputs)
    made = lowered(sample.module)
    assert_same(evaluate(made, sample.inputs), expected)
    assert_same(native(made)(sample.inputs), expected)


@RELAXED
@given(modules("nn"))
def test_the_whole_pipeline_keeps_what_a_model_means(sample):
    expected = evaluate(sample.module, sample.inputs)
    assert_same(evaluate(lower(sample.module, verify=True), sample.inputs), expected)
    assert_same(compile_module(sample.module).load().run(sample.inputs), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(N, 37, 5), (N, 1, 64), (3, 129, 2)], ids=str)
def test_softmax_along_any_axis(axis, shape):
    check([(shape, f32)], lambda b, x: softmax(b, x, axis), sizes=(1, 4, 17))


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 17, 63, 64, 65, 1000])
def test_a_free_size_of_any_length(size):
    check(
        [((N,), f32), ((N, 3), f64)],
        lambda b, x, y: (b(tensor.Map, x, fn="tanh"), b(tensor.Map, y, fn="neg"), b(tensor.Reduce, x, fn="add", axes=(0,))),
        (size,),
    )


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1), (0, 1, 2)], ids=str)
@pytest.mark.parametrize(
    ("fn", "dtype"), [("add", f32), ("mul", f64), ("max", i32), ("min", f32), ("add", i64), ("and", i1), ("or", i1), ("max", u8)]
)
def test_reductions_of_any_axes(axes, fn, dtype):
    check([((N, 6, 21), dtype)], lambda b, x: b(tensor.Reduce, x, fn=fn, axes=axes), (1, 5))


def test_a_reduction_of_nothing_gives_the_identity():
    check([((N, 6), f32)], lambda b, x: tuple(b(tensor.Reduce, x, fn=fn, axes=(0,)) for fn in ("add", "mul", "max", "min")), (0,))


def test_a_result_that_comes_back_reshaped_is_computed_before_what_reads_it():
    def twice(b, x):
        m = b(tensor.Map, x, fn="neg")
        row = b(tensor.Reshape, b(tensor.Reduce, m, fn="add", axes=(0,), keepdims=True), shape=(3,))
        return m, b(tensor.Map, row, b(tensor.Reduce, m, fn="add", axes=(0,)), fn="mul")

    def thrice(b, x):
        sums = [b(tensor.Reduce, x, fn=fn, axes=(0,), keepdims=True) for fn in ("add", "max", "min")]
        first, second, third = (b(tensor.Reshape, made, shape=(3,)) for made in sums)
        low = b(tensor.Reduce, x, fn="min", axes=(0,))
        return b(tensor.Map, b(tensor.Map, first, low, fn="mul"), b(tensor.Map, second, third, fn="mul"), fn="sub")

    for build in (twice, thrice):
        check([((N, 3), f32)], build, (2, 5))


def test_a_long_reduction_adds_in_an_order_that_threads_do_not_change():
    from polyreme.runtime.threads import get_num_threads, set_num_threads

    module = module_of(
        [((8, 100_000), f32), ((300, 700), f32)], lambda b, x, y: (b(tensor.Reduce, x, fn="add", axes=(1,)), softmax(b, y, 1))
    )
    run = native(lowered(module))
    inputs = [random_input(shape, f32, 0, seed) for seed, shape in enumerate([(8, 100_000), (300, 700)])]
    before = get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            set_num_threads(threads)
            results.append([r.tobytes() for r in run(inputs)])
    finally:
        set_num_threads(before)
    assert results[0] == results[1] == results[2]


def taken(b, x):
    return b(tensor.Gather, x, b(tensor.Constant, value=np.array([2, 1, 0, 1, 2, 3, 4, 5, 6, 5])), axis=1)


VIEWS = {
    "transpose": lambda b, x: b(tensor.Transpose, x, perm=(2, 0, 1)),
    "slice": lambda b, x: b(tensor.Slice, x, starts=(0, 1, 2), stops=(N, 6, 20), strides=(1, 2, 3)),
    "reverse": lambda b, x: b(tensor.Reverse, x, axes=(0, 2)),
    "pad": lambda b, x: b(tensor.Pad, x, low=(1, 0, 2), high=(0, 1, 3), interior=(0, 1, 2), value=-1.5),
    "reshape": lambda b, x: b(tensor.Reshape, x, shape=(7 * N, 21)),
    "reshape of a transpose": lambda b, x: b(tensor.Reshape, b(tensor.Transpose, x, perm=(2, 1, 0)), shape=(3, 7, 7 * N)),
    "windows": lambda b, x: b(tensor.Window, x, axes=(1, 2), sizes=(3, 4), strides=(2, 3), dilations=(1, 2)),
    "pooling": lambda b, x: b(
        tensor.Reduce, b(tensor.Window, x, axes=(1, 2), sizes=(2, 2), strides=(2, 2), dilations=(1, 1)), fn="max", axes=(3, 4)
    ),
    "overlapping pooling": lambda b, x: b(
        tensor.Reduce, b(tensor.Window, x, axes=(2,), sizes=(3,), strides=(1,), dilations=(1,)), fn="add", axes=(3,)
    ),
    "fold": lambda b, x: b(
        tensor.Fold,
        b(tensor.Window, x, axes=(2,), sizes=(3,), strides=(2,), dilations=(2,)),
        axes=(2,),
        sizes=(21,),
        strides=(2,),
        dilations=(2,),
    ),
    "concat": lambda b, x: b(tensor.Concat, (x, b(tensor.Map, x, fn="neg"), x), axis=2),
    "concat with single columns": lambda b, x: b(
        tensor.Concat, [b(tensor.Slice, x, starts=(0, 0, 3), stops=(N, 7, 4), strides=(1, 1, 1)), x] * 2, axis=2
    ),
    "concat of single columns": lambda b, x: b(
        tensor.Concat, [b(tensor.Slice, x, starts=(0, 0, i), stops=(N, 7, i + 1), strides=(1, 1, 1)) for i in (3, 1)], axis=2
    ),
    "concat of rows that were taken": lambda b, x: b(tensor.Concat, [b(tensor.Reverse, taken(b, x), axes=(2,)), taken(b, x)], axis=2),
    "map of a concat": lambda b, x: b(tensor.Map, b(tensor.Concat, (x, x), axis=0), fn="abs"),
    "where the largest is": lambda b, x: b(tensor.ArgReduce, x, fn="max", axis=2),
    "where the smallest is": lambda b, x: b(tensor.ArgReduce, x, fn="min", axis=1, keepdims=True, dtype=i32),
    "iota": lambda b, x: b(tensor.Map, x, b(tensor.Iota, shape=(N, 7, 21), axis=2, dtype=f32), fn="mul"),
    "gather": lambda b, x: b(tensor.Gather, x, b(tensor.Constant, value=np.array([[0, -1], [6, 3]])), axis=1),
    "gather along lanes": lambda b, x: b(tensor.Gather, x, b(tensor.Constant, value=np.array([20, 0, -2])), axis=2),
    "full": lambda b, x: b(tensor.Full, value=2.5, shape=(N, 3), dtype=f32),
    "the argument itself": lambda b, x: (x, x),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_and_data_movement(view):
    check([((N, 7, 21), f32)], VIEWS[view], (1, 4))


def test_gather_stays_inside_its_operand():
    module = module_of([((5, 3), f32), ((4,), i64)], lambda b, x, i: b(tensor.Gather, x, i, axis=0))
    x = random_input((5, 3), f32, 0, 0)
    (got,) = native(lowered(module))([x, np.array([-100, 100, -1, 4])])
    np.testing.assert_array_equal(got, x[[0, 4, 4, 4]])


def test_the_first_nan_is_the_largest_and_the_smallest():
    x = np.array([[1, np.nan, 3, np.nan], [2, 5, 5, -1]], np.float32)
    module = module_of([((2, 4), f32)], lambda b, x: tuple(b(tensor.ArgReduce, x, fn=fn, axis=1) for fn in ("max", "min")))
    largest, smallest = native(lowered(module))([x])
    assert (largest.tolist(), smallest.tolist()) == ([1, 1], [1, 3])


def test_loops_compute_contracts_that_no_other_builder_takes():
    check([((3, N, 7), f32), ((3, 7, 9), f32)], lambda b, x, y: b(tensor.Contract, x, y, spec="bmk,bkn->bmn"), (1, 5))
    check([((4, 7), i64), ((7, 9), i64)], lambda b, x, y: b(tensor.Contract, x, y, spec="mk,kn->nm"), builders=BUILDERS)


def test_random_draws_are_those_of_the_reference_bit_for_bit():
    fresh = mt19937.seed_state(7)
    for used in (0, 100, 311):
        _, state = mt19937.uniform(fresh, (used,))
        for count in (0, 1, 211, 212, 213, 1000):
            module = module_of([((313,), u64)], lambda b, s, n=count: b(tensor.Random, s, shape=(n,), low=-2.0, high=1.5, dtype=f32))
            made = lowered(module)
            for got, expected in zip(native(made)([state]), evaluate(module, [state]), strict=True):
                np.testing.assert_array_equal(got, expected)


def test_equal_roots_share_a_kernel():
    made = lowered(module_of([((4, 8), f32), ((4, 8), f32)], lambda b, x, y: (softmax(b, x, 1), softmax(b, y, 1))))
    calls = [op for op in made.function().block if isinstance(op, kernel.Call)]
    assert len(calls) == 2
    assert calls[0].callee == calls[1].callee


def test_reshapes_and_returned_results_take_no_memory():
    def build(b, x):
        return b(tensor.Reshape, b(tensor.Map, b(tensor.Reshape, x, shape=(6 * N,)), fn="exp"), shape=(2 * N, 3))

    made = check([((N, 6), f32)], build)
    assert not [op for op in made.walk() if isinstance(op, kernel.Alloc)]
    assert len([op for op in made.walk() if isinstance(op, kernel.Call)]) == 1


def test_constant_weights_are_packed_ahead_of_time_and_arguments_are_not():
    def product(b, x, w):
        return b(tensor.Contract, x, w, spec="mk,kn->mn")

    weight = random_input((48, 40), f32, 0, 1)
    fixed = lowered(module_of([((N, 48), f32)], lambda b, x: product(b, x, b(tensor.Constant, value=weight))))
    assert len([op for op in fixed.function().block if isinstance(op, kernel.Call)]) == 1
    x = random_input((33, 48), f32, 0, 0)
    (got,) = native(fixed)([x])
    np.testing.assert_allclose(got, x @ weight, rtol=1e-4, atol=1e-4)


def test_values_that_cost_much_are_computed_once_per_row():
    made = lowered(module_of([((N, 200), f32)], lambda b, x: softmax(b, x, 1)), TARGETS["x86-64-avx512"])
    # The second sweep over the row, which divides, reads the exponentials back.
    divisions = [op for op in made.walk() if isinstance(op, kernel.Apply) and op.fn == "div"]
    assert divisions
    assert all(isinstance(op.operands[0].producer(), kernel.Load) for op in divisions)


def test_small_kernels_stay_on_one_thread_and_large_ones_do_not():
    def parallel(count):
        made = lowered(module_of([((count,), f32)], lambda b, x: b(tensor.Map, x, fn="neg")))
        return any(isinstance(op, kernel.Parallel) for op in made.walk())

    assert not parallel(1000)
    assert parallel(10_000_000)


def test_only_cheap_results_that_no_cache_holds_are_written_past_the_caches():
    def streams(fn, count, **of_target):
        made = lowered(module_of([((count,), f32)], lambda b, x: b(tensor.Map, x, fn=fn)), replace(TARGETS["x86-64-avx512"], **of_target))
        return any(isinstance(op, kernel.Store) and op.streaming for op in made.walk())

    small = (32 << 10, 1 << 20, 4 << 20)
    assert streams("neg", (4 << 20) // 4 + 1, caches=small)
    assert not streams("neg", (4 << 20) // 4, caches=small)
    assert not streams("tanh", (4 << 20) // 4 + 1, caches=small)
    assert not streams("neg", N, caches=small)


def test_a_level_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(PolyremeError, match="expected a level .* but got 'kernels'; did you mean 'kernel'"):
        lower(module_of([((3,), f32)], lambda b, x: x), to="kernels")


def test_several_free_sizes_that_are_first_met_out_of_order():
    types = [((symbol("T"), 3), f32), ((symbol("B"), 3), f32)]
    module = module_of(types, lambda b, x, y: b(tensor.Contract, x, y, spec="tk,bk->tb"))
    inputs = [random_input((4, 3), f32, 0, 0), random_input((9, 3), f32, 0, 1)]
    for builders in (GENERIC, BUILDERS):
        assert_same(native(lowered(module, builders=builders))(inputs), evaluate(module, inputs))


@pytest.mark.parametrize(
    ("size", "stride", "dilation", "whole"),
    [
        (2, 2, 1, 8), (2, 2, 1, 9), (2, 3, 1, 9), (3, 2, 1, 9), (2, 2, 2, 9), (1, 2, 1, 8),
        (8, 1, 1, 8), (8, 3, 1, 9), (7, 1, 1, 8), (5, 2, 1, 8), (3, 1, 3, 8),
    ],
)  # fmt: skip
def test_folds_of_windows_apart_and_overlapping(size, stride, dilation, whole):
    places = (whole - (size - 1) * dilation - 1) // stride + 1
    types = [((N, places, 5, size), f32)]
    check(types, lambda b, w: b(tensor.Fold, w, axes=(1,), sizes=(whole,), strides=(stride,), dilations=(dilation,)), (1, 3))


def test_the_gradient_of_pooling_makes_no_copy_of_its_windows():
    def build(b, x, dy):
        windows = b(tensor.Window, x, axes=(1,), sizes=(2,), strides=(2,), dilations=(1,))
        largest = b(tensor.ArgReduce, b(tensor.Reshape, windows, shape=(N, 8, 2)), fn="max", axis=2, keepdims=True)
        here = b(tensor.Map, largest, b(tensor.Iota, shape=(1, 1, 2), axis=2, dtype=i64), fn="eq")
        spread = b(tensor.Map, here, b(tensor.Reshape, dy, shape=(N, 8, 1)), b(tensor.Full, value=0.0, dtype=f32), fn="select")
        return b(tensor.Fold, b(tensor.Reshape, spread, shape=(N, 8, 2)), axes=(1,), sizes=(16,), strides=(2,), dilations=(1,))

    made = check([((N, 16), f32), ((N, 8), f32)], build)
    allocated = [op.result.type.shape for op in made.walk() if isinstance(op, kernel.Alloc)]
    assert allocated == [(N, 8, 1)]


# --- scatter


@pytest.mark.parametrize("fn", ["add", "set"])
@pytest.mark.parametrize(
    "shape, named, axis", [((7, 5), (4,), 0), ((3, 6, 40), (2, 3), 1), ((9,), (30,), 0), ((4, 3), (0,), 0), ((2, 1, 3), (5,), 1)], ids=str
)
def test_a_scatter_takes_updates_in_the_order_of_the_index(shape, named, axis, fn):
    types = [(shape, f32), (named, i64), ((*shape[:axis], *named, *shape[axis + 1 :]), f32)]
    module = module_of(types, lambda b, x, i, u: b(tensor.Scatter, x, i, b(tensor.Map, u, u, fn="add"), axis=axis, fn=fn))
    rng = np.random.default_rng(7)
    x, u = (rng.standard_normal(t[0]).astype(np.float32) for t in (types[0], types[2]))
    index = rng.integers(-shape[axis] - 2, shape[axis] + 2, named)
    (expected,) = evaluate(module, [x, index, u])
    kernels = lowered(module)
    assert len([op for op in kernels.function("main").block if isinstance(op, kernel.Call)]) == 1
    np.testing.assert_array_equal(evaluate(kernels, [x, index, u, np.empty(shape, np.float32)])[-1], expected)
    (got,) = native(kernels)([x, index, u])
    np.testing.assert_array_equal(got, expected)


GROUPS = {
    "an argument beside a running sum": """
module {
  func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0, %1 = tensor.fused %x : tensor<4xf32>, tensor<4xf32> { (%2: tensor<4xf32>)
      %3 = tensor.cumulate %2 {fn = "add", axis = 0} : tensor<4xf32>
      tensor.yield %2, %3
    }
    return %0, %1
  }
}
""",
    "a running maximum of the second argument": """
module {
  func @main(%x: tensor<4xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
    %0 = tensor.fused %x, %y : tensor<3x2xf32> { (%1: tensor<4xf32>, %2: tensor<3x2xf32>)
      %3 = tensor.cumulate %2 {fn = "max", axis = 0} : tensor<3x2xf32>
      tensor.yield %3
    }
    return %0
  }
}
""",
    "an order of the second argument": """
module {
  func @main(%x: tensor<2xf32>, %y: tensor<7xf32>) -> tensor<7xi64> {
    %0 = tensor.fused %x, %y : tensor<7xi64> { (%1: tensor<2xf32>, %2: tensor<7xf32>)
      %3 = tensor.argsort %2 : tensor<7xi64>
      tensor.yield %3
    }
    return %0
  }
}
""",
    "the second argument in another shape": """
module {
  func @main(%x: tensor<4x3xf32>, %y: tensor<4x3xf32>) -> (tensor<4x3x1xf32>, tensor<12xf32>) {
    %0 = tensor.fused %x, %y : tensor<4x3x1xf32> { (%1: tensor<4x3xf32>, %2: tensor<4x3xf32>)
      %3 = tensor.reshape %2 {shape = [4, 3, 1]} : tensor<4x3x1xf32>
      tensor.yield %3
    }
    %4, %5 = tensor.fused %x : tensor<12xf32>, tensor<4x3xf32> { (%6: tensor<4x3xf32>)
      %7 = tensor.reshape %6 {shape = [12]} : tensor<12xf32>
      tensor.yield %7, %6
    }
    return %0, %4
  }
}
""",
    "a constant of several elements": """
module {
  func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %0, %1 = tensor.fused %x : tensor<3xf32>, tensor<3xf32> { (%2: tensor<3xf32>)
      %3 = tensor.constant {value = dense<[1.5, -2.0, 0.25]>} : tensor<3xf32>
      %4 = tensor.map %2, %3 {fn = "mul"} : tensor<3xf32>
      tensor.yield %4, %3
    }
    return %0, %1
  }
}
""",
    "a scatter and an order": """
module {
  func @main(%x: tensor<5xf32>, %i: tensor<i64>, %u: tensor<f32>) -> (tensor<5xf32>, tensor<2xi64>) {
    %0, %1 = tensor.fused %x, %i, %u : tensor<5xf32>, tensor<2xi64> { (%2: tensor<5xf32>, %3: tensor<i64>, %4: tensor<f32>)
      %5 = tensor.scatter %2, %3, %4 {axis = 0, fn = "add"} : tensor<5xf32>
      %6 = tensor.argsort %2 {descending = true, count = 2} : tensor<2xi64>
      tensor.yield %5, %6
    }
    return %0, %1
  }
}
""",
    "a scatter in front of other results": """
module {
  func @main(%x: tensor<1x5xf32>, %i: tensor<1xi64>, %u: tensor<1x1xf32>) -> (tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>) {
    %0, %1, %2 = tensor.fused %x, %i, %u : tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32> {
        (%3: tensor<1x5xf32>, %4: tensor<1xi64>, %5: tensor<1x1xf32>)
      %6 = tensor.scatter %3, %4, %5 {axis = 1, fn = "set"} : tensor<1x5xf32>
      %7 = tensor.map %6 {fn = "neg"} : tensor<1x5xf32>
      %8 = tensor.map %3, %3 {fn = "mul"} : tensor<1x5xf32>
      tensor.yield %6, %7, %8
    }
    return %0, %1, %2
  }
}
""",
}


@pytest.mark.parametrize("name", list(GROUPS))
def test_groups_of_ops_that_have_kernels_of_their_own_write_all_their_results(name):
    """Nobody but a person makes such groups."""
    module = parse_module(GROUPS[name])
    inputs = [
        np.asarray(1, np.int64).reshape(a.type.shape) if a.type.dtype == i64 else random_input(a.type.shape, a.type.dtype, 0, seed)
        for seed, a in enumerate(module.function().args)
    ]
    expected = [np.asarray(x) for x in evaluate(module, inputs)]
    assert_same(evaluate(lowered(module, builders=GENERIC), inputs), expected)
    assert_same(compile_module(module).load().run(inputs), expected)
