"""The functions of the C library that code for WebAssembly calls, as LLVM IR: a module imports nothing.

What `double_math` computes with exact products is computed so here too, by a multiply-add of two words; angles from 2^30 on are reduced by
as many bits of 2/pi as they need. The linker leaves out what no kernel calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from polyreme.lowering.emit.llvm.double_math import FLOAT64, PI_2, long_sine_and_cosine, quadrant, tangent, turned_sine
from polyreme.lowering.emit.llvm.libm import HUGE_ANGLE, TWO_OVER_PI, unless
from polyreme.lowering.emit.llvm.text import Lane, TextCode
from polyreme.lowering.emit.ptx.device_math import library

__all__ = ["math_text"]

# x * y + z for numbers whose products neither overflow nor vanish. The product of halves of 26 bits is exact; so is what rounding takes
# from the product and from the sum.
_FMA = """define hidden double @fma(double %x, double %y, double %z) nounwind {
entry:
  %x.wide = fmul double %x, 134217729.0
  %x.off = fsub double %x.wide, %x
  %x.high = fsub double %x.wide, %x.off
  %x.low = fsub double %x, %x.high
  %y.wide = fmul double %y, 134217729.0
  %y.off = fsub double %y.wide, %y
  %y.high = fsub double %y.wide, %y.off
  %y.low = fsub double %y, %y.high
  %product = fmul double %x, %y
  %high.high = fmul double %x.high, %y.high
  %high.low = fmul double %x.high, %y.low
  %low.high = fmul double %x.low, %y.high
  %low.low = fmul double %x.low, %y.low
  %rest.0 = fsub double %high.high, %product
  %rest.1 = fadd double %rest.0, %high.low
  %rest.2 = fadd double %rest.1, %low.high
  %lost = fadd double %rest.2, %low.low
  %sum = fadd double %product, %z
  %z.part = fsub double %sum, %product
  %product.part = fsub double %sum, %z.part
  %z.lost = fsub double %z, %z.part
  %product.lost = fsub double %product, %product.part
  %sum.lost = fadd double %z.lost, %product.lost
  %all.lost = fadd double %sum.lost, %lost
  %value = fadd double %sum, %all.lost
  %plain = fcmp ord double %all.lost, 0.0
  %result = select i1 %plain, double %value, double %sum
  ret double %result
}
"""

# By long division: the exponent goes down one by one.
_FMOD = """define hidden double @fmod(double %x, double %y) nounwind {
entry:
  %x.bits = bitcast double %x to i64
  %y.bits = bitcast double %y to i64
  %a = and i64 %x.bits, 9223372036854775807
  %b = and i64 %y.bits, 9223372036854775807
  %sign = and i64 %x.bits, -9223372036854775808
  %a.infinite = icmp uge i64 %a, 9218868437227405312
  %b.nan = icmp ugt i64 %b, 9218868437227405312
  %b.zero = icmp eq i64 %b, 0
  %bad.0 = or i1 %a.infinite, %b.nan
  %bad = or i1 %bad.0, %b.zero
  br i1 %bad, label %undefined, label %compare

undefined:
  %all = fmul double %x, %y
  %none = fsub double %all, %all
  %nan = fdiv double %none, 0.0
  ret double %nan

compare:
  %below = icmp ult i64 %a, %b
  br i1 %below, label %itself, label %begin

itself:
  ret double %x

begin:
  %a.exponent = call i64 @exponent(i64 %a)
  %b.exponent = call i64 @exponent(i64 %b)
  %a.whole = call i64 @whole(i64 %a)
  %b.whole = call i64 @whole(i64 %b)
  br label %step

step:
  %e = phi i64 [ %a.exponent, %begin ], [ %e.next, %double ]
  %rest = phi i64 [ %a.whole, %begin ], [ %twice, %double ]
  %difference = sub i64 %rest, %b.whole
  %larger = icmp sge i64 %difference, 0
  %less = select i1 %larger, i64 %difference, i64 %rest
  %more = icmp sgt i64 %e, %b.exponent
  br i1 %more, label %double, label %end

double:
  %twice = shl i64 %less, 1
  %e.next = sub i64 %e, 1
  br label %step

end:
  %nothing = icmp eq i64 %less, 0
  br i1 %nothing, label %zero, label %place

zero:
  %signed.zero = bitcast i64 %sign to double
  ret double %signed.zero

place:
  %up = call i64 @places(i64 %less)
  %shifted = shl i64 %less, %up
  %left = sub i64 %b.exponent, %up
  %normal = icmp sge i64 %left, 1
  %high = shl i64 %left, 52
  %fraction = and i64 %shifted, 4503599627370495
  %normal.bits = or i64 %high, %fraction
  ; The digits of a denormal stand further down; those that go are zeros.
  %down = sub i64 1, %left
  %down.safe = and i64 %down, 63
  %denormal.bits = lshr i64 %shifted, %down.safe
  %size = select i1 %normal, i64 %normal.bits, i64 %denormal.bits
  %result.bits = or i64 %size, %sign
  %result = bitcast i64 %result.bits to double
  ret double %result
}

; By how many places digits are to go up until the leading one is in its own.
define internal i64 @places(i64 %digits) nounwind {
  %zeros = call i64 @llvm.ctlz.i64(i64 %digits, i1 false)
  %places = sub i64 %zeros, 11
  ret i64 %places
}

; The digits as they are written, with the leading one of what is no denormal.
define internal i64 @digits(i64 %bits) nounwind {
  %fraction = and i64 %bits, 4503599627370495
  %leading = icmp uge i64 %bits, 4503599627370496
  %with = or i64 %fraction, 4503599627370496
  %digits = select i1 %leading, i64 %with, i64 %fraction
  ret i64 %digits
}

; The exponent of the leading digit: 1 is the least of what is no denormal.
define internal i64 @exponent(i64 %bits) nounwind {
  %written = lshr i64 %bits, 52
  %least = call i64 @llvm.umax.i64(i64 %written, i64 1)
  %digits = call i64 @digits(i64 %bits)
  %places = call i64 @places(i64 %digits)
  %exponent = sub i64 %least, %places
  ret i64 %exponent
}

; The digits, with the leading one in its place.
define internal i64 @whole(i64 %bits) nounwind {
  %digits = call i64 @digits(i64 %bits)
  %places = call i64 @places(i64 %digits)
  %whole = shl i64 %digits, %places
  ret i64 %whole
}

define hidden float @fmodf(float %x, float %y) nounwind {
  %x.wide = fpext float %x to double
  %y.wide = fpext float %y to double
  %rest = call double @fmod(double %x.wide, double %y.wide)
  %result = fptrunc double %rest to float
  ret float %result
}
"""


@cache
def math_text() -> str:
    """LLVM IR, without triple and layout, of all of these functions."""
    # A word of zeros comes first, for the least angles.
    words = ", ".join(f"i32 {word - (1 << 32) if word >> 31 else word}" for word in (0, *TWO_OVER_PI))
    table = f"@two_over_pi = internal constant [{1 + len(TWO_OVER_PI)} x i32] [ {words} ]\n"
    # Only where an angle is too large for the code around the call.
    of_float = "\n".join(library("@sinf( @cosf( @tanf(")).replace("define internal", "define hidden").replace(" #1 {", " nounwind {")
    defined = [_defined(name, names, make) for names, functions in (("x", _OF_ONE), ("xy", _OF_TWO)) for name, make in functions.items()]
    return "\n".join([table, _FMA, _FMOD, of_float, *defined])


def _defined(name: str, names: str, make: Callable[..., Lane]) -> str:
    """A function of operands that are called by the letters of `names`."""
    code = TextCode()
    for operand in names:
        code.name(operand)
    result = make(*(Lane(code, "double", 1, f"%{operand}") for operand in names))
    parameters = ", ".join(f"double %{operand}" for operand in names)
    lines = ["entry:", *code.entry, *code.lines]
    return "\n".join([f"define hidden double @{name}({parameters}) nounwind {{", *lines, f"  ret double {result.ref}", "}", ""])


Angle = tuple[tuple[Lane, Lane], tuple[Lane, Lane], Lane]


def _huge_quadrant(x: Lane) -> Angle:
    """As `double_math.quadrant`, for |x| >= 2^30.

    |x| is m * 2^e with 53 bits of m. Bits of 2/pi from the (e-1)th on are all that m * 2^e * 2/pi leaves modulo 4; 192 of them are enough.
    """
    code = x.code
    size = x.bits() & 0x7FFFFFFFFFFFFFFF
    # No place beyond the table for an infinity.
    exponent = size.shift_right(52).call("umin", 2046)
    start = exponent - (1075 + 2 - 32)
    first, shift = start.shift_right(5), (start & 31).convert("trunc", "i32")
    words = []
    for i in range(7):
        place = (first + i).ref
        at = code.value("ptr", 1, f"getelementptr i32, ptr @two_over_pi, i64 {place}")
        words.append(code.value("i32", 1, f"load i32, ptr {at.ref}"))
    window = [words[i].call("fshl", words[i + 1], shift).convert("zext", "i64") for i in range(6)]
    whole = (size & 0xFFFFFFFFFFFFF) | 0x10000000000000
    low, high = whole & 0xFFFFFFFF, whole.shift_right(32)
    digits, carry = [], whole.like(0)
    for i in range(6):
        part = low * window[5 - i] + carry
        digits.append(part & 0xFFFFFFFF)
        carry = part.shift_right(32)
    carry = whole.like(0)
    for i in range(5):
        part = high * window[5 - i] + digits[i + 1] + carry
        digits[i + 1] = part & 0xFFFFFFFF
        carry = part.shift_right(32)
    # `top` has two bits of the quadrant, then the fraction of it.
    top, middle = (digits[5] << 32) | digits[4], (digits[3] << 32) | digits[2]
    fraction = (top << 2) | middle.shift_right(62)
    further = (middle << 2) | digits[1].shift_right(30)
    quadrant = top.shift_right(62) + fraction.shift_right(63)
    # With its sign, and the bits that a float64 has no room for in another one.
    first_bits = (fraction & -2048).convert("sitofp", "double") * 2.0**-64
    later_bits = (fraction & 2047).convert("sitofp", "double") * 2.0**-64 + further.shift_right(1).convert("sitofp", "double") * 2.0**-127
    part = first_bits + later_bits
    lost = later_bits - (part - first_bits)
    r = part * PI_2[0]
    rest = part.fma(PI_2[0], -r) + (part * PI_2[1] + lost * PI_2[0])
    # Back to the sum of two words.
    near = r + rest
    return *long_sine_and_cosine(near, rest - (near - r)), quadrant


def _of_huge(value: Callable[[Angle], Lane], odd: bool) -> Callable[[Lane], Lane]:
    """A function of angles from 2^30 on; nan for what is no number."""

    def make(x: Lane) -> Lane:
        found = value(_huge_quadrant(x))
        if odd:
            found = x.bits().compare("slt", 0).where(-found, found)
        return x.abs().compare("olt", math.inf).where(found, x - x)

    return make


def _angle(name: str) -> Callable[[Lane], Lane]:
    """The function of `double_math`, and the one for huge angles."""
    value = _ANGLES[name]

    def make(x: Lane) -> Lane:
        found = value(quadrant(x))
        return unless(x.abs().compare("oge", HUGE_ANGLE), x, found, f"huge_{name}")

    return make


_ANGLES: dict[str, Callable[[Angle], Lane]] = {
    "sin": lambda angle: turned_sine(0, *angle),
    "cos": lambda angle: turned_sine(1, *angle),
    "tan": lambda angle: tangent(*angle),
}


def _atan2(y: Lane, x: Lane) -> Lane:
    """The angle of (x, y); zeros and infinities by IEEE 754."""
    top, bottom = y.abs(), x.abs()
    # Where one is infinite, the other is nothing beside it unless it is, too.
    infinite = top.compare("oeq", math.inf) | bottom.compare("oeq", math.inf)
    wide_top = top.compare("oeq", math.inf).where(top.like(1.0), top.is_nan().where(top, 0.0))
    wide_bottom = bottom.compare("oeq", math.inf).where(top.like(1.0), bottom.is_nan().where(bottom, 0.0))
    top, bottom = infinite.where(wide_top, top), infinite.where(wide_bottom, bottom)
    both_zero = top.compare("oeq", 0.0) & bottom.compare("oeq", 0.0)
    angle = FLOAT64["atan"](top / both_zero.where(bottom.like(1.0), bottom))
    angle = x.bits().compare("slt", 0).where(2 * PI_2[0] - (angle - 2 * PI_2[1]), angle)
    return angle.copysign(y)


_OF_ONE: dict[str, Callable[..., Lane]] = {
    **{name: _angle(name) for name in _ANGLES},
    **{f"huge_{name}": _of_huge(value, name != "cos") for name, value in _ANGLES.items()},
    "log2": FLOAT64["log2"],
    "log10": FLOAT64["log10"],
}
_OF_TWO: dict[str, Callable[..., Lane]] = {"pow": FLOAT64["pow"], "atan2": _atan2}
