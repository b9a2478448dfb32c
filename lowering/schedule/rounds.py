"""Scans in whose bodies a size is made of what is computed, as loops: a library runs these in parts.

    %r, %y = nn.scan [%x], [%h], [%w] {steps = N} {f}
        ->  %k, %r, %y, %rounds = nn.while [0, %h, zeros], [N, %x, %w] {%k < N} {%k + 1, f(row %k of %x, %h, %w), %y with it as row %k}
"""

from __future__ import annotations

from typing import ClassVar

from polyreme.dialects import nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Region, Value
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import i64
from polyreme.lowering.schedule.regions import is_host_op

__all__ = ["CutScans"]


@register_pass
@dataclass(frozen=True)
class CutScans(FuncPass):
    """Make loops of scans that cannot be compiled in one piece.

    Before and after: ops of the `nn` and `host` dialects. Runs in front of `split_regions`; `canonicalize` would make scans of these loops.
    """

    name: ClassVar[str] = "cut-scans"
    takes: ClassVar[tuple[str, ...]] = ("nn",)
    branches: bool = False  # as in `is_host_op`

    def run_on(self, func: Func) -> None:
        # The inner ones first.
        for op in reversed([op for op in func.walk() if isinstance(op, nn.Scan) and is_host_op(op, self.branches)]):
            b = Builder.before_op(op)
            b.loc = op.location
            for old, new in zip(op.results, _rounds(b, op), strict=True):
                new.name = old.name
                old.replace_all_uses_with(new)
            op.erase()


def _rounds(b: Builder, op: nn.Scan) -> list[Value]:
    count = len(op.inits)
    steps = b(nn.Full, value=op.steps, dtype=i64) if isinstance(op.steps, int) else b(nn.DimValue, size=op.steps, dtype=i64)
    rows = [b(nn.Full, value=0, shape=r.type.shape, dtype=r.type.dtype) for r in op.results[count:]]
    inits, captured = [b(nn.Full, value=0, dtype=i64), *op.inits, *rows], [steps, *op.xs, *op.shared]
    types = [v.type for v in (*inits, *captured)]

    condition = Block(types)
    inner = Builder.at_end(condition, op.location)
    inner.insert(nn.Yield([inner(nn.Less, condition.args[0], condition.args[len(inits)])]))

    body = Block(types)
    inner = Builder.at_end(body, op.location)
    step, carried, so_far = body.args[0], body.args[1 : 1 + count], body.args[1 + count : len(inits)]
    last, xs, shared = body.args[len(inits)], body.args[len(inits) + 1 :][: len(op.xs)], body.args[len(inits) + 1 + len(op.xs) :]
    one = inner(nn.Full, value=1, dtype=i64)
    at = inner(nn.Sub, inner(nn.Sub, last, one), step) if op.reverse else step
    elements = [inner(nn.Gather, x, at, axis=0) for x in xs]
    inside: dict[Value, Value] = dict(zip(op.body.block.args, [*elements, *carried, *shared], strict=True))
    for own in op.body.block.ops[:-1]:
        inner.insert_op(own.clone(inside))
    made = [inside[v] for v in op.body.block.terminator.operands]
    put = [inner(nn.Scatter, x, row, at, axis=0) for x, row in zip(so_far, made[count:], strict=True)]
    inner.insert(nn.Yield([inner(nn.Add, step, one), *made[:count], *put]))
    _, *results, _ = b(nn.While, inits, captured, condition=Region(condition), body=Region(body))
    return results
