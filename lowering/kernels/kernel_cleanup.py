"""Clean up a finished kernel: merge equal ops (CSE), hoist loop invariants, drop unused ops.

Builders write each element's code on its own, so the address of a row is computed for every element; here it moves to where the row begins.
A load is pure if nothing in the kernel writes to its buffer, because buffers of a kernel never overlap unless all of them are only read.
What other threads write (shared memory) counts as written. Nothing moves out of a `parallel` body, since every thread would have to be
handed it.
"""

from __future__ import annotations

from typing import Any

from polyreme.dialects import kernel
from polyreme.dialects.kernel.effects import written_by
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.define import Pure


def clean_up_kernel(func: Func, within: Block | None = None) -> Func:
    """Merge equal ops, hoist invariants, remove what is unused; the kernel computes the same. Only `within` one of its blocks, if that is
    given.
    """
    written: set[Value] = set()
    for op in func.walk():
        # A call may write to any buffer that it is given.
        written.update(map(buffer_behind_views, op.operands if isinstance(op, kernel.Call) else written_by(op)))
    block = func.block if within is None else within
    _merge(block, {}, written)
    _hoist(block, written)
    # Hoisting brings equal ops of neighbouring loops into one block.
    _merge(block, {}, written)
    _remove_unused(block, written)
    return func


def buffer_behind_views(buffer: Value) -> Value:
    """The buffer that a chain of views looks into."""
    view = buffer.producer(kernel.View)
    while view is not None:
        buffer = view.buffer
        view = buffer.producer(kernel.View)
    return buffer


def _is_pure(op: Op, written: set[Value]) -> bool:
    if isinstance(op, (kernel.Load, kernel.Gather)):
        return buffer_behind_views(op.operands[0]) not in written
    return op.has(Pure)


def _key(op: Op) -> Any:
    # 0.0 equals -0.0 and 1 equals True in Python, so numbers are told apart by their text.
    values = map(repr, op.attributes.values()) if isinstance(op, kernel.Constant) else op.attributes.values()
    return type(op), op.operands, op.segments, *op.attributes, *values


def _merge(block: Block, known: dict[Any, Op], written: set[Value]) -> None:
    """`known` is as it was, in the end."""
    added = []
    for op in block:
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    _merge(inner, known if not isinstance(op, kernel.Parallel) else {}, written)
        elif _is_pure(op, written):
            key = _key(op)
            same = known.get(key)
            if same is None:
                known[key] = op
                added.append(key)
            else:
                op.replace_with(*same.results)
    for key in added:
        del known[key]


def _hoist(block: Block, written: set[Value]) -> None:
    for op in block:
        if not op.regions:
            continue
        for region in op.regions:
            for inner in region.blocks:
                _hoist(inner, written)
        if isinstance(op, kernel.For):
            inside: set[Value] = set(op.block.args)
            for candidate in op.block:
                if not candidate.regions and _is_pure(candidate, written) and inside.isdisjoint(candidate.operands):
                    candidate.detach()
                    block.insert(candidate, op)
                else:
                    inside.update(candidate.results)


def _remove_unused(block: Block, written: set[Value]) -> None:
    for op in reversed(block):
        for region in op.regions:
            for inner in region.blocks:
                _remove_unused(inner, written)
        if not op.is_used and op.results and _is_pure(op, written):
            op.erase()
