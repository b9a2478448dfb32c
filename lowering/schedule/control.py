"""Branches and loops of the `tensor` level in the kernel-level `main`: one native call runs them, with the kernels of their bodies inside.

    tensor.if %c, [%x] : T {A} {B}         ->  %r = alloc;  kernel.if (load %c) {kernels of A, into %r} {kernels of B, into %r}
    tensor.while [%x], [%w] {C} {B}        ->  %s = alloc of two places;
                                               kernel.while (%parity) {kernels of C;  load}
                                                   {kernels of B, from place %parity into the other one}

A round reads what it carries from one of two places and writes to the other (double buffering), so nothing is copied. Memory of the bodies
is the arena's, and live as long as the whole branch or loop. What does not change in it, such as a packed weight, is made in front of the
outermost one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from polyreme.dialects import kernel, tensor
from polyreme.ir.control import copied_function, has_control_flow
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.dims import Dim
from polyreme.ir.types import PARTS, BufferType, i64, index
from polyreme.lowering.kernels.code import Code, Index
from polyreme.lowering.schedule.arena import whole_lines
from polyreme.lowering.transforms.fuse import Fuse
from polyreme.lowering.transforms.sink_reshapes import SinkReshapes

if TYPE_CHECKING:
    from polyreme.lowering.schedule.bufferize import _Bufferize

__all__ = ["CONTROL", "runs_general", "write_control"]

CONTROL = (tensor.If, tensor.While, tensor.Scan)
# Kernels of scans are made of those of their ops, one by one; these have none that can stand in a loop of a kernel.
_ALONE = (tensor.Argsort, tensor.Cumulate)


def runs_general(scan: tensor.Scan) -> bool:
    """Whether the steps of a scan are a loop in `main`, around calls of kernels, since no kernel can hold all of them."""
    values = (*scan.operands, *scan.results)
    return has_control_flow(scan) or any(isinstance(op, _ALONE) for op in scan.block) or any(v.type.dtype in PARTS for v in values)


def write_control(z: _Bufferize, op: Op, outputs: dict[Value, Value]) -> None:
    """Write a branch or loop at the builder of `z`; results that are in `outputs` go there."""
    if isinstance(op, tensor.If):
        _write_if(z, op, outputs)
    elif isinstance(op, tensor.While):
        _write_while(z, op, outputs)
    else:
        assert isinstance(op, tensor.Scan)
        _write_scan(z, op, outputs)


def _memory_type(value: Value) -> BufferType:
    """The type of the memory that a value is in: complex numbers are pairs of floats there."""
    kind = value.type
    return BufferType((*kind.shape, 2), PARTS[kind.dtype]) if kind.dtype in PARTS else BufferType(kind.shape, kind.dtype)


def _row(z: _Bufferize, buffer: Value, step: Index, like: Value) -> Value:
    """The part of a buffer that belongs to one step."""
    kind = _memory_type(like)
    code = Code(z.b)
    view: Value = z.b(
        kernel.View,
        z.shaped(buffer, BufferType((_size(buffer.type, kind),), kind.dtype)),
        code.value(code.mul(step, kind.elements)),
        shape=kind.shape,
    )
    return view


def _size(buffer: BufferType, kind: BufferType) -> Dim:
    """How many elements of the type that `kind` has there are in a buffer."""
    return buffer.elements * 2 if buffer.dtype in PARTS and kind.dtype not in PARTS else buffer.elements


def _flag(z: _Bufferize, buffer: Value) -> Value:
    """A predicate, from its memory."""
    return Code(z.b).load(z.shaped(buffer, BufferType((1,), buffer.type.dtype)), 0)


def _write_body(
    z: _Bufferize, region: Region, memory: Sequence[Any], results: Sequence[Value], fused: bool = True, in_loop: bool = False
) -> None:
    """The kernels of a body, whose arguments are in `memory`, into `results`."""
    body = copied_function(region)
    if not fused:
        SinkReshapes().run_on(body)
        Fuse().run_on(body)
    saved = z.top, z.packed, z.order, z.last_uses, z.in_loop
    z.in_loop = z.in_loop or in_loop
    z.enter_control()
    z.order = {op: i for i, op in enumerate(body.block)}
    z.last_uses = z.find_last_uses(body)
    z.memory.update(zip(body.args, memory, strict=True))
    z.write_block(body, results)
    top, packed, z.order, z.last_uses, z.in_loop = saved
    z.leave_control(top, packed)


def _write_if(z: _Bufferize, op: tensor.If, outputs: dict[Value, Value]) -> None:
    results = [outputs.get(v) or z.alloc(_memory_type(v)) for v in op.results]
    captured = [z.memory[v] for v in op.captured]
    branch = kernel.If.empty(_flag(z, z.buffer(z.memory[op.cond])), loc=op.location)
    z.b.insert_op(branch)
    for source, target in ((op.then_body, branch.then_body), (op.else_body, branch.else_body)):
        with z.b.inside(target.block):
            _write_body(z, source, captured, results)
            z.b(kernel.Yield)
    z.memory.update(zip(op.results, results, strict=True))


class _State:
    """A carried value, in one of two places in turn."""

    def __init__(self, z: _Bufferize, init: Value):
        self.z, self.type = z, _memory_type(init)
        self.size = whole_lines(self.type)
        self.buffer = z.alloc(BufferType((2 * self.size,), self.type.dtype))
        z.copy(init, self.at(0))

    def at(self, place: Index) -> Value:
        """Where it is when it is in a place."""
        code = Code(self.z.b)
        view: Value = self.z.b(kernel.View, self.buffer, code.value(code.mul(place, self.size)), shape=self.type.shape)
        return view

    def finish(self, place: Index, result: Value, outputs: dict[Value, Value]) -> None:
        """Let the result of the loop be what is in a place."""
        self.z.memory[result] = self.at(place)
        if result in outputs:
            self.z.copy(result, outputs[result])
            self.z.memory[result] = outputs[result]


def _write_while(z: _Bufferize, op: tensor.While, outputs: dict[Value, Value]) -> None:
    states = [_State(z, v) for v in op.inits]
    captured = [z.memory[v] for v in op.captured]
    code = Code(z.b)
    loop = kernel.While.empty([code.constant(0, index), code.constant(0, i64)], ["place", "rounds"], loc=op.location)
    z.b.insert_op(loop)
    with z.b.inside(loop.condition.block):
        place = loop.condition.block.args[0]
        flag = z.alloc(_memory_type(op.condition.block.terminator.operands[0]))
        _write_body(z, op.condition, [*(s.at(place) for s in states), *captured], [flag], in_loop=True)
        z.b(kernel.Yield, _flag(z, flag))
    with z.b.inside(loop.body.block):
        place, rounds = loop.body.block.args
        other = Code(z.b).sub(1, place)
        assert isinstance(other, Value)
        given = [s.at(place) for s in states]
        _write_body(z, op.body, [*given, *captured], [s.at(other) for s in states], in_loop=True)
        code = Code(z.b)
        z.b(kernel.Yield, other, code.apply("add", rounds, code.constant(1, i64)))
    *values, trips = op.results
    for state, result in zip(states, values, strict=True):
        state.finish(loop.results[0], result, outputs)
    z.memory[trips] = outputs.get(trips) or z.alloc(_memory_type(trips))
    Code(z.b).store(loop.results[1], z.memory[trips], 0)  # type: ignore[arg-type]


def _write_scan(z: _Bufferize, op: tensor.Scan, outputs: dict[Value, Value]) -> None:
    states = [_State(z, v) for v in op.inits]
    count = len(states)
    given = [outputs.get(v) or z.alloc(_memory_type(v)) for v in op.results[count:]]
    xs, shared = [z.buffer(z.memory[v]) for v in op.xs], [z.memory[v] for v in op.shared]
    ends = op.block.terminator.operands
    code = Code(z.b)
    with code.loop(0, op.steps, [code.constant(0, index)], name="step") as loop:
        place = loop.carried[0]
        other = code.sub(1, place)
        assert isinstance(other, Value)
        here = code.value(code.sub(code.sub(op.steps, 1), loop.iv)) if op.reverse else loop.iv
        elements = [_row(z, x, here, arg) for x, arg in zip(xs, op.block.args, strict=False)]
        results = [*(s.at(other) for s in states), *(_row(z, r, here, v) for r, v in zip(given, ends[count:], strict=True))]
        _write_body(z, op.body, [*elements, *(s.at(place) for s in states), *shared], results, fused=has_control_flow(op), in_loop=True)
        loop.next = [other]
    for state, result in zip(states, op.results, strict=False):
        state.finish(loop.results[0], result, outputs)
    z.memory.update(zip(op.results[count:], given, strict=True))
