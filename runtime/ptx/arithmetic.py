"""What PTX instructions compute, on numpy arrays: functions by opcode, with types as numpy dtypes.

Arithmetic rounds as the device's does: to nearest even, once. A fused multiply-add of float32 goes through float64, which is right but for
rare ties; that of float64 is done with error terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyreme.runtime.ptx.parser import PtxError

Array = np.ndarray[Any, Any]

TYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(kind)
    for name, kind in {
        "pred": "?", "b8": "u1", "u8": "u1", "s8": "i1", "b16": "u2", "u16": "u2", "s16": "i2", "b32": "u4", "u32": "u4", "s32": "i4",
        "b64": "u8",
        "u64": "u8", "s64": "i8", "f16": "f2", "f32": "f4", "f64": "f8",
    }.items()
}  # fmt: skip
_WIDE = {"u2": "u4", "i2": "i4", "u4": "u8", "i4": "i8"}


def widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The integer type of twice the width."""
    return np.dtype(_WIDE[f"{dtype.kind}{dtype.itemsize}"])


def multiply_high(a: Any, b: Any, dtype: np.dtype[Any]) -> Array:
    """The upper half of a product."""
    if dtype.itemsize < 8:
        wide = widened(dtype)
        return ((np.asarray(a, wide) * np.asarray(b, wide)) >> (8 * dtype.itemsize)).astype(dtype)
    x, y = np.asarray(a).view("u8"), np.asarray(b).view("u8")
    mask = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    low_x, high_x, low_y, high_y = x & mask, x >> half, y & mask, y >> half
    middle = high_x * low_y + ((low_x * low_y) >> half)
    other = low_x * high_y + (middle & mask)
    high = high_x * high_y + (middle >> half) + (other >> half)
    if dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(np.asarray(a).view("i8") < 0, y, zero) - np.where(np.asarray(b).view("i8") < 0, x, zero)
    return high.view(dtype)


def fma(a: Any, b: Any, c: Any, dtype: np.dtype[Any]) -> Array:
    """a * b + c, rounded once."""
    if dtype.itemsize < 8:
        return (np.asarray(a, "f8") * np.asarray(b, "f8") + np.asarray(c, "f8")).astype(dtype)
    product = np.asarray(a * b)
    split = 134217729.0
    high_a = a * split - (a * split - a)
    high_b = b * split - (b * split - b)
    low_a, low_b = a - high_a, b - high_b
    product_error = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b)
    total = product + c
    part = total - product
    total_error = (product - (total - part)) + (c - part)
    exact = total + (product_error + total_error)
    return np.where(np.isfinite(exact), exact, total)


def divide(a: Any, b: Any, dtype: np.dtype[Any]) -> Array:
    """Quotient; of integers towards zero, with all bits set for a zero divisor."""
    if dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    zero = np.asarray(b) == 0
    safe = np.where(zero, np.ones((), dtype), b).astype(dtype)
    quotient = np.asarray(a) // safe
    if dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * safe != a))
    return np.where(zero, np.array(-1).astype(dtype), quotient).astype(dtype)


def remainder(a: Any, b: Any, dtype: np.dtype[Any]) -> Array:
    return np.where(np.asarray(b) == 0, a, a - divide(a, b, dtype) * b).astype(dtype)


def shift_left(a: Any, b: Any, dtype: np.dtype[Any]) -> Array:
    bits = 8 * dtype.itemsize
    count = np.minimum(b, bits - 1).astype(dtype)
    return np.where(np.asarray(b) < bits, np.asarray(a) << count, np.zeros((), dtype)).astype(dtype)


def shift_right(a: Any, b: Any, dtype: np.dtype[Any]) -> Array:
    bits = 8 * dtype.itemsize
    count = np.minimum(b, bits - 1).astype(dtype)
    shifted = np.asarray(a) >> count
    return shifted if dtype.kind == "i" else np.where(np.asarray(b) < bits, shifted, np.zeros((), dtype)).astype(dtype)


def _joined(low: Any, high: Any) -> Array:
    """high:low, two words as one of 64 bits."""
    return (np.asarray(high, "u8") << np.uint64(32)) | np.asarray(low, "u8")


def funnel_left(low: Any, high: Any, count: Any) -> Array:
    """shf.l.wrap: the upper word of high:low shifted left by count modulo 32."""
    return ((_joined(low, high) << (np.asarray(count, "u8") & np.uint64(31))) >> np.uint64(32)).astype("u4")


def funnel_right(low: Any, high: Any, count: Any) -> Array:
    """shf.r.wrap: the lower word of high:low shifted right by count modulo 32."""
    return (_joined(low, high) >> (np.asarray(count, "u8") & np.uint64(31))).astype("u4")


def extract_bits(a: Any, start: Any, length: Any, dtype: np.dtype[Any]) -> Array:
    """bfe: `length` bits from `start` on, with the sign for signed types."""
    bits = 8 * dtype.itemsize
    start, length = np.minimum(np.asarray(start, "i8") & 255, bits), np.minimum(np.asarray(length, "i8") & 255, bits)
    length = np.minimum(length, bits - start)
    # To the top and back, so that the shift fills in zeros or the sign.
    up = (bits - start - length).astype("u4")
    down = (bits - length).astype("u4")
    return shift_right(shift_left(a, up, dtype), down, dtype)


def permute_bytes(a: Any, b: Any, selector: Any) -> Array:
    """prmt: each byte of the result is one of the eight of b:a, or its sign spread over a byte."""
    both = _joined(a, b)
    result = np.zeros(np.broadcast_shapes(np.shape(both), np.shape(selector)), "u4")
    for i in range(4):
        pick = (np.asarray(selector, "u8") >> np.uint64(4 * i)) & np.uint64(15)
        byte = (both >> (np.uint64(8) * (pick & np.uint64(7)))) & np.uint64(255)
        byte = np.where(pick & np.uint64(8), np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0)), byte)
        result |= (byte << np.uint64(8 * i)).astype("u4")
    return result


_ROUNDING: dict[str, Callable[..., Array]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(x: Any, target: str, source: str, rounding: str | None) -> Array:
    """cvt: floats become integers by the named rounding, held inside the range, nan as 0; integers change width by cutting or by their
    sign.
    """
    a, dtype = np.asarray(x), TYPES.get(target)
    if target == "tf32":
        return round_tf32(a)
    if dtype is None:
        raise PtxError(f"expected a known type but got '{target}'")
    if a.dtype.kind == "f" and rounding in _ROUNDING:
        a = _ROUNDING[rounding](a)
    if a.dtype.kind == "f" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        held = np.clip(np.nan_to_num(a.astype("f8"), nan=0.0, posinf=np.inf, neginf=-np.inf), float(limits.min), float(limits.max))
        exact = np.where(held >= float(limits.max), 0.0, held).astype(dtype)
        return np.where(held >= float(limits.max), np.array(limits.max, dtype), exact)
    return a.astype(dtype)


def two_halves(upper: Any, lower: Any) -> Array:
    """cvt.rn.f16x2: two floats in one word of 32 bits, each rounded to float16."""
    words = [np.asarray(x).astype("f2").view("u2").astype("u4") for x in (upper, lower)]
    return words[0] << np.uint32(16) | words[1]


def two_bfloats(upper: Any, lower: Any) -> Array:
    """cvt.rn.bf16x2: two float32 in one word of 32 bits, each rounded to bfloat16; any nan becomes the same one."""
    words = []
    for x in (upper, lower):
        value = np.asarray(x, "f4")
        bits = value.view("u4")
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        words.append(np.where(np.isnan(value), np.uint32(0x7FFF), rounded).astype("u4"))
    return words[0] << np.uint32(16) | words[1]


def exp2(x: Any) -> Array:
    """ex2.approx.ftz: 2 to the power x, rounded to nearest here; denormal numbers are 0 before and after."""
    value = np.exp2(np.asarray(x, "f8")).astype("f4")
    return np.where(np.abs(value) < np.finfo("f4").tiny, np.float32(0), value).astype("f4")


def round_tf32(x: Array) -> Array:
    """cvt.rna.tf32: to 10 fraction bits, halves away from zero; the bits of the float32."""
    bits = x.view("u4")
    finite = (bits & np.uint32(0x7F800000)) != np.uint32(0x7F800000)
    return np.where(finite, (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits).astype("u4")


def _ordered(compare: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: compare(a, b) & (a == a) & (b == b)


COMPARISONS: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": _ordered(np.not_equal), "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "equ": lambda a, b: np.equal(a, b) | (a != a) | (b != b),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~np.greater_equal(a, b), "leu": lambda a, b: ~np.greater(a, b),
    "gtu": lambda a, b: ~np.less_equal(a, b), "geu": lambda a, b: ~np.less(a, b),
    "num": lambda a, b: (a == a) & (b == b), "nan": lambda a, b: (a != a) | (b != b),
}  # fmt: skip


def larger(a: Any, b: Any, keeps_nan: bool) -> Array:
    """max: of floats the one that is no number is left out, or stays with `.NaN`; +0 is above -0."""
    if np.asarray(a).dtype.kind != "f":
        return np.asarray(np.maximum(a, b))
    both_zero = (a == 0) & (b == 0)
    zero = np.where(np.signbit(a), b, a)
    return np.where(both_zero, zero, np.maximum(a, b) if keeps_nan else np.fmax(a, b))


def smaller(a: Any, b: Any, keeps_nan: bool) -> Array:
    """min, as `larger`."""
    if np.asarray(a).dtype.kind != "f":
        return np.asarray(np.minimum(a, b))
    both_zero = (a == 0) & (b == 0)
    zero = np.where(np.signbit(a), a, b)
    return np.where(both_zero, zero, np.minimum(a, b) if keeps_nan else np.fmin(a, b))


# --- tensor cores


def _fragment(pairs: int, blocks: list[tuple[int, int]], transpose: bool) -> Array:
    """(row, column) per lane and element, for blocks of 8 x 4·pairs that start at the given places."""
    lane = np.arange(32)
    group, member = lane // 4, lane % 4
    places = []
    for row, column in blocks:
        for e in range(pairs):
            along = (group, pairs * member + e)
            places.append((row + along[1], column + along[0]) if transpose else (row + along[0], column + along[1]))
    return np.array(places).transpose(1, 2, 0)


def multiply_tiles(a: Array, b: Array, c: Array, depth: int) -> Array:
    """mma.m16n8k{depth} for many warps: fragments [warps, 32, elements] in float32; the result as c."""
    pairs, half = (2, 8) if depth == 16 else (1, 4)
    row_a, column_a = _fragment(pairs, [(0, 0), (8, 0), (0, half), (8, half)], False)
    row_b, column_b = _fragment(pairs, [(0, 0), (half, 0)], True)
    row_c, column_c = _fragment(2, [(0, 0), (8, 0)], False)
    warps = len(a)
    whole_a, whole_b, whole_c = (np.empty((warps, *shape), "f8") for shape in ((16, depth), (depth, 8), (16, 8)))
    whole_a[:, row_a, column_a] = a
    whole_b[:, row_b, column_b] = b
    whole_c[:, row_c, column_c] = c
    product = (whole_a @ whole_b + whole_c).astype("f4")
    return product[:, row_c, column_c]
