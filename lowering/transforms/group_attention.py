"""Groups of attention: the ops that `attention.py` finds become one `tensor.fused`.

Only if nothing else reads the values in between: a training step, whose backward needs the weights, keeps its ops as they are.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from polyreme.dialects import tensor
from polyreme.dialects.arrays import Array
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, Value
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, i64
from polyreme.lowering.analysis.attention import VIEWS, Attention, find_attention, from_nothing, through_views
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.transforms.fuse import outline


@register_pass
@dataclass(frozen=True)
class GroupAttention(FuncPass):
    """Gather each attention whose scores and weights nobody else reads into a `tensor.fused` of its own.

    Before: `tensor` ops in a function body.  After: the same values; scores and weights are known inside of groups only.
    Runs before sinking and fusion, which would put the steps of the softmax into other groups.
    """

    name: ClassVar[str] = "group-attention"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in list(func.block):
            if isinstance(op, tensor.Contract) and op.parent is func.block:
                _group(op)
            elif isinstance(op, tensor.Fused):
                _without_arrays(op)


def _group(second: tensor.Contract) -> None:
    found = find_attention(second, second.result)
    if found is None:
        return
    if _write_out_masks(found):
        found = find_attention(second, second.result)
        assert found is not None
    # With the views that follow, as long as they do nothing but put letters in order.
    result = second.result
    while (
        len(users := list(result.users)) == 1
        and isinstance(users[0], VIEWS)
        and (longer := find_attention(second, users[0].result)) is not None
    ):
        result, found = users[0].result, longer
    order = _in_order(result, found.ops)
    kept = {op for op in order if _is_repeatable(op)}
    for op in order:
        if op is not result.owner and op not in kept and any(user not in found.ops for value in op.results for user in value.users):
            return
    inside = {value for op in order for value in op.results}
    inputs = list(dict.fromkeys(x for op in order for x in op.operands if x not in inside))
    mapping: dict[Value, Value] = {}
    fused = outline(order, inputs, [result], mapping)
    second.parent.insert(fused, result.producer())  # type: ignore[union-attr]
    result.replace_all_uses_with(fused.result)
    for op in reversed(order):
        if not op.is_used:
            op.erase()


def _write_out_masks(found: Attention) -> bool:
    """add(x, constant)  ->  add(x, select(key > query + n, -inf, 0)), where that is what the constant says: then it need not be read, nor
    later keys looked at.
    """
    changed = False
    for op in list(found.steps()):
        for x in found.side_operands(op):
            array = (
                _known(x)
                if op.fn == "add" and shape_of(op.result) == shape_of(found.masked) and found.axes[-2:] == (found.query, found.key)
                else None
            )
            last = None if array is None else _last_seen(array)
            if last is None:
                continue
            op.set_operand(op.operands.index(x), _later_hidden(Builder.before_op(op), x, last))
            changed = True
    return changed


def _later_hidden(b: Builder, like: Value, last: int) -> Value:
    """-inf where a key comes later than query + last, 0 elsewhere, in the shape and type of `like`."""
    queries, keys = shape_of(like)[-2:]
    lead = (1,) * (len(shape_of(like)) - 2)
    query, key = (
        b(tensor.Iota, shape=(*lead, queries, 1), axis=len(lead), dtype=i64),
        b(tensor.Iota, shape=(*lead, 1, keys), axis=len(lead) + 1, dtype=i64),
    )
    later = b(tensor.Map, key, b(tensor.Map, query, b(tensor.Full, value=last, dtype=i64), fn="add"), fn="gt")
    kind = element_type(like.type)
    low, zero = b(tensor.Full, value=-math.inf, dtype=kind), b(tensor.Full, value=0.0, dtype=kind)
    hidden: Value = b(tensor.Map, later, low, zero, fn="select")
    return hidden


def _without_arrays(group: tensor.Fused) -> None:
    """Take arrays, which masks were folded to, out of a group of several products: a mask of later keys is written out again, any other
    becomes an operand.
    """
    if sum(isinstance(op, tensor.Contract) for op in group.block) < 2:
        return
    for op in list(group.block):
        if not isinstance(op, tensor.Constant) or op.value.size == 1:
            continue
        array = _known(op.result)
        last = None if array is None else _last_seen(array)
        if last is not None:
            op.result.replace_all_uses_with(_later_hidden(Builder.before_op(op), op.result, last))
        else:
            outside = Builder.before_op(group).insert(op.clone())
            op.result.replace_all_uses_with(group.block.add_arg(outside.type))
            group.set_operands([*group.operands, outside], (len(group.operands) + 1,))
        op.erase()


def _known(value: Value) -> Array | None:
    """A constant's array, in the shape that views give it."""
    op = through_views(value).producer(tensor.Constant)
    rank = len(shape_of(value))
    if op is None or op.value.size < 2 or rank < 2:
        return None
    array = op.value.array
    return array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim <= rank else None


def _last_seen(array: Array) -> int | None:
    """`n` where the mask is 0 for keys up to query + n and -inf for later ones; None where it is anything else."""
    queries, keys = array.shape[-2:]
    if array.size != queries * keys or array.dtype.kind != "f":
        return None
    mask = array.reshape(queries, keys)
    n = int(np.count_nonzero(mask[0] == 0)) - 1
    later = np.arange(keys) > np.arange(queries)[:, None] + n
    return n if np.array_equal(mask, np.where(later, -np.inf, 0)) and later.any() else None


def _in_order(result: Value, ops: frozenset[Op]) -> list[Op]:
    """The ops so that each stands behind what it reads, in an order that depends on nothing but how they are wired: equal groups share
    their kernels.
    """
    order: dict[Op, None] = {}

    def take(value: Value) -> None:
        op = value.producer()
        if op in ops and op not in order:
            for x in op.operands:
                take(x)
            order[op] = None

    take(result)
    return list(order)


def _is_repeatable(op: Op) -> bool:
    """Whether the group may compute the op again for itself: views, numbers and what is made from nothing."""
    return (
        isinstance(op, (*VIEWS, tensor.Slice, tensor.Broadcast, tensor.Reverse, tensor.Window)) or from_nothing(op.results[0]) is not None
    )
