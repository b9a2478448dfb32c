"""Writing the body of one LLVM function as text: named values, constants, blocks, and arithmetic on `Lane` values by Python operators.

A `Lane` is a scalar or a vector in SSA form; `x * y + 1.0` appends two instructions and is a third `Lane`. Numbers become constants of the
other side's type. Nothing here rounds differently from what is written: no fast-math flag is ever set, and only `fma` fuses.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

from polyreme.ir.types import f16, f32, f64

_TYPES = {"half": f16, "float": f32, "double": f64}
# How the names of intrinsics spell elements that are not called so.
_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}
_PLAIN = re.compile(r"[^A-Za-z0-9_.$-]")


def type_text(elem: str, lanes: int) -> str:
    """LLVM's spelling of `lanes` elements; one lane is the scalar."""
    return elem if lanes == 1 else f"<{lanes} x {elem}>"


def number_text(elem: str, value: float) -> str:
    """A number as an LLVM constant of an element type, bit for bit."""
    if elem == "i1":
        return "true" if value else "false"
    if elem[0] == "i":
        bits = int(elem[1:])
        return str((int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))
    if elem == "half":
        return "0xH" + struct.pack(">e", value).hex().upper()
    if elem == "float":
        # LLVM writes a float as the double of the same value.
        value = math.copysign(math.inf, value) if abs(value) > 3.4028235677973366e38 else struct.unpack("f", struct.pack("f", value))[0]
    return "0x" + struct.pack(">d", value).hex().upper()


def constant_text(elem: str, lanes: int, value: float) -> str:
    """The same number in every lane."""
    text = number_text(elem, value)
    return text if lanes == 1 else f"splat ({elem} {text})"


def symbol_text(name: str) -> str:
    """A name as LLVM writes it after `@` or `%`; one that starts with a digit would be read as a number."""
    text = _PLAIN.sub("_", name)
    return f"v{text}" if text[:1].isdigit() else text


def comment_text(text: str) -> str:
    """A comment line. The text may come from a model file: nothing in it ends the line."""
    return "; " + "".join(c if c.isprintable() else "?" for c in text)


class TextCode:
    """The lines of one function under construction. `plain`: values are numbered, whatever they might be called. `halves`: AVX-512 by
    halves of vectors.
    """

    def __init__(self, fma: bool = True, avx512: bool = False, plain: bool = False, halves: bool = False):
        self.fma = fma
        self.avx512 = avx512
        self.halves = avx512 and halves
        self.plain = plain
        self._count = 0
        self.lines: list[str] = []
        self.entry: list[str] = []  # goes to the front of the entry block
        self.block = "entry"
        self.hint = "v"  # what values are called that nobody names
        self._names: dict[str, int] = {}
        self._held: dict[tuple[str, int, float], Lane] = {}

    def name(self, hint: str) -> str:
        """A fresh value name (with the `%`) that starts with `hint`."""
        if self.plain:
            self._count += 1
            return f"%v{self._count}"
        count = self._names.get(hint)
        if count is None:
            self._names[hint] = 0
            return f"%{hint}"
        while True:
            count += 1
            fresh = f"{hint}.{count}"
            if fresh not in self._names:
                self._names[hint] = count
                self._names[fresh] = 0
                return f"%{fresh}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, elem: str, lanes: int, instruction: str, hint: str = "") -> Lane:
        """Append `%fresh = instruction`."""
        if self.plain:
            self._count += 1
            name = f"%v{self._count}"
        else:
            name = self.name(hint or self.hint)
        self.lines.append(f"  {name} = {instruction}")
        return Lane(self, elem, lanes, name)

    def constant(self, elem: str, lanes: int, value: float) -> Lane:
        return Lane(self, elem, lanes, constant_text(elem, lanes, value), value)

    def held(self, elem: str, lanes: int, value: float) -> Lane:
        """The same number in every lane, made where the function begins. LLVM looks for what it can spare wherever it sees a constant, lane
        by lane, and elsewhere it sees none of these: in long integer arithmetic that is up to half of its time.
        """
        key = elem, lanes, value
        if key not in self._held:
            one, all_ = self.name("one"), self.name("held")
            kind = type_text(elem, lanes)
            self.entry.append(f"  {one} = insertelement {kind} poison, {elem} {number_text(elem, value)}, i64 0")
            self.entry.append(f"  {all_} = shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")
            self._held[key] = Lane(self, elem, lanes, all_)
        return self._held[key]

    def start(self, label: str) -> None:
        """Begin the block `label` (a name without `%`)."""
        self.lines.append(f"{label}:")
        self.block = label

    def label(self, hint: str) -> str:
        """A fresh block name, without `%`."""
        return self.name(hint)[1:]

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str, note: str = "") -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}{note}")


class Lane:
    """A value of `lanes` elements of the LLVM type `elem`; `ref` is its name or constant text, `known` its number if constant, `wide` what
    a 16-bit float was in float32 where nothing had to be rounded.
    """

    __slots__ = ("code", "elem", "known", "lanes", "ref", "wide")

    def __init__(self, code: TextCode, elem: str, lanes: int, ref: str, known: float | None = None):
        self.code = code
        self.elem = elem
        self.lanes = lanes
        self.ref = ref
        self.known = known
        self.wide: Lane | None = None

    @property
    def type(self) -> str:
        return self.elem if self.lanes == 1 else f"<{self.lanes} x {self.elem}>"

    @property
    def typed(self) -> str:
        return f"{self.elem} {self.ref}" if self.lanes == 1 else f"<{self.lanes} x {self.elem}> {self.ref}"

    @property
    def is_float(self) -> bool:
        return self.elem[0] != "i"

    def like(self, value: Lane | float) -> Lane:
        """A number as a constant of this type."""
        return value if isinstance(value, Lane) else self.code.constant(self.elem, self.lanes, value)

    def emit(self, instruction: str, *others: Lane | float, elem: str | None = None, hint: str = "") -> Lane:
        """`instruction type self, others…`"""
        rest = "".join(f", {self.like(o).ref}" for o in others)
        return self.code.value(elem or self.elem, self.lanes, f"{instruction} {self.type} {self.ref}{rest}", hint)

    def call(self, intrinsic: str, *others: Lane | float, extra: str = "", hint: str = "") -> Lane:
        """The LLVM intrinsic on this type, `extra` being further arguments."""
        type = self.type
        args = ", ".join([f"{type} {self.ref}", *[self.like(o).typed for o in others]])
        suffix = _SUFFIXES.get(self.elem, self.elem)
        suffix = suffix if self.lanes == 1 else f"v{self.lanes}{suffix}"
        return self.code.value(self.elem, self.lanes, f"call {type} @llvm.{intrinsic}.{suffix}({args}{extra})", hint)

    # --- arithmetic

    def __add__(self, other: Lane | float) -> Lane:
        return self.emit("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Lane | float) -> Lane:
        return self.emit("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: Lane | float) -> Lane:
        return self.emit("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: Lane | float) -> Lane:
        return self.emit("fdiv", other)

    def __radd__(self, other: float) -> Lane:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Lane:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Lane:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Lane:
        return self.like(other) / self

    def __neg__(self) -> Lane:
        return self.emit("fneg") if self.is_float else self.like(0) - self

    def __and__(self, other: Lane | float) -> Lane:
        return self.emit("and", other)

    def __or__(self, other: Lane | float) -> Lane:
        return self.emit("or", other)

    def __xor__(self, other: Lane | float) -> Lane:
        return self.emit("xor", other)

    def __invert__(self) -> Lane:
        return self.emit("xor", 1 if self.elem == "i1" else -1)

    def __lshift__(self, other: Lane | float) -> Lane:
        return self.emit("shl", other)

    def __rshift__(self, other: Lane | float) -> Lane:
        """Keeps the sign."""
        return self.emit("ashr", other)

    def shift_right(self, other: Lane | float) -> Lane:
        """Fills with zeros."""
        return self.emit("lshr", other)

    def fma(self, b: Lane | float, c: Lane | float) -> Lane:
        """self * b + c, rounded once where the machine can."""
        return self.call("fma" if self.code.fma else "fmuladd", b, c)

    def poly(self, coefficients: Sequence[float]) -> Lane:
        """The polynomial with these coefficients, lowest power first, by Horner's rule."""
        result = self.like(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = result.fma(self, coefficient)
        return result

    # --- comparing and choosing

    def compare(self, predicate: str, other: Lane | float) -> Lane:
        """An i1 per lane by LLVM's predicate (`olt`, `slt`, `eq`, …)."""
        return self.emit(f"{'fcmp' if self.is_float else 'icmp'} {predicate}", other, elem="i1")

    def where(self, yes: Lane | float, no: Lane | float) -> Lane:
        """For an i1: `yes` where it holds, else `no`; at least one is a `Lane`."""
        if not isinstance(yes, Lane):
            assert isinstance(no, Lane)
            yes = no.like(yes)
        no = yes.like(no)
        if self.known is not None:
            return yes if self.known else no
        return self.code.value(yes.elem, yes.lanes, f"select {self.typed}, {yes.typed}, {no.typed}")

    def at_least(self, low: float) -> Lane:
        """The larger of self and a number; nan stays."""
        return self.like(low).compare("ogt", self).where(self.like(low), self)

    def at_most(self, high: float) -> Lane:
        """The smaller of self and a number; nan stays."""
        return self.like(high).compare("olt", self).where(self.like(high), self)

    def is_nan(self) -> Lane:
        return self.compare("uno", self)

    def abs(self) -> Lane:
        return self.call("fabs") if self.is_float else self.call("abs", extra=", i1 false")

    def copysign(self, sign: Lane) -> Lane:
        return self.call("copysign", sign)

    # --- conversion

    def convert(self, instruction: str, elem: str) -> Lane:
        """`instruction` (`fpext`, `sitofp`, `bitcast`, …) to another element type, lane by lane."""
        return self.code.value(elem, self.lanes, f"{instruction} {self.typed} to {type_text(elem, self.lanes)}")

    def bits(self) -> Lane:
        """A float's bits as an integer."""
        return self.convert("bitcast", f"i{_TYPES[self.elem].bits}")

    def split(self) -> list[Lane]:
        """The lanes as scalars."""
        if self.lanes == 1:
            return [self]
        return [self.code.value(self.elem, 1, f"extractelement {self.typed}, i32 {i}") for i in range(self.lanes)]


def join(lanes: Sequence[Lane]) -> Lane:
    """Scalars as one vector."""
    first = lanes[0]
    if len(lanes) == 1:
        return first
    kind = type_text(first.elem, len(lanes))
    whole = Lane(first.code, first.elem, len(lanes), "poison")
    for i, lane in enumerate(lanes):
        whole = first.code.value(first.elem, len(lanes), f"insertelement {kind} {whole.ref}, {lane.typed}, i32 {i}")
    return whole
