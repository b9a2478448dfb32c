"""The rows of `ir/scalar.py` as instructions: a table from function name to code on any number of lanes.

In registers f16 and bf16 are their bits in an i16, because arithmetic on them is done in float32 and rounded, on every target alike. An i1
is an i1 here and a byte in memory. Every function does what its row's numpy meaning does, for every value: division by zero, the one
quotient that overflows, shifts by too much, nan in a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.types import ScalarType, bf16, f16, f32, f64, i1
from polyreme.lowering.emit.llvm.double_math import FLOAT64
from polyreme.lowering.emit.llvm.exponentials import FORMATS
from polyreme.lowering.emit.llvm.libm import unless
from polyreme.lowering.emit.llvm.text import Lane, join
from polyreme.lowering.emit.llvm.vector_math import FLOAT32
from polyreme.lowering.machines.targets import Target

_ELEMENTS = {"f16": "i16", "bf16": "i16", "f32": "float", "f64": "double", "i1": "i1", "index": "i64"}
HALVES = (f16, bf16)
# Functions of 16-bit floats that give one of their operands, but for its sign: nothing is left to round.
_EXACT = ("max", "min", "abs", "neg")


def element(dtype: ScalarType) -> str:
    """The LLVM type of one element in a register."""
    if dtype.kind == "c":
        raise PolyremeError(f"expected a real element type but got {dtype}, which has no machine code yet", code="E0408")
    return _ELEMENTS.get(dtype.name) or f"i{dtype.bits}"


def memory_element(dtype: ScalarType) -> str:
    """The LLVM type of one element in memory."""
    return "i8" if dtype == i1 else element(dtype)


def number_bits(value: float, dtype: ScalarType) -> float:
    """A number as the register of `dtype` holds it: the bits for f16 and bf16, else itself."""
    if dtype not in HALVES:
        return value
    import numpy as np

    with np.errstate(all="ignore"):
        return int(np.asarray(value).astype(dtype.np).view(np.uint16))


def number_of_bits(bits: int, dtype: ScalarType) -> float:
    """The number whose bits in f16 or bf16 these are."""
    import numpy as np

    return float(np.uint16(bits & 0xFFFF).view(dtype.np))


def apply_code(fn: str, operands: list[Lane], dtype: ScalarType, result: ScalarType, target: Target) -> Lane:
    """Code for row `fn` on operands of element type `dtype` (for `select`: of the values)."""
    if fn == "cast":
        return cast_code(operands[0], dtype, result, target)
    if fn == "select":
        return operands[0].where(operands[1], operands[2])
    if dtype in HALVES:
        wide = [cast_code(x, dtype, f32, target) for x in operands]
        value = apply_code(fn, wide, f32, i1 if result == i1 else f32, target)
        if result == i1:
            return value
        # A nan here is one of an operand's, whose last bits are zeros, or the machine's own: rounding carries into neither.
        narrow = cast_code(value, f32, result, target) if result != bf16 else _top_half(value if fn in _EXACT else _rounded_bits(value))
        narrow.wide = value if fn in _EXACT else None
        return narrow
    if dtype == f32 and fn in FLOAT32:
        return FLOAT32[fn](*operands)
    if dtype == f64 and fn in FLOAT64:
        return FLOAT64[fn](*operands)
    table = _FLOAT if dtype.is_float else _BOOL if dtype == i1 else _UNSIGNED if dtype.kind == "u" else _SIGNED
    if fn in ("mod", "floor_divide") and dtype.is_float:
        a, b = operands
        rest = _float_rest(a, b, target)
        return _float_mod(a, b, rest) if fn == "mod" else _float_floor_divide(a, b, rest)
    if fn in ("max", "min") and dtype.is_float:
        return _float_extreme(fn, operands[0], operands[1], target)
    return table[fn](*operands)


# --- floats


def _float_extreme(fn: str, a: Lane, b: Lane, target: Target) -> Lane:
    """The larger or smaller one, nan when either is nan."""
    # WebAssembly has x86's instruction beside its own, which takes several of x86's but tells of a nan in either operand.
    one_known = a.known is not None or b.known is not None
    if target.arch != "x86_64" and not (target.arch == "wasm32" and one_known):
        return a.call("maximum" if fn == "max" else "minimum", b)
    # x86's instruction gives the second operand where either is nan: a known number goes first and that is all.
    predicate = "ogt" if fn == "max" else "olt"
    if b.known is not None:
        a, b = b, a
    chosen = a.compare(predicate, b).where(a, b)
    return chosen if a.known is not None and a.known == a.known else a.is_nan().where(a, chosen)


def _float_mod(a: Lane, b: Lane, rest: Lane) -> Lane:
    """fmod, then moved to the sign of b; zeros get the sign of b."""
    zero = rest.compare("oeq", 0.0)
    wrong = rest.compare("olt", 0.0) ^ b.compare("olt", 0.0)
    moved = wrong.where(rest + b, rest)
    return (zero | b.compare("oeq", 0.0)).where(zero.where(rest.like(0.0).copysign(b), rest), moved)


def _float_floor_divide(a: Lane, b: Lane, rest: Lane) -> Lane:
    """(a - fmod) / b, a whole number but for rounding, one less where the remainder is moved to the sign of b; zeros get the sign of a / b,
    which b = 0 gives too.
    """
    rounded = a / b
    whole = (a - rest) / b
    moved = (rest.compare("olt", 0.0) ^ b.compare("olt", 0.0)) & rest.compare("one", 0.0)
    whole = moved.where(whole - 1.0, whole)
    down = whole.call("floor")
    down = (whole - down).compare("ogt", 0.5).where(down + 1.0, down)
    down = whole.compare("oeq", 0.0).where(whole.like(0.0).copysign(rounded), down)
    return b.compare("oeq", 0.0).where(rounded, down)


def _float_rest(a: Lane, b: Lane, target: Target) -> Lane:
    """fmod(a, b), which is exact."""
    name = "fmod" if a.elem == "double" else "fmodf"
    if target.code == "ptx":
        # There the instruction is the difference to a rounded product; `device_math` has the exact remainder.
        return a.code.value(a.elem, 1, f"call {a.elem} @{name}({a.typed}, {b.typed})")
    if not a.code.fma:
        return a.emit("frem", b)
    # Of numbers whose quotient is not too large, one division does: a - q*b loses nothing for the right q, nor for one that is one too
    # large. libm has the others.
    quotient = (a / b).abs()
    size = b.abs()
    rest = (-quotient.call("floor")).fma(size, a.abs())
    rest = rest.compare("olt", 0.0).where(rest + size, rest).copysign(a)
    # A quotient that is no number, or infinite, and 0 times infinity.
    beyond = quotient.compare("uge", FORMATS[a.elem].exact_quotient) | rest.is_nan()
    return unless(beyond, a, rest, name, b)


def _float_sign(x: Lane) -> Lane:
    one = x.like(1.0)
    signed = x.compare("ogt", 0.0).where(one, x.compare("olt", 0.0).where(x.like(-1.0), 0.0))
    return x.is_nan().where(x, signed)


_FLOAT: dict[str, Callable[..., Lane]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a.fma(b, c),
    "neg": lambda a: -a,
    "abs": lambda a: a.abs(),
    "sign": _float_sign,
    "sqrt": lambda a: a.call("sqrt"),
    "floor": lambda a: a.call("floor"),
    "ceil": lambda a: a.call("ceil"),
    "trunc": lambda a: a.call("trunc"),
    # The rounding mode is never changed, so `rint` rounds halves to even; unlike `roundeven` every libm has it.
    "round": lambda a: a.call("rint"),
    "isnan": lambda a: a.is_nan(),
    "isinf": lambda a: a.abs().compare("oeq", math.inf),
    "isfinite": lambda a: a.abs().compare("olt", math.inf),
    "eq": lambda a, b: a.compare("oeq", b),
    "ne": lambda a, b: a.compare("une", b),
    "lt": lambda a, b: a.compare("olt", b),
    "le": lambda a, b: a.compare("ole", b),
    "gt": lambda a, b: a.compare("ogt", b),
    "ge": lambda a, b: a.compare("oge", b),
}


# --- integers


def _bits(x: Lane) -> int:
    return int(x.elem[1:])


def _unsigned_divide(instruction: str) -> Callable[[Lane, Lane], Lane]:
    def divide(a: Lane, b: Lane) -> Lane:
        if b.known:
            return a.emit(instruction, b)
        zero = b.compare("eq", 0)
        return zero.where(b.like(0), a.emit(instruction, zero.where(b.like(1), b)))

    return divide


def _signed_parts(a: Lane, b: Lane) -> tuple[Lane, Lane, Lane, Lane | None]:
    """(quotient towards zero, remainder, safe divisor, where b is 0): without the traps of b = 0 and of the least number by -1."""
    if b.known not in (None, 0, -1):
        quotient = a.emit("sdiv", b)
        return quotient, a - quotient * b, b, None
    zero, minus = b.compare("eq", 0), b.compare("eq", -1)
    safe = (zero | minus).where(b.like(1), b)
    quotient = a.emit("sdiv", safe)
    remainder = a - quotient * safe
    return minus.where(-a, quotient), remainder, safe, zero


def _signed_div(a: Lane, b: Lane) -> Lane:
    quotient, _, _, zero = _signed_parts(a, b)
    return quotient if zero is None else zero.where(b.like(0), quotient)


def _signed_floor_divide(a: Lane, b: Lane) -> Lane:
    shift = _power_of_two(b)
    if shift is not None:
        return a >> shift if shift else a
    quotient, remainder, safe, zero = _signed_parts(a, b)
    down = remainder.compare("ne", 0) & (remainder ^ safe).compare("slt", 0)
    quotient = down.where(quotient - 1, quotient)
    return quotient if zero is None else zero.where(b.like(0), quotient)


def _signed_mod(a: Lane, b: Lane) -> Lane:
    shift = _power_of_two(b)
    if shift is not None:
        return a & ((1 << shift) - 1)
    _, remainder, safe, zero = _signed_parts(a, b)
    up = remainder.compare("ne", 0) & (remainder ^ safe).compare("slt", 0)
    remainder = up.where(remainder + safe, remainder)
    return remainder if zero is None else zero.where(b.like(0), remainder)


def _power_of_two(b: Lane) -> int | None:
    """The exponent of a known power of two."""
    if b.known is None or b.known <= 0 or int(b.known) & (int(b.known) - 1):
        return None
    return int(b.known).bit_length() - 1


def _shift_left(a: Lane, b: Lane) -> Lane:
    """Shifting by the width or more (also by a negative count, seen as unsigned) leaves 0."""
    inside = b.compare("ult", _bits(a))
    return inside.where(a << inside.where(b, 0), a.like(0))


def _shift_right_unsigned(a: Lane, b: Lane) -> Lane:
    inside = b.compare("ult", _bits(a))
    return inside.where(a.shift_right(inside.where(b, 0)), a.like(0))


def _shift_right_signed(a: Lane, b: Lane) -> Lane:
    return a >> b.compare("ult", _bits(a)).where(b, _bits(a) - 1)


def _power(a: Lane, b: Lane) -> Lane:
    """By squaring, lane by lane in a function of the module."""
    kind = a.elem
    results = [a.code.value(kind, 1, f"call {kind} @power.{kind}({x.typed}, {y.typed})") for x, y in zip(a.split(), b.split(), strict=True)]
    return join(results)


def power_definition(kind: str) -> str:
    """`@power.KIND`: a to the b for integers, modulo the width; a negative b gives the whole part of the fraction: 0, or +-1 for a = +-1.
    """
    return f"""define internal {kind} @power.{kind}({kind} %a, {kind} %b) nounwind {{
entry:
  %negative = icmp slt {kind} %b, 0
  br i1 %negative, label %fraction, label %loop
fraction:
  %odd = and {kind} %b, 1
  %is.odd = icmp ne {kind} %odd, 0
  %is.one = icmp eq {kind} %a, 1
  %is.minus = icmp eq {kind} %a, -1
  %minus = select i1 %is.odd, {kind} -1, {kind} 1
  %sign = select i1 %is.minus, {kind} %minus, {kind} 0
  %result = select i1 %is.one, {kind} 1, {kind} %sign
  ret {kind} %result
loop:
  %base = phi {kind} [ %a, %entry ], [ %square, %loop ]
  %left = phi {kind} [ %b, %entry ], [ %rest, %loop ]
  %product = phi {kind} [ 1, %entry ], [ %next, %loop ]
  %bit = and {kind} %left, 1
  %is.set = icmp ne {kind} %bit, 0
  %more = mul {kind} %product, %base
  %next = select i1 %is.set, {kind} %more, {kind} %product
  %square = mul {kind} %base, %base
  %rest = lshr {kind} %left, 1
  %again = icmp ne {kind} %rest, 0
  br i1 %again, label %loop, label %done
done:
  ret {kind} %next
}}"""


_INTEGER: dict[str, Callable[..., Lane]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "shl": _shift_left,
    "eq": lambda a, b: a.compare("eq", b),
    "ne": lambda a, b: a.compare("ne", b),
    "pow": _power,
}
_SIGNED: dict[str, Callable[..., Lane]] = {
    **_INTEGER,
    "div": _signed_div,
    "floor_divide": _signed_floor_divide,
    "mod": _signed_mod,
    "max": lambda a, b: a.call("smax", b),
    "min": lambda a, b: a.call("smin", b),
    "abs": lambda a: a.abs(),
    "sign": lambda a: a.call("smax", -1).call("smin", 1),
    "shr": _shift_right_signed,
    "lt": lambda a, b: a.compare("slt", b),
    "le": lambda a, b: a.compare("sle", b),
    "gt": lambda a, b: a.compare("sgt", b),
    "ge": lambda a, b: a.compare("sge", b),
}
_UNSIGNED: dict[str, Callable[..., Lane]] = {
    **_INTEGER,
    "div": _unsigned_divide("udiv"),
    "floor_divide": _unsigned_divide("udiv"),
    "mod": _unsigned_divide("urem"),
    "max": lambda a, b: a.call("umax", b),
    "min": lambda a, b: a.call("umin", b),
    "abs": lambda a: a,
    "sign": lambda a: a.call("umin", 1),
    "shr": _shift_right_unsigned,
    "pow": lambda a, b: _power_unsigned(a, b),
    "lt": lambda a, b: a.compare("ult", b),
    "le": lambda a, b: a.compare("ule", b),
    "gt": lambda a, b: a.compare("ugt", b),
    "ge": lambda a, b: a.compare("uge", b),
}
_BOOL: dict[str, Callable[..., Lane]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "max": lambda a, b: a | b,
    "min": lambda a, b: a & b,
    "eq": lambda a, b: ~(a ^ b),
    "ne": lambda a, b: a ^ b,
    "lt": lambda a, b: ~a & b,
    "le": lambda a, b: ~a | b,
    "gt": lambda a, b: a & ~b,
    "ge": lambda a, b: a | ~b,
}


def _power_unsigned(a: Lane, b: Lane) -> Lane:
    """An exponent with its top bit set is no negative number here: take it out as a square."""
    top = b.compare("slt", 0)
    low = _power(a, b & ((1 << (_bits(b) - 1)) - 1))
    high = _power(_power(a, a.like(1 << (_bits(b) - 2))), a.like(2))
    return top.where(low * high, low)


# --- conversion


def cast_code(x: Lane, source: ScalarType, result: ScalarType, target: Target) -> Lane:
    """Numeric conversion; floats become integers by truncation, anything becomes i1 by `!= 0`."""
    if source == result or (source.is_integer and result.is_integer and source.bits == result.bits):
        return x
    if source in HALVES:
        wide = x.wide or _half_to_float(x, source, target)
        return wide if result == f32 else cast_code(wide, f32, result, target)
    if result in HALVES:
        if source == f64:
            return _float_to_half(_round_to_odd(x), result, target)
        narrow = x if source == f32 else cast_code(x, source, f32, target)
        return _float_to_half(narrow, result, target)
    if result == i1:
        return x.compare("une" if source.is_float else "ne", 0)
    elem = element(result)
    if source.is_float and result.is_float:
        return x.convert("fpext" if result == f64 else "fptrunc", elem)
    if result.is_float:
        return x.convert("uitofp" if source.kind in "ub" else "sitofp", elem)
    if source.is_float:
        return _float_to_integer(x, result)
    if result.bits < source.bits:
        return x.convert("trunc", elem)
    return x.convert("zext" if source.kind in "ub" else "sext", elem)


def _float_to_integer(x: Lane, result: ScalarType) -> Lane:
    """Through a wider signed integer where there is one, so that what does not fit wraps as numpy's does."""
    if result.bits < 32:
        return x.convert("fptosi", "i32").convert("trunc", element(result))
    if result.kind == "u" and result.bits == 32:
        return x.convert("fptosi", "i64").convert("trunc", "i32")
    return x.convert("fptoui" if result.kind == "u" else "fptosi", element(result))


def _half_to_float(x: Lane, source: ScalarType, target: Target) -> Lane:
    if x.known is not None:
        return x.code.constant("float", x.lanes, number_of_bits(int(x.known), source))
    if source == bf16:
        return (x.convert("zext", "i32") << 16).convert("bitcast", "float")
    if target.half:
        return x.convert("bitcast", "half").convert("fpext", "float")
    # Moving exponent and fraction into place leaves the value scaled by 2^-112, denormals included; infinity and nan get the top exponent.
    wide = x.convert("zext", "i32")
    size = wide & 0x7FFF
    value = (size << 13).convert("bitcast", "float") * 2.0**112
    value = size.compare("uge", 0x7C00).where(((size << 13) | 0x7F800000).convert("bitcast", "float"), value)
    return (value.bits() | ((wide & 0x8000) << 16)).convert("bitcast", "float")


def _float_to_half(x: Lane, result: ScalarType, target: Target) -> Lane:
    if result == bf16:
        # Rounding a nan could carry into zero, and cutting it off leave infinity: it keeps its first bits and is made quiet.
        return _top_half(x.is_nan().where(x.bits() | 0x400000, _rounded_bits(x)))
    if target.half:
        return x.convert("fptrunc", "half").convert("bitcast", "i16")
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    # Normal results: round to nearest even in place, with the exponent moved from 127 to 15.
    normal = (size - (112 << 23) + 0xFFF + (size.shift_right(13) & 1)).shift_right(13)
    # Denormal results: adding 1/2 puts their last bit at the float's last bit, and the addition rounds.
    denormal = (size.convert("bitcast", "float") + 0.5).bits() - 0x3F000000
    value = size.compare("ult", 113 << 23).where(denormal, normal)
    value = size.compare("uge", 0x477FF000).where(value.like(0x7C00), value)
    value = size.compare("ugt", 0x7F800000).where(value.like(0x7E00), value)
    return (value | (bits.shift_right(16) & 0x8000)).convert("trunc", "i16")


def _rounded_bits(x: Lane) -> Lane:
    """The bits of a float32 that is no nan, the first 16 of which are the nearest bfloat16, even where two are as near."""
    bits = x.bits()
    return bits + ((bits.shift_right(16) & 1) + 0x7FFF)


def _top_half(x: Lane) -> Lane:
    """The bfloat16 whose bits are the first 16 of a float32's, or of the same bits as an integer."""
    bits = x.bits() if x.is_float else x
    return bits.shift_right(16).convert("trunc", "i16")


def _round_to_odd(x: Lane) -> Lane:
    """float64 to float32 so that one more rounding gives what rounding once would: an inexact result has its last bit set."""
    near = x.convert("fptrunc", "float")
    back = near.convert("fpext", "double")
    exact = back.compare("oeq", x) | x.is_nan()
    bits = near.bits()
    odd = (bits & 1).compare("ne", 0)
    too_large = back.abs().compare("ogt", x.abs())
    other = too_large.where(bits - 1, bits + 1)
    return (exact | odd).where(bits, other).convert("bitcast", "float")
