"""Transposes on a GPU through tiles in shared memory, so that both reads and writes coalesce.

Without tiles either the reads or the writes would touch one element of each line. A block takes a tile along both axes. Neighbouring
threads read it along the operand, and after a barrier write it along the result. Lines of the tile are one element longer than it is wide,
so that the elements of a column lie in different banks (Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", 2009).
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import tensor
from polyreme.ir.builtin import Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import ScalarType, element_type, i1
from polyreme.lowering.analysis.rows import needed_ops, shape_of
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.kernels.elements import ElementEmitter, Leaf, Positions, buffer_leaf, linear, store
from polyreme.lowering.kernels.general.loops import describe
from polyreme.lowering.kernels.gpu.grid import GridKernel, blocks_for, both, truth
from polyreme.lowering.kernels.plan import KernelPlan, Request, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.machines.gpu import BLOCK_THREADS, STATIC_SHARED_BYTES, WARP

# A tile has a line for each thread of a warp, and the warps of a block take so many of its lines at once.
TILE, LINES = WARP, BLOCK_THREADS // WARP
_FLAT = (tensor.Map, tensor.Full, tensor.Constant, tensor.Broadcast, tensor.Transpose)


def build_transposes(request: Request) -> KernelPlan | None:
    """The plan of elementwise ops of one shape that read something transposed; None for any other root."""
    func = collapse_axes(request.func)
    values = list(func.block.terminator.operands)
    shape = shape_of(values[0])
    ops = needed_ops([op for op in func.block if not isinstance(op, Return)], values)
    if any(shape_of(v) != shape for v in values) or not all(isinstance(op, _FLAT) for op in ops):
        return None
    found = _transposed_values(values, shape)
    if found is None:
        return None
    axis, transposed = found
    used = {v for op in ops for v in op.operands}
    args = [a for a in func.args if a in used]
    slots = [*(operand(a.index) for a in args), *(result(i) for i in range(len(values)))]
    tiles = [blocks_for(shape[axis], TILE), blocks_for(shape[-1], TILE)]
    others = [n for i, n in enumerate(shape[:-1]) if i != axis]
    made = GridKernel(
        request.name(describe(func)),
        slots,
        [v.type for v in (*args, *values)],
        (product((*others, *tiles)),),
        (BLOCK_THREADS,),
        request.func.location,
    )
    code = made.code
    leaves = {a: buffer_leaf(code, buffer, shape_of(a)) for a, buffer in zip(args, made.buffers, strict=False)}
    outputs = made.buffers[len(args) :]
    *outer, down, across = code.split(made.block_id(), [*others, *tiles])
    thread = made.thread()
    line, lane = code.div(thread, TILE), code.mod(thread, TILE)

    def places(along: Index, last: Index) -> Positions:
        """The place of the result so far along the operand's last axis and the result's own."""
        inner = [*outer[:axis], code.add(code.mul(down, TILE), along), *outer[axis:], code.add(code.mul(across, TILE), last)]
        return tuple(Position(terms=((x, 1),)) if isinstance(x, Value) else Position(x) for x in inner)

    def inside(at: Positions) -> bool | Value:
        return both(code, *(code.condition("lt", at[i].scalar(code), shape[i]) for i in (axis, -1)))

    lines = [code.add(line, first) for first in range(0, TILE, LINES)]
    boards = [_Board(made, element_type(v.type)) for v in transposed]
    # All loads of a thread are in flight before it waits for any of them.
    emitter, read = ElementEmitter(code, leaves), []
    for n in lines:
        at = places(lane, n)
        guard = inside(at)
        read.append([emitter.at(v, at, 1, guards=() if guard is True else (truth(code, guard),)) for v in transposed])
    for n, those in zip(lines, read, strict=True):
        for board, x in zip(boards, those, strict=True):
            board.put(code, x, n, lane)
    made.barrier()
    for n in lines:
        at = places(n, lane)
        with code.when(truth(code, inside(at))):
            emitter = ElementEmitter(code, leaves | {v: board.leaf(code, lane, n) for v, board in zip(transposed, boards, strict=True)})
            for value, buffer in zip(values, outputs, strict=True):
                store(code, emitter.at(value, at, 1), buffer, linear(code, at, shape))
    return KernelPlan((made.finish(),), builder="transposes")


class _Board:
    """A tile in memory that the threads of a block share. Its lines are an element longer, so that those of a column use different banks.
    """

    line = TILE + 1
    elements = TILE * line

    def __init__(self, made: GridKernel, dtype: ScalarType):
        self.memory = made.shared(self.elements, dtype)

    def put(self, code: Code, x: Value, line: Index, lane: Index) -> None:
        code.store(x, self.memory, self._at(code, line, lane))

    def leaf(self, code: Code, line: Index, lane: Index) -> Leaf:
        def read(places: Positions, lanes: int, mask: Value | None) -> Value:
            value: Value = code.load(self.memory, self._at(code, line, lane))
            return value

        return read

    def _at(self, code: Code, line: Index, lane: Index) -> Index:
        return code.add(code.mul(line, self.line), lane)


def _transposed_values(values: Sequence[Value], shape: Sequence[Dim]) -> tuple[int, list[Value]] | None:
    """The axis of the results along which transposed values are contiguous, and these values; None if there are none, too many, or none
    that pay.
    """
    by_axis: dict[int, list[Value]] = {}
    seen: set[Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        op = value.producer()
        if value in seen or op is None or shape_of(value) != shape:
            continue
        seen.add(value)
        if isinstance(op, tensor.Map):
            pending += op.operands
        elif isinstance(op, tensor.Transpose):
            axis = op.perm.index(len(shape) - 1)
            if axis != len(shape) - 1 and element_type(value.type) != i1 and _is_read_there(op):
                by_axis.setdefault(axis, []).append(value)
    if not by_axis:
        return None
    axis, transposed = max(by_axis.items(), key=lambda found: len(found[1]))
    # Shorter axes would leave most of a tile empty.
    long = all(isinstance(n, int) and 2 * n >= TILE for n in (shape[axis], shape[-1]))
    boards = sum(_Board.elements * element_type(v.type).bytes for v in transposed)
    return (axis, transposed) if long and boards <= STATIC_SHARED_BYTES else None


def _is_read_there(op: Op) -> bool:
    """Whether what is transposed is in memory, or made of things there, element by element."""
    pending = [op.operands[0]]
    while pending:
        made = pending.pop().producer()
        if isinstance(made, tensor.Map):
            pending += made.operands
        elif made is not None and not isinstance(made, (tensor.Full, tensor.Constant, tensor.Broadcast)):
            return False
    return True
