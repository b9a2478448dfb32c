"""What ops of the kernel level do to memory, and what a value of a kernel depends on: facts that the verifier and emission share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polyreme.dialects.kernel.bf16x3 import DotTerms
from polyreme.dialects.kernel.control import Call, For, If, While
from polyreme.dialects.kernel.grid import Atomic, CopyAsync, Launch
from polyreme.dialects.kernel.int8_block import DotBlock
from polyreme.dialects.kernel.memory import FetchAdd, Scatter, Store, View
from polyreme.dialects.kernel.warpgroups import CopyBox, CountedArrive, CountedExpect, CountedInit
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, Op, Value

__all__ = ["CALLS", "closed_over", "root_of", "written_arguments", "written_by"]

CALLS = (Call, Launch)


def root_of(value: Value) -> Value:
    """The memory that a buffer is a view of."""
    while (view := value.producer(View)) is not None:
        value = view.buffer
    return value


def written_by(op: Op) -> Sequence[Value]:
    """The buffers that an op itself writes to; what the kernel that it calls writes is left out."""
    targets = _TARGETS.get(type(op))
    return () if targets is None else [getattr(op, target) for target in targets]


# The operands that name the buffers, by class: nearly all ops write to none, and are asked often.
_TARGETS: Mapping[type[Op], tuple[str, ...]] = {
    CopyAsync: ("target",), DotBlock: ("sums",), DotTerms: ("sums", "b"), Store: ("buffer",), Scatter: ("buffer",), Atomic: ("buffer",),
    FetchAdd: ("buffer",), CopyBox: ("target", "barriers"), CountedArrive: ("barriers",), CountedExpect: ("barriers",),
    CountedInit: ("barriers",),
}  # fmt: skip


def written_arguments(functions: Mapping[str, Func]) -> dict[str, frozenset[int]]:
    """The numbers of the arguments that each function writes to, itself or by what it calls. Calls form no circle."""
    found: dict[str, frozenset[int]] = {}

    def visit(func: Func) -> frozenset[int]:
        name = func.sym_name
        if name not in found:
            position = {arg: i for i, arg in enumerate(func.args)}
            found[name] = frozenset()
            roots = {root_of(v) for op in func.walk() for v in (*written_by(op), *called(op))}
            found[name] = frozenset(position[root] for root in roots if root in position)
        return found[name]

    def called(op: Op) -> Iterable[Value]:
        if isinstance(op, CALLS) and op.callee.name in functions:
            return [op.operands[i] for i in visit(functions[op.callee.name]) if i < len(op.operands)]
        return ()

    for func in functions.values():
        visit(func)
    return found


def closed_over(block: Block, found: set[Value], from_memory: bool) -> set[Value]:
    """`found` and every value in `block`, its regions included, that depends on one of them: through operands, through a loop's bounds and
    carried values, or through the condition of a branch. With `from_memory`, what is loaded depends on them too, since memory may hold
    anything.
    """
    size = -1
    while len(found) != size:
        # Again, because a carried value depends on what is yielded further below.
        size = len(found)
        _close(block, found, from_memory)
    return found


def _close(block: Block, found: set[Value], from_memory: bool) -> None:
    for op in block:
        if any(v in found for v in op.operands) or (from_memory and op.name in _READS):
            found.update(op.results)
        for region in op.regions:
            for inner in region.blocks:
                if isinstance(op, For):
                    _enter_loop(op, inner, found)
                elif isinstance(op, While):
                    _enter_while(op, found)
                elif any(v in found for v in op.operands):
                    found.update(inner.args)
                _close(inner, found, from_memory)
                if inner.last is not None and isinstance(op, (For, If)):
                    found.update(r for r, v in zip(op.results, inner.last.operands, strict=False) if v in found)


def _enter_loop(loop: For, body: Block, found: set[Value]) -> None:
    bounds, carried = loop.operands[:2], loop.operands[2:]
    if any(v in found for v in bounds):
        found.update(body.args)
        found.update(loop.results)
        return
    yielded = body.last.operands if body.last is not None else ()
    for arg, result, given, after in zip(body.args[1:], loop.results, carried, yielded, strict=False):
        if given in found or after in found:
            found.update((arg, result))


def _enter_while(loop: While, found: set[Value]) -> None:
    condition, body = (r.block for r in loop.regions)
    again = condition.last.operands[:1] if condition.last is not None else ()
    yielded = body.last.operands if body.last is not None else ()
    for first, second, result, given, after in zip(condition.args, body.args, loop.results, loop.operands, yielded, strict=False):
        # How many rounds there are decides on all that is carried.
        if given in found or after in found or any(v in found for v in again):
            found.update((first, second, result))


_READS = frozenset(("kernel.load", "kernel.gather", "kernel.load_matrix"))
