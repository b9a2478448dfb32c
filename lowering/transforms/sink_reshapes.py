"""Sinking reshapes: elementwise ops move in front of a reshape, next to what made its operand.

A linear layer on a batch of sequences is a matrix product, a reshape, and an activation. In front of the reshape the activation can be
computed in the product's kernel. The op's other operands are reshaped the other way, which costs nothing for what lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.axes import matching_groups
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.machines.instructions import WIDEST_LANES

# A mean, or a deviation, is not further than so many ops from what it is of.
_FEW_STEPS = 32


@register_pass
@dataclass(frozen=True)
class SinkReshapes(FuncPass):
    """map(reshape(x), y)   ->  reshape(map(x, reshape(y))), where x comes from a contract and y lies in memory or is known, or follows
    element by element from what does
    reshape(reshape(x))  ->  reshape(x), or x

    Before and after: `tensor` ops on values.  Runs right before fusion, for which reshapes are borders between groups.
    """

    name: ClassVar[str] = "sink-reshapes"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tensor.Reshape):
                _merge(op)
            elif isinstance(op, tensor.Map):
                _sink(op)


def _merge(op: tensor.Reshape) -> None:
    """The choice of layouts leaves reshapes of reshapes, behind which a contract would not be seen."""
    inner = op.x.producer(tensor.Reshape)
    if inner is None:
        return
    if inner.x.type == op.result.type:
        op.result.replace_all_uses_with(inner.x)
        op.erase()
    else:
        op.set_operand(0, inner.x)
    if not inner.is_used:
        inner.erase()


def _sink(op: tensor.Map) -> None:
    shape = shape_of(op.result)
    found = [r for x in op.xs if (r := x.producer(tensor.Reshape)) and shape_of(x) == shape and _from_contract(r.x)]
    reshape = next((r for r in found if not any(_is_computed_of(x, r.x) for x in op.xs if x.producer() is not r)), None)
    if reshape is None:
        return
    old = shape_of(reshape.x)
    shapes = [_shape_in_front(x, shape, old) for x in op.xs]
    if any(s is None for s in shapes):
        return
    b = Builder.before_op(op)
    operands = [_in_front(b, x, wanted, shape, old) for x, wanted in zip(op.xs, shapes, strict=True)]
    moved = b(tensor.Map, *operands, fn=op.fn, dtype=op.dtype)
    moved.name = op.result.name
    sources = [x.producer() for x in op.xs]
    op.replace_with(b(tensor.Reshape, moved, shape=shape))
    _erase_unused(sources)


def _erase_unused(sources: Sequence[Op | None]) -> None:
    """Erase what maps and reshapes among these are left without readers, and what only they read."""
    for source in dict.fromkeys(sources):
        if isinstance(source, (tensor.Reshape, tensor.Map)) and not source.is_used:
            behind = [x.producer() for x in source.operands]
            source.erase()
            _erase_unused(behind)


def _in_front(b: Builder, x: Value, wanted: Any, shape: tuple[Dim, ...], old: tuple[Dim, ...]) -> Value:
    """Operand `x` of a map of `shape` in the shape `wanted` of one of `old` elements, as `_shape_in_front` has it."""
    other = x.producer(tensor.Reshape)
    if other is not None and shape_of(other.x) == wanted:
        return other.x
    if (full := x.producer(tensor.Full)) is not None:
        made: Value = b(tensor.Full, value=full.value, shape=wanted, dtype=full.dtype)
        return made
    if shape_of(x) == wanted:
        return x
    if (cast := _cast_of_memory(x)) is not None:
        return b(tensor.Map, b(tensor.Reshape, cast.xs[0], shape=wanted), fn="cast", dtype=cast.dtype)
    if (near := _map_of_memory(x, shape, old)) is not None:
        inner = [_in_front(b, y, _shape_in_front(y, shape, old), shape, old) for y in near.xs]
        return b(tensor.Map, *inner, fn=near.fn, dtype=near.dtype)
    return b(tensor.Reshape, x, shape=wanted)


def _from_contract(value: Value) -> bool:
    """Whether a contract makes the value, with nothing but elementwise ops in between."""
    pending, seen = [value.producer()], set()
    while pending:
        op = pending.pop()
        if isinstance(op, tensor.Contract):
            return True
        if isinstance(op, tensor.Map) and op not in seen:
            seen.add(op)
            pending += [x.producer() for x in op.xs if shape_of(x) == shape_of(op.result)]
    return False


def _is_computed_of(x: Value, product: Value) -> bool:
    """Whether `x` is computed of the product that it is to follow, as a mean of it is, in a few steps: the map has to wait for all of that
    anyway, and is better where the other one's readers are.
    """
    pending, seen = [x.producer()], set[Op | None]()
    while pending and len(seen) < _FEW_STEPS:
        op = pending.pop(0)
        if op is not None and op not in seen:
            seen.add(op)
            if product in op.operands and isinstance(op, (tensor.Reduce, tensor.Reshape)) and op.result is not x:
                return True
            pending += [v.producer() for v in op.operands]
    return False


def _cast_of_memory(x: Value) -> tensor.Map | None:
    """The op that makes `x` of numbers of another kind, which others read too and which lie in memory for that: a residual of bytes."""
    cast = x.producer(tensor.Map)
    return cast if cast is not None and cast.fn == "cast" and len(cast.xs[0].uses) > 1 else None


def _map_of_memory(x: Value, shape: tuple[Dim, ...], old: tuple[Dim, ...]) -> tensor.Map | None:
    """The op that makes `x` element by element of what lies in memory, for the one map of `shape` that reads it: it can be there, too, and
    share the kernel of that. So an average that an update goes on with is of the one before.
    """
    near = x.producer(tensor.Map)
    # Rows that fill no vector: what is computed of memory goes on in rows of its own.
    if near is None or len(x.uses) > 1 or shape_of(x) != shape or _from_contract(x) or estimate(old[-1]) < WIDEST_LANES:
        return None
    return near if all(_shape_in_front(y, shape, old) is not None for y in near.xs) else None


def _shape_in_front(x: Value, shape: tuple[Dim, ...], old: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The shape that operand `x` of a map of `shape` has when the map is one of `old` elements instead; None when there is none."""
    given = shape_of(x)
    if not given or all(n == 1 for n in given):
        return (1,) * len(old) if given else ()
    known = isinstance(x, BlockArgument) or isinstance(x.producer(), (tensor.Reshape, tensor.Constant, tensor.Full))
    if not known and len(x.uses) < 2 and _cast_of_memory(x) is None and _map_of_memory(x, shape, old) is None:
        # What is computed nearby might have shared the map's kernel; a reshape in between would keep it out. What others read too lies in
        # memory anyway.
        return None
    found: list[Dim] = []
    for before, after in matching_groups(old, shape):
        if all(given[i] == 1 for i in after):
            found += [1] * len(before)
        elif all(given[i] == shape[i] for i in after):
            found += [old[i] for i in before]
        else:
            return None
    return tuple(found)
