"""The places of elements that a mask keeps, by compiled code: what the host does of it is to make a size of their number.

    %places = host.nonzero %x {count = K}   ->   %order = nn.argsort (%x is zero);  %n = nn.sum (%x is not zero)
                                                 %kept = host.first %order, %n {count = K};  %places = the coordinates of %kept
"""

from __future__ import annotations

from typing import ClassVar

from polyreme.dialects import host, nn
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import i1, i64, u8


@register_pass
@dataclass(frozen=True)
class ComputePlaces(FuncPass):
    """Let compiled code find places.

    Before: `host.nonzero`.  After: ops of the `nn` dialect, and `host.first`. Runs before a function is cut at what the host does, since
    the places are found in one region and used in the next.
    """

    name: ClassVar[str] = "compute-places"
    takes: ClassVar[tuple[str, ...]] = ("nn",)

    def run_on(self, func: Func) -> None:
        for op in [op for op in func.walk() if isinstance(op, host.NonZero)]:
            b = Builder.before_op(op)
            b.loc = op.location
            op.result.replace_all_uses_with(_places(b, op))
            op.erase()


def _places(b: Builder, op: host.NonZero) -> Value:
    shape = op.x.type.shape
    count = product(shape)
    flat = b(nn.Reshape, op.x, shape=(count,))
    if flat.type.dtype != i1:
        flat = b(nn.NotEqual, flat, b(nn.Full, shape=(), value=0, dtype=flat.type.dtype))
    # A stable sort by one bit has what is kept in front, in its order.
    order = b(nn.Argsort, b(nn.Cast, b(nn.LogicalNot, flat), dtype=u8), axis=0)
    number = b(nn.Sum, b(nn.Cast, flat, dtype=i64), axis=(0,))
    kept = b(host.First, order, number, count=op.count)
    column = b(nn.Reshape, kept, shape=(op.count, 1))
    if len(shape) < 2 or count == 0:
        # Of no elements there are no places, and of a number its place has no coordinates.
        none = b(nn.Slice, column, starts=(0, 0), stops=(op.count, 0), strides=(1, 1))
        return b(nn.Concat, [column] * len(shape), axis=1) if shape else none
    axes = [b(nn.Reshape, b(nn.Iota, shape=shape, axis=axis, dtype=i64), shape=(count,)) for axis in range(len(shape))]
    return b(nn.Concat, [b(nn.Reshape, b(nn.Gather, x, kept, axis=0), shape=(op.count, 1)) for x in axes], axis=1)
