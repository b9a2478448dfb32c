"""What is known of the numbers that a tensor of integers holds, from the ops that compute it."""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, known_nonnegative
from polyreme.ir.types import element_type

# Ops that have the numbers of their operands, and no others.
_MOVES = (tensor.Broadcast, tensor.Concat, tensor.Reshape, tensor.Transpose, tensor.Slice, tensor.Reverse, tensor.Window)


def are_positions(value: Value, size: Dim) -> bool:
    """Whether each element of `value` is at least 0 and less than `size`, which is at least 1 wherever there is an element. False where
    that is not seen: only clamps of integers, sums and positions themselves are looked into, since a float may be anything.
    """
    return _not_negative(value, size) and _below(value, size)


def _not_negative(value: Value, size: Dim) -> bool:
    op = value.producer()
    if op is None or not element_type(value.type).is_integer:
        return False
    if isinstance(op, tensor.Map):
        first, *others = (_not_negative(x, size) for x in op.operands)
        if op.fn == "max":
            return first or any(others)
        # A cast to fewer bits may wrap.
        return op.fn in ("min", "add", "cast") and all((first, *others)) and _keeps_numbers(op)
    least = _numbers(op, size)
    if least is not None:
        return known_nonnegative(least[0]) or least[0] == size - 1
    return isinstance(op, (tensor.Iota, *_MOVES)) and all(_not_negative(x, size) for x in op.operands)


def _below(value: Value, size: Dim) -> bool:
    op = value.producer()
    if op is None or not element_type(value.type).is_integer:
        return False
    if isinstance(op, tensor.Map):
        first, *others = (_below(x, size) for x in op.operands)
        if op.fn == "min":
            return first or any(others)
        return op.fn in ("max", "cast") and all((first, *others)) and _keeps_numbers(op)
    most = _numbers(op, size)
    if most is not None:
        # The axis has an element: 0 is always one of its positions.
        return most[1] == 0 or known_nonnegative(size - 1 - most[1])
    if isinstance(op, tensor.Iota):
        return known_nonnegative(size - op.shape[op.axis])
    return isinstance(op, _MOVES) and all(_below(x, size) for x in op.operands)


def _keeps_numbers(op: tensor.Map) -> bool:
    """Whether a result has room for what its operands hold."""
    made = element_type(op.result.type)
    return all(
        kind.is_integer and (kind.bits < made.bits or kind == made) for kind in (element_type(x.type) for x in op.operands)
    )  # fmt: skip


def _numbers(op: Op, size: Dim) -> tuple[Dim, Dim] | None:
    """The least and the largest number of an op that says them itself."""
    if isinstance(op, tensor.Full) and isinstance(op.value, int):
        return op.value, op.value
    if isinstance(op, tensor.DimValue):
        return op.size, op.size
    if isinstance(op, tensor.Constant) and op.value.size:
        return int(op.value.array.min()), int(op.value.array.max())
    return None
