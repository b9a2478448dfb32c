"""`kernel.dot4` and `kernel.dot2` in LLVM IR: four products of bytes, or two of 16-bit numbers, summed in 32 bits.

With VNNI (x86) or I8MM (aarch64) it is one instruction; with aarch64's dot product of signed bytes, two. Other x86 machines widen bytes to
16 bits, whose products are added in pairs without loss (`pmaddwd`; `pmaddubsw`, for bytes, saturates). Elsewhere it is shifts, products and
sums of 32 bits. Numbers that are 16 bits in memory need no widening there (`multiplies_pairs`).
"""

from __future__ import annotations

from collections.abc import Callable

from polyreme.lowering.emit.llvm.text import Lane, type_text
from polyreme.lowering.machines.instructions import has_vnni
from polyreme.lowering.machines.targets import Target

# Gives what the function computes, which has this key, at most once where the code now stands: rows and columns of a tile share what is
# made of their operands.
Once = Callable[[object, Callable[[], Lane]], Lane]

_PAIRS = {4: ("", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd"), 16: ("avx512bw", "avx512.pmaddw.d.512")}


def dot4_code(a: Lane, b: Lane, c: Lane, target: Target, once: Once) -> Lane:
    """c + the sum of four products: bytes of `a` without a sign by bytes of `b` with one."""
    lanes = a.lanes
    if target.arch == "x86_64":
        if has_vnni(target, lanes):
            return _intrinsic(f"llvm.x86.avx512.vpdpbusd.{lanes * 32}", c, (_seen(a, "i8"), _seen(b, "i8")))
        feature, name = _PAIRS.get(lanes, ("none", ""))
        if name and (not feature or target.has(feature)):
            return _by_pairs(a, b, c, name, once)
    if target.arch == "aarch64" and lanes == 4:
        if target.has("i8mm"):
            return _intrinsic("llvm.aarch64.neon.usdot.v4i32.v16i8", c, (_seen(a, "i8"), _seen(b, "i8")))
        if target.has("dotprod"):
            return _by_signed(a, b, c, once)
    return _by_shifts(a, b, c, once)


def dot2_code(a: Lane, b: Lane, c: Lane, target: Target, once: Once) -> Lane:
    """c + the sum of two products of 16-bit numbers with a sign."""
    feature, name = _PAIRS.get(a.lanes, ("none", ""))
    if target.arch == "x86_64" and name and (not feature or target.has(feature)):
        return _add_pairs(_seen(a, "i16"), _seen(b, "i16"), c, name)
    low = once(("dot2 a0", a.ref), lambda: (a << 16) >> 16) * once(("dot2 b0", b.ref), lambda: (b << 16) >> 16)
    high = once(("dot2 a1", a.ref), lambda: a >> 16) * once(("dot2 b1", b.ref), lambda: b >> 16)
    return c + low + high


def _seen(x: Lane, elem: str) -> Lane:
    """The same bits as narrower elements."""
    lanes = x.lanes * (32 // int(elem[1:]))
    return x.code.value(elem, lanes, f"bitcast {x.typed} to {type_text(elem, lanes)}")


def _intrinsic(name: str, c: Lane, operands: tuple[Lane, ...]) -> Lane:
    return c.code.value("i32", c.lanes, f"call {c.type} @{name}({', '.join(x.typed for x in (c, *operands))})")


def _by_pairs(a: Lane, b: Lane, c: Lane, name: str, once: Once) -> Lane:
    """Bytes 0 and 2 of each word as 16-bit numbers, and bytes 1 and 3."""
    even = once(("dot4 a02", a.ref), lambda: _seen(a, "i16") & 0xFF)
    odd = once(("dot4 a13", a.ref), lambda: _seen(a, "i16").shift_right(8))
    even_b = once(("dot4 b02", b.ref), lambda: (_seen(b, "i16") << 8) >> 8)
    odd_b = once(("dot4 b13", b.ref), lambda: _seen(b, "i16") >> 8)
    return _add_pairs(odd, odd_b, _add_pairs(even, even_b, c, name), name)


def _add_pairs(a: Lane, b: Lane, c: Lane, name: str) -> Lane:
    return c + c.code.value("i32", c.lanes, f"call {c.type} @llvm.x86.{name}({a.typed}, {b.typed})")


def _by_signed(a: Lane, b: Lane, c: Lane, once: Once) -> Lane:
    """a b = (a - 128) b + 64 b + 64 b, each factor a byte with a sign"""
    name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
    signed = once(("dot4 a-128", a.ref), lambda: _seen(a, "i8") ^ 128)

    def rest() -> Lane:
        bytes_b, zero = _seen(b, "i8"), b.code.constant("i32", 4, 0)
        half = b.code.constant("i8", 16, 64)
        return _intrinsic(name, _intrinsic(name, zero, (half, bytes_b)), (half, bytes_b))

    return _intrinsic(name, c, (signed, _seen(b, "i8"))) + once(("dot4 128b", b.ref), rest)


def _by_shifts(a: Lane, b: Lane, c: Lane, once: Once) -> Lane:
    for byte in range(4):
        left = once((f"dot4 a{byte}", a.ref), lambda byte=byte: a.shift_right(8 * byte) & 0xFF)  # type: ignore[misc]
        right = once((f"dot4 b{byte}", b.ref), lambda byte=byte: (b << (24 - 8 * byte)) >> 24)  # type: ignore[misc]
        c = c + left * right
    return c
