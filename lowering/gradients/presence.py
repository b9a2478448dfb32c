"""Gradients that are there for some calls only, since a branch or loop decides whether what they belong to was used.

The body of a branch that did not run has no gradients of what it captures, nor has a loop without rounds. The op that computes them has to
give something there, which is zeros. Zeros are not the same as none: in front of `sqrt` at 0 they become 0 * inf, where Python, which did
not come along, has no such term. So what is known of when a gradient is there goes along with it, and whatever a rule makes of one that is
not there is zeros again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from polyreme.dialects import nn
from polyreme.dialects.nn import Full, If, LogicalNot, LogicalOr, Reshape, Yield
from polyreme.ir.builder import Builder
from polyreme.ir.core import Block, Op, OpResult, Region, Value
from polyreme.lowering.gradients.table import Emitter

__all__ = [
    "ALWAYS",
    "NEVER",
    "Presence",
    "Sometimes",
    "any_of",
    "both",
    "either",
    "has_poles",
    "is_exposed",
    "keeps_zeros",
    "masked",
    "predicate",
]

Presence = frozenset[tuple[Value, bool]] | None
"""When a gradient is there: if any of these conditions, bools of one element, is as it says; None for always."""

ALWAYS: Presence = None
NEVER: Presence = frozenset()

# Ops whose rules make zeros of zeros, whatever their operands hold.
_LINEAR: tuple[type[Op], ...] = (
    nn.Add, nn.Sub, nn.Neg, nn.Cast, nn.Reshape, nn.Transpose, nn.BroadcastTo, nn.Slice, nn.Flip, nn.Concat, nn.Pad, nn.Sum, nn.Mean,
    nn.Gather, nn.Real, nn.Imag, nn.Conj, nn.Complex,
    nn.Relu, nn.Where,
)  # fmt: skip


# Ops with derivatives that are infinite somewhere.
_WITH_POLES: tuple[type[Op], ...] = (
    nn.Sqrt, nn.Rsqrt, nn.Log, nn.Log1p, nn.Log2, nn.Log10, nn.Div, nn.Reciprocal, nn.Pow, nn.Exp, nn.Tan, nn.Asin, nn.Acos, nn.Atan2,
    nn.Prod, nn.Cholesky, nn.Inverse, nn.Determinant, nn.Cumprod,
)  # fmt: skip


class Sometimes(NamedTuple):
    """A gradient, as a rule of a branch or loop gives it, and when it is there."""

    gradient: Any
    presence: Presence


def either(first: Presence, second: Presence) -> Presence:
    """There where one of two gradients is that are added."""
    if first is None or second is None:
        return None
    union = first | second
    return None if any((value, not holds) in union for value, holds in union) else union


def both(b: Emitter, first: Presence, second: Presence) -> Presence:
    """There where both are."""
    if first is None or second is None:
        return second if first is None else first
    return first if first == second else frozenset([(b(nn.LogicalAnd, predicate(b, first), predicate(b, second)), True)])


def predicate(b: Emitter, presence: frozenset[tuple[Value, bool]]) -> Value:
    """Whether the gradient is there, as a bool of rank 0."""
    made: Value | None = None
    for value, holds in presence:
        one = value if not value.type.shape else b(Reshape, value, shape=())
        one = one if holds else b(LogicalNot, one)
        made = one if made is None else b(LogicalOr, made, one)
    assert made is not None
    return made


def keeps_zeros(kind: type[Op]) -> bool:
    """Whether the gradients of the operands are zeros where those of the results are, also at infinities and where there is no derivative.
    """
    return issubclass(kind, _LINEAR)


def has_poles(region: Region) -> bool:
    """Whether a body has ops with derivatives that are infinite somewhere."""
    return any(isinstance(op, _WITH_POLES) for top in region.block for op in top.walk())


def masked(b: Emitter, gradient: Value, presence: frozenset[tuple[Value, bool]]) -> Value:
    """The gradient where it is there, and zeros elsewhere. A branch, so that its own gradients are there for the same calls."""
    made: Value = b(If, predicate(b, presence), [gradient], then_body=_body(gradient, False), else_body=_body(gradient, True))
    return made


def _body(like: Value, zeros: bool) -> Region:
    block = Block()
    arg = block.add_arg(like.type)
    inside = Builder(block, None)
    inside.insert(Yield([inside(Full, value=0, shape=like.type.shape, dtype=like.type.dtype) if zeros else arg]))
    return Region(block)


def is_exposed(value: Value, nested: bool) -> bool:
    """Whether a gradient of `value` goes on to a rule that does not keep zeros. Of what a body is given (`nested`) nobody knows there."""
    met: set[Value] = set()
    waiting: list[Value] = [value]
    while waiting:
        at = waiting.pop()
        if at in met:
            continue
        met.add(at)
        if not isinstance(at, OpResult):
            if nested:
                return True
        elif not keeps_zeros(type(at.op)) and at.op.operands:
            return True
        else:
            waiting += at.op.operands
    return False


def any_of(presences: Iterable[Presence]) -> Presence:
    """There where any of these is."""
    found: Presence = frozenset()
    for presence in presences:
        found = either(found, presence)
    return found
