"""exp and what is made of it, in float32 and float64 throughout, on any number of lanes.

Both formats share the code, with constants of their own (`Format`). Error bounds stand in `vector_math` and `double_math`.

If a register can hold a look-up table (AVX-512), the argument is reduced by sixteenths of ln 2, and the polynomial is half as long, which
shortens the chain of dependent instructions. 2^(j/16) is T[j] * (1 + LOST[j]). The second factor is what rounding took, and is added where
terms are small.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

from polyreme.ir.python.records import dataclass
from polyreme.lowering.emit.llvm import avx512
from polyreme.lowering.emit.llvm.tanh_pieces import tanh_by_pieces
from polyreme.lowering.emit.llvm.text import Lane

LOG2_E = math.log2(math.e)
LN2 = Fraction("0.693147180559945309417232121458176568")


def _rounded(x: float, bits: int) -> float:
    """The number of a format next to x."""
    return x if bits == 64 else float(struct.unpack("f", struct.pack("f", x))[0])


@dataclass(frozen=True)
class Format:
    """What depends on the type.

    `rounder`: adding it leaves a number rounded to a whole one, which stands in the low bits of the sum. `ln2`: ln 2 in two words, the
    first with so many zero bits at its end that its product with an exponent is exact. `pi_2`: pi/2 in three words, of which the first two
    have 24 bits each for float32, so that their products with a count up to 2^29 are exact without fma. Below `least` exp is 0, above
    `most` it is infinite; expm1 is -1 below `minus_one`.
    """

    bits: int
    fraction_bits: int
    bias: int
    letter: str  # of the type in names of x86's intrinsics
    rounder: float
    rounder_bits: int
    ln2: tuple[float, float]
    pi_2: tuple[float, float, float]
    least: float
    most: float
    minus_one: float
    # exp(r) = 1 + r + r*r*EXP(r) for |r| <= ln2/2; `expm1` is the same with an error in proportion to r
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    # the same for |r| <= ln2/32 (in float32 only sigmoid takes it, where vectors are computed as halves), and with an error in proportion
    # to r for 0 <= r <= ln2/16
    exp_short: tuple[float, ...]
    expm1_short: tuple[float, ...]
    # erf(x) = x + x*ERF_SMALL(x*x) below `erf_split`; 1 - erf(x) = exp(-(x + x*ERF_LARGE(x))) above, and 0 from erf_one on
    erf_split: float
    erf_small: tuple[float, ...]
    erf_large: tuple[float, ...]
    erf_one: float

    @property
    def exact_quotient(self) -> float:
        """Up to here a quotient that is rounded, and then rounded down, is at most one too large."""
        return 2.0 ** (self.fraction_bits - 1)

    @property
    def two_thirds_behind(self) -> float:
        """What 2/3 has behind its float64."""
        return float(Fraction(2, 3) - Fraction(2 / 3))

    @property
    def ln2_rounded(self) -> float:
        """ln 2 in one word."""
        return _rounded(math.log(2), self.bits)

    @property
    def ln2_behind(self) -> float:
        """What ln 2 has behind that."""
        return float(LN2 - Fraction(self.ln2_rounded))


FORMATS = {
    "float": Format(
        bits=32, fraction_bits=23, bias=127, letter="s", rounder=12582912.0, rounder_bits=0x4B400000, ln2=(0.693359375, -2.12194440e-4),
        pi_2=(1.570796251296997, 7.549789415861596e-08, 5.390302858158119e-15),
        least=-104.0, most=89.0, minus_one=-18.0, erf_split=0.925,
        exp=(0.49999994, 0.1666652, 0.041668404, 0.008368899, 0.0013814223),
        expm1=(0.5, 0.16666667, 0.04166635, 0.008333272, 0.0013941274, 0.00019914548),
        exp_short=(0.5, 0.16666667), expm1_short=(0.5000001, 0.16664907, 0.042366277),
        erf_small=(0.12837917, -0.37612635, 0.11283694, -0.02685927, 0.0052006347, -0.000813744, 8.345233e-05),
        erf_large=(0.12864849, 0.6351513, 0.10623688, -0.02376207, 0.0036424624, -0.00032280476, 1.1231402e-05),
        erf_one=4.0,
    ),
    "double": Format(
        bits=64, fraction_bits=52, bias=1023, letter="d", rounder=6755399441055744.0, rounder_bits=0x4338000000000000,
        ln2=(0.6931471805598903, 5.497923018708371e-14),
        pi_2=(1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
        least=-746.0, most=710.0, minus_one=-40.0, erf_split=0.925,
        exp=(
            0.5000000000000012, 0.166666666666667, 0.04166666666651552, 0.008333333333307089, 0.0013888888946985212, 0.00019841269917589329,
            2.480148997807656e-05, 2.7557216141002696e-06, 2.763126627723089e-07, 2.5117906689874772e-08,
        ),
        expm1=(
            0.5000000000000001, 0.1666666666666667, 0.0416666666666523, 0.00833333333332616, 0.0013888888895593253, 0.00019841269874744903,
            2.4801574542939454e-05, 2.755725548746839e-06, 2.7567925265567585e-07, 2.5105183464366035e-08, 1.7687655590827561e-09,
        ),
        exp_short=(0.5000000000000006, 0.16666666664418217, 0.041666666659554936, 0.008333471914315016, 0.0013889130399460875),
        expm1_short=(
            0.4999999999999986, 0.1666666666672836, 0.041666666574408824, 0.008333339672072011, 0.0013886689042635026,
            0.0002021612063124666,
        ),
        erf_small=(
            0.1283791670955126, -0.3761263890318371, 0.11283791670952706, -0.026866170644608306, 0.005223977619589439,
            -0.0008548326635956248,
            0.0001205531667171803, -1.4925196853982796e-05, 1.6453661187228061e-06, -1.6260951560733036e-07, 1.3969395364214887e-08,
            -8.307427825253155e-10,
        ),
        erf_large=(
            0.12837915312554563, 0.6366198599665729, 0.10277252006619708, -0.01912946131206564, -0.00020379674260624729,
            0.0016815555338864287,
            -0.0005634226407280094, -9.816683360470033e-06, 0.00010093851907111663, -5.8687579051080145e-05, 2.1365587025728587e-05,
            -5.689469523623493e-06, 1.1487478745627966e-06, -1.7544380653623372e-07, 1.9728969511523036e-08, -1.5442328978175318e-09,
            7.519489149411232e-11, -1.7150798078280943e-12,
        ),
        erf_one=6.0,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Sixteenths:
    """2^(j/16) for j below 16: rounded, and what was lost in proportion to that."""

    powers: tuple[float, ...]
    lost: tuple[float, ...]


def _sixteenths(bits: int) -> Sixteenths:
    roots = [math.sqrt(math.sqrt(math.sqrt(math.sqrt(2.0**j)))) for j in range(16)]
    powers = [_rounded(t, bits) for t in roots]
    # (1 + lost)^16 is 1 + 16*lost to a word and a half.
    return Sixteenths(tuple(powers), tuple(float(2**j / Fraction(t) ** 16 - 1) / 16 for j, t in enumerate(powers)))


SIXTEENTHS = {elem: _sixteenths(form.bits) for elem, form in FORMATS.items()}


def _power_of_two(biased: Lane, elem: str) -> Lane:
    """2^(biased - bias) for a biased exponent of a normal number."""
    return (biased << FORMATS[elem].fraction_bits).convert("bitcast", elem)


def reduce_exp(x: Lane) -> tuple[Lane, Lane, Lane]:
    """r, n and bits with x = n*ln2 + r, |r| <= ln2/2; the low bits of `bits` are n."""
    form = FORMATS[x.elem]
    shifted = x.fma(LOG2_E, form.rounder)
    n = shifted - form.rounder
    high, low = form.ln2
    return n.fma(-low, n.fma(-high, x)), n, shifted.bits()


def scale(p: Lane, n: Lane, bits: Lane) -> Lane:
    """p * 2^n, n from twice the least exponent to one more than the largest: also where 2^n itself is no normal float, or none at all."""
    if p.code.avx512 and p.lanes > 1:
        return avx512.scale(p, n)
    form = FORMATS[p.elem]
    biased = bits - (form.rounder_bits - 2 * form.bias)
    half = biased.shift_right(1)
    return p * _power_of_two(half, p.elem) * _power_of_two(biased - half, p.elem)


def tree_poly(x: Lane, coefficients: Sequence[float]) -> Lane:
    """The polynomial by Estrin's scheme: a few products more than Horner's rule, in a chain of dependent instructions half as long."""
    terms = [x.like(c) for c in coefficients]
    while len(terms) > 1:
        pairs = [high.fma(x, low) for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
        x = x * x
    return terms[0]


def short_poly(x: Lane, coefficients: Sequence[float]) -> Lane:
    """The polynomial of two to six coefficients, first terms in a pair, the others in pairs too: those of the highest powers are nothing
    beside the first two.
    """
    first, second, *rest = coefficients
    if not rest:
        return x.fma(second, first)
    square = x * x
    high = x.like(rest[0])
    if len(rest) > 1:
        high = x.fma(rest[1], rest[0])
    if len(rest) > 2:
        high = square.fma(rest[2] if len(rest) == 3 else x.fma(rest[3], rest[2]), high)
    return square.fma(high, x.fma(second, first))


def _waiting_poly(x: Lane, coefficients: Sequence[float]) -> Lane:
    """The polynomial where latency dominates: of many coefficients (float64), even and odd powers in chains of their own."""
    if x.elem == "float":
        return x.poly(coefficients)
    square = x * x
    return square.poly(coefficients[1::2]).fma(x, square.poly(coefficients[::2]))


def exp_inside(x: Lane) -> Lane:
    """exp(x) between the format's `least` and `most`."""
    p, scaled = _exp_factors(x)
    return scaled(p)


def _exp_factors(x: Lane) -> tuple[Lane, Callable[[Lane], Lane]]:
    """For what `exp_inside` takes, p with exp(x) = p * 2^n, and what multiplies by that power."""
    if x.elem == "double" and x.code.avx512:
        return _exp_factors_by_table(x)
    r, n, bits = reduce_exp(x)
    return r.poly((1.0, 1.0, *FORMATS[x.elem].exp)), lambda p: scale(p, n, bits)


def _exp_factors_by_table(x: Lane) -> tuple[Lane, Callable[[Lane], Lane]]:
    """2^floor(n) is the power, for n in sixteenths, and p is T[16n mod 16] * exp(r)."""
    form, table = FORMATS[x.elem], SIXTEENTHS[x.elem]
    r, n, at = _reduce_by_sixteenths(x, x.fma(LOG2_E, form.rounder / 16))
    linear = r + avx512.look_up(table.lost, at, x.elem)
    p = (r * r).fma(short_poly(r, form.exp_short), linear)
    power = avx512.look_up(table.powers, at, x.elem)
    return power.fma(p, power), lambda p: avx512.scale(p, n)


def _falling_exp_by_table(x: Lane) -> Lane:
    """exp(-x) for x >= 0. No power of two is infinite here, so it is there long before the polynomial is, which it then is multiplied and
    added to at once.
    """
    form, table = FORMATS[x.elem], SIXTEENTHS[x.elem]
    r, n, at = _reduce_by_sixteenths(x, x.fma(-LOG2_E, form.rounder / 16), -1.0)
    power = avx512.scale(avx512.look_up(table.powers, at, x.elem), n)
    linear = avx512.look_up(table.lost, at, x.elem) - r
    return power.fma((r * r).fma(short_poly(r, [c * (-1.0) ** k for k, c in enumerate(form.exp_short, 2)]), linear), power)


def _falling_exp(x: Lane) -> Lane:
    """exp(-x) for 0 <= x <= -`least`, as exp(-r) * 2^(n + far) / 2^far: since none is large, one factor that keeps the powers away from
    those that are no normal numbers serves for all n.
    """
    form = FORMATS[x.elem]
    far = form.bias // 2
    rounder = form.rounder + form.bias + far  # so that the low bits are the exponent as a float has it
    shifted = x.fma(-LOG2_E, rounder)
    n = shifted - rounder
    high, low = form.ln2
    r = n.fma(low, n.fma(high, x))
    p = (r * r).fma(_waiting_poly(r, [c * (-1.0) ** k for k, c in enumerate(form.exp)]), -r) + 1.0
    return p * _power_of_two(shifted.bits(), x.elem) * 2.0**-far


def _half_expm1_by_table(x: Lane) -> Lane:
    """(exp(x) - 1) / 2 for 0 <= x <= 40, as S/2 * expm1(r) + (S/2 - 1/2) with S = 2^floor(n) * T[16n mod 16]: n is rounded down, or at a
    tie one sixteenth further, so that neither term is negative and nothing cancels.
    """
    form, table = FORMATS[x.elem], SIXTEENTHS[x.elem]
    # Where vectors are halves, an instruction with a rounding of its own takes as long as nine others. Half of a sixteenth less is rounded
    # to the nearest one instead.
    shifted = x.fma(LOG2_E, -1 / 32) + form.rounder / 16 if x.code.halves else avx512.multiply_add_down(x, LOG2_E, form.rounder / 16)
    n, at = shifted - form.rounder / 16, shifted.bits()
    # What ln 2 has behind its first word is added for the sixteenths only: it is .2 ulp for a whole n of 1, and the larger n is, the less
    # tanh changes with its argument.
    r = n.fma(-form.ln2_rounded, x)
    lost = avx512.look_up([lost - j / 16 * form.ln2_behind for j, lost in enumerate(table.lost)], at, x.elem)
    p = (r * r).fma(short_poly(r, form.expm1_short), lost) + r
    half = avx512.scale(avx512.look_up([t / 2 for t in table.powers], at, x.elem), n)
    return half.fma(p, half - 0.5)


def _reduce_by_sixteenths(x: Lane, shifted: Lane, sign: float = 1.0) -> tuple[Lane, Lane, Lane]:
    """r, n and bits with sign*x = n*ln2 + sign*r for what is n in sixteenths, plus the rounder for those; the low bits of `bits` are 16n.
    """
    form = FORMATS[x.elem]
    n = shifted - form.rounder / 16
    high, low = form.ln2
    return n.fma(-low * sign, n.fma(-high * sign, x)), n, shifted.bits()


def exp(x: Lane) -> Lane:
    """Below `least` a zero is scaled: a product that underflows takes many a processor over a hundred cycles, and masks are far below."""
    form = FORMATS[x.elem]
    p, scaled = _exp_factors(x.at_least(form.least).at_most(form.most))
    return scaled(x.compare("olt", form.least).where(0.0, p))


def half_expm1(x: Lane) -> Lane:
    """(exp(x) - 1) / 2 for x from `minus_one` to `most`, as 2^(n-1) * expm1(r) + (2^(n-1) - 1/2): the halving keeps 2^n finite up to the
    last finite result.

    What r lost is put back: for n = 1 and r < 0 the sum is half as large as r.
    """
    form = FORMATS[x.elem]
    r, n, bits = reduce_exp(x)
    high, low = form.ln2
    lost = n.fma(-low, n.fma(-high, x) - r)
    p = r + (r * r).fma(r.poly(form.expm1), lost)
    half = _power_of_two(bits - (form.rounder_bits - form.bias + 1), x.elem)
    return half.fma(p, half - 0.5)


def expm1(x: Lane) -> Lane:
    """Numbers so small that exp is 1 are their own result, a zero with its sign."""
    form = FORMATS[x.elem]
    half = half_expm1(x.at_least(form.minus_one).at_most(form.most))
    return x.abs().compare("olt", 2.0 ** (-form.fraction_bits - 3)).where(x, half + half)


def sigmoid(x: Lane) -> Lane:
    """With e = exp(-|x|), 1/(1+e) or e/(1+e), neither of which overflows: 1 or e, less as much of it as e/(1+e). So what rounding takes
    from the quotient counts in part.
    """
    size = x.abs().at_most(-FORMATS[x.elem].least)
    looks_up = x.code.halves if x.elem == "float" else x.code.avx512
    e = _falling_exp_by_table(size) if looks_up else _falling_exp(size)
    most = x.compare("oge", 0.0).where(e.like(1.0), e)
    return (-most).fma(e / (e + 1.0), most)


def tanh(x: Lane) -> Lane:
    """h/(h+1) for h = expm1(2|x|) / 2. With m the lesser of h and 1 that is m - m * m/(h+1), below 1 and above, in which what rounding
    takes from the quotient counts in part.
    """
    if x.code.halves and x.elem == "float":
        return tanh_by_pieces(x)
    size = x.abs().at_most(20.0)
    half = _half_expm1_by_table(size + size) if x.code.avx512 else _half_expm1_of_twice(size)
    least = half.at_most(1.0)
    return (-least).fma(least / (half + 1.0), least).copysign(x)


def _half_expm1_of_twice(x: Lane) -> Lane:
    """(exp(2x) - 1) / 2 for 0 <= x <= 20, as 2^n * expm1(2r) / 2 + (2^n - 1) / 2, as exact as tanh needs it: what r lost counts the less
    for that, the larger n is.
    """
    form = FORMATS[x.elem]
    rounder = form.rounder + form.bias  # so that the low bits are the exponent as a float has it
    shifted = x.fma(2 * LOG2_E, rounder)
    n = shifted - rounder
    r = n.fma(-form.ln2_rounded / 2, x)
    power = _power_of_two(shifted.bits(), x.elem)
    square, terms = r * r, _waiting_poly(r, [c * 2.0 ** (k + 1) for k, c in enumerate(form.exp)])
    # What ln 2 has behind its first word is .4 ulp of the result for n = 1 in float64, and less than a tenth in float32.
    p = square.fma(terms, r) if x.elem == "float" else square.fma(terms, n * (-form.ln2_behind / 2)) + r
    return power.fma(p, power.fma(0.5, -0.5))


def erf(x: Lane) -> Lane:
    size, form = x.abs(), FORMATS[x.elem]
    near = x.fma(tree_poly(x * x, form.erf_small), x)
    large = size.at_most(form.erf_one)
    far = 1.0 - exp_inside(-large.fma(tree_poly(large, form.erf_large), large))
    return size.compare("olt", FORMATS[x.elem].erf_split).where(near, far.copysign(x))
