"""One thread per element, or per vector of elements. Takes any root of at most one product; reductions are computed where they are read."""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, mod, product
from polyreme.ir.types import TensorType
from polyreme.lowering.analysis.rows import needed_ops, shape_of
from polyreme.lowering.kernels.collapse_axes import collapse_axes
from polyreme.lowering.kernels.elements import ElementEmitter, buffer_leaf, linear, store
from polyreme.lowering.kernels.general.loops import describe
from polyreme.lowering.kernels.gpu.grid import GridKernel, aligned_leaf, blocks_for, places_of
from polyreme.lowering.kernels.plan import KernelPlan, Request, Step, operand, result
from polyreme.lowering.kernels.positions import Position
from polyreme.lowering.machines.gpu import BLOCK_THREADS, VECTOR_BYTES

_FLAT = (tensor.Map, tensor.Full, tensor.DimValue, tensor.Constant, tensor.Broadcast)


def build_elements(request: Request) -> KernelPlan | None:
    """The plan of any root, a kernel for the results of each shape; None for a group of several products, whose elements would be computed
    again for each that is made of them.
    """
    if len(request.ops(tensor.Contract)) > 1:
        return None
    func = collapse_axes(request.func)
    values = func.block.terminator.operands
    shapes = list(dict.fromkeys(shape_of(v) for v in values))
    steps = [_kernel(request, func, [i for i, v in enumerate(values) if shape_of(v) == shape]) for shape in shapes]
    return KernelPlan(tuple(steps), builder="elements")


def _kernel(request: Request, func: Func, which: list[int]) -> Step:
    """One kernel for results number `which`, all of one shape."""
    values: list[Value] = [func.block.terminator.operands[i] for i in which]
    args = list(func.args)
    shape = shape_of(values[0])
    ops = needed_ops([op for op in func.block if not isinstance(op, Return)], values)
    used = {v for op in ops for v in op.operands} | set(values)
    args = [a for a in args if a in used]
    lanes = _lanes(ops, [*args, *values], shape)
    count = product(shape)
    per_block = BLOCK_THREADS * lanes
    slots = [*(operand(a.index) for a in args), *(result(i) for i in which)]
    types = [v.type for v in (*args, *values)]
    made = GridKernel(request.name(describe(func)), slots, types, (blocks_for(count, per_block),), (BLOCK_THREADS,), request.func.location)
    code = made.code
    leaf = aligned_leaf if lanes > 1 else buffer_leaf
    leaves = {a: leaf(code, buffer, shape_of(a)) for a, buffer in zip(args, made.buffers, strict=False)}
    outputs = made.buffers[len(args) :]

    def element(at: list[Position]) -> None:
        emitter = ElementEmitter(code, leaves)
        # Everything is read before anything is written: a result may take the place of an operand.
        computed = [emitter.at(value, at, lanes) for value in values]
        for found, buffer in zip(computed, outputs, strict=True):
            where = linear(code, at, shape)
            if lanes > 1:
                code.store(found, buffer, where.scalar(code), align=lanes * found.type.dtype.bytes)
            else:
                store(code, found, buffer, where)

    number = code.add(code.mul(made.block_id(), BLOCK_THREADS), made.thread())
    inside = code.condition("lt", code.mul(number, lanes), count)
    assert isinstance(inside, Value) and isinstance(number, Value)
    with code.when(inside):
        element([Position(terms=((number, lanes),), step=1)] if lanes > 1 else places_of(code, number, shape))
    return made.finish()


def _lanes(ops: Sequence[Op], values: Sequence[Value], shape: tuple[Dim, ...]) -> int:
    """Elements per thread: several when all values lie in memory as the threads go, are floats of one size, and make up whole vectors."""
    types = [v.type for v in values if isinstance(v.type, TensorType)]
    lanes = VECTOR_BYTES // max(t.dtype.bytes for t in types)
    flat = len(shape) == 1 and all(isinstance(op, _FLAT) for op in ops) and all(t.shape in (shape, (), (1,)) for t in types)
    alike = all(t.dtype.is_float and t.dtype.bytes * lanes == VECTOR_BYTES for t in types)
    return lanes if flat and alike and lanes > 1 and mod(shape[0], lanes) == 0 else 1
