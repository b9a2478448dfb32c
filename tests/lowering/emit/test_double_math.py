"""The float64 functions stay within their stated error, and their coefficients are what Remez' exchange finds.

Measured against the C library's functions with 64 bits of mantissa, which leave 11 bits below float64's last; erf and gelu against a power
series in decimal numbers.
"""

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from polyreme.ir.types import f64
from polyreme.lowering.emit.llvm import double_math, exponentials
from polyreme.lowering.emit.llvm.double_math import DOUBLE_BOUNDS, FLOAT64
from polyreme.lowering.machines.targets import TARGETS, host
from tests.lowering import minimax
from tests.lowering.kernel_modules import apply_compiled

long = np.longdouble
needs_long = pytest.mark.skipif(np.finfo(long).nmant < 63, reason="needs numbers longer than float64 to compare with")
needs_x86 = pytest.mark.skipif(host().arch != "x86_64", reason="runs x86 code")

TWO_ARGUMENTS = ("atan2", "pow")
BY_SERIES = ("erf", "gelu")
COUNT = 1 << 15
SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1,
    -1,
    0.5,
    -0.5,
    2,
    -2,
    3,
    -3,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    -2.2250738585072014e-308,
]
SPECIAL += [
    1.7976931348623157e308,
    709.782712893384,
    709.7827128933841,
    -745.1332191019411,
    -745.1332191019412,
    -708.4,
    710.4758600739439,
    -37.5,
    1 - 2.0**-53,
]
SPECIAL += [
    1 + 2.0**-52,
    2.0**53,
    2.0**53 + 2,
    2.0**30,
    2.0**30 - 1,
    1e300,
    1e22,
    math.pi,
    math.pi / 2,
    math.tan(0.5),
    0.925,
    6.0,
    1e-17,
    -1e-17,
]
# Where results are ordinary.
RANGES = {
    "exp": (-746, 710), "expm1": (-40, 710), "log": (0, 10), "log1p": (-1, 10), "log2": (0, 10), "log10": (0, 10), "tanh": (-22, 22),
    "sigmoid": (-745, 745),
    "erf": (-6.5, 6.5), "gelu": (-9, 9), "rsqrt": (0, 10), "sin": (-1e6, 1e6), "cos": (-1e6, 1e6), "tan": (-1e6, 1e6), "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-10, 10), "sinh": (-711, 711), "cosh": (-711, 711), "atan2": (-10, 10), "pow": (0, 10),
}  # fmt: skip


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, long(1), e) / (1 + e)


def _by_series(function):
    """A function of decimal numbers on an array, rounded to 64 bits of mantissa; nan and infinities by way of float64."""

    def apply(x):
        with localcontext(minimax.CONTEXT):
            return np.array([long(str(function(Decimal(float(v))))) if np.isfinite(v) else long(function(float(v))) for v in x], long)

    return apply


def _erf(x):
    if isinstance(x, float):
        return math.erf(x)
    return minimax.erf(x) if abs(x) < 7 else Decimal(1).copy_sign(x)


def _gelu(x):
    if isinstance(x, float):
        return math.nan if x < 0 or x != x else x
    return x / 2 * (1 + _erf(x / Decimal(2).sqrt()))


TRUE = {
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "pow": np.power,
    "erf": _by_series(_erf), "gelu": _by_series(_gelu), "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid,
}  # fmt: skip


def arguments(name, count=COUNT):
    """Bit patterns of all kinds, ordinary numbers, small ones, those around 0 and 1, and the places where functions change their ways."""
    rng = np.random.default_rng(len(name))
    low, high = RANGES[name]
    part = count // 4
    bits = rng.integers(0, 1 << 64, part, dtype=np.uint64).view(np.float64)
    near = rng.uniform(max(low, -6), min(high, 6), part // 2)
    x = np.concatenate(
        [
            near,
            rng.uniform(low, high, part - len(near)),
            rng.uniform(low, high, part) * np.exp2(rng.uniform(-60, 0, part)),
            1 + rng.normal(0, 0.1, part),
            bits,
        ]
    )
    if name not in TWO_ARGUMENTS:
        x[-len(SPECIAL) :] = SPECIAL
        return [x]
    y = np.concatenate([rng.uniform(-300, 300, part), rng.integers(-10, 10, part), rng.uniform(-5000, 5000, part), rng.permutation(bits)])
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1)
    x[-pairs.shape[1] :], y[-pairs.shape[1] :] = pairs
    return [x, y]


def check_bound(name, arrays, got, bound):
    with np.errstate(all="ignore"):
        want = TRUE[name](*(a.astype(long) for a in arrays))
        nearest = want.astype(np.float64)
        unit = np.spacing(np.minimum(np.abs(arrays[0] if name == "gelu" else nearest), 1.7e308))
        # Beyond the largest number by less than half its unit is not infinity yet.
        error = np.abs(got.astype(long) - want) / unit
        due = (got == nearest) & ~np.isfinite(nearest) | (np.isnan(got) & np.isnan(nearest))
    error[due] = 0
    error = np.where(np.isnan(error), np.inf, error)
    worst = int(np.argmax(error))
    at = ", ".join(repr(a[worst]) for a in arrays)
    assert error[worst] <= bound, f"{name}({at}) is {got[worst]!r}, not {nearest[worst]!r}: off by {error[worst]:.3f} ulp"
    wrong_sign = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    assert not wrong_sign.any(), f"{name} loses the sign of a zero at {[a[wrong_sign][:3] for a in arrays]}"


@needs_long
@pytest.mark.parametrize("name", FLOAT64)
def test_float64_functions_are_within_their_bound(name):
    arrays = arguments(name, COUNT // 8 if name in BY_SERIES else COUNT)
    check_bound(name, arrays, apply_compiled(name, arrays, 8, f64), DOUBLE_BOUNDS[name])


@needs_long
@pytest.mark.slow
@pytest.mark.parametrize("name", FLOAT64)
def test_float64_functions_are_within_their_bound_at_many_places(name):
    arrays = arguments(name, COUNT * 2 if name in BY_SERIES else COUNT * 128)
    check_bound(name, arrays, apply_compiled(name, arrays, 8, f64), DOUBLE_BOUNDS[name])


@needs_long
@needs_x86
@pytest.mark.parametrize("name", FLOAT64)
def test_float64_functions_hold_without_fused_multiply_add(name):
    arrays = arguments(name, COUNT // 8)
    check_bound(name, arrays, apply_compiled(name, arrays, 2, f64, TARGETS["x86-64"]), DOUBLE_BOUNDS[name] + 1)


@needs_long
@needs_x86
@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "erf"])
def test_float64_functions_hold_where_no_register_holds_a_table(name):
    arrays = arguments(name, COUNT // 8)
    check_bound(name, arrays, apply_compiled(name, arrays, 4, f64, TARGETS["x86-64-avx2"]), DOUBLE_BOUNDS[name])


@needs_long
@pytest.mark.skipif(host().vector_bytes != 64 or host().arch != "x86_64", reason="runs AVX-512")
@pytest.mark.parametrize("half_width_vectors", [False, True])
@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh"])
def test_float64_functions_hold_on_whole_and_half_vectors(name, half_width_vectors):
    """At the ends of sixteenths of ln 2, too, where one is taken or the next one."""
    arrays = arguments(name)
    ends = np.arange(1, 2000) * (math.log(2) / 32)
    arrays[0][: 3 * len(ends)] = np.concatenate([ends, np.nextafter(ends, 0), -np.nextafter(ends, 1e3)])
    target = replace(host(), half_width_vectors=half_width_vectors)
    made = apply_compiled(name, arrays, 8, f64, target)
    check_bound(name, arrays, made, DOUBLE_BOUNDS[name])
    np.testing.assert_array_equal(made, apply_compiled(name, arrays, 1, f64, target), err_msg="one lane")


def test_what_rounding_took_from_sixteenths_of_powers_of_two_is_known():
    for elem, table in exponentials.SIXTEENTHS.items():
        for j, (power, lost) in enumerate(zip(table.powers, table.lost, strict=True)):
            left = (Fraction(power) * (1 + Fraction(lost))) ** 16 / 2**j - 1
            assert abs(left) < (2.0**-41 if elem == "float" else 2.0**-98)


@pytest.mark.parametrize("name", FLOAT64)
def test_float64_results_do_not_depend_on_the_number_of_lanes(name):
    arrays = arguments(name, COUNT // 8)
    wide = apply_compiled(name, arrays, 8, f64)
    for lanes in (1, 4, 16):
        np.testing.assert_array_equal(wide, apply_compiled(name, arrays, lanes, f64), err_msg=f"{lanes} lanes")


@pytest.mark.parametrize("table", minimax.tables(), ids=lambda t: t.name)
def test_the_coefficients_are_minimax(table):
    found, error = minimax.fit(table)
    form = exponentials.FORMATS["double"]
    tables = {
        "EXP": form.exp,
        "EXPM1": form.expm1,
        "EXP_SHORT": form.exp_short,
        "EXPM1_SHORT": form.expm1_short,
        "ERF_SMALL": form.erf_small,
        "ERF_LARGE": form.erf_large,
    }
    assert tuple(found) == tables.get(table.name, double_math.POLYNOMIALS.get(table.name.lower()))
    assert error < 2.0**-56
