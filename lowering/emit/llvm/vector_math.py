"""Elementary functions of float32 as instructions, on any number of lanes.

They are polynomials written out where they are used, so they fuse with what stands around them and need no library. `BOUNDS` has the
largest error of each (at most 2 ulp), for every argument: denormals, infinities and nan too; the tests sweep them. The result does not
depend on the number of lanes.

Hot functions (exp, tanh, sigmoid, erf, log, …) work in float32 throughout; those of the exponential function are in `exponentials`, for
both formats. The others widen to float64, where a short polynomial leaves nothing to round but the result. Trigonometric arguments beyond
2^30, where the reduction would need more than three words of pi, take a branch to libm.

float64 has functions of its own (`double_math`); float16 and bfloat16 go through float32.

The coefficients are minimax polynomials by Remez' exchange, found in 200-bit arithmetic; the comment of each says what it approximates.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.accuracy import FUNCTIONS
from polyreme.lowering.emit.llvm.exponentials import FORMATS, LOG2_E, erf, exp, expm1, sigmoid, tanh
from polyreme.lowering.emit.llvm.libm import HUGE_ANGLE, unless
from polyreme.lowering.emit.llvm.text import Lane

# The coefficients of each polynomial, the lowest first; comments call them by their names.
POLYNOMIALS = {
    # log(1 + f) = f - f*f/2 + f*f*f*LOG(f) for sqrt(1/2) <= 1 + f <= sqrt(2)
    "log": (0.3333331, -0.24999987, 0.20002227, -0.16669251, 0.14218667, -0.12384361, 0.118729256, -0.1178972, 0.069153704),
    # float64: 2^t = 1 + t*EXP2(t) for |t| <= 1/2; log2((1+s)/(1-s)) = s*LOG2(s*s) for |s| <= 0.1716
    "exp2": (
        0.6931471805599514, 0.2402265069571772, 0.05550410866432619, 0.009618129182447099, 0.0013333558250751333, 0.00015403439981326666,
        1.5252645350636014e-05, 1.3258525838602684e-06, 1.0210914056780231e-07,
    ),
    "log2": (
        2.885390081777927, 0.9617966939243142, 0.5770780172546633, 0.41219840080373016, 0.32061647202987303, 0.2614416450296398,
        0.2429463767969077,
    ),
    # float64, z = r*r: sin(r) = r + r*z*SIN(z) and cos(r) = 1 - z/2 + z*z*COS(z) for |r| <= pi/4
    "sin": (-0.1666666666663213, 0.008333333325342434, -0.00019841263853880844, 2.7555363275112855e-06, -2.476199943148393e-08),
    "cos": (0.04166666666664197, -0.0013888888883174576, 2.4801583020348865e-05, -2.7555920814153645e-07, 2.0669392516353887e-09),
    # float64, z = t*t: atan(t) = t + t*z*ATAN(z) for |t| <= tan(pi/8); asin(t) = t + t*z*ASIN(z) for |t| <= 1/2; sinh(t) = t + t*z*SINH(z)
    # for |t| <= 1
    "atan": (
        -0.33333333333273873, 0.19999999984813358, -0.1428571299324743, 0.11111057822978568, -0.09089669869674388, 0.0767483939275361,
        -0.06513148917675088, 0.050461782914892894, -0.02558485145185681,
    ),
    "asin": (
        0.16666666666471963, 0.07500000039246123, 0.0446428305197657, 0.03038282576965695, 0.022355575692779007, 0.017543644518677654,
        0.01258044921890088, 0.017837994497076338, -0.007170838421857942, 0.03140624013399342,
    ),
    "sinh": (0.166666666670654, 0.008333333276638703, 0.00019841295965923383, 2.755207275923659e-06, 2.5529484786802144e-08),
}  # fmt: skip


@dataclass(frozen=True)
class Gelu:
    """gelu(x) = x*(1/2 + x*GELU(x*x - middle)) for |x| <= edge, where the bracket is 0 or 1 but for rounding."""

    edge: float
    middle: float
    polynomial: tuple[float, ...]


GELU = Gelu(
    edge=5.49, middle=12.0,
    polynomial=(
        0.14426078, -0.0059696627, 0.0003628027, -2.3477776e-05, 1.4973647e-06, -9.084602e-08, 5.1494338e-09, -2.7059083e-10, 1.3194209e-11,
        -5.9786556e-13, 2.47505e-14, -9.239633e-16, 3.3848337e-17, -1.3519168e-18, 4.8748212e-20, -1.1309597e-21, 1.15324885e-23,
    ),
)  # fmt: skip

LN2 = FORMATS["float"].ln2
# Adding it leaves a float64 rounded to a whole number, which stands in the low bits of the sum.
ROUNDER = FORMATS["double"].rounder
BOUNDS = FUNCTIONS["float"]


# --- float32 throughout


def _split_float(x: Lane) -> tuple[Lane, Lane]:
    """(f, e) with x = 2^e * (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2), for normal positive x; e is a float."""
    bits = x.bits() - 0x3F3504F3
    e = (bits >> 23).convert("sitofp", "float")
    m = ((bits & 0x007FFFFF) + 0x3F3504F3).convert("bitcast", "float")
    return m - 1.0, e


def _log_sum(f: Lane, e: Lane) -> Lane:
    """e*ln2 + log(1 + f), small terms first."""
    square = f * f
    tail = e.fma(LN2[1], square * f * f.poly(POLYNOMIALS["log"]))
    tail = square.fma(-0.5, tail)
    return e.fma(LN2[0], tail + f)


def log_edges(x: Lane, result: Lane, zero_at: float) -> Lane:
    """The logarithm's values at the pole, left of it, at infinity and at nan."""
    result = x.compare("ogt", zero_at).where(result, math.nan)
    result = x.compare("oeq", zero_at).where(result.like(-math.inf), result)
    return x.compare("oeq", math.inf).where(x, result)


def log(x: Lane) -> Lane:
    tiny = x.compare("olt", 2.0**-126)
    f, e = _split_float(tiny.where(x * 2.0**23, x))
    e = tiny.where(e - 23.0, e)
    return log_edges(x, _log_sum(f, e), 0.0)


def log1p(x: Lane) -> Lane:
    """log(u) with u = 1 + x; what that sum lost is brought back, divided by 2^e, in f."""
    u = x + 1.0
    lost = x.abs().compare("olt", 1.0).where(x - (u - 1.0), 1.0 - (u - x))
    f, e = _split_float(u)
    down = (0x3F800000 - (e.convert("fptosi", "i32") << 23)).convert("bitcast", "float")
    result = _log_sum(f + lost * down, e)
    # Beyond 2^24 what was lost no longer counts, and 2^-e would turn denormal at the end of the range.
    big = x.compare("ogt", 2.0**24)
    result = big.where(_log_sum(f, e), result)
    result = x.abs().compare("olt", 1e-8).where(x, result)
    return log_edges(x, result, -1.0)


def gelu(x: Lane) -> Lane:
    """x times the distribution function: 1/2 plus an odd polynomial, constant from where it is 0 or 1 on."""
    inside = x.at_least(-GELU.edge).at_most(GELU.edge)
    share = inside.fma(inside.fma(inside, -GELU.middle).poly(GELU.polynomial), 0.5)
    return x * share.at_least(0.0)


def rsqrt(x: Lane) -> Lane:
    return 1.0 / x.call("sqrt")


# --- float32 by way of float64


def _wide(x: Lane) -> Lane:
    return x.convert("fpext", "double")


def _narrow(x: Lane) -> Lane:
    return x.convert("fptrunc", "float")


def _exp2_wide(x: Lane) -> Lane:
    """2^x for |x| <= 1000 in float64."""
    shifted = x + ROUNDER
    t = x - (shifted - ROUNDER)
    scale = ((shifted.bits() + 1023) << 52).convert("bitcast", "double")
    return (t * scale).fma(t.poly(POLYNOMIALS["exp2"]), scale)


def _log2_wide(x: Lane) -> Lane:
    """log2(x) in float64 for positive finite float32 x; denormals are normal here."""
    bits = x.bits() - 0x3FE6A09E667F3BCD
    e = (bits >> 52).convert("trunc", "i32").convert("sitofp", "double")
    m = ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).convert("bitcast", "double")
    s = (m - 1.0) / (m + 1.0)
    return s.fma((s * s).poly(POLYNOMIALS["log2"]), e)


def log2(x: Lane) -> Lane:
    return log_edges(x, _narrow(_log2_wide(_wide(x))), 0.0)


def log10(x: Lane) -> Lane:
    return log_edges(x, _narrow(_log2_wide(_wide(x)) * math.log10(2)), 0.0)


def pow(x: Lane, y: Lane) -> Lane:
    """2^(y * log2|x|), with the sign and the exceptions of IEEE 754."""
    log = _log2_wide(_wide(x.abs()))
    wide_x, wide_y = _wide(x.abs()), _wide(y)
    log = wide_x.compare("oeq", 0.0).where(log.like(-math.inf), log)
    log = wide_x.compare("oeq", math.inf).where(log.like(math.inf), log)
    log = wide_x.is_nan().where(wide_x, log)
    return power_edges(x, y, _narrow(_exp2_wide((wide_y * log).at_least(-200.0).at_most(200.0))))


def power_edges(x: Lane, y: Lane, result: Lane) -> Lane:
    """x to the y from |x| to the y: the sign, and where it is 1 or nothing at all."""
    # Every float32 from 2^24 on is even, as is every float64 from 2^53 on, so odd numbers survive a round trip through half their value
    # only if not whole.
    whole = y.call("floor").compare("oeq", y)
    half = y * 0.5
    odd = whole & half.call("floor").compare("une", half)
    negative = x.bits().compare("slt", 0)
    result = (negative & odd).where(-result, result)
    undefined = x.compare("olt", 0.0) & ~whole & x.abs().compare("olt", math.inf)
    result = undefined.where(result.like(math.nan), result)
    one = y.compare("oeq", 0.0) | x.compare("oeq", 1.0) | (x.compare("oeq", -1.0) & y.abs().compare("oeq", math.inf))
    return one.where(result.like(1.0), result)


def _quadrant(x: Lane) -> tuple[Lane, Lane, Lane]:
    """(sin r, cos r, q) in float64 with |x| = q * pi/2 + r, for |x| <= HUGE_ANGLE."""
    wide = _wide(x)
    shifted = wide.fma(2 / math.pi, ROUNDER)
    n = shifted - ROUNDER
    r = wide
    for word in FORMATS["float"].pi_2:
        r = n.fma(-word, r)
    return *sine_and_cosine(r), shifted.bits()


def sine_and_cosine(r: Lane) -> tuple[Lane, Lane]:
    """In float64, for |r| <= pi/4."""
    z = r * r
    # The sum with r*z would lose the sign of a zero.
    sine = z.compare("oeq", 0.0).where(r, (r * z).fma(z.poly(POLYNOMIALS["sin"]), r))
    return sine, (z * z).fma(z.poly(POLYNOMIALS["cos"]), z.fma(-0.5, 1.0))


def sin(x: Lane) -> Lane:
    sine, cosine, q = _quadrant(x)
    value = (q & 1).compare("ne", 0).where(cosine, sine)
    return unless(x.abs().compare("oge", HUGE_ANGLE), x, _narrow((q & 2).compare("ne", 0).where(-value, value)), "sinf")


def cos(x: Lane) -> Lane:
    sine, cosine, q = _quadrant(x)
    value = (q & 1).compare("ne", 0).where(sine, cosine)
    return unless(x.abs().compare("oge", HUGE_ANGLE), x, _narrow(((q + 1) & 2).compare("ne", 0).where(-value, value)), "cosf")


def tan(x: Lane) -> Lane:
    sine, cosine, q = _quadrant(x)
    odd = (q & 1).compare("ne", 0)
    return unless(x.abs().compare("oge", HUGE_ANGLE), x, _narrow(odd.where(-cosine, sine) / odd.where(sine, cosine)), "tanf")


def _atan_wide(top: Lane, bottom: Lane) -> Lane:
    """atan(top / bottom) in float64 for numbers >= 0, not both 0: at most one division, after pi/8 <= angle < 3pi/8 is turned by pi/4."""
    steep = top.compare("ogt", bottom * (1 + math.sqrt(2)))
    flat = top.compare("olt", bottom * (math.sqrt(2) - 1))
    numerator = steep.where(-bottom, flat.where(top, top - bottom))
    denominator = steep.where(top, flat.where(bottom, top + bottom))
    t = numerator / denominator
    z = t * t
    turned = steep.where(t.like(math.pi / 2), flat.where(t.like(0.0), math.pi / 4))
    return (t * z).fma(z.poly(POLYNOMIALS["atan"]), t) + turned


def atan(x: Lane) -> Lane:
    size = _wide(x.abs().at_most(1e30))
    return _narrow(_atan_wide(size, size.like(1.0))).copysign(x)


def atan2(y: Lane, x: Lane) -> Lane:
    """The angle of (x, y); zeros and infinities by IEEE 754, with both infinite taken as equal."""
    top, bottom = _wide(y.abs()), _wide(x.abs())
    both_zero = (top + bottom).compare("oeq", 0.0)
    # A huge number in place of infinity: the other one, if finite, is nothing beside it.
    top, bottom = top.at_most(1e100), both_zero.where(bottom.like(1.0), bottom.at_most(1e100))
    angle = _atan_wide(top, bottom)
    angle = x.bits().compare("slt", 0).where(math.pi - angle, angle)
    # `at_most` keeps a nan only in its own operand, and every operation above passes it on.
    return _narrow(angle).copysign(y)


def _asin_wide(size: Lane) -> tuple[Lane, Lane, Lane]:
    """(p, s, near): asin(size) is p where near (size <= 1/2), else pi/2 - 2*s; s = asin(sqrt((1 - size)/2))."""
    near = size.compare("ole", 0.5)
    z = near.where(size * size, (1.0 - size) * 0.5)
    t = near.where(size, z.call("sqrt"))
    p = (t * z).fma(z.poly(POLYNOMIALS["asin"]), t)
    return p, p + p, near


def asin(x: Lane) -> Lane:
    p, twice, near = _asin_wide(_wide(x.abs()))
    return _narrow(near.where(p, math.pi / 2 - twice)).copysign(x)


def acos(x: Lane) -> Lane:
    p, twice, near = _asin_wide(_wide(x.abs()))
    negative = x.compare("olt", 0.0)
    inner = math.pi / 2 - negative.where(-p, p)
    return _narrow(near.where(inner, negative.where(math.pi - twice, twice)))


def sinh(x: Lane) -> Lane:
    size = _wide(x.abs()).at_most(100.0)
    z = size * size
    small = (size * z).fma(z.poly(POLYNOMIALS["sinh"]), size)
    e = _exp2_wide(size * LOG2_E)
    return _narrow(size.compare("olt", 1.0).where(small, (e - 1.0 / e) * 0.5)).copysign(x)


def cosh(x: Lane) -> Lane:
    e = _exp2_wide(_wide(x.abs()).at_most(100.0) * LOG2_E)
    return _narrow((e + 1.0 / e) * 0.5)


FLOAT32: dict[str, Callable[..., Lane]] = {
    f.__name__: f
    for f in (exp, expm1, log, log1p, log2, log10, tanh, sigmoid, erf, gelu, rsqrt, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, pow)
}
