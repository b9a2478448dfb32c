"""Programs in two parts: where gradients are asked for at a result that other results are computed from.

A run of a program is one step on the tape, so that of its results none comes before another there. A hook on one, or whoever wants its
gradient, must meet all of that, what comes by the other results as well: then the run is two steps, the first of which gives this result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, OpResult, Value
from polyreme.jit.structure import LEAF
from polyreme.jit.traced import Traced
from polyreme.lowering.analysis.names import distinct
from polyreme.lowering.gradients.autodiff import active_values, backward_half, forward_half, needs_gradients
from polyreme.tensor import Tensor

if TYPE_CHECKING:
    from polyreme.jit.program import TracedProgram

__all__ = ["Cut", "apart_from", "dependents"]


def dependents(func: Func, index: int) -> frozenset[int]:
    """The other results of a function through which gradients come to the result at `index`."""
    results = func.block.terminator.operands
    value = results[index]
    if not isinstance(value, OpResult):
        return frozenset()
    active = active_values(list(func.block), {value})
    return frozenset(i for i, v in enumerate(results) if i != index and v in active)


def apart_from(func: Func, wrt: Sequence[int], spent: Collection[int]) -> frozenset[int]:
    """The results of a function whose gradients, with respect to the arguments at `wrt`, pass no op that those of the results at `spent`
    pass.
    """
    ops, results = list(func.block), func.block.terminator.operands
    active = active_values(ops, {func.args[i] for i in wrt})
    passed: set[Op] = set()
    waiting = [results[i] for i in spent]
    while waiting:
        value = waiting.pop()
        if isinstance(value, OpResult) and value in active and value.op not in passed:
            passed.add(value.op)
            waiting += value.op.operands
    # Of the others, what is computed through one of these ops.
    behind: set[Value] = set()
    for op in ops:
        if op in passed or any(v in behind for v in op.operands):
            behind.update(r for r in op.results if r in active)
    return frozenset(i for i, v in enumerate(results) if isinstance(v, OpResult) and v in active and v not in behind)


class Cut:
    """A program as two that run one after the other: the first gives the result at `index`, and all else that both need; the second takes
    that, too.
    """

    def __init__(self, whole: TracedProgram, index: int):
        func = whole.traced.func
        results = func.block.terminator.operands
        value = results[index]
        needed: set[Op] = set()
        waiting = [value]
        while waiting:
            op = waiting.pop().owner
            if isinstance(op, Op) and op not in needed:
                needed.add(op)
                waiting += op.operands
        ops = [op for op in func.block if op is not func.block.terminator]
        later = [op for op in ops if op not in needed]
        read = {v for op in later for v in op.operands}
        made = dict.fromkeys(v for op in ops if op in needed for v in op.results)
        crossing = [value, *(v for v in made if v is not value and v in read)]
        firsts = list(dict.fromkeys([*crossing, *(v for v in results if v in made)]))
        seconds = list(dict.fromkeys(v for v in results if v not in made))
        self.crossing = len(crossing)
        self.places = [(0, firsts.index(v)) if v in made else (1, seconds.index(v)) for v in results]
        self.first = _program(whole, func.args, [op for op in ops if op in needed], firsts)
        self.second = _program(whole, [*func.args, *crossing], later, seconds)
        self._reads: dict[tuple[tuple[int, ...], tuple[int, ...]], bool] = {}

    def run(self, args: Sequence[Tensor], changing: Tensor | None = None) -> list[Tensor]:
        """All results of the program, each with its place on the tape; its arguments are in the order of the function's. `changing` is as
        `Program` has it.
        """
        firsts = self.first(args, changing=changing)
        made = firsts, self.second([*args, *firsts[: self.crossing]], changing=changing)
        return [made[part][number] for part, number in self.places]

    def reads(self, wrt: tuple[int, ...], given: tuple[int, ...]) -> bool:
        """Whether gradients of the results at `given`, with respect to the arguments at `wrt`, need the elements of the result that the
        program is cut at.
        """
        key = wrt, given
        if key not in self._reads:
            func, count = self.second.traced.func, len(self.second.traced.func.args) - self.crossing
            passed = needs_gradients(self.first.traced.func, wrt)[: self.crossing]
            inner = *wrt, *(count + i for i, needed in enumerate(passed) if needed)
            later = tuple(number for part, number in (self.places[i] for i in given) if part)
            self._reads[key] = bool(later) and count in backward_half(func, inner, later, forward_half(func, inner)).read
        return self._reads[key]


def _program(whole: TracedProgram, inputs: Sequence[Value], ops: Sequence[Op], results: Sequence[Value]) -> TracedProgram:
    """A part of a program: copies of `ops`, which take `inputs`, the arguments of the whole in front."""
    func = whole.traced.func
    more = len(inputs) - len(func.args)
    names = [*func.arg_names, *distinct(["between"] * more, func.arg_names)]
    part = Func.empty(
        func.sym_name, [v.type for v in inputs], (), names, loc=func.location, arg_roles=(*func.arg_roles, *("input",) * more)
    )
    mapping: dict[Value, Value] = dict(zip(inputs, part.args, strict=True))
    for op in ops:
        part.block.append(op.clone(mapping))
    part.block.append(Return([mapping[v] for v in results], loc=func.location))
    types = [v.type for v in inputs]
    made = type(whole)(Traced(part.finish(), types, list(range(len(types))), LEAF, len(results)), whole.name)
    made.changed_inputs = whole.changed_args()
    return made
