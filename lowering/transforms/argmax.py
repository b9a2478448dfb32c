"""The position of a long row's largest element (argmax), by two vectorised passes in place of a scalar one."""

from __future__ import annotations

from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.instructions import WIDEST_LANES


@register_pass
@dataclass(frozen=True)
class ExtremesInTwoPasses(FuncPass):
    """arg_reduce(x)  ->  min(select(x = reduce(x), i, n)): the first of the positions i that hold the extreme of their row, or nan if that
    is one

    Before and after: `tensor` ops.  For the last axis, whose elements are neighbours in memory; along other axes lanes hold columns and
    each element is looked at once anyway. Windows that are looked through stay as they are. Runs when layouts are chosen, before fusion,
    which makes a kernel of it.
    """

    name: ClassVar[str] = "extremes-in-two-passes"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in [op for op in func.walk() if isinstance(op, tensor.ArgReduce)]:
            shape = shape_of(op.x)
            # Shorter rows are looked through element by element while lanes hold other rows.
            long = not isinstance(shape[-1], int) or shape[-1] >= WIDEST_LANES
            if op.axis == len(shape) - 1 and long and not _is_windows(op.x) and element_type(op.x.type).kind in "fiu":
                op.replace_with(_positions(Builder.before_op(op), op))
                op.erase()


def _is_windows(x: Value) -> bool:
    made = x.producer(tensor.Reshape)
    return made is not None and made.x.producer(tensor.Window) is not None


def _positions(b: Builder, op: tensor.ArgReduce) -> Value:
    x, axis = op.x, op.axis
    shape = shape_of(x)
    extreme = b(tensor.Broadcast, b(tensor.Reduce, x, fn=op.fn, axes=(axis,), keepdims=True), shape=shape)
    here = b(tensor.Map, x, extreme, fn="eq")
    if element_type(x.type).is_float:
        # Beside a nan, which then is the extreme, no number equals it.
        here = b(tensor.Map, here, b(tensor.Map, x, fn="isnan"), fn="or")
    places = b(tensor.Iota, shape=shape, axis=axis, dtype=op.dtype)
    behind = b(
        tensor.Broadcast, b(tensor.Reshape, b(tensor.DimValue, size=shape[axis], dtype=op.dtype), shape=(1,) * len(shape)), shape=shape
    )
    made: Value = b(tensor.Reduce, b(tensor.Map, here, places, behind, fn="select"), fn="min", axes=(axis,), keepdims=op.keepdims)
    return made
