"""AVX-512 instructions that LLVM IR cannot express, on any number of lanes.

More lanes than a register has are taken register by register, fewer lanes as a part of one. Only for code whose `avx512` is set. A lane's
result does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyreme.ir.types import f32, f64
from polyreme.lowering.emit.llvm.text import Lane, number_text, type_text
from polyreme.lowering.machines.instructions import WIDEST_BYTES
from polyreme.lowering.machines.x86 import ROUND_CURRENT, ROUND_DOWN

_LETTER = {"float": "s", "double": "d"}
_BYTES = {"float": f32.bytes, "double": f64.bytes}


def multiply_add_down(a: Lane, b: float, c: float) -> Lane:
    """a * b + c, rounded to the next number below."""

    def instruction(a: Lane) -> Lane:
        args = ", ".join(x.typed for x in (a, a.like(b), a.like(c)))
        return a.code.value(a.elem, a.lanes, f"call {a.type} @llvm.x86.avx512.vfmadd.p{_LETTER[a.elem]}.512({args}, i32 {ROUND_DOWN})")

    return _by_registers(instruction, a)


def scale(p: Lane, n: Lane) -> Lane:
    """p * 2^floor(n), also where 2^n itself is no normal number, or none at all."""

    def instruction(p: Lane, n: Lane) -> Lane:
        mask = f"i{p.lanes} -1"
        return p.code.value(
            p.elem,
            p.lanes,
            f"call {p.type} @llvm.x86.avx512.mask.scalef.p{_LETTER[p.elem]}.512({p.typed}, {n.typed}, {p.type} zeroinitializer, {mask}, "
            f"i32 {ROUND_CURRENT})",
        )

    return _by_registers(instruction, p, n)


def look_up(table: Sequence[float], at: Lane, elem: str) -> Lane:
    """The element of a table that the low bits of `at` say, integers of the same width; the table has as many numbers as one register or
    two.
    """
    lanes = WIDEST_BYTES // _BYTES[elem]
    parts = [
        f"<{lanes} x {elem}> <{', '.join(f'{elem} {number_text(elem, x)}' for x in table[i : i + lanes])}>"
        for i in range(0, len(table), lanes)
    ]
    assert len(table) in (lanes, 2 * lanes)
    letter = _LETTER[elem]

    def instruction(at: Lane) -> Lane:
        name, args = (
            (f"permvar.{letter}f", [parts[0], at.typed]) if len(parts) == 1 else (f"vpermi2var.p{letter}", [parts[0], at.typed, parts[1]])
        )
        return at.code.value(elem, lanes, f"call {type_text(elem, lanes)} @llvm.x86.avx512.{name}.512({', '.join(args)})")

    return _by_registers(instruction, at, elem=elem)


def _by_registers(instruction: Callable[..., Lane], *operands: Lane, elem: str | None = None) -> Lane:
    """An instruction of whole registers that gives elements `elem`, of the operands' type if left out."""
    first = operands[0]
    elem = elem or first.elem
    count = WIDEST_BYTES // _BYTES[elem]
    if first.lanes <= count:
        return _lanes_of(instruction(*(_lanes_of(x, 0, count) for x in operands)), 0, first.lanes)
    parts = [instruction(*(_lanes_of(x, at, count) for x in operands)) for at in range(0, first.lanes, count)]
    while len(parts) > 1:
        parts = [_joined(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _lanes_of(x: Lane, start: int, count: int) -> Lane:
    """`count` lanes of x from `start` on; those that it does not have may hold anything."""
    if count == x.lanes:
        return x
    if count == 1:
        return x.code.value(x.elem, 1, f"extractelement {x.typed}, i32 {start}")
    if x.lanes == 1:
        return x.code.value(x.elem, count, f"insertelement {type_text(x.elem, count)} poison, {x.typed}, i32 0")
    picks = ", ".join(f"i32 {start + i}" if start + i < x.lanes else "i32 poison" for i in range(count))
    return x.code.value(x.elem, count, f"shufflevector {x.typed}, {x.type} poison, <{count} x i32> <{picks}>")


def _joined(a: Lane, b: Lane) -> Lane:
    picks = ", ".join(f"i32 {i}" for i in range(2 * a.lanes))
    return a.code.value(a.elem, 2 * a.lanes, f"shufflevector {a.typed}, {b.typed}, <{2 * a.lanes} x i32> <{picks}>")
