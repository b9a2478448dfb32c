"""Cliffs: kernels that take many times the cycles that their root needs.

A wrong schedule gives right results, slowly and silently: a convolution computed again wherever its result is read, or element by element.
So the cycles of a plan's kernels, by `analysis/kernel_work.py`, are compared with those of the root's arithmetic and memory, which are
rough, within a factor of a few, and know no waiting. A cliff is ten times that. Unknown sizes are one number throughout.
"""

from __future__ import annotations

import math

from polyreme.dialects import tensor
from polyreme.ir.core import Op
from polyreme.ir.define import ConstantLike, Elementwise, Terminator, View
from polyreme.ir.dims import product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.kernel_work import kernel_cycles
from polyreme.lowering.kernels.plan import KernelPlan, Request, title
from polyreme.lowering.machines.cost import Traffic, Work, busy_cycles, rates_of, traffic_cycles
from polyreme.lowering.machines.functions import COMPARE_CYCLES, DRAW_CYCLES, EXPENSIVE, LATENCY
from polyreme.lowering.machines.targets import Target

__all__ = ["Cliff", "find_cliff", "needed_cycles"]

# A kernel this many times slower than its root needs is a cliff.
STEEP = 25


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
    if cycles < request.target.serial_cycles or cycles < STEEP * needed:
        return None
    return Cliff(title(request), plan.builder, cycles, needed)


def needed_cycles(request: Request) -> float:
    """Cycles that the arithmetic of a root and its memory take one thread of the target."""
    memory = sum(estimate(product(v.type.shape)) * v.type.dtype.bytes for v in (*request.func.args, *request.results))
    moving = traffic_cycles(Traffic(l3=memory), request.target)
    return rates_of(request.target).call_cycles + moving + _within(request.func, request.target)


def _within(op: Op, target: Target) -> float:
    total = 0.0
    for region in op.regions:
        for block in region.blocks:
            total += sum(_within(inner, target) if inner.regions else _needed(inner, target) for inner in block)
    # A step of a scan waits for the one before it as a call does.
    return (total + rates_of(target).call_cycles) * estimate(op.steps) if isinstance(op, tensor.Scan) else total


def _needed(op: Op, target: Target) -> float:
    if op.has(Terminator) or op.has(ConstantLike) or op.has(View):
        return 0.0
    made = max((estimate(product(v.type.shape)) for v in op.results), default=1)
    read = max((estimate(product(v.type.shape)) for v in op.operands), default=0)
    if isinstance(op, tensor.Contract):
        sums = estimate(product(tensor.ContractSpec(op.spec).sizes(op.a.type.shape, op.b.type.shape).values()))
        return busy_cycles(Work(multiply_adds=sums / target.lanes(element_type(op.a.type))), target)
    if isinstance(op, tensor.Argsort):
        return read * max(1.0, math.log2(max(read, 2))) * COMPARE_CYCLES
    if isinstance(op, tensor.Cumulate):
        return busy_cycles(Work(waits=LATENCY * read), target)
    if isinstance(op, (tensor.Gather, tensor.Scatter)):
        moved = made if isinstance(op, tensor.Gather) else estimate(product(op.updates.type.shape))
        return busy_cycles(Work(places=2.0 * moved), target)
    if isinstance(op, tensor.Random):
        return made * DRAW_CYCLES
    dear = EXPENSIVE.get(op.attributes.get("fn", ""), 1) if op.has(Elementwise) else 1
    return busy_cycles(Work(arithmetic=max(made, read) * dear / target.lanes(element_type(op.results[0].type))), target)
