"""Cliffs: kernels that take many times the cycles that their root needs.

A wrong schedule gives right results, slowly and silently: a convolution computed again wherever its result is read, or element by element.
So the cycles of a plan's kernels, counted op by op with the rounds of their loops, are compared with those of the root's arithmetic and
memory. Both are rough, within a factor of a few. A cliff is ten times that.

Unknown sizes are one number throughout. Of a loop the round in the middle stands for all. Of a branch with an unknown condition, half of
each side counts.
"""

from __future__ import annotations

import math
from typing import Any

from polyreme.dialects import kernel, tensor
from polyreme.dialects.kernel.common import lanes_of, scalar_of
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.define import ConstantLike, Elementwise, Terminator, View
from polyreme.ir.dims import Dim, product, substitute, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, Type, VectorType, element_type, index
from polyreme.lowering.kernels.general.row_schedule import EXPENSIVE
from polyreme.lowering.kernels.plan import KernelPlan, Request, title
from polyreme.lowering.machines.targets import Target

__all__ = ["Cliff", "find_cliff", "kernel_cycles", "needed_cycles"]

# A kernel this many times slower than its root needs is a cliff.
STEEP = 20
# Below so many cycles a root is as fast as a call.
SMALL = 20_000
# What is taken for a size that is not known.
TYPICAL = 56
# Vectors that are loaded, stored or computed in a cycle; bytes that come and go in one.
PER_CYCLE, BYTES = 2, 16
# Cycles for single elements: read or written at a place of its own, drawn, compared while sorting, added to what came before.
PLACE, DRAW, COMPARE, CHAIN = 2, 8, 8, 5
# What a step of a scan waits for the one before it.
STEP = 400
# Rounds of a loop whose bounds are not known.
ROUNDS = 8


@dataclass(frozen=True)
class Cliff:
    """A root whose kernels are estimated to take `cycles` where it needs `needed`."""

    root: str
    builder: str
    cycles: float
    needed: float

    def __str__(self) -> str:
        ratio = self.cycles / self.needed
        return f"{self.root} by '{self.builder}': about {self.cycles:.2g} cycles, {ratio:.0f} times what its arithmetic needs"


def find_cliff(request: Request, plan: KernelPlan) -> Cliff | None:
    """The root as a cliff, if its plan makes it one. Plans for GPUs are not looked at."""
    if request.target.code == "ptx" or not plan.steps:
        return None
    cycles = sum(kernel_cycles(step.func, request.target) for step in plan.steps)
    needed = needed_cycles(request)
    if cycles < SMALL or cycles < STEEP * needed:
        return None
    return Cliff(title(request), plan.builder, cycles, needed)


def needed_cycles(request: Request) -> float:
    """Cycles that the arithmetic of a root and its memory take one thread of the target."""
    memory = sum(_size(product(v.type.shape)) * v.type.dtype.bytes for v in (*request.func.args, *request.results))
    return 1000 + memory / BYTES + _within(request.func, request.target)


def _within(op: Op, target: Target) -> float:
    total = 0.0
    for region in op.regions:
        for block in region.blocks:
            total += sum(_within(inner, target) if inner.regions else _needed(inner, target) for inner in block)
    return (total + STEP) * _size(op.steps) if isinstance(op, tensor.Scan) else total


def _needed(op: Op, target: Target) -> float:
    if op.has(Terminator) or op.has(ConstantLike) or op.has(View):
        return 0.0
    made = max((_size(product(v.type.shape)) for v in op.results), default=1)
    read = max((_size(product(v.type.shape)) for v in op.operands), default=0)
    if isinstance(op, tensor.Contract):
        sums = _size(product(tensor.ContractSpec(op.spec).sizes(op.a.type.shape, op.b.type.shape).values()))
        return sums / target.lanes(element_type(op.a.type)) / target.multiply_adds
    if isinstance(op, tensor.Argsort):
        return read * max(1.0, math.log2(max(read, 2))) * COMPARE
    if isinstance(op, tensor.Cumulate):
        return read * CHAIN
    if isinstance(op, (tensor.Gather, tensor.Scatter)):
        return (made if isinstance(op, tensor.Gather) else _size(product(op.updates.type.shape))) * PLACE
    if isinstance(op, tensor.Random):
        return made * DRAW
    dear = EXPENSIVE.get(op.attributes.get("fn", ""), 1) if op.has(Elementwise) else 1
    return max(made, read) * dear / target.lanes(element_type(op.results[0].type)) / PER_CYCLE


def _size(dim: Dim) -> int:
    value = substitute(dim, dict.fromkeys(symbols(dim), TYPICAL))
    assert isinstance(value, int)
    return max(value, 0)


# --- kernels


def kernel_cycles(func: Func, target: Target) -> float:
    """Cycles that a kernel takes one thread."""
    return _Counter(target).block(func.block, {})


class _Counter:
    """Counts a kernel's ops; `known` has the numbers that are known, of the round that is looked at."""

    def __init__(self, target: Target):
        self.target = target

    def block(self, block: Block, known: dict[Value, Any]) -> float:
        return sum(self._op(op, known) for op in block)

    def _op(self, op: Op, known: dict[Value, Any]) -> float:
        if isinstance(op, kernel.For):
            return self._loop(op, known)
        if isinstance(op, kernel.Parallel):
            count = known.get(op.count)
            rounds = ROUNDS if count is None else int(count)
            known[op.body.block.args[0]] = rounds // 2
            return rounds * self.block(op.body.block, known) if rounds > 0 else 0.0
        if isinstance(op, kernel.If):
            condition = known.get(op.condition)
            sides = op.then_body.block, op.else_body.block
            if condition is not None:
                chosen = sides[0 if condition else 1]
                cycles = self.block(chosen, known)
                self._yielded(op, chosen, known)
                return cycles
            return sum(self.block(side, known) for side in sides) / 2
        if isinstance(op, kernel.While):
            return ROUNDS * (self.block(op.condition.block, known) + self.block(op.body.block, known))
        self._number(op, known)
        return self._cycles(op)

    def _loop(self, op: kernel.For, known: dict[Value, Any]) -> float:
        lo, hi = known.get(op.lo), known.get(op.hi)
        rounds = ROUNDS if lo is None or hi is None else max(0, -(-(int(hi) - int(lo)) // op.step))
        if rounds == 0:
            known.update((r, known[x]) for r, x in zip(op.results, op.inits, strict=True) if x in known)
            return 0.0
        if lo is not None:
            known[op.body.block.args[0]] = int(lo) + rounds // 2 * op.step
        return rounds * self.block(op.body.block, known)

    @staticmethod
    def _yielded(op: Op, block: Block, known: dict[Value, Any]) -> None:
        known.update((r, known[x]) for r, x in zip(op.results, block.terminator.operands, strict=True) if x in known)

    @staticmethod
    def _number(op: Op, known: dict[Value, Any]) -> None:
        """Note what the op gives, where that is a number that is known."""
        if isinstance(op, kernel.Constant):
            if not isinstance(op.result.type, VectorType):
                known[op.result] = op.value
        elif isinstance(op, kernel.Size):
            known[op.result] = _size(op.value)
        elif isinstance(op, kernel.Threads):
            known[op.result] = 1
        elif isinstance(op, kernel.Apply) and all(x in known for x in op.operands):
            known[op.result] = op.reference([known[x] for x in op.operands], fn=op.fn, dtype=op.dtype)

    def _cycles(self, op: Op) -> float:
        types = [v.type for v in (*op.results, *op.operands) if not isinstance(v.type, BufferType)]
        if isinstance(op, (kernel.Gather, kernel.Scatter)):
            return max((lanes_of(t) for t in types), default=1) * PLACE / 2
        if isinstance(op, (kernel.Load, kernel.Store)):
            return self._vectors(op.result.type if isinstance(op, kernel.Load) else op.value.type) / PER_CYCLE
        if isinstance(op, kernel.Fma):
            return self._vectors(op.result.type) / self.target.multiply_adds
        if isinstance(op, kernel.Apply):
            if scalar_of(op.result.type) == index or all(scalar_of(x.type) == index for x in op.operands):
                return 0.0  # addresses go beside
            return max(map(self._vectors, types)) * EXPENSIVE.get(op.fn, 1) / PER_CYCLE
        if op.regions or not op.results or op.has(ConstantLike):
            return 0.0
        return max(map(self._vectors, types), default=1) / PER_CYCLE

    def _vectors(self, type: Type) -> float:
        """Registers that a value takes; one for a single element."""
        return max(1.0, lanes_of(type) * scalar_of(type).bytes / self.target.vector_bytes)
