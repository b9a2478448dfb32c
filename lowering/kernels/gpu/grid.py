"""Writing a kernel for a grid: its frame, the thread's index, and reductions among the threads of a block."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import kernel
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, ceildiv
from polyreme.ir.types import BufferType, ScalarType, TensorType, i1
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.elements import Leaf, Positions, linear, load
from polyreme.lowering.kernels.kernel_cleanup import clean_up_kernel
from polyreme.lowering.kernels.plan import Slot, Step
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.machines.gpu import WARP


class GridKernel:
    """A kernel being written: `code` stands at the end of its body, `buffers` are its arguments, one per slot."""


    def __init__(
        self,
        name: str,
        slots: Sequence[Slot],
        types: Sequence[TensorType | BufferType],
        grid: Sequence[Dim],
        block: Sequence[int],
        loc: object = None,
    ):
        self.slots, self.grid, self.block = tuple(slots), tuple(grid), tuple(block)
        buffers = [t if isinstance(t, BufferType) else BufferType(t.shape, t.dtype) for t in types]
        self.func = Func.empty(name, buffers, loc=loc)  # type: ignore[arg-type]
        self.code = Code(Builder.at_end(self.func.block, self.func.location))
        self.buffers: list[Value] = list(self.func.args)

    def thread(self, axis: int = 0) -> Value:
        value: Value = self.code.b(kernel.ThreadId, axis=axis)
        return value

    def block_id(self, axis: int = 0) -> Value:
        value: Value = self.code.b(kernel.BlockId, axis=axis)
        return value

    def shared(self, size: int, dtype: ScalarType) -> Value:
        """Memory that the threads of a block share."""
        value: Value = self.code.b(kernel.Alloc, shape=(size,), dtype=dtype, space="shared")
        return value

    def barrier(self) -> None:
        self.code.b(kernel.Barrier)

    def finish(self) -> Step:
        self.code.b(Return, ())
        return Step(clean_up_kernel(self.func), self.slots, self.grid, self.block)


def blocks_for(count: Dim, per_block: int) -> Dim:
    """How many blocks take `count` things, so many each."""
    return ceildiv(count, per_block)


def aligned_leaf(code: Code, buffer: Value, shape: Sequence[Dim]) -> Leaf:
    """As `buffer_leaf`, for loops whose vectors all start at multiples of their length: device memory is aligned to more than that."""

    def leaf(places: Positions, lanes: int, mask: Value | None) -> Value:
        at = linear(code, places, shape)
        if lanes > 1 and mask is None and at.vector is None and at.step == 1:
            return code.load(buffer, at.scalar(code), lanes, align=lanes * bytes_of(buffer))
        return load(code, buffer, at, lanes, mask)

    return leaf


def bytes_of(buffer: Value) -> int:
    assert isinstance(buffer.type, BufferType)
    return buffer.type.dtype.bytes


def both(code: Code, *conditions: bool | Value) -> bool | Value:
    """Whether all hold; a bool when it is known."""
    found: bool | Value = True
    for condition in conditions:
        if condition is False:
            return False
        if condition is not True:
            found = condition if found is True else code.apply("and", found, condition)  # type: ignore[arg-type]
    return found


def exchange(code: Code, x: Value, by: int) -> Value:
    """`x` of the lane whose number differs by the bit `by`."""
    value: Value = code.b(kernel.WarpShuffle, x, mode="xor", by=by)
    return value


def reduce_warp(code: Code, x: Value, fn: str, lanes: int = WARP) -> Value:
    """All lanes' values in one, in every lane; equal bits in all of them, since the functions are commutative."""
    by = lanes // 2
    while by:
        x = code.apply(fn, x, exchange(code, x, by))
        by //= 2
    return x


def reduce_block(kernel_: GridKernel, x: Value, fn: str, thread: Value, threads: int) -> Value:
    """The values of all `threads` (a multiple of 32) in one, in every thread: in each warp first, then over the warps in their order."""
    code = kernel_.code
    x = reduce_warp(code, x, fn)
    warps = threads // WARP
    if warps == 1:
        return x
    assert isinstance(x.type, ScalarType)
    parts = kernel_.shared(warps, x.type)
    first = code.apply("eq", code.value(code.mod(thread, WARP)), code.value(0))
    code.store(x, parts, code.div(thread, WARP), mask=first)
    kernel_.barrier()
    return ordered(code, [code.load(parts, i) for i in range(warps)], fn)


def ordered(code: Code, values: Sequence[Value], fn: str) -> Value:
    """The values one after the other."""
    total = values[0]
    for value in values[1:]:
        total = code.apply(fn, total, value)
    return total


def truth(code: Code, condition: bool | Value) -> Value:
    """A condition as a value."""
    return condition if isinstance(condition, Value) else code.constant(condition, i1)


def places_of(code: Code, flat: Index, sizes: Sequence[Dim]) -> list[Position]:
    """The multi-index of a position in row-major `sizes`."""
    parts = code.split(flat, list(sizes))
    return [Position(terms=((x, 1),)) if isinstance(x, Value) else Position(x) for x in parts]
