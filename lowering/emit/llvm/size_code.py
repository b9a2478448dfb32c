"""LLVM IR of the value of a size, such as `2*N+1`, from the array of the model's sizes: outside of kernels, where a number that is too
large must be told from a small one.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.ir.dims import Atom, Dim, Expr

__all__ = ["OVERFLOW_DECLARATIONS", "CheckedSizeCode", "SizeCode"]

OVERFLOW_DECLARATIONS = (
    "declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)",
    "declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)",
)


class SizeCode:
    """Emits the value of a size, from the array `%sizes`. All of it is one block of instructions without effects, so what was computed once
    is not computed again: offsets of an arena are long sums that have most of their parts in common.
    """

    def __init__(self, names: Sequence[str]):
        self.lines: list[str] = []
        self._names = list(names)
        self._values: dict[str, str] = {}
        self._emitted: dict[Expr | Atom, str] = {}

    def step(self, instruction: str) -> str:
        value = self._values.get(instruction)
        if value is None:
            value = self._values[instruction] = f"%s{len(self._values) + 1}"
            self.lines.append(f"  {value} = {instruction}")
        return value

    def operation(self, name: str, a: str, b: str) -> str:
        """`add` or `mul` of two values."""
        return self.step(f"{name} i64 {a}, {b}")

    def emit(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return str(dim)
        if dim not in self._emitted:
            self._emitted[dim] = self._sum(dim)
        return self._emitted[dim]

    def _sum(self, dim: Expr) -> str:
        total = ""
        for mono, coefficient in dim.terms:
            # Terms differ by their coefficients more often than by their names.
            value = ""
            for atom in mono:
                factor = self.atom(atom)
                value = self.operation("mul", value, factor) if value else factor
            if coefficient != 1 or not value:
                value = self.operation("mul", value, str(coefficient)) if value else str(coefficient)
            total = self.operation("add", total, value) if total else value
        return total

    def atom(self, atom: Atom) -> str:
        if atom not in self._emitted:
            self._emitted[atom] = self._atom(atom)
        return self._emitted[atom]

    def _atom(self, atom: Atom) -> str:
        if not atom.fn:
            at = self.step(f"getelementptr i64, ptr %sizes, i64 {self._names.index(str(atom.args[0]))}")
            return self.step(f"load i64, ptr {at}, align 8")
        a, b = (self.emit(x) for x in atom.args if not isinstance(x, str))
        if atom.fn in ("max", "min"):
            larger = self.step(f"icmp {'sgt' if atom.fn == 'max' else 'slt'} i64 {a}, {b}")
            return self.step(f"select i1 {larger}, i64 {a}, i64 {b}")
        # A divisor of 0 would end the process; -1 is no size, so it is reported like any size that does not fit.
        zero = self.step(f"icmp eq i64 {b}, 0")
        divisor = self.step(f"select i1 {zero}, i64 1, i64 {b}")
        quotient = self.step(f"sdiv i64 {a}, {divisor}")
        rest = self.step(f"srem i64 {a}, {divisor}")
        signs = self.step(f"xor i64 {rest}, {divisor}")
        differ = self.step(f"icmp slt i64 {signs}, 0")
        inexact = self.step(f"icmp ne i64 {rest}, 0")
        below = self.step(f"and i1 {differ}, {inexact}")
        if atom.fn == "floordiv":
            floor = self.step(f"sub i64 {quotient}, 1")
            value = self.step(f"select i1 {below}, i64 {floor}, i64 {quotient}")
        else:
            shifted = self.step(f"add i64 {rest}, {divisor}")
            value = self.step(f"select i1 {below}, i64 {shifted}, i64 {rest}")
        return self.step(f"select i1 {zero}, i64 -1, i64 {value}")


class CheckedSizeCode(SizeCode):
    """The same, and whether a number on the way was too large: `lost`, empty where none can be."""

    def __init__(self, names: Sequence[str]):
        super().__init__(names)
        self.lost = ""
        self._looked_at: set[str] = set()

    def operation(self, name: str, a: str, b: str) -> str:
        both = self.step(f"call {{ i64, i1 }} @llvm.s{name}.with.overflow.i64(i64 {a}, i64 {b})")
        over = self.step(f"extractvalue {{ i64, i1 }} {both}, 1")
        if over not in self._looked_at:
            self._looked_at.add(over)
            self.lost = self.step(f"or i1 {self.lost}, {over}") if self.lost else over
        return self.step(f"extractvalue {{ i64, i1 }} {both}, 0")
