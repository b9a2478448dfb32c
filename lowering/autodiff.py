"""Reverse-mode differentiation of `nn` functions, from the rules in `lowering/gradients/`.

`GRADIENTS` maps op classes to rules, for the compiler and the eager tape alike. `forward_backward` splits a function into one that keeps
what its gradients need (residuals) and one that computes them. Views and constants are made again rather than kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from polyreme.dialects import host, nn
from polyreme.dialects.nn import Add, Full
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.define import ConstantLike, View
from polyreme.ir.diagnostics import PassError
from polyreme.ir.dims import Dim, line_of, symbols
from polyreme.ir.types import TensorType, Type, type_symbols
from polyreme.lowering.gradients import complex, control, dist, elementwise, linear, matrix, norm, pool, quantize, recurrent, reduce, shape
from polyreme.lowering.gradients.table import GRADIENTS, gradient
from polyreme.lowering.names import distinct

__all__ = ["GRADIENTS", "NOT_DIFFERENTIABLE", "Differentiated", "forward_backward", "gradient", "gradients_of"]

_FAMILIES = (complex, control, dist, elementwise, linear, matrix, norm, pool, quantize, recurrent, reduce, shape)  # importing them fills the table

NOT_DIFFERENTIABLE: frozenset[type[Op]] = frozenset(
    {
        *(nn.Constant, nn.Full, nn.DimValue, nn.Iota, nn.Uniform, nn.FloorDivide),
        *(nn.Equal, nn.NotEqual, nn.Less, nn.LessEqual, nn.Greater, nn.GreaterEqual, nn.IsNan, nn.IsInf, nn.IsFinite),
        *(nn.BitwiseAnd, nn.BitwiseOr, nn.BitwiseXor, nn.BitwiseNot),
        *(nn.LogicalNot, nn.LogicalAnd, nn.LogicalOr, nn.LogicalXor, nn.Any, nn.All, nn.ArgMax, nn.ArgMin, nn.Argsort, nn.StopGradient, nn.QuantizeLinear, host.Range),
    }
)
"""Ops through which no gradient flows: `floor_divide` as in Paddle, `stop_gradient` by its meaning, the others because of what they make."""


class Differentiated(NamedTuple):
    """The halves of a function's derivative.

    `forward` takes the function's arguments and returns its results, then the residuals. `backward` takes the arguments whose positions are in
    `saved`, then the residuals, then a gradient for each result of a float type, and returns the gradients of the arguments asked for.
    """

    forward: Func
    backward: Func
    saved: tuple[int, ...]


def forward_backward(func: Func, wrt: Sequence[int]) -> Differentiated:
    """Differentiate `func`, which stays as it is, with respect to the arguments at positions `wrt` (of float types).

    `PassError` names every op that a gradient must pass and that has no rule.
    """
    whole: Func = func.clone()
    block = whole.block
    outputs = list(block.terminator.operands)
    count = len(whole.args)
    names = [whole.result_names[i] if i < len(whole.result_names) else outputs[i].name or f"result_{i}" for i in range(len(outputs))]
    seeds = {i: block.add_arg(v.type, f"grad_{names[i]}") for i, v in enumerate(outputs) if _is_float(v.type)}
    last = block.terminator.prev
    b = Builder(block, block.terminator)
    targets = [block.args[i] for i in wrt]
    grads = gradients_of(b, list(zip(outputs, (seeds.get(i) for i in range(len(outputs))), strict=True)), targets)
    return _split(whole, func, last, count, list(seeds.values()), grads)


def gradients_of(b: Builder, results: Sequence[tuple[Value, Value | None]], wrt: Sequence[Value]) -> list[Value]:
    """Emit the gradients of the sum of `results`, each weighted by the value beside it (none for None), with respect to the values `wrt`.

    All ops between them stand in the builder's block, in front of its insertion point. Values that no gradient reaches get zeros.
    """
    before = [op for op in b.block if b.before is None or _precedes(op, b.before)]
    active = set(wrt)
    for op in before:
        if any(v in active for v in op.operands) and type(op) not in NOT_DIFFERENTIABLE:
            active.update(r for r in op.results if _is_float(r.type))
    _check_rules([op for op in before if any(r in active for r in op.results)])
    pending: dict[Value, Value] = {}

    def add(value: Value, grad: Value) -> None:
        pending[value] = b(Add, pending[value], grad) if value in pending else grad

    for value, seed in results:
        if seed is not None and value in active:
            add(value, seed)
    for op in reversed(before):
        if not any(r in active and r in pending for r in op.results):
            continue
        b.loc = op.location
        given = [pending.get(r) for r in op.results]
        made = GRADIENTS[type(op)](op, b, *given)
        flat: list[Value | None] = []
        for operand, grad in zip(op.definition.split(op.operands, op.segments), made, strict=True):
            if isinstance(operand, tuple):
                flat += [None] * len(operand) if grad is None else list(grad)
            elif operand is not None:
                flat.append(grad)
        for value, grad_of in zip(op.operands, flat, strict=True):
            if grad_of is not None and value in active:
                add(value, grad_of)
    return [pending[v] if v in pending else _zeros(b, v) for v in wrt]


def _precedes(op: Op, other: Op) -> bool:
    """Whether `op` stands before `other`, at whose front the gradients are inserted: everything else in the block but what follows `other`."""
    following: Op | None = other
    while following is not None:
        if following is op:
            return False
        following = following.next
    return True


def _check_rules(ops: Sequence[Op]) -> None:
    missing = {type(op): op for op in ops if type(op) not in GRADIENTS}
    if missing:
        raise PassError([d for op in missing.values() for d in PassError(f"expected a gradient rule for '{op.name}' but it has none", op.location, code="E0407").diagnostics], code="E0407")


def _is_float(kind: Type) -> bool:
    return isinstance(kind, TensorType) and kind.dtype.kind in "fc"


def _zeros(b: Builder, value: Value) -> Value:
    assert isinstance(value.type, TensorType)
    zeros: Value = b(Full, value=0, shape=value.type.shape, dtype=value.type.dtype)
    return zeros


# --- splitting


def _split(whole: Func, func: Func, last: Op | None, count: int, seeds: list[BlockArgument], grads: list[Value]) -> Differentiated:
    """Cut `whole`, whose ops after `last` compute `grads`, into its halves."""
    block = whole.block
    head: dict[Op, None] = {}
    op = block.first if last is not None else None
    while op is not None:
        head[op] = None
        op = None if op is last else op.next
    needed = _needed(grads, head)
    args: dict[Value, int] = {a: i for i, a in enumerate(block.args[:count])}
    tail = [op for op in block if op in needed]
    fixed = set(seeds)
    outer = dict.fromkeys(v for op in tail for v in op.operands if v not in fixed and v.owner not in needed)
    outer.update(dict.fromkeys(g for g in grads if g not in fixed and g.owner not in needed))
    saved: list[Value] = [v for v in outer if v in args]
    residuals = [v for v in outer if v not in args]
    bound = bound_symbols([*saved, *residuals, *seeds])
    used = frozenset().union(*(op_symbols(op) for op in tail), *(type_symbols(v.type) for v in [*outer, *seeds]))
    # A value may be all that tells a size, even if its elements are not needed: an argument, or what an op made that gave the size its name.
    for value in (*args, *(r for op in head if op not in needed for r in op.results)):
        if value not in saved and bound_symbols([value]) & (used - bound):
            (saved if value in args else residuals).append(value)
            bound |= bound_symbols([value])
    backward = _backward(func, [*saved, *residuals, *seeds], tail, grads)
    forward = func.clone()
    mapping = _same_values(whole, forward, head)
    terminator = forward.block.terminator
    kept = tuple(mapping[v] for v in residuals)
    terminator.set_operands((*terminator.operands, *kept), (len(terminator.operands) + len(kept),))
    names = (*forward.result_names, *(f"residual_{i}" for i in range(len(kept)))) if forward.result_names else ()
    forward.attributes["sym_name"] = f"{func.sym_name}_forward"
    forward.attributes["result_names"] = names
    return Differentiated(forward.finish(), backward, tuple(args[v] for v in saved))


def _needed(grads: Sequence[Value], head: dict[Op, None]) -> set[Op]:
    """Ops of the backward half: what `grads` need of the ops outside `head`, and of the views and constants in it, which are made again."""
    needed: set[Op] = set()
    waiting = [v.owner for v in grads]
    while waiting:
        op = waiting.pop()
        if not isinstance(op, Op) or op in needed or (op in head and not (op.has(View) or op.has(ConstantLike))):
            continue
        needed.add(op)
        waiting += [v.owner for v in op.operands]
    return needed


def _backward(func: Func, inputs: Sequence[Value], tail: Sequence[Op], grads: Sequence[Value]) -> Func:
    names = [v.name or f"residual_{i}" for i, v in enumerate(inputs)]
    roles = tuple("input" for _ in inputs)
    made = Func.empty(f"{func.sym_name}_backward", [v.type for v in inputs], (), distinct(names), loc=func.location, arg_roles=roles)
    mapping: dict[Value, Value] = dict(zip(inputs, made.args, strict=True))
    for op in tail:
        made.block.append(op.clone(mapping))
    made.block.append(Return([mapping[g] for g in grads], loc=func.location))
    return made.finish()


def _same_values(whole: Func, copy: Func, head: dict[Op, None]) -> dict[Value, Value]:
    """The values of `copy` that stand for those of `whole`, from which it differs by what was added after `head`."""
    mapping: dict[Value, Value] = dict(zip(whole.args, copy.args, strict=False))
    for old, new in zip(head, copy.block, strict=False):
        mapping.update(zip(old.results, new.results, strict=True))
    return mapping


def bound_symbols(values: Sequence[Value]) -> frozenset[str]:
    """Names of the sizes that a run learns from the values' shapes: those of axes that are lines in one name."""
    return frozenset(found[0] for v in values for d in getattr(v.type, "shape", ()) if (found := line_of(d)) is not None)


def op_symbols(op: Op) -> frozenset[str]:
    found: set[str] = set()
    for value in op.attributes.values():
        dims: Sequence[Dim] = value if isinstance(value, tuple) else (value,)
        for dim in dims:
            if hasattr(dim, "terms"):
                found |= symbols(dim)
    return frozenset(found).union(*(type_symbols(r.type) for r in op.results))
