"""Gradients of what ranks do together."""

from __future__ import annotations

from typing import Any

from polyreme.dialects.dist import AllReduce
from polyreme.ir.diagnostics import UNKNOWN, PassError
from polyreme.lowering.gradients.table import Emitter, Value, gradient, zeros_like


@gradient(AllReduce)
def all_reduce(op: Any, b: Emitter, *dy: Value | None) -> Any:
    """dx = the sum, or mean, of dy over all ranks: each rank's results depend on every rank's operands"""
    if op.reduce not in ("sum", "mean"):
        raise PassError(
            f"expected an all-reduce by 'sum' or 'mean' to have a gradient but got '{op.reduce}'",
            getattr(op, "location", UNKNOWN),
            code="E0407",
        )
    given = [zeros_like(b, x) if g is None else g for x, g in zip(op.xs, dy, strict=True)]
    made = b(AllReduce, given, reduce=op.reduce)
    return (made if isinstance(made, tuple) else (made,),)
