"""Pads move behind reshapes: where threads compute single elements, a pad that only windows read is then never written.

Grouped convolutions split the channels of what they pad. A reshape is a border between groups, and in front of it the pad would have a
kernel of its own.
"""

from __future__ import annotations

from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.dims import Dim
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.axes import matching_groups
from polyreme.lowering.analysis.rows import shape_of


@register_pass
@dataclass(frozen=True)
class MovePads(FuncPass):
    """reshape(pad(x)) -> pad(reshape(x)), where the reshape leaves padded axes whole

    Before and after: `tensor` ops on values.  Runs before fusion, for which reshapes are borders between groups.
    """

    name: ClassVar[str] = "move-pads"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tensor.Reshape):
                move_pad(op)


def move_pad(op: tensor.Reshape) -> None:
    """Move the pad that makes what a reshape takes behind it, where that can be."""
    pad = op.x.producer(tensor.Pad)
    if pad is None:
        return
    shape, padded = shape_of(op.result), shape_of(pad.result)
    inner: list[Dim] = list(shape)
    wanted: dict[int, int] = {}  # padded axis by axis of the result
    for before, after in matching_groups(padded, shape):
        moved = [a for a in before if pad.low[a] != 0 or pad.high[a] != 0 or pad.interior[a] != 0]
        if not moved:
            continue
        whole = [a for a in after if shape[a] == padded[moved[0]]]
        if (
            len(moved) > 1
            or not whole
            or any(padded[a] != 1 for a in before if a != moved[0])
            or any(shape[a] != 1 for a in after if a != whole[0])
        ):
            return
        wanted[whole[0]] = moved[0]
        inner[whole[0]] = shape_of(pad.x)[moved[0]]
    b = Builder.before_op(op)
    low, high, interior = (
        tuple(given[wanted[a]] if a in wanted else 0 for a in range(len(shape))) for given in (pad.low, pad.high, pad.interior)
    )
    x = b(tensor.Reshape, pad.x, shape=tuple(inner))
    op.replace_with(b(tensor.Pad, x, low=low, high=high, interior=interior, value=pad.value))
    if not pad.is_used:
        pad.erase()
