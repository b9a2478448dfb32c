"""Sorting short rows by counting: an element's place is the number of elements before it in order."""

from __future__ import annotations

from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, i64, u8
from polyreme.lowering.analysis.rows import shape_of


@register_pass
@dataclass(frozen=True)
class CountRanks(FuncPass):
    """argsort(x)[r]  ->  sum of all i with rank[i] = r,  rank[i] = number of j with x[j] before x[i], or equal to it and j < i

    Before and after: `tensor` ops.  For rows of at most `most` elements, or of any number for 0: as many comparisons as the square of it,
    but all independent, which suits short rows, and GPUs. Runs before fusion, which leaves none of the squares in memory.
    """

    name: ClassVar[str] = "count-ranks"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)
    most: int = 0

    def run_on(self, func: Func) -> None:
        for op in [op for op in func.walk() if isinstance(op, tensor.Argsort)]:
            length = shape_of(op.x)[-1]
            if not self.most or (isinstance(length, int) and length <= self.most):
                op.replace_with(_positions(Builder.before_op(op), op))
                op.erase()


def _positions(b: Builder, op: tensor.Argsort) -> Value:
    """What `op` gives, by counting."""
    x = op.x
    if not element_type(x.type).is_float and element_type(x.type).bits < 8:
        x = b(tensor.Map, x, fn="cast", dtype=u8)
    *outer, length = shape_of(x)
    rank = len(outer)
    # Along the last axis but one the element that is ranked, along the last one those that it is compared with.
    square = (*outer, length, length)
    ranked, others = _spread(b, x, rank, square), _spread(b, x, rank + 1, square)
    here, there = (b(tensor.Iota, shape=square, axis=axis, dtype=i64) for axis in (rank, rank + 1))
    if op.descending:
        ahead, behind = _before(b, ranked, others), _before(b, others, ranked)
    else:
        ahead, behind = _before(b, others, ranked), _before(b, ranked, others)
    equal_ahead = b(tensor.Map, b(tensor.Map, there, here, fn="lt"), b(tensor.Map, behind, fn="not"), fn="and")
    counted = b(tensor.Map, b(tensor.Map, ahead, equal_ahead, fn="or"), fn="cast", dtype=i64)
    ranks = b(tensor.Reduce, counted, fn="add", axes=(rank + 1,))
    # The same with the place that is asked for along the last axis but one.
    wanted = (*shape_of(op.result), length)
    hit = b(tensor.Map, _spread(b, ranks, rank + 1, wanted), b(tensor.Iota, shape=wanted, axis=rank, dtype=i64), fn="eq")
    number = b(tensor.Map, b(tensor.Map, hit, fn="cast", dtype=i64), b(tensor.Iota, shape=wanted, axis=rank + 1, dtype=i64), fn="mul")
    made: Value = b(tensor.Reduce, number, fn="add", axes=(rank + 1,))
    return made


def _spread(b: Builder, x: Value, axis: int, shape: tuple[Dim, ...]) -> Value:
    """Rows along `axis` of the last two axes of `shape`, repeated along the other one."""
    aligned = tuple(n if i < len(shape) - 2 or i == axis else 1 for i, n in enumerate(shape))
    made: Value = b(tensor.Broadcast, b(tensor.Reshape, x, shape=aligned), shape=shape)
    return made


def _before(b: Builder, x: Value, y: Value) -> Any:
    """Whether x comes before y in ascending order, in which nan is the largest."""
    less = b(tensor.Map, x, y, fn="lt")
    if not element_type(x.type).is_float:
        return less
    return b(
        tensor.Map,
        less,
        b(tensor.Map, b(tensor.Map, b(tensor.Map, x, fn="isnan"), fn="not"), b(tensor.Map, y, fn="isnan"), fn="and"),
        fn="or",
    )
