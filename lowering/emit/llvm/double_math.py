"""Elementary functions in float64 throughout, on any number of lanes.

`DOUBLE_BOUNDS` has the largest error of each in ulp (at most 2), for every argument. Where the machine has no fused multiply-add, products
cannot be exact: bounds are 1 more there, and what needs exact products (`log2`, `log10`, `pow`, `sin`, `cos`, `tan`) is libm's, as are
angles beyond 2^30 and `atan2` everywhere.

The coefficients are minimax polynomials by Remez' exchange, which `tests/lowering/minimax.py` finds again; the comment of each says what it
approximates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from polyreme.lowering.analysis.accuracy import FUNCTIONS
from polyreme.lowering.emit.llvm.exponentials import FORMATS, erf, exp, expm1, reduce_exp, scale, sigmoid, tanh, tree_poly
from polyreme.lowering.emit.llvm.libm import HUGE_ANGLE, libm, unless
from polyreme.lowering.emit.llvm.text import Lane
from polyreme.lowering.emit.llvm.vector_math import log_edges, power_edges, rsqrt

# The coefficients of each polynomial, the lowest first; comments call them by their names.
POLYNOMIALS = {
    # log((1+s)/(1-s)) = 2*s + s*z*LOG(z), z = s*s, for |s| <= 3 - sqrt(8), where (1+s)/(1-s) goes from sqrt(1/2) to sqrt(2)
    "log": (
        0.6666666666666734, 0.39999999999414654, 0.2857142874239156, 0.22222198572902874, 0.18183564333218516, 0.15314050576342075,
        0.14795947415131927,
    ),
    # log((1+s)/(1-s)) = 2*s + 2/3*s*z + s*z*z*LOG_REST(z)
    "log_rest": (
        0.40000000000002256, 0.28571428570099877, 0.222222225198539, 0.18181784374340496, 0.1538675695002298, 0.13256827637485058,
        0.1319622845982256,
    ),
    # z = r*r: sin(r) = r + r*z*SIN(z) and cos(r) = 1 - z/2 + z*z*COS(z) for |r| <= pi/4
    "sin": (
        -0.16666666666666632, 0.008333333333322424, -0.00019841269829816056, 2.755731369496185e-06, -2.5050758618305063e-08,
        1.5896826242943005e-10,
    ),
    "cos": (
        0.0416666666666666, -0.0013888888888874144, 2.480158728949461e-05, -2.7557314356020164e-07, 2.0875723787599093e-09,
        -1.1359675092923948e-11,
    ),
    # z = t*t: atan(t) = t + t*z*ATAN(z) for |t| <= tan(1/2); asin(t) = t + t*z*ASIN(z) for |t| <= 1/2; sinh(t) = t + t*z*SINH(z) for
    # |t| <= 1
    "atan": (
        -0.33333333333333176, 0.1999999999995831, -0.1428571428177815, 0.11111110923599919, -0.09090903807995221, 0.07692211677289437,
        -0.0666548114969962, 0.05872095677357129, -0.051999237060718524, 0.04482608789194592, -0.03467382934958459, 0.02039818134727041,
        -0.006446497821765827,
    ),
    "asin": (
        0.16666666666666763, 0.07499999999970265, 0.044642857175117935, 0.030381942683753795, 0.022372215656572082, 0.017351600156250452,
        0.013980960712776174, 0.011397781746372038, 0.010786498397379087, 0.0036831517078382307, 0.021763246440527597,
        -0.021076953695363925, 0.03267668914548196,
    ),
    "sinh": (
        0.16666666666666669, 0.008333333333333139, 0.00019841269841437697, 2.7557319155333e-06, 2.5052123399047294e-08,
        1.60572403111938e-10, 7.759312898415627e-13,
    ),
}  # fmt: skip

# For each base b of a logarithm: 2/ln(b) in two words, then log_b(2) in two, the first with so many zero bits at its end that its product
# with an exponent is exact.
_BASES = {
    "log": ((2.0, 0.0), FORMATS["double"].ln2),
    "log2": ((2.8853900817779268, 4.0710547481862066e-17), (1.0, 0.0)),
    "log10": ((0.8685889638065036, 2.19663930043353e-17), (0.30102999566383914, 1.42050232272661e-13)),
}
PI_2 = FORMATS["double"].pi_2

DOUBLE_BOUNDS = FUNCTIONS["double"]


# --- exponentials


def gelu(x: Lane) -> Lane:
    half = x * 0.5
    return half * (erf(x * math.sqrt(0.5)) + 1.0)


def _half_exp(size: Lane) -> Lane:
    """exp(size) / 2, which is finite a little longer."""
    r, n, bits = reduce_exp(size.at_most(711.0))
    return scale(r.poly((1.0, 1.0, *FORMATS["double"].exp)), n - 1.0, bits - 1)


def sinh(x: Lane) -> Lane:
    size = x.abs()
    z = size * size
    small = (size * z).fma(z.poly(POLYNOMIALS["sinh"]), size)
    e = _half_exp(size)
    return size.compare("olt", 1.0).where(small, e - 0.25 / e).copysign(x)


def cosh(x: Lane) -> Lane:
    e = _half_exp(x.abs())
    return e + 0.25 / e


# --- logarithms


def _split(x: Lane) -> tuple[Lane, Lane]:
    """(m, e) with x = 2^e * m and sqrt(1/2) <= m < sqrt(2), for normal positive x; e is the first 12 bits of an i64, with sign."""
    bits = x.bits() - 0x3FE6A09E667F3BCD
    return ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).convert("bitcast", "double"), bits


def _exponent(bits: Lane) -> Lane:
    """The first 12 bits, with sign, as a float64. By way of 32 bits: few machines shift or convert 64 with their sign."""
    return (bits.shift_right(32).convert("trunc", "i32") >> 20).convert("sitofp", "double")


def _log_sum(f: Lane, e: Lane, base: str) -> Lane:
    """(e*ln2 + log(1 + f)) / ln(base), with s = f / (2 + f) and what this quotient lost."""
    (high, low), (e_high, e_low) = _BASES[base]
    d = f + 2.0
    s = f / d
    z = s * s
    tail = s * z * (z.poly(POLYNOMIALS["log"]) * (high / 2))
    if f.code.fma:
        rest = (-s).fma(f - (d - 2.0), (-s).fma(d, f))
        # 1/d is (1 - s)/2.
        tail = rest.fma(s.fma(-high / 2, high / 2), tail)
        if low:
            tail = s.fma(high, -(s * high)) + s.fma(low, tail)
    if e_low:
        tail = e.fma(e_low, tail)
    return e.fma(e_high, s * high + tail)


def _logarithm(base: str, x: Lane) -> Lane:
    if not x.code.fma and base != "log":
        return libm(base, x)
    tiny = x.compare("olt", 2.0**-1022)
    m, bits = _split(tiny.where(x * 2.0**54, x))
    e = _exponent(bits)
    return log_edges(x, _log_sum(m - 1.0, tiny.where(e - 54.0, e), base), 0.0)


def pow(x: Lane, y: Lane) -> Lane:
    """exp(y * log|x|), with the logarithm and the product in two words each, and the sign and the exceptions of IEEE 754."""
    if not x.code.fma:
        return libm("pow", x, y)
    size = x.abs()
    log, lost = _long_log(size)
    log = size.compare("oeq", 0.0).where(log.like(-math.inf), log)
    log = size.compare("oeq", math.inf).where(size, log)
    log = size.is_nan().where(size, log)
    product = y * log
    rest = product.abs().compare("olt", 800.0).where(y.fma(log, -product) + y * lost, 0.0)
    product = product.at_least(FORMATS["double"].least).at_most(FORMATS["double"].most)
    r, n, bits = reduce_exp(product)
    r = r + rest
    # The chain of operations is so long that it is what takes the time: polynomials as trees.
    p = (r * r).fma(tree_poly(r, FORMATS["double"].exp), r) + 1.0
    return power_edges(x, y, scale(p, n, bits))


def _long_log(x: Lane) -> tuple[Lane, Lane]:
    """The natural logarithm of a positive finite number in two words, within 2^-65 of itself."""
    tiny = x.compare("olt", 2.0**-1022)
    m, bits = _split(tiny.where(x * 2.0**54, x))
    e = _exponent(bits)
    e = tiny.where(e - 54.0, e)
    f = m - 1.0
    d = f + 2.0
    s = f / d
    s_low = (-s).fma(f - (d - 2.0), (-s).fma(d, f)) * s.fma(-0.5, 0.5)
    z = s * s
    z_low = s.fma(s, -z) + s * s_low * 2.0
    # 2/3 + rest, then 2 + z times that, then s times that.
    rest = z * tree_poly(z, POLYNOMIALS["log_rest"])
    third = rest + 2 / 3
    third_low = (2 / 3 - third) + rest + FORMATS["double"].two_thirds_behind
    product = z * third
    product_low = z.fma(third, -product) + z.fma(third_low, z_low * third)
    total = product + 2.0
    total_low = (product - (total - 2.0)) + product_low
    log = s * total
    log_low = s.fma(total, -log) + s.fma(total_low, s_low * total)
    high, low = FORMATS["double"].ln2
    large = e * high
    found = large + log
    return found, ((large - found) + log) + e.fma(low, log_low)


def log1p(x: Lane) -> Lane:
    """log(u) with u = 1 + x; what that sum lost is brought back, divided by 2^e, in f."""
    u = x + 1.0
    lost = x.abs().compare("olt", 1.0).where(x - (u - 1.0), 1.0 - (u - x))
    m, bits = _split(u)
    e = _exponent(bits)
    down = (0x3FF0000000000000 - (bits & -0x10000000000000)).convert("bitcast", "double")
    # Beyond 2^53 what was lost no longer counts, and 2^-e would turn denormal at the end of the range.
    f = m - 1.0
    result = _log_sum(x.compare("ogt", 2.0**53).where(f, lost.fma(down, f)), e, "log")
    result = x.abs().compare("olt", 2.0**-54).where(x, result)
    return log_edges(x, result, -1.0)


# --- angles


def quadrant(x: Lane) -> tuple[tuple[Lane, Lane], tuple[Lane, Lane], Lane]:
    """sin r and cos r, each in two words of which the second holds what rounding took from the first, and q with x = q * pi/2 + r, for |x|
    <= HUGE_ANGLE.

    q stands in the low bits. Needs exact products.
    """
    rounder = FORMATS["double"].rounder
    shifted = x.fma(2 / math.pi, rounder)
    n = shifted - rounder
    # The first difference is exact; then r and what it leaves.
    first = n.fma(-PI_2[0], x)
    r = n.fma(-PI_2[1], first)
    rest = n.fma(-PI_2[2], n.fma(-PI_2[1], first - r))
    return *long_sine_and_cosine(r, rest), shifted.bits()


def long_sine_and_cosine(r: Lane, rest: Lane) -> tuple[tuple[Lane, Lane], tuple[Lane, Lane]]:
    """Of r + rest, where |r| <= pi/4: each in two words, as `quadrant` gives them."""
    z = r * r
    near_one = z.fma(-0.5, 1.0)
    tail = (r * z).fma(z.poly(POLYNOMIALS["sin"]), near_one * rest)
    # The sum would lose the sign of a zero.
    sine = z.compare("oeq", 0.0).where(r, r + tail)
    # What rounding took from r*r/2 and from its difference to 1.
    lost = r.fma(r, -z).fma(-0.5, z.fma(-0.5, 1.0 - near_one))
    rise = (z * z).fma(z.poly(POLYNOMIALS["cos"]), (-r).fma(rest, lost))
    cosine = near_one + rise
    return (sine, (r - sine) + tail), (cosine, (near_one - cosine) + rise)


def _reduced(name: str, turned: int, x: Lane) -> Lane:
    """sin x, or cos x where the quadrant is `turned` by 1."""
    if not x.code.fma:
        return libm(name, x)
    value = turned_sine(turned, *quadrant(x))
    return unless(x.abs().compare("oge", HUGE_ANGLE), x, value, name)


def turned_sine(turned: int, sine: tuple[Lane, Lane], cosine: tuple[Lane, Lane], q: Lane) -> Lane:
    """The sine of what `quadrant` gives, or its cosine where the quadrant is `turned` by 1."""
    q = q + turned
    value = (q & 1).compare("ne", 0).where(cosine[0], sine[0])
    return (q & 2).compare("ne", 0).where(-value, value)


def tan(x: Lane) -> Lane:
    if not x.code.fma:
        return libm("tan", x)
    value = tangent(*quadrant(x))
    return unless(x.abs().compare("oge", HUGE_ANGLE), x, value, "tan")


def tangent(sines: tuple[Lane, Lane], cosines: tuple[Lane, Lane], q: Lane) -> Lane:
    """Of what `quadrant` gives: sin r / cos r or -cos r / sin r, and what rounding took from both and from the quotient, divided too."""
    (sine, sine_low), (cosine, cosine_low) = sines, cosines
    odd = (q & 1).compare("ne", 0)
    top, bottom = odd.where(-cosine, sine), odd.where(sine, cosine)
    quotient = top / bottom
    rest = (-quotient).fma(odd.where(sine_low, cosine_low), (-quotient).fma(bottom, top) + odd.where(-cosine_low, sine_low))
    return quotient.compare("oeq", 0.0).where(quotient, quotient + rest / bottom)


def atan(x: Lane) -> Lane:
    """Above tan(pi/2 - 1/2) the angle is turned by pi/2, above tan(1/2) by pi/4, which leaves at most tan(1/2)."""
    size = x.abs()
    steep = size.compare("ogt", 1 / math.tan(0.5))
    flat = size.compare("olt", math.tan(0.5))
    t = steep.where(size.like(-1.0), flat.where(size, size - 1.0)) / steep.where(size, flat.where(size.like(1.0), size + 1.0))
    z = t * t
    turned = steep.where(t.like(PI_2[0]), flat.where(t.like(0.0), PI_2[0] / 2))
    lost = steep.where(t.like(PI_2[1]), flat.where(t.like(0.0), PI_2[1] / 2))
    return (turned + (t + (t * z).fma(z.poly(POLYNOMIALS["atan"]), lost))).copysign(x)


def _asin_parts(size: Lane) -> tuple[Lane, Lane, Lane]:
    """(t, tail, near): asin(size) is t + tail where near (size <= 1/2), else pi/2 - 2*(t + tail)."""
    near = size.compare("ole", 0.5)
    z = near.where(size * size, (1.0 - size) * 0.5)
    t = near.where(size, z.call("sqrt"))
    return t, t * z * z.poly(POLYNOMIALS["asin"]), near


def asin(x: Lane) -> Lane:
    t, tail, near = _asin_parts(x.abs())
    far = PI_2[0] - (t + t)
    lost = (PI_2[0] - far) - (t + t)
    far = far - (tail + tail - (lost + PI_2[1]))
    return near.where(t + tail, far).copysign(x)


def acos(x: Lane) -> Lane:
    """pi/2 - asin x near 0, 2p near 1 and pi - 2p near -1."""
    t, tail, near = _asin_parts(x.abs())
    p = t + tail
    twice = p + p
    negative = x.compare("olt", 0.0)
    inner = PI_2[0] - (negative.where(-p, p) - PI_2[1])
    return near.where(inner, negative.where(2 * PI_2[0] - (twice - 2 * PI_2[1]), twice))


FLOAT64: dict[str, Callable[..., Lane]] = {
    "atan2": partial(libm, "atan2"),
    **{name: partial(_logarithm, name) for name in _BASES},
    "sin": partial(_reduced, "sin", 0),
    "cos": partial(_reduced, "cos", 1),
    **{f.__name__: f for f in (exp, expm1, log1p, tanh, sigmoid, erf, gelu, rsqrt, tan, asin, acos, atan, sinh, cosh, pow)},
}
