"""The instructions that each thread carries out by itself, in registers: a table from opcode to the maker of its step.

A maker gets its `Place`, the parts of the opcode and the operands, refuses what the runner does not know, and returns a step: a function of
the threads and a selection of them. What is computed is in `arithmetic.py`; here is which types and operands an opcode has. To teach the
runner an instruction, add a line to a table, here or in `transfers.py` (memory) or `warps.py` (whole warps). Branches, ends and barriers
are `runner.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from polyreme.runtime.ptx import arithmetic as arithmetic
from polyreme.runtime.ptx.arithmetic import COMPARISONS, TYPES
from polyreme.runtime.ptx.operands import Place, applied
from polyreme.runtime.ptx.parser import Group, Number, Operand
from polyreme.runtime.ptx.state import Array, Step, Threads

Maker = Callable[..., Step]


def _simple(compute: Callable[..., Any], arity: int, typed: bool = False) -> Maker:
    """An instruction whose operands and result have the type at its end; `typed` when `compute` wants it too, as `dtype`."""

    def make(place: Place, parts: list[str], result: Operand, *sources: Operand) -> Step:
        dtype = place.dtype()
        place.check_parts(parts[1:-1], ("rn",))
        if len(sources) != arity:
            raise place.fail(f"expected {arity} operands but got {len(sources)}")
        return applied(place.write(result), partial(compute, dtype=dtype) if typed else compute, *place.reads(sources, dtype))

    return make


def _make_mul(place: Place, parts: list[str], result: Operand, a: Operand, b: Operand, c: Operand | None = None) -> Step:
    """mul and mad: `.lo`, `.hi` or `.wide` of integers, and products of floats."""
    dtype = place.dtype()
    mode = parts[1] if len(parts) > 2 else ""
    place.check_parts(parts[1:-1], ("lo", "hi", "wide", "rn"))
    whole = arithmetic.widened(dtype) if mode == "wide" else dtype

    def product(x: Any, y: Any) -> Any:
        if mode == "hi":
            return arithmetic.multiply_high(x, y, dtype)
        return np.asarray(x, whole) * np.asarray(y, whole)

    put, factors = place.write(result), place.reads((a, b), dtype)
    if c is None:
        return applied(put, product, *factors)
    return applied(put, lambda x, y, z: product(x, y) + z, *factors, place.read(c, whole))


def _make_shift(compute: Callable[..., Array], known: np.ufunc) -> Maker:
    """A shift; `known` does for a count that the text gives and that is below the width."""

    def make(place: Place, parts: list[str], result: Operand, a: Operand, b: Operand) -> Step:
        dtype = place.dtype()
        value, put = place.read(a, dtype), place.write(result)
        if isinstance(b, Number) and 0 <= b.value < 8 * dtype.itemsize:
            count = dtype.type(b.value)
            return applied(put, lambda x: known(x, count), value)
        return applied(put, partial(compute, dtype=dtype), value, place.read(b, TYPES["u32"]))

    return make


def _make_shf(place: Place, parts: list[str], result: Operand, *sources: Operand) -> Step:
    place.check_parts(parts[2:], ("wrap", "b32"))
    compute = arithmetic.funnel_left if parts[1] == "l" else arithmetic.funnel_right
    return applied(place.write(result), compute, *place.reads(sources, TYPES["u32"]))


def _make_prmt(place: Place, parts: list[str], result: Operand, *sources: Operand) -> Step:
    place.check_parts(parts[1:], ("b32",))
    return applied(place.write(result), arithmetic.permute_bytes, *place.reads(sources, TYPES["u32"]))


def _make_bfe(place: Place, parts: list[str], result: Operand, a: Operand, start: Operand, length: Operand) -> Step:
    dtype = place.dtype()
    sources = (place.read(a, dtype), *place.reads((start, length), TYPES["u32"]))
    return applied(place.write(result), partial(arithmetic.extract_bits, dtype=dtype), *sources)


def _make_mov(place: Place, parts: list[str], result: Operand, source: Operand) -> Step:
    dtype = place.dtype()
    if isinstance(source, Group):
        return _pack(place, result, source, dtype)
    if isinstance(result, Group):
        return _unpack(place, result, source, dtype)
    # A copy: registers are written in place when some of the threads write.
    return applied(place.write(result), np.array, place.read(source, dtype))


def _pack(place: Place, result: Operand, source: Group, dtype: np.dtype[Any]) -> Step:
    """Several narrow registers into a wide one, the lowest first."""
    reads, put = place.reads(source.items, np.dtype(f"u{dtype.itemsize // len(source.items)}")), place.write(result)

    def pack(t: Threads, some: Any) -> None:
        count = len(t.chosen(some))
        words = np.stack([np.broadcast_to(r(t, some), count) for r in reads], 1)
        put(t, some, np.ascontiguousarray(words).view(f"u{dtype.itemsize}").reshape(count))

    return pack


def _unpack(place: Place, result: Group, source: Operand, dtype: np.dtype[Any]) -> Step:
    """A wide register into several narrow ones, the lowest first."""
    get, puts, count = place.read(source, dtype), place.writes(result.items), len(result.items)
    part = np.dtype(f"u{dtype.itemsize // count}")

    def unpack(t: Threads, some: Any) -> None:
        value = np.ascontiguousarray(np.broadcast_to(get(t, some), len(t.chosen(some))))
        words = value.view(part).reshape(len(value), count)
        for k, put in puts:
            put(t, some, words[:, k].copy())

    return unpack


def _make_setp(place: Place, parts: list[str], result: Operand, a: Operand, b: Operand) -> Step:
    if len(parts) != 3 or parts[1] not in COMPARISONS:
        raise place.fail("expected a comparison that the runner knows")
    dtype = place.dtype()
    # Integers are never unordered.
    compare = COMPARISONS[parts[1]] if dtype.kind == "f" or parts[1] != "ne" else np.not_equal
    return applied(place.write(result), compare, *place.reads((a, b), dtype))


def _make_selp(place: Place, parts: list[str], result: Operand, a: Operand, b: Operand, p: Operand) -> Step:
    return applied(place.write(result), np.where, place.read(p, TYPES["pred"]), *place.reads((a, b), place.dtype()))


def _make_cvt(place: Place, parts: list[str], result: Operand, source: Operand, *more: Operand) -> Step:
    target, origin = parts[-2], parts[-1]
    if target in ("f16x2", "bf16x2") and len(more) == 1:
        place.check_parts(parts[1:-2], ("rn",))
        pack = arithmetic.two_halves if target == "f16x2" else arithmetic.two_bfloats
        return applied(place.write(result), pack, *place.reads((source, *more), TYPES[origin]))
    if more:
        raise place.fail("expected a conversion of one number, or of two into f16x2 or bf16x2")
    rounding = parts[1] if len(parts) > 3 else None
    place.check_parts(parts[1:-2], ("rn", "rna", "rz", "rni", "rzi", "rmi", "rpi"))
    if rounding == "rz":
        raise place.fail("expected a conversion that rounds to nearest")
    compute = partial(arithmetic.convert, target=target, source=origin, rounding=rounding)
    return applied(place.write(result), compute, place.read(source, TYPES[origin]))


def _make_cvta(place: Place, parts: list[str], result: Operand, source: Operand) -> Step:
    # An address of its own window; whoever uses it says which window by the instruction.
    if "to" in parts and ("shared" in parts or "local" in parts):
        raise place.fail("expected no generic address of shared or local memory")
    return applied(place.write(result), np.array, place.read(source, TYPES["u64"]))


def _make_testp(place: Place, parts: list[str], result: Operand, source: Operand) -> Step:
    tests: dict[str, Callable[..., Any]] = {
        "infinite": np.isinf,
        "finite": np.isfinite,
        "notanumber": np.isnan,
        "number": lambda x: ~np.isnan(x),
    }
    if parts[1] not in tests:
        raise place.fail("expected a test that the runner knows")
    return applied(place.write(result), tests[parts[1]], place.read(source, place.dtype()))


def _make_extreme(compute: Callable[..., Array]) -> Maker:
    def make(place: Place, parts: list[str], result: Operand, a: Operand, b: Operand) -> Step:
        place.check_parts(parts[1:-1], ("NaN", "relu"))
        pick = partial(compute, keeps_nan="NaN" in parts)
        if "relu" not in parts:
            return applied(place.write(result), pick, *place.reads((a, b), place.dtype()))
        if place.dtype() != TYPES["s32"]:
            raise place.fail("expected '.relu' of s32 alone")
        return applied(place.write(result), lambda x, y: np.maximum(pick(x, y), np.int32(0)), *place.reads((a, b), place.dtype()))

    return make


def _make_ex2(place: Place, parts: list[str], result: Operand, source: Operand) -> Step:
    place.check_parts(parts[1:-1], ("approx", "ftz"))
    return applied(place.write(result), arithmetic.exp2, place.read(source, place.dtype()))


def _copysign(sign: Any, size: Any) -> Any:
    return np.copysign(size, sign)


def _ones(x: Array) -> Array:
    return np.bitwise_count(x).astype("u4")


MAKERS: Mapping[str, Maker] = {
    "add": _simple(np.add, 2),
    "sub": _simple(np.subtract, 2),
    "mul": _make_mul,
    "mad": _make_mul,
    "fma": _simple(arithmetic.fma, 3, typed=True),
    "div": _simple(arithmetic.divide, 2, typed=True),
    "rem": _simple(arithmetic.remainder, 2, typed=True),
    "neg": _simple(np.negative, 1),
    "abs": _simple(np.abs, 1),
    "min": _make_extreme(arithmetic.smaller),
    "max": _make_extreme(arithmetic.larger),
    "and": _simple(np.bitwise_and, 2),
    "or": _simple(np.bitwise_or, 2),
    "xor": _simple(np.bitwise_xor, 2),
    "not": _simple(np.bitwise_not, 1),
    "popc": _simple(_ones, 1),
    "shl": _make_shift(arithmetic.shift_left, np.left_shift),
    "shr": _make_shift(arithmetic.shift_right, np.right_shift),
    "shf": _make_shf,
    "bfe": _make_bfe,
    "prmt": _make_prmt,
    "mov": _make_mov,
    "setp": _make_setp,
    "selp": _make_selp,
    "cvt": _make_cvt,
    "cvta": _make_cvta,
    "testp": _make_testp,
    "copysign": _simple(_copysign, 2),
    "ex2": _make_ex2,
    "sqrt": _simple(np.sqrt, 1),
    "rcp": _simple(np.reciprocal, 1),
}
