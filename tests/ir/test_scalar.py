"""Scalar functions against the same formula in float64, and at the values where they bend."""

import math

import numpy as np
import pytest

from polyreme.ir.diagnostics import InferError
from polyreme.ir.scalar import FUNCTIONS, apply_scalar, identity_of, scalar_function
from polyreme.ir.types import SCALARS, f32, i1, i32, u8

ONE = {
    "neg": lambda a: -a, "abs": abs, "sign": lambda a: (a > 0) - (a < 0), "exp": math.exp, "expm1": math.expm1, "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan, "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "erf": math.erf, "floor": math.floor,
    "gelu": lambda a: a / 2 * math.erfc(-a * math.sqrt(0.5)), "ceil": math.ceil, "round": round, "trunc": math.trunc,
    "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "isnan": math.isnan, "isinf": math.isinf,
    "isfinite": math.isfinite,
}  # fmt: skip
POSITIVE = {
    "log": math.log,
    "log1p": math.log1p,
    "log2": math.log2,
    "log10": math.log10,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
}
BOUNDED = {"asin": math.asin, "acos": math.acos}
TWO = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "max": max, "min": min,
    "floor_divide": lambda a, b: math.floor(a / b), "mod": lambda a, b: a - math.floor(a / b) * b, "atan2": math.atan2,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}  # fmt: skip

RANGES = [(ONE, np.linspace(-3, 3, 25)), (POSITIVE, np.linspace(0.125, 9, 25)), (BOUNDED, np.linspace(-1, 1, 17))]
UNARY = [(name, fn, points) for table, points in RANGES for name, fn in table.items()]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize(("name", "fn", "points"), UNARY, ids=[u[0] for u in UNARY])
def test_functions_of_one_number(name, fn, points, dtype):
    kind = SCALARS[dtype].np
    x = points.astype(kind)
    result = apply_scalar(name, (x,))
    assert result.dtype == (np.bool_ if FUNCTIONS[name].result == "bool" else kind)
    eps = {"f64": 2e-15, "f32": 1e-6, "f16": 4e-3, "bf16": 4e-2}[dtype]
    np.testing.assert_allclose(result.astype(np.float64), [fn(float(v)) for v in x], rtol=eps, atol=eps)


@pytest.mark.parametrize(("name", "fn"), TWO.items())
def test_functions_of_two_numbers(name, fn):
    a, b = (m.ravel().astype(np.float32) for m in np.meshgrid([-2.5, -1, 0.5, 1, 3], [-1.5, -1, 0.5, 2]))
    expected = [fn(float(x), float(y)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(apply_scalar(name, (a, b)).astype(np.float64), expected, rtol=1e-6)


# 16 operands of both sides, and what Paddle 3.3.1 gives for x // y: of the exact quotient, which 7 // 0.1 and 1 // 0.1 round up to a whole
# number.
DIVIDENDS = [7.0, 7.0, 1.0, 6.0, 5.0, -5.0, np.inf, -np.inf, 1.0, -1.0, 0.0, -0.0, -0.0, 5.0, -7.0, np.nan]
DIVISORS = [0.1, -0.7, 0.1, 0.2, -np.inf, np.inf, 1.0, 2.0, 0.0, 0.0, 0.0, -3.0, 3.0, np.inf, 1e30, 1.0]
QUOTIENTS = {
    "f64": [69.0, -11.0, 9.0, 29.0, -1.0, -1.0, np.nan, np.nan, np.inf, -np.inf, np.nan, 0.0, -0.0, 0.0, -1.0, np.nan],
    "f32": [69.0, -11.0, 9.0, 29.0, -1.0, -1.0, np.nan, np.nan, np.inf, -np.inf, np.nan, 0.0, -0.0, 0.0, -1.0, np.nan],
    "f16": [70.0, -10.0, 10.0, 30.0, -1.0, -1.0, np.nan, np.nan, np.inf, -np.inf, np.nan, 0.0, -0.0, 0.0, -1.0, np.nan],
    "bf16": [69.0, -11.0, 9.0, 29.0, -1.0, -1.0, np.nan, np.nan, np.inf, -np.inf, np.nan, 0.0, -0.0, 0.0, -1.0, np.nan],
}


@pytest.mark.parametrize("dtype", QUOTIENTS)
def test_floats_divide_down_from_the_exact_quotient_as_paddle_has_it(dtype):
    with np.errstate(over="ignore"):
        a, b = (np.array(x).astype(SCALARS[dtype].np) for x in (DIVIDENDS, DIVISORS))
    down = apply_scalar("floor_divide", (a, b)).astype(np.float64)
    np.testing.assert_array_equal(down, QUOTIENTS[dtype])
    numbers = ~np.isnan(down)
    np.testing.assert_array_equal(np.signbit(down[numbers]), np.signbit(np.array(QUOTIENTS[dtype])[numbers]))
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    wide = a[finite].astype(np.float64) - down[finite] * b[finite].astype(np.float64)
    if dtype in ("f32", "f16", "bf16"):
        np.testing.assert_array_equal(wide.astype(a.dtype), apply_scalar("mod", (a, b))[finite])


def test_integers_divide_towards_zero_and_never_trap():
    a, b = np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32)
    assert apply_scalar("div", (a, b)).tolist() == [3, -3, -3, 3, 0]
    assert apply_scalar("floor_divide", (a, b)).tolist() == [3, -4, -4, 3, 0]
    assert apply_scalar("mod", (a, b)).tolist() == [1, 1, -1, -1, 0]
    assert apply_scalar("shr", (np.array([-8], np.int32), np.array([1], np.int32))).tolist() == [-4]


def test_nan_goes_through_maxima_and_comparisons_without_warnings(recwarn):
    a, b = np.array([np.nan, 1, np.inf], np.float32), np.array([1, np.nan, np.inf], np.float32)
    assert np.isnan(apply_scalar("max", (a, b))[:2]).all()
    assert np.isnan(apply_scalar("min", (a, b))[:2]).all()
    assert apply_scalar("lt", (a, b)).tolist() == [False, False, False]
    assert apply_scalar("sub", (a, b))[2] != 0
    assert not recwarn


def test_casts_truncate_and_make_truth_of_what_is_not_zero():
    assert apply_scalar("cast", (np.array([1.9, -1.9], np.float32),), i32).tolist() == [1, -1]
    assert apply_scalar("cast", (np.array([0.0, -0.0, 0.5, np.nan], np.float32),), i1).tolist() == [False, False, True, True]
    assert apply_scalar("select", (np.array([True, False]), np.array([1, 1], np.int32), np.array([2, 2], np.int32))).tolist() == [1, 2]


REDUCTIONS = [(n, t) for n in ("add", "mul", "max", "min", "and", "or") for t in (f32, i32, u8, i1) if t.kind in FUNCTIONS[n].kinds]


@pytest.mark.parametrize(("name", "dtype"), REDUCTIONS)
def test_the_identity_of_a_reduction_changes_nothing(name, dtype):
    values = np.array([0, 1, 1], dtype.np)
    neutral = np.array(identity_of(name, dtype)).astype(dtype.np)
    np.testing.assert_array_equal(apply_scalar(name, (values, neutral)), values)


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("exp", (i32,), "expected an element type of kind 'f' for 'exp' but got i32"),
        ("add", (f32, i32), "expected equal element types for 'add' but got f32 and i32"),
        ("add", (f32,), "expected 2 operands for 'add' but got 1"),
        ("select", (f32, f32, f32), "expected an i1 condition for 'select' but got f32"),
        ("cast", (f32,), "expected a 'dtype' attribute for 'cast'"),
    ],
)
def test_operands_that_do_not_fit(name, operands, message):
    with pytest.raises(InferError) as caught:
        scalar_function(name).result_type(operands)
    assert message in str(caught.value)


def test_an_unknown_function_is_named_with_the_nearest():
    with pytest.raises(InferError, match="expected the name of a scalar function but got 'sqr'; did you mean 'sqrt'?"):
        scalar_function("sqr")
