"""Functions of libm for machines without one, as LLVM IR that is inlined where it is called.

`vector_math` calls libm for angles beyond 2^30; here they are reduced by as many bits of 2/pi as they need. Remainders are taken in steps
that are each exact. sin, cos and tan (and atan2) of float64 have no code on a GPU yet, which is an error that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from polyreme.ir.diagnostics import PolyremeError
from polyreme.lowering.emit.llvm.double_math import PI_2
from polyreme.lowering.emit.llvm.libm import LIBM, TWO_OVER_PI
from polyreme.lowering.emit.llvm.text import Lane, TextCode
from polyreme.lowering.emit.llvm.vector_math import sine_and_cosine

# The quotient is rounded, so the rest may fall below 0; every rest is a multiple of the divisor's last bit and below the divisor, hence
# exact. Quotients beyond the largest number are first made smaller by a multiple of the divisor.
_REMAINDER = """define internal {t} @{name}({t} %x, {t} %y) #1 {{
entry:
  %a = call {t} @llvm.fabs.{s}({t} %x)
  %b = call {t} @llvm.fabs.{s}({t} %y)
  %start = {widen_a}
  %step = {widen_b}
  %finite = fcmp olt {t} %a, {inf}
  %positive = fcmp ogt {t} %b, {zero}
  %defined = and i1 %finite, %positive
  br i1 %defined, label %test, label %end
test:
  %rest = phi double [ %start, %entry ], [ %next, %loop ]
  %size = call double @llvm.fabs.f64(double %rest)
  %more = fcmp oge double %size, %step
  br i1 %more, label %loop, label %end
loop:
  %plain = fdiv double %rest, %step
  %plain.size = call double @llvm.fabs.f64(double %plain)
  %over = fcmp oeq double %plain.size, 0x7FF0000000000000
  %large = fmul double %step, 0x7E70000000000000
  %divisor = select i1 %over, double %large, double %step
  %quotient = fdiv double %rest, %divisor
  %whole = call double @llvm.trunc.f64(double %quotient)
  %minus = fneg double %whole
  %next = call double @llvm.fma.f64(double %minus, double %divisor, double %rest)
  br label %test
end:
  %last = phi double [ 0x7FF8000000000000, %entry ], [ %rest, %test ]
  %below = fcmp olt double %last, 0.0
  %moved = fadd double %last, %step
  %value = select i1 %below, double %moved, double %last
  %narrow = {narrow}
  %result = call {t} @llvm.copysign.{s}({t} %narrow, {t} %x)
  ret {t} %result
}}"""


def library(body: str) -> list[str]:
    """Definitions of every function of libm that the LLVM text `body` calls."""
    found = []
    for name in _FUNCTIONS:
        if f"@{name}(" in body:
            found.append(_FUNCTIONS[name]())
    for name in LIBM:
        if name not in _FUNCTIONS and re.search(rf" double @{name}\(", body):
            raise PolyremeError(f"expected float32 for '{name}' on a GPU but got float64, for which there is no code yet", code="E0408")
    return found


@cache
def _fmodf() -> str:
    return _REMAINDER.format(
        t="float", s="f32", name="fmodf", inf="0x7FF0000000000000", zero="0.0",
        widen_a="fpext float %a to double", widen_b="fpext float %b to double", narrow="fptrunc double %value to float",
    )  # fmt: skip


@cache
def _fmod() -> str:
    same = "select i1 true, double {0}, double {0}"
    return _REMAINDER.format(
        t="double", s="f64", name="fmod", inf="0x7FF0000000000000", zero="0.0",
        widen_a=same.format("%a"), widen_b=same.format("%b"), narrow=same.format("%value"),
    )  # fmt: skip


def _reduced(x: Lane) -> tuple[Lane, Lane, Lane]:
    """(sin r, cos r, q) in float64 with |x| = q * pi/2 + r, for |x| >= 2^30.

    |x| is m * 2^e with 24 bits of m. Bits of 2/pi from the (e-1)th on are all that m * 2^e * 2/pi leaves modulo 4; 128 of them are enough.
    """
    size = x.bits() & 0x7FFFFFFF
    start = size.shift_right(23) - 152
    word, shift = start.shift_right(5), start & 31
    whole = ((size & 0x7FFFFF) | 0x800000).convert("zext", "i64")
    window = []
    for j in range(5):
        chosen = word.like(TWO_OVER_PI[j + 3] - (1 << 32) if TWO_OVER_PI[j + 3] >> 31 else TWO_OVER_PI[j + 3])
        for k in (2, 1, 0):
            bits = TWO_OVER_PI[j + k]
            chosen = word.compare("eq", k).where(word.like(bits - (1 << 32) if bits >> 31 else bits), chosen)
        window.append(chosen)
    words = [window[j].call("fshl", window[j + 1], shift).convert("zext", "i64") for j in range(4)]
    part = whole * words[3]
    parts = []
    for upper in (words[2], words[1], words[0]):
        part = whole * upper + part.shift_right(32)
        parts.append(part)
    # `top` has two bits of the quadrant, then the fraction of it.
    top = (parts[2] << 32) | (parts[1] & 0xFFFFFFFF)
    fraction = (top << 2) | (parts[0] & 0xFFFFFFFF).shift_right(30)
    quadrant = top.shift_right(62) + fraction.shift_right(63)
    return *sine_and_cosine(fraction.convert("sitofp", "double") * (PI_2[0] * 2.0**-64)), quadrant


def _trigonometric(name: str) -> str:
    code = TextCode()
    code.name("x")
    x = Lane(code, "float", 1, "%x")
    sine, cosine, q = _reduced(x)
    odd = (q & 1).compare("ne", 0)
    if name == "tanf":
        value = odd.where(-cosine, sine) / odd.where(sine, cosine)
    elif name == "sinf":
        value = odd.where(cosine, sine)
        value = (q & 2).compare("ne", 0).where(-value, value)
    else:
        value = odd.where(sine, cosine)
        value = ((q + 1) & 2).compare("ne", 0).where(-value, value)
    result = value.convert("fptrunc", "float")
    if name != "cosf":
        result = x.bits().compare("slt", 0).where(-result, result)
    finite = x.abs().compare("olt", float("inf"))
    result = finite.where(result, x - x)
    return "\n".join([f"define internal float @{name}(float %x) #1 {{", "entry:", *code.lines, f"  ret float {result.ref}", "}"])


_FUNCTIONS: dict[str, Callable[[], str]] = {
    "fmodf": _fmodf,
    "fmod": _fmod,
    **{name: partial(_trigonometric, name) for name in ("sinf", "cosf", "tanf")},
}
