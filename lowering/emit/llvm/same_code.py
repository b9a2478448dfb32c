"""Kernels that are one code: they differ only in which of the model's sizes they read.

Levels of a pyramid have kernels that are written alike, one for height and width over 8, one for those over 16. Each kernel gets its sizes
in an array of its own, from whoever calls it. So of kernels that are the same code the first is emitted, and all calls are of that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.dialects import kernel
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.dims import Dim, Expr
from polyreme.ir.types import BufferType, Type
from polyreme.lowering.emit.llvm.facts import Facts

__all__ = ["SameCode"]


class SameCode:
    """Which kernels are one code, of those that it was asked about so far."""

    def __init__(self) -> None:
        # What `gather_facts` has found of kernels.
        self.known: dict[Func, Facts] = {}
        self._first: dict[Func, Func] = {}
        self._alike: dict[tuple[int, int], list[Func]] = {}

    def first(self, func: Func, ops: int) -> Func:
        """The first kernel asked about that is the same code as this one of so many ops."""
        found = self._first.get(func)
        if found is None:
            others = self._alike.setdefault((ops, len(func.args)), [])
            found = next((other for other in others if _Comparison().same(other, func)), func)
            if found is func:
                others.append(func)
            self._first[func] = found
        return found


class _Comparison:
    """Of two kernels: which values and which sizes of the one are which of the other."""

    def __init__(self) -> None:
        self._values: dict[Value, Value] = {}
        self._sizes: dict[Expr, Expr] = {}
        self._back: dict[Expr, Expr] = {}

    def same(self, a: Func, b: Func) -> bool:
        return a.final_addresses == b.final_addresses and self._block(a.block, b.block)

    def _block(self, a: Block, b: Block) -> bool:
        if not self._bind(a.args, b.args):
            return False
        x, y = a.first, b.first
        while x is not None and y is not None:
            if not self._op(x, y):
                return False
            x, y = x.next, y.next
        return x is y

    def _op(self, a: Op, b: Op) -> bool:
        if a.__class__ is not b.__class__ or a.segments != b.segments or len(a.regions) != len(b.regions):
            return False
        # What a callee reads is not looked into.
        if isinstance(a, (kernel.Call, kernel.Launch)) or [self._values.get(v) for v in a.operands] != list(b.operands):
            return False
        if isinstance(a, kernel.Size) and isinstance(b, kernel.Size):
            if not self._size(a.value, b.value):
                return False
        elif a.attributes != b.attributes and not _alike(a.attributes, b.attributes):
            return False
        return all(self._block(x.block, y.block) for x, y in zip(a.regions, b.regions, strict=True)) and self._bind(a.results, b.results)

    def _bind(self, a: Sequence[Value], b: Sequence[Value]) -> bool:
        if len(a) != len(b) or any(x.type != y.type and not _same_type(x.type, y.type) for x, y in zip(a, b, strict=True)):
            return False
        self._values.update(zip(a, b, strict=True))
        return True

    def _size(self, a: Dim, b: Dim) -> bool:
        if not isinstance(a, Expr) or not isinstance(b, Expr):
            return isinstance(a, int) and isinstance(b, int) and a == b
        return self._sizes.setdefault(a, b) == b and self._back.setdefault(b, a) == a


def _alike(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether attributes differ in shapes that are not known alone: code reads those by `kernel.size`."""
    return a.keys() == b.keys() and all(a[key] == b[key] or (key == "shape" and _same_shape(a[key], b[key])) for key in a)


def _same_type(a: Type, b: Type) -> bool:
    return isinstance(a, BufferType) and isinstance(b, BufferType) and a.dtype == b.dtype and _same_shape(a.shape, b.shape)


def _same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether code is the same for memory of these shapes: of the same known sizes at the same places."""
    return len(a) == len(b) and all(x == y or (isinstance(x, Expr) and isinstance(y, Expr)) for x, y in zip(a, b, strict=True))
