"""Positions that are computed: a run tells the least and the greatest of them, so that its caller can say that they are none of an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyreme.dialects.nn import Cast, Concat, DimValue, Full, Max, Min, Reshape, Within
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Value
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.types import i64

__all__ = ["LookAtPositions", "look"]


@register_pass
@dataclass(frozen=True)
class LookAtPositions(Pass):
    """within(x)  ->  x, and the least and the greatest of x and the size of their axis in the last result of `main`

    Before: any module.  After: no `nn.within` is left. With `looks`, `main` has as its last result three whole numbers for each of those in
    its own block, and says in the attribute of that name where they stand. Those inside of branches and loops are left out: nobody can look
    at what their rounds compute. Runs once sizes are solved.
    """

    name: ClassVar[str] = "look-at-positions"
    takes: ClassVar[tuple[str, ...]] = ("nn", "tensor")
    looks: bool = True

    def run(self, module: Module) -> None:
        for func in module.functions:
            look(func, self.looks and func.sym_name == "main")


def look(func: Func, looks: bool) -> None:
    """What the pass does to one function."""
    parts: list[Value] = []
    places: list[str] = []
    for op in [op for op in func.walk() if isinstance(op, Within)]:
        if looks and op.parent is func.block and op.x.type.elements != 0:
            b = Builder.before_op(op)
            wide = op.x if op.x.type.dtype == i64 else b(Cast, op.x, dtype=i64)
            axes = tuple(range(wide.type.rank))
            size = b(Full, value=op.size, dtype=i64) if isinstance(op.size, int) else b(DimValue, size=op.size, dtype=i64)
            ends = [b(end, wide, axis=axes, keepdims=False) if axes else wide for end in (Min, Max)]
            parts += [b(Reshape, part, shape=(1,)) for part in (*ends, size)]
            places.append(f"{'wraps' if op.wraps else 'from 0'} at {op.place or op.location}")
        op.replace_with(op.x)
    if not parts:
        return
    end = func.block.terminator
    b = Builder.before_op(end)
    b.insert(Return([*end.operands, b(Concat, parts, axis=0)]))
    end.erase()
    func.attributes["looks"] = (*func.looks, *places)
    if func.result_names:
        func.attributes["result_names"] = (*func.result_names, "looks")
    func.finish()
