"""The walk back through a block: each op's rule, from the last to the first, and what arrives at each value added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects import host, nn
from polyreme.dialects.nn import Add
from polyreme.ir.builder import Builder
from polyreme.ir.core import Op, Value
from polyreme.ir.diagnostics import PassError
from polyreme.lowering.gradients.presence import ALWAYS, Presence, Sometimes, any_of, both, either, keeps_zeros, masked
from polyreme.lowering.gradients.table import GRADIENTS, has_gradient

NOT_DIFFERENTIABLE: frozenset[type[Op]] = frozenset(
    {
        *(nn.Constant, nn.Full, nn.DimValue, nn.Iota, nn.Uniform, nn.FloorDivide),
        *(nn.Equal, nn.NotEqual, nn.Less, nn.LessEqual, nn.Greater, nn.GreaterEqual, nn.IsNan, nn.IsInf, nn.IsFinite),
        *(nn.BitwiseAnd, nn.BitwiseOr, nn.BitwiseXor, nn.BitwiseNot, nn.ShiftLeft, nn.ShiftRight),
        *(
            nn.LogicalNot,
            nn.LogicalAnd,
            nn.LogicalOr,
            nn.LogicalXor,
            nn.Any,
            nn.All,
            nn.ArgMax,
            nn.ArgMin,
            nn.Argsort,
            nn.StopGradient,
            nn.Within,
            nn.QuantizeLinear,
            host.Range,
            host.Size,
        ),
    }
)
"""Ops through which no gradient flows: `floor_divide` as in Paddle, `stop_gradient` by its meaning, the others because of what they make.
"""


def _added(b: Builder, x: Value, y: Value) -> Value:
    total: Value = b(Add, x, y)
    return total


def gradients_of(b: Builder, results: Sequence[tuple[Value, Value | None]], wrt: Sequence[Value]) -> list[Value | None]:
    """Emit the gradients of the sum of `results`, each weighted by the value beside it (none for None), with respect to the values `wrt`.

    All ops between them stand in the builder's block, in front of its insertion point. Values that no gradient reaches have None.
    """
    return [gradient for gradient, _ in gradients_and_presence(b, results, wrt)]


def gradients_and_presence(
    b: Builder, results: Sequence[tuple[Value, Value | None]], wrt: Sequence[Value], given: Sequence[Presence] = (),
    added: Callable[[Builder, Value, Value], Value] = _added,
) -> list[tuple[Value | None, Presence]]:  # fmt: skip
    """As `gradients_of`; beside each gradient, when it is there, as `given` says it of the weights. `added` emits the sum of two gradients
    of one value.
    """
    before = [op for op in b.block if b.before is None or _precedes(op, b.before)]
    active = active_values(before, set(wrt))
    _check_rules([op for op in before if any(r in active for r in op.results)])
    pending: dict[Value, Value] = {}
    sometimes: dict[Value, Presence] = {}  # of those that are not always there

    def add(value: Value, grad: Value, presence: Presence) -> None:
        if value in pending:
            grad, presence = added(b, pending[value], grad), either(sometimes.pop(value, ALWAYS), presence)
        pending[value] = grad
        if presence is not ALWAYS:
            sometimes[value] = presence

    for (value, seed), presence in zip(results, given or [ALWAYS] * len(results), strict=True):
        if seed is not None and value in active:
            add(value, seed, presence)
    for op in reversed(before):
        reached = [r for r in op.results if r in active and r in pending]
        if not reached:
            continue
        b.loc = op.location
        made = GRADIENTS[type(op)](op, b, *(pending.get(r) for r in op.results))
        flat: list[Any] = []
        for operand, grad in zip(op.definition.split(op.operands, op.segments), made, strict=True):
            if isinstance(operand, tuple):
                flat += [None] * len(operand) if grad is None else list(grad)
            elif operand is not None:
                flat.append(grad)
        arrived = any_of(sometimes.get(r, ALWAYS) for r in reached)
        for value, grad_of in zip(op.operands, flat, strict=True):
            if grad_of is None or value not in active:
                continue
            grad, presence = grad_of if isinstance(grad_of, Sometimes) else (grad_of, ALWAYS)
            if arrived is not None and not keeps_zeros(type(op)):
                grad = masked(b, grad, arrived)
            add(value, grad, both(b, presence, arrived))
    return [(pending.get(v), sometimes.get(v, ALWAYS)) for v in wrt]


def active_values(ops: Sequence[Op], wrt: set[Value]) -> set[Value]:
    """The values that need gradients where those of `wrt` do; `ops` stand in their order."""
    active = set(wrt)
    for op in ops:
        # Of an op with a rule of its own, some operands are for that rule only.
        if (
            any(v in active for v in (op.inputs if isinstance(op, nn.CustomGradient) else op.operands))
            and type(op) not in NOT_DIFFERENTIABLE
        ):
            active.update(r for r in op.results if has_gradient(r))
    return active


def _precedes(op: Op, other: Op) -> bool:
    """Whether `op` stands before `other`, at whose front the gradients are inserted: everything else in the block but what follows `other`.
    """
    following: Op | None = other
    while following is not None:
        if following is op:
            return False
        following = following.next
    return True


def _check_rules(ops: Sequence[Op]) -> None:
    missing = {type(op): op for op in ops if type(op) not in GRADIENTS}
    if missing:
        raise PassError(
            [
                d
                for op in missing.values()
                for d in PassError(f"expected a gradient rule for '{op.name}' but it has none", op.location, code="E0407").diagnostics
            ],
            code="E0407",
        )
