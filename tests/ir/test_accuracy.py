"""How exact each op says it is: the bounds hold, and are tight enough to tell a wrong result from a rounded one."""

import ml_dtypes
import numpy as np
import pytest

from polyreme.dialects import kernel, nn, tensor
from polyreme.ir.accuracy import EXACT, ROUNDED, SUM, Accuracy, eps_of, terms_of, ulp_of
from polyreme.ir.debug.tolerance import bounds_of, expect
from polyreme.ir.evaluate import evaluate
from polyreme.ir.scalar import FUNCTIONS
from polyreme.ir.text import parse_module
from polyreme.ir.types import bf16, c64, f16, f32, f64, i32
from polyreme.lowering.emit.llvm.vector_math import BOUNDS
from polyreme.lowering.pipeline import compile_module
from tests.nn_cases import CASES

assert tensor  # its ops are read from text here


# --- the numbers


def test_the_units_of_a_type_are_numpys():
    for dtype in (f16, f32, f64):
        values = np.array([0.0, 1e-30, 0.1, 1.0, 1.5, -3.0, 1000.0, 60000.0])
        assert eps_of(dtype) == np.finfo(dtype.np).eps
        np.testing.assert_array_equal(ulp_of(values, dtype), np.spacing(np.abs(values).astype(dtype.np)).astype(np.float64))
    assert eps_of(bf16) == float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)
    assert eps_of(c64) == np.finfo(np.float32).eps


def test_the_terms_of_sums_are_counted_from_sizes():
    assert terms_of([np.ones((3, 8))], np.ones(3)) == 8
    assert terms_of([np.ones((3, 8)), np.ones((8, 5))], np.ones((3, 5))) == 8
    assert terms_of([np.ones((1, 8)), np.ones((8, 1))], np.ones((1, 1))) == 8
    assert terms_of([], np.ones(4)) == 1


def test_a_bound_is_the_sum_of_its_parts_and_0_for_integers():
    y = np.array([1.0, 4.0])
    np.testing.assert_array_equal(Accuracy(ulp=2).bound(y, f32), [2 * 2**-23, 8 * 2**-23])
    np.testing.assert_array_equal(Accuracy(absolute=3).bound(y, f32), [3 * 2**-23] * 2)
    np.testing.assert_array_equal(Accuracy(summed=1).bound(y, f32, magnitude=np.array([10.0, 20.0]), terms=4), [20 * 2**-23, 40 * 2**-23])
    assert not SUM.bound(np.array([7]), i32).any()
    assert not EXACT.bound(y, f32).any()


def test_what_needs_no_rounding_is_not_rounded():
    exact, inexact = ROUNDED.bound(np.array([0.5, 0.1]), f32)
    assert exact == 0
    assert inexact == 0.5 * np.spacing(np.float32(0.1))


def test_accuracy_says_in_words_what_it_is():
    assert str(EXACT) == "exact"
    assert str(Accuracy(0.5, 2, 3)) == "0.5 ulp + 2 eps + 3 eps * sqrt(n) * magnitude"


# --- the declarations


@pytest.mark.parametrize(
    "dtype", [np.float32, pytest.param(np.float16, marks=pytest.mark.slow), ml_dtypes.bfloat16], ids=lambda t: t.__name__
)
@pytest.mark.parametrize("case", CASES, ids=repr)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_reference_of_an_op_is_within_the_bound_that_the_op_declares(case, dtype):
    typed = case.typed(dtype)
    module = typed.module()
    (op,) = (o for o in module.walk() if isinstance(o, case.cls))
    got = evaluate(module, typed.arrays)
    wanted = expect(module, typed.arrays, runs=0).values
    wide = [a.astype(np.float64) if a.dtype == dtype else a for a in typed.arrays]
    kinds = [r.type.dtype for r in op.results]
    for result, exact, bound, kind in zip(got, wanted, bounds_of(op, wide, wanted, [r.type for r in op.results]), kinds, strict=True):
        # Statistics of 16-bit floats are float32; whatever else is of another type is exact.
        if result.dtype != dtype and len(kinds) == 1:
            np.testing.assert_array_equal(result, exact)
            continue
        # Attributes that are fractions are rounded too, and so is the result of what is exact otherwise.
        slack = ulp_of(exact, kind) + (0 if bound is None else bound)
        with np.errstate(all="ignore"):
            off = np.abs(result.astype(np.float64) - exact) - slack
        due = (result.astype(np.float64) == exact) | (np.isnan(exact) & np.isnan(result.astype(np.float64)))
        assert (due | (off <= 0)).all(), (
            f"{np.nanmax(np.where(due, 0, off / slack)) + 1:.2f} times as far away as {case.cls.definition.accuracy_of(op.attributes)}"
        )


def check_machine_code(case):
    typed = case.typed(np.float32)
    module = typed.module()
    misfits = expect(module, typed.arrays).misfits(compile_module(module).load().run(typed.arrays))
    assert not misfits, str(misfits[0])


@pytest.mark.parametrize("case", CASES[::4], ids=repr)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_machine_code_of_an_op_is_within_the_bounds(case):
    check_machine_code(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for i, c in enumerate(CASES) if i % 4], ids=repr)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_machine_code_of_every_other_op_is_within_the_bounds(case):
    check_machine_code(case)


def test_machine_code_of_scalar_functions_is_more_exact_than_the_table_asks():
    for name, bound in BOUNDS.items():
        # Without fused multiply-add one more.
        assert bound + 1 <= FUNCTIONS[name].accuracy.ulp


def test_ops_that_apply_a_function_are_as_exact_as_it_is():
    assert nn.Exp.definition.accuracy_of({}) == FUNCTIONS["exp"].accuracy
    for cls in (tensor.Map, kernel.Apply):
        assert cls.definition.accuracy_of({"fn": "add"}) == ROUNDED
        assert cls.definition.accuracy_of({"fn": "max"}) == EXACT
    for cls in (tensor.Reduce, kernel.Reduce):
        assert cls.definition.accuracy_of({"fn": "add"}) == SUM
        assert cls.definition.accuracy_of({"fn": "max"}) == EXACT


# --- the tolerance of programs


def program(text):
    return parse_module(text)


SUM_OF_PRODUCTS = program("""func @main(%x: tensor<4x256xf32>, %w: tensor<256x3xf32>) -> tensor<4x3xf32> {
  %y = nn.matmul %x, %w : tensor<4x3xf32>
  return %y
}""")


def matrices(scale=1.0):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(4, 256)).astype(np.float32) * np.float32(scale), rng.normal(size=(256, 3)).astype(np.float32)]


def test_a_sum_in_another_order_is_within_tolerance():
    x, w = matrices()
    wanted = expect(SUM_OF_PRODUCTS, [x, w])
    one_by_one = np.zeros((4, 3), np.float32)
    for k in range(256):
        one_by_one += x[:, k : k + 1] * w[k : k + 1]
    assert (one_by_one != evaluate(SUM_OF_PRODUCTS, [x, w])[0]).any()
    assert not wanted.misfits([one_by_one])


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_sum_that_lacks_a_term_or_is_rounded_to_half_precision_is_not_within_tolerance(scale):
    x, w = matrices(scale)
    wanted = expect(SUM_OF_PRODUCTS, [x, w])
    (misfit,) = wanted.misfits([x[:, 1:] @ w[1:]])
    assert misfit.result == 0
    assert misfit.count == 12
    rounded = (x.astype(ml_dtypes.bfloat16).astype(np.float32)) @ w
    assert wanted.misfits([rounded])


def test_the_message_says_where_and_how_far():
    x, w = matrices()
    wanted = expect(SUM_OF_PRODUCTS, [x, w])
    wrong = evaluate(SUM_OF_PRODUCTS, [x, w])[0].copy()
    exact = wanted.values[0][1, 2]
    wrong[1, 2] = exact + 0.25
    (misfit,) = wanted.misfits([wrong])
    assert str(misfit).startswith(f"result 0 at [1, 2]: expected {exact:.9g} but got {wrong[1, 2]:.9g}, which is 0.25 away with ")
    assert str(misfit).endswith("; 1 of 12 elements are wrong")


def test_where_terms_cancel_more_is_allowed_and_where_they_do_not_less():
    difference = program("""func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
      %a = nn.exp %x : tensor<2xf32>
      %b = nn.exp %y : tensor<2xf32>
      %z = nn.sub %a, %b : tensor<2xf32>
      return %z
    }""")
    wanted = expect(difference, [np.float32([10, 0]), np.float32([10.00001, -10])])
    cancelled, plain = wanted.allowed[0] / np.abs(wanted.values[0])
    assert plain < 1e-5
    assert cancelled > 1e-3


def test_integers_and_truths_are_exact_but_where_a_rounding_flips_them():
    steps = program("""func @main(%x: tensor<3xf32>) -> (tensor<3xi32>, tensor<3xi1>) {
      %s = nn.sin %x : tensor<3xf32>
      %t = nn.full {value = 10.0, dtype = f32} : tensor<f32>
      %y = nn.mul %s, %t : tensor<3xf32>
      %i = nn.cast %y {dtype = i32} : tensor<3xi32>
      %z = nn.sub %y, %y : tensor<3xf32>
      %p = nn.less %z, %x : tensor<3xi1>
      return %i, %p
    }""")
    # The sine of the second is 0.5 to the last place, so its tenfold is 5 or just below.
    x = np.float32([0.3, np.arcsin(0.5), 1.0])
    wanted = expect(steps, [x], runs=8)
    (whole, positive) = wanted.given
    assert not wanted.misfits([whole, positive])
    near = whole.copy()
    near[1] = 9 - whole[1]
    assert not wanted.misfits([near, positive]), "4 for 5"
    near[0] += 1
    assert [m.at for m in wanted.misfits([near, positive])] == [(0,)]
    assert [m.result for m in wanted.misfits([whole, ~positive])] == [1]


def test_infinities_and_nans_have_to_be_the_same():
    inverse = program("""func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %y = nn.log %x : tensor<3xf32>
      return %y
    }""")
    wanted = expect(inverse, [np.float32([0, -1, 1])])
    assert not wanted.misfits([np.float32([-np.inf, np.nan, 0])])
    assert wanted.misfits([np.float32([np.inf, np.nan, 0])])
    assert wanted.misfits([np.float32([-np.inf, 0, 0])])
    assert wanted.misfits([np.float32([-np.inf, np.nan, np.nan])])


def test_shapes_and_types_have_to_be_the_same():
    x, w = matrices()
    wanted = expect(SUM_OF_PRODUCTS, [x, w])
    y = wanted.given[0]
    assert str(wanted.misfits([y.reshape(3, 4)])[0]).startswith("result 0: expected f32[4, 3] but got f32[3, 4]")
    assert wanted.misfits([y.astype(np.float64)])


def test_the_same_seed_allows_the_same():
    x, w = matrices()
    first, again = (expect(SUM_OF_PRODUCTS, [x, w], seed=5).allowed[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
