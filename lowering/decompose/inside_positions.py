"""Positions that are inside of what they are looked up in: no kernel looks again."""

from __future__ import annotations

from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.integers import are_positions
from polyreme.lowering.analysis.rows import shape_of


@register_pass
@dataclass(frozen=True)
class InsidePositions(FuncPass):
    """gather(x, i)  ->  gather(x, i) {inside = true}, where i is seen to lie within the axis

    Before and after: `tensor` ops.  Constants say where they point; what is computed is clamped by whoever computes it, such as the
    neighbours of a resized image's elements. Runs before fusion, which puts positions into kernels of their own, and after folding.
    """

    name: ClassVar[str] = "inside-positions"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.walk():
            if isinstance(op, tensor.Gather) and not op.may_be_empty and are_positions(op.index, shape_of(op.x)[op.axis]):
                op.attributes["inside"] = True
