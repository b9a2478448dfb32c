"""Elementary functions as instructions, on any number of lanes.

For float32 they are polynomials written out where they are used, so they fuse with what stands around them and need no library. `BOUNDS` has the largest
error of each (at most 2 ulp), for every argument: denormals, infinities and nan too; the tests sweep them. The result does not depend on the number of lanes.

Hot functions (exp, tanh, sigmoid, erf, log, …) work in float32 throughout. The others widen to float64, where a short polynomial leaves
nothing to round but the result. Trigonometric arguments beyond 2^30, where the reduction would need more than three words of pi, take a branch to libm.

float64 functions call libm lane by lane; float16 and bfloat16 go through float32.

The coefficients are minimax polynomials by Remez' exchange, found in 200-bit arithmetic; the comment of each says what it approximates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from polyreme.lowering.llvm_text import Lane, join

# exp(r) = 1 + r + r*r*EXP(r) for |r| <= ln2/2, and the same for expm1 with one more term
EXP = (0.49999994, 0.1666652, 0.041668404, 0.008368899, 0.0013814223)
EXPM1 = (0.5, 0.16666667, 0.04166635, 0.008333272, 0.0013941274, 0.00019914548)
# log(1 + f) = f - f*f/2 + f*f*f*LOG(f) for sqrt(1/2) <= 1 + f <= sqrt(2)
LOG = (0.3333331, -0.24999987, 0.20002227, -0.16669251, 0.14218667, -0.12384361, 0.118729256, -0.1178972, 0.069153704)
# erf(x) = x + x*ERF_SMALL(x*x) below ERF_SPLIT; 1 - erf(x) = exp(-(x + x*ERF_LARGE(x))) above
ERF_SPLIT = 0.925
ERF_SMALL = (0.12837917, -0.37612635, 0.11283694, -0.02685927, 0.0052006347, -0.000813744, 8.345233e-05)
ERF_LARGE = (0.12864849, 0.6351513, 0.10623688, -0.02376207, 0.0036424624, -0.00032280476, 1.1231402e-05)
# gelu(x) = x*(1/2 + x*GELU(x*x - GELU_MIDDLE)) for |x| <= GELU_EDGE, where the bracket is 0 or 1 but for rounding
GELU_EDGE, GELU_MIDDLE = 5.49, 12.0
GELU = (
    0.14426078, -0.0059696627, 0.0003628027, -2.3477776e-05, 1.4973647e-06, -9.084602e-08, 5.1494338e-09, -2.7059083e-10, 1.3194209e-11,
    -5.9786556e-13, 2.47505e-14, -9.239633e-16, 3.3848337e-17, -1.3519168e-18, 4.8748212e-20, -1.1309597e-21, 1.15324885e-23,
)  # fmt: skip
# tanh(x) = x + x*z*TANH(z), z = x*x, below TANH_SPLIT
TANH_SPLIT = 0.61
TANH = (-0.33333296, 0.13331805, -0.053771634, 0.020748971, -0.005834395)
# float64: 2^t = 1 + t*EXP2(t) for |t| <= 1/2; log2((1+s)/(1-s)) = s*LOG2(s*s) for |s| <= 0.1716
EXP2 = (
    0.6931471805599514, 0.2402265069571772, 0.05550410866432619, 0.009618129182447099, 0.0013333558250751333, 0.00015403439981326666,
    1.5252645350636014e-05, 1.3258525838602684e-06, 1.0210914056780231e-07,
)  # fmt: skip
LOG2 = (
    2.885390081777927, 0.9617966939243142, 0.5770780172546633, 0.41219840080373016, 0.32061647202987303, 0.2614416450296398, 0.2429463767969077,
)  # fmt: skip
# float64, z = r*r: sin(r) = r + r*z*SIN(z) and cos(r) = 1 - z/2 + z*z*COS(z) for |r| <= pi/4
SIN = (-0.1666666666663213, 0.008333333325342434, -0.00019841263853880844, 2.7555363275112855e-06, -2.476199943148393e-08)
COS = (0.04166666666664197, -0.0013888888883174576, 2.4801583020348865e-05, -2.7555920814153645e-07, 2.0669392516353887e-09)
# float64, z = t*t: atan(t) = t + t*z*ATAN(z) for |t| <= tan(pi/8); asin(t) = t + t*z*ASIN(z) for |t| <= 1/2; sinh(t) = t + t*z*SINH(z) for |t| <= 1
ATAN = (
    -0.33333333333273873, 0.19999999984813358, -0.1428571299324743, 0.11111057822978568, -0.09089669869674388, 0.0767483939275361,
    -0.06513148917675088, 0.050461782914892894, -0.02558485145185681,
)  # fmt: skip
ASIN = (
    0.16666666666471963, 0.07500000039246123, 0.0446428305197657, 0.03038282576965695, 0.022355575692779007, 0.017543644518677654,
    0.01258044921890088, 0.017837994497076338, -0.007170838421857942, 0.03140624013399342,
)  # fmt: skip
SINH = (0.166666666670654, 0.008333333276638703, 0.00019841295965923383, 2.755207275923659e-06, 2.5529484786802144e-08)

LOG2_E = 1 / math.log(2)
# ln 2 in two float32 words, the first with nine zero bits at its end, so that its product with an exponent is exact.
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
# Adding it leaves a float32 rounded to a whole number, which stands in the low bits of the sum; the float64 one does the same.
ROUNDER, ROUNDER_64 = 12582912.0, 6755399441055744.0
# pi/2 in three words; the first two have 24 bits each, so that their products with a count up to 2^29 are exact without fma.
PI_2 = (1.570796251296997, 7.549789415861596e-08, 5.390302858158119e-15)
HUGE_ANGLE = 2.0**30

# Largest error of the float32 functions in ulp (of gelu: in ulp of its operand; for sin, cos and tan: below 2^30, and libm's above); without fma, up to 1 more.
BOUNDS = {
    "exp": 1.05, "expm1": 1.5, "log": 1.0, "log1p": 1.5, "log2": 0.51, "log10": 0.51, "tanh": 1.75, "sigmoid": 1.75, "erf": 1.25, "gelu": 2.0,
    "rsqrt": 1.5, "sin": 0.51, "cos": 0.51, "tan": 0.51, "asin": 0.51, "acos": 0.51, "atan": 0.51, "atan2": 0.51, "sinh": 0.51, "cosh": 0.51, "pow": 0.51,
}  # fmt: skip


# --- float32 throughout


def _power_of_two(n: Lane) -> Lane:
    """2^n for an integer n in [-126, 127]."""
    return ((n + 127) << 23).convert("bitcast", "float")


def _reduce_exp(x: Lane) -> tuple[Lane, Lane, Lane]:
    """r, n and bits with x = n*ln2 + r, |r| <= ln2/2; the low bits of `bits` are n."""
    shifted = x.fma(LOG2_E, ROUNDER)
    n = shifted - ROUNDER
    r = n.fma(-LN2_LOW, n.fma(-LN2_HIGH, x))
    return r, n, shifted.bits()


def _scale(p: Lane, n: Lane, bits: Lane) -> Lane:
    """p * 2^n, n in [-150, 128]: also where 2^n itself is no normal float, or none at all."""
    code = p.code
    if code.avx512 and p.lanes in (4, 8, 16):
        # One instruction; the mask turns all lanes on, and only the widest form takes a rounding mode (4: the current one).
        options = "i16 -1, i32 4" if p.lanes == 16 else "i8 -1"
        name = f"llvm.x86.avx512.mask.scalef.ps.{p.lanes * 32}"
        return code.value("float", p.lanes, f"call {p.type} @{name}({p.typed}, {n.typed}, {p.type} zeroinitializer, {options})")
    whole = bits - 0x4B400000
    half = whole >> 1
    return p * _power_of_two(half) * _power_of_two(whole - half)


def _tree_poly(x: Lane, coefficients: Sequence[float]) -> Lane:
    """The polynomial by Estrin's scheme, terms in pairs, pairs in pairs of the square: a few products more than Horner's rule, in a chain half as long."""
    terms = [x.like(c) for c in coefficients]
    while len(terms) > 1:
        pairs = [high.fma(x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
        x = x * x
    return terms[0]


def _exp_inside(x: Lane) -> Lane:
    """2^n * exp(r), for x from -104, where it is 0, to 89, where it is infinite."""
    r, n, bits = _reduce_exp(x)
    return _scale((r * r).fma(r.poly(EXP), r) + 1.0, n, bits)


def exp(x: Lane) -> Lane:
    return _exp_inside(x.at_least(-104.0).at_most(89.0))


def expm1(x: Lane) -> Lane:
    """2 * (2^(n-1) * expm1(r) + (2^(n-1) - 1/2)): the halving keeps 2^n finite up to the last finite result."""
    small = x.abs().compare("olt", 1e-8)
    x_in = x
    x = x.at_least(-18.0).at_most(89.0)
    r, _, bits = _reduce_exp(x)
    p = (r * r).fma(r.poly(EXPM1), r)
    half = _power_of_two(bits - 0x4B400001)
    half_result = half.fma(p, half - 0.5)
    return small.where(x_in, half_result + half_result)


def _split_float(x: Lane) -> tuple[Lane, Lane]:
    """(f, e) with x = 2^e * (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2), for normal positive x; e is a float."""
    bits = x.bits() - 0x3F3504F3
    e = (bits >> 23).convert("sitofp", "float")
    m = ((bits & 0x007FFFFF) + 0x3F3504F3).convert("bitcast", "float")
    return m - 1.0, e


def _log_sum(f: Lane, e: Lane) -> Lane:
    """e*ln2 + log(1 + f), small terms first."""
    square = f * f
    tail = e.fma(LN2_LOW, square * f * f.poly(LOG))
    tail = square.fma(-0.5, tail)
    return e.fma(LN2_HIGH, tail + f)


def _log_edges(x: Lane, result: Lane, zero_at: float) -> Lane:
    """The logarithm's values at the pole, left of it, at infinity and at nan."""
    result = x.compare("ogt", zero_at).where(result, math.nan)
    result = x.compare("oeq", zero_at).where(result.like(-math.inf), result)
    return x.compare("oeq", math.inf).where(x, result)


def log(x: Lane) -> Lane:
    tiny = x.compare("olt", 2.0**-126)
    f, e = _split_float(tiny.where(x * 2.0**23, x))
    e = tiny.where(e - 23.0, e)
    return _log_edges(x, _log_sum(f, e), 0.0)


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
    return _log_edges(x, result, -1.0)


def sigmoid(x: Lane) -> Lane:
    """With e = exp(-|x|), 1/(1+e) or e/(1+e): neither overflows. Most of what the sum and the quotient lost is put back, where products can be exact."""
    e = _exp_inside((-x.abs()).at_least(-104.0))
    d = e + 1.0
    n = x.compare("oge", 0.0).where(e.like(1.0), e)
    q = n / d
    if not x.code.fma:
        return q
    rest = (-q).fma(d, n)
    rest = (-q).fma(e - (d - 1.0), rest)
    # 1/d is between 1/2 and 1.
    return rest.fma(0.75, q)


def tanh(x: Lane) -> Lane:
    """A polynomial near 0; beyond, t / (t + 2) with t = expm1(2|x|), which is 1 from |x| = 9.1 on."""
    size = x.abs()
    z = x * x
    near = (x * z).fma(z.poly(TANH), x)
    t = expm1((size + size).at_most(20.0))
    # The sign last: the polynomial's sum would lose that of a zero.
    return size.compare("olt", TANH_SPLIT).where(near, t / (t + 2.0)).copysign(x)


def erf(x: Lane) -> Lane:
    size = x.abs()
    near = x.fma(_tree_poly(x * x, ERF_SMALL), x)
    large = size.at_most(4.0)
    far = 1.0 - _exp_inside(-large.fma(_tree_poly(large, ERF_LARGE), large))
    return size.compare("olt", ERF_SPLIT).where(near, far.copysign(x))


def gelu(x: Lane) -> Lane:
    """x times the distribution function: 1/2 plus an odd polynomial, constant from where it is 0 or 1 on."""
    inside = x.at_least(-GELU_EDGE).at_most(GELU_EDGE)
    share = inside.fma(inside.fma(inside, -GELU_MIDDLE).poly(GELU), 0.5)
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
    shifted = x + ROUNDER_64
    t = x - (shifted - ROUNDER_64)
    scale = ((shifted.bits() + 1023) << 52).convert("bitcast", "double")
    return (t * scale).fma(t.poly(EXP2), scale)


def _log2_wide(x: Lane) -> Lane:
    """log2(x) in float64 for positive finite float32 x; denormals are normal here."""
    bits = x.bits() - 0x3FE6A09E667F3BCD
    e = (bits >> 52).convert("trunc", "i32").convert("sitofp", "double")
    m = ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).convert("bitcast", "double")
    s = (m - 1.0) / (m + 1.0)
    return s.fma((s * s).poly(LOG2), e)


def log2(x: Lane) -> Lane:
    return _log_edges(x, _narrow(_log2_wide(_wide(x))), 0.0)


def log10(x: Lane) -> Lane:
    return _log_edges(x, _narrow(_log2_wide(_wide(x)) * math.log10(2)), 0.0)


def pow(x: Lane, y: Lane) -> Lane:
    """2^(y * log2|x|), with the sign and the exceptions of IEEE 754."""
    log = _log2_wide(_wide(x.abs()))
    wide_x, wide_y = _wide(x.abs()), _wide(y)
    log = wide_x.compare("oeq", 0.0).where(log.like(-math.inf), log)
    log = wide_x.compare("oeq", math.inf).where(log.like(math.inf), log)
    log = wide_x.is_nan().where(wide_x, log)
    result = _narrow(_exp2_wide((wide_y * log).at_least(-200.0).at_most(200.0)))
    # Every float32 from 2^24 on is even, so odd numbers survive a round trip through half their value only if not whole.
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
    shifted = wide.fma(2 / math.pi, ROUNDER_64)
    n = shifted - ROUNDER_64
    r = wide
    for word in PI_2:
        r = n.fma(-word, r)
    return *sine_and_cosine(r), shifted.bits()


def sine_and_cosine(r: Lane) -> tuple[Lane, Lane]:
    """In float64, for |r| <= pi/4."""
    z = r * r
    # The sum with r*z would lose the sign of a zero.
    sine = z.compare("oeq", 0.0).where(r, (r * z).fma(z.poly(SIN), r))
    return sine, (z * z).fma(z.poly(COS), z.fma(-0.5, 1.0))


def _unless_huge(x: Lane, result: Lane, function: str) -> Lane:
    """`result`, but libm's where some lane is too large for the reduction. Infinities go there too, and come back as nan."""
    code = x.code
    huge = x.abs().compare("oge", HUGE_ANGLE)
    some = huge
    if x.lanes > 1:
        packed = code.value(f"i{x.lanes}", 1, f"bitcast {huge.typed} to i{x.lanes}")
        some = packed.compare("ne", 0)
    here, slow, done = code.block, code.label("huge"), code.label("reduced")
    code.branch(some.ref, slow, done)
    code.start(slow)
    exact = huge.where(libm(function, x), result)
    code.jump(done)
    code.start(done)
    return code.value(x.elem, x.lanes, f"phi {x.type} [ {result.ref}, %{here} ], [ {exact.ref}, %{slow} ]")


def sin(x: Lane) -> Lane:
    sine, cosine, q = _quadrant(x)
    value = (q & 1).compare("ne", 0).where(cosine, sine)
    return _unless_huge(x, _narrow((q & 2).compare("ne", 0).where(-value, value)), "sinf")


def cos(x: Lane) -> Lane:
    sine, cosine, q = _quadrant(x)
    value = (q & 1).compare("ne", 0).where(sine, cosine)
    return _unless_huge(x, _narrow(((q + 1) & 2).compare("ne", 0).where(-value, value)), "cosf")


def tan(x: Lane) -> Lane:
    sine, cosine, q = _quadrant(x)
    odd = (q & 1).compare("ne", 0)
    return _unless_huge(x, _narrow(odd.where(-cosine, sine) / odd.where(sine, cosine)), "tanf")


def _atan_wide(top: Lane, bottom: Lane) -> Lane:
    """atan(top / bottom) in float64 for numbers >= 0, not both 0: at most one division, after pi/8 <= angle < 3pi/8 is turned by pi/4."""
    steep = top.compare("ogt", bottom * (1 + math.sqrt(2)))
    flat = top.compare("olt", bottom * (math.sqrt(2) - 1))
    numerator = steep.where(-bottom, flat.where(top, top - bottom))
    denominator = steep.where(top, flat.where(bottom, top + bottom))
    t = numerator / denominator
    z = t * t
    turned = steep.where(t.like(math.pi / 2), flat.where(t.like(0.0), math.pi / 4))
    return (t * z).fma(z.poly(ATAN), t) + turned


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
    p = (t * z).fma(z.poly(ASIN), t)
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
    small = (size * z).fma(z.poly(SINH), size)
    e = _exp2_wide(size * LOG2_E)
    return _narrow(size.compare("olt", 1.0).where(small, (e - 1.0 / e) * 0.5)).copysign(x)


def cosh(x: Lane) -> Lane:
    e = _exp2_wide(_wide(x.abs()).at_most(100.0) * LOG2_E)
    return _narrow((e + 1.0 / e) * 0.5)


# --- by the library


def libm(function: str, *operands: Lane) -> Lane:
    """A function of libm, lane by lane."""
    first = operands[0]
    results = []
    for scalars in zip(*(operand.split() for operand in operands), strict=True):
        args = ", ".join(s.typed for s in scalars)
        results.append(first.code.value(first.elem, 1, f"call {first.elem} @{function}({args})"))
    return join(results)


def _sigmoid_wide(x: Lane) -> Lane:
    e = libm("exp", -x.abs())
    return x.compare("oge", 0.0).where(e.like(1.0), e) / (e + 1.0)


def _gelu_wide(x: Lane) -> Lane:
    half = x * 0.5
    return half * (libm("erf", x * math.sqrt(0.5)) + 1.0)


FLOAT32: dict[str, Callable[..., Lane]] = {
    f.__name__: f
    for f in (exp, expm1, log, log1p, log2, log10, tanh, sigmoid, erf, gelu, rsqrt, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, pow)
}
# Names of libm's float64 functions, which modules that use them declare.
LIBM = ("exp", "expm1", "log", "log1p", "log2", "log10", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "atan2", "pow")
LIBM_FLOAT32 = ("sinf", "cosf", "tanf")


def _by_libm(name: str) -> Callable[..., Lane]:
    return lambda *operands: libm(name, *operands)


FLOAT64: dict[str, Callable[..., Lane]] = {name: _by_libm(name) for name in LIBM} | {"sigmoid": _sigmoid_wide, "gelu": _gelu_wide, "rsqrt": rsqrt}


def libm_declarations() -> list[str]:
    """Every libm function that the code here may call."""
    lines = [f"declare double @{name}({', '.join(['double'] * (2 if name in ('atan2', 'pow') else 1))})" for name in LIBM]
    return lines + [f"declare float @{name}(float)" for name in LIBM_FLOAT32]
