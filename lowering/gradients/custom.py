"""Gradients by a rule that the function itself has: the body of `nn.custom_gradient`."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.nn import CustomGradient
from polyreme.ir.builder import Builder
from polyreme.lowering.gradients.table import Value, gradient, zeros_like


@gradient(CustomGradient)
def custom_gradient(op: Any, b: Builder, *grads: Value | None) -> Any:
    """The ops of the body, in place. Of values that no gradient reaches it gets zeros."""
    block = op.body.block
    given = [zeros_like(b, value) if grad is None else grad for value, grad in zip(op.values, grads, strict=True)]
    mapping = dict(zip(block.args, [*given, *op.captured], strict=True))
    for inner in block:
        if inner is not block.terminator:
            b.insert_op(inner.clone(mapping))
    made: list[Value | None] = [None] * len(op.inputs)
    for i, grad in zip(op.reached, block.terminator.operands, strict=True):
        made[i] = mapping[grad]
    return None, tuple(made), None
