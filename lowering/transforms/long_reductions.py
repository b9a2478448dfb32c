"""Reductions as those of rows: of everything, or of all pixels for each channel behind them, by several threads, rows first and then the
rows' results; of all pixels of planar images.
"""

from __future__ import annotations

from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.rows import is_pooling, shape_of, shape_rank
from polyreme.lowering.machines.functions import ENOUGH_SUMS, LATENCY, LATENCY_OF_SIMPLE
from polyreme.lowering.machines.instructions import WIDEST_LANES
from polyreme.lowering.machines.targets import Target
from polyreme.lowering.machines.tasks import PIECES
from polyreme.lowering.transforms.fuse import is_whole

# Where lanes run over what is kept, rows of fewer elements for each lane are not worth a sum that waits in memory.
LONG_COLUMN = 8


@register_pass
@dataclass(frozen=True)
class ReduceRowsFirst(FuncPass):
    """reduce(x, all axes)  ->  reduce(reduce(x, last axes), all axes)
    reduce(x, axes in front of the last one)  ->  reduce(reduce(x, some of them), these axes)

    Before and after: `tensor` ops.  One row, which is all there is, would be one thread's, and so would be the sums of all pixels for the
    few channels that fill vectors. Rows are those of the shape, whatever number of threads there is, and so is the order in which they are
    added up. Floats of 16 bits, whose sums are kept in 32 within a kernel, stay as
    they are. Runs before fusion, which makes two kernels of it.
    """

    name: ClassVar[str] = "reduce-rows-first"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in [op for op in func.block if isinstance(op, tensor.Reduce)]:
            dtype = element_type(op.x.type)
            axes: tuple[int, ...] = ()
            if _is_long(op.x):
                axes = _axes_of_rows(shape_of(op.x), op.axes) or _axes_of_columns(shape_of(op.x), op.axes)
            if axes and not (dtype.is_float and dtype.bits < 32) and not is_pooling(op):
                b = Builder.before_op(op)
                rows = b(tensor.Reduce, op.x, fn=op.fn, axes=axes, keepdims=True)
                op.replace_with(b(tensor.Reduce, rows, fn=op.fn, axes=op.axes, keepdims=op.keepdims))
                op.erase()


def _is_long(x: Value) -> bool:
    """Whether one thread reads a value of known size for so long that others are worth waking."""
    count = product(shape_of(x))
    return isinstance(count, int) and count * element_type(x.type).bytes >= Target.serial_cycles * Target.memory_bytes_per_cycle


def _axes_of_rows(shape: tuple[Dim, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The last axes, which are a row's where all are reduced and there are many long rows; none elsewhere."""
    elements = product(shape)
    if any(n != 1 for i, n in enumerate(shape) if i not in axes):
        return ()
    for first in range(1, len(shape)):
        row = product(shape[first:])
        if elements >= PIECES * row:
            # The lanes of a row meet at its end, half of them at a time.
            meeting = (LATENCY + LATENCY_OF_SIMPLE) * (WIDEST_LANES - 1).bit_length()
            return tuple(range(first, len(shape))) if row >= meeting * WIDEST_LANES else ()
    return ()


def _axes_of_columns(shape: tuple[Dim, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The reduced axes that are a row's where what is kept stands side by side, in few tasks, and is a long sum each; none elsewhere."""
    last = len(shape) - 1
    if last in axes or shape[last] == 1:
        return ()
    kept = product(n for i, n in enumerate(shape) if i not in axes)
    assert isinstance(kept, int)
    # A task has as many lanes as hide the latency of its sums.
    tasks = kept // shape[last] * -(-shape[last] // (ENOUGH_SUMS * WIDEST_LANES))
    for i in range(1, len(axes)):
        if tasks >= PIECES:
            return ()
        tasks, row = tasks * shape[axes[i - 1]], product(shape[a] for a in axes[i:])
        if tasks >= PIECES:
            return axes[i:] if row >= LONG_COLUMN else ()
    return ()


@register_pass
@dataclass(frozen=True)
class ReduceWholeImages(FuncPass):
    """reduce(window(x))  ->  reduce(x), where a window takes in all of an image whose pixels lie behind its channels

    Before and after: `tensor` ops.  A pooling has lanes along channels, which for a planar image gathers each of them from another plane,
    and computes its windows element by element; the pixels of a plane are one row. Windows of few pixels stay, since their mean may wait in
    the registers of a convolution. Runs when layouts are chosen, before fusion.
    """

    name: ClassVar[str] = "reduce-whole-images"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in [op for op in func.block if isinstance(op, tensor.Reduce)]:
            window = op.x.producer(tensor.Window)
            if window is None or op.keepdims or not is_whole(window):
                continue
            rank = shape_rank(window.x)
            taps = tuple(range(rank, rank + len(window.axes)))
            if op.axes != taps or max(window.axes) != rank - 1 or any(n != 1 for n in shape_of(op.result)[min(window.axes) :]):
                continue
            op.replace_with(Builder.before_op(op)(tensor.Reduce, window.x, fn=op.fn, axes=window.axes, keepdims=True))
            op.erase()
            if not window.is_used:
                window.erase()
