"""Passes over `tensor.scan`: hoist what is the same in all steps, and unroll steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Region, Value
from polyreme.ir.diagnostics import PassError
from polyreme.ir.dims import Dim
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.lowering.analysis.rows import shape_of
from polyreme.lowering.transforms.fuse import is_free


@register_pass
@dataclass(frozen=True)
class HoistFromScans(FuncPass):
    """scan(xs, inits, shared) { … y = f(shared) … }  ->  y = f(shared), scan(xs, inits, (shared, y)) { … }

    Before and after: `tensor` ops.  What has no kernel of its own, a view or a number, stays where it is read. What steps give and nobody
    reads they give no more. Runs before fusion, and leaves no constant array in a step: a kernel, which a scan becomes, has none of its
    own.
    """

    name: ClassVar[str] = "hoist-from-scans"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tensor.Scan):
                _hoist(op)


def _hoist(scan: tensor.Scan) -> None:
    for inner in scan.block:
        if isinstance(inner, tensor.Scan):
            _hoist(inner)
    first = len(scan.xs) + len(scan.inits)
    outside: dict[Value, Value] = dict(zip(scan.block.args[first:], scan.shared, strict=True))
    b = Builder.before_op(scan)
    hoisted: list[Op] = []
    for op in scan.block.ops[:-1]:
        if not all(v in outside for v in op.operands):
            continue
        copy = b.insert_op(op.clone(outside))
        outside.update(zip(op.results, copy.results, strict=True))
        if not is_free(op) and not isinstance(op, tensor.Reshape):
            hoisted.append(op)
    added = []
    for op in hoisted:
        for value in op.results:
            if any(user not in hoisted for user in value.users):
                added.append(outside[value])
                value.replace_all_uses_with(scan.block.add_arg(value.type, value.name))
    for op in reversed(hoisted):
        if not op.is_used:
            op.erase()
    read = [i for i, result in enumerate(scan.results) if i < len(scan.inits) or result.uses]
    if added or len(read) < len(scan.results):
        _replaced(scan, [*scan.shared, *added], read)


def _replaced(scan: tensor.Scan, shared: Sequence[Value], results: Sequence[int]) -> None:
    """The scan with other shared operands, to which its block's arguments are fitted already, and with some of its results."""
    region: Region = scan.regions.pop()
    end = region.block.terminator
    given = [end.operands[i] for i in results]
    end.erase()
    Builder.at_end(region.block, scan.location)(tensor.Yield, given)
    for op in reversed(region.block.ops[:-1]):
        if not op.is_used:
            op.erase()
    groups = (len(scan.xs), len(scan.inits), len(shared))
    operands = [*scan.xs, *scan.inits, *shared]
    kept = [scan.results[i] for i in results]
    made = tensor.Scan.build(operands, scan.attributes, [region], [r.type for r in kept], scan.location, groups)
    assert scan.parent is not None
    scan.parent.insert(made, scan)
    for old, new in zip(kept, made.results, strict=True):
        new.name = old.name
        old.replace_all_uses_with(new)
    scan.erase()


@register_pass
@dataclass(frozen=True)
class UnrollScans(FuncPass):
    """scan(xs, inits, shared)  ->  the ops of step 0 on slices of xs, those of step 1, …, and a concat of what they give.

    Before: `tensor` ops, `tensor.scan` among them.  After: no `tensor.scan`; its number of steps must be known.
    Runs before fusion, since the ops of a step fuse as others do.
    """

    name: ClassVar[str] = "unroll-scans"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tensor.Scan):
                _unroll(op)


def _unroll(scan: tensor.Scan) -> None:
    if not isinstance(scan.steps, int):
        raise PassError(
            "expected a known number of steps for a recurrent layer, which is compiled step by step for this target, "
            f"but got {scan.steps}; give its size, as in InputSpec([None, 20, 8])", scan.location, code="E0406",
        )  # fmt: skip
    b = Builder.before_op(scan)
    handed: Sequence[Value] = scan.inits
    rows: list[list[Value]] = [[] for _ in scan.results[len(handed) :]]
    for t in reversed(range(scan.steps)) if scan.reverse else range(scan.steps):
        made = _step(b, scan, t, handed)
        handed = made[: len(handed)]
        for row, value in zip(rows, made[len(handed) :], strict=True):
            row.append(b(tensor.Reshape, value, shape=(1, *shape_of(value))))
    given = []
    for row, result in zip(rows, scan.results[len(handed) :], strict=True):
        if row:
            given.append(b(tensor.Concat, row[::-1] if scan.reverse else row, axis=0))
        else:
            given.append(b(tensor.Full, value=0, shape=shape_of(result), dtype=result.type.dtype))
    scan.replace_with(*handed, *given)


def _step(b: Builder, scan: tensor.Scan, t: int, handed: Sequence[Value]) -> list[Value]:
    """What step `t` yields."""
    parts = [_element(b, x, t) for x in scan.xs]
    inside: dict[Value, Value] = dict(zip(scan.block.args, [*parts, *handed, *scan.shared], strict=True))
    for op in scan.block.ops[:-1]:
        b.insert(op.clone(inside))
    return [inside.get(v, v) for v in scan.block.terminator.operands]


def _element(b: Builder, x: Value, t: int) -> Value:
    shape: tuple[Dim, ...] = shape_of(x)
    zeros = (0,) * (len(shape) - 1)
    row = b(tensor.Slice, x, starts=(t, *zeros), stops=(t + 1, *shape[1:]), strides=(1,) * len(shape))
    part: Value = b(tensor.Reshape, row, shape=shape[1:])
    return part


def step_of(scan: tensor.Scan) -> Func:
    """A step as a function of its own."""
    func = Func.empty("step", [a.type for a in scan.block.args], loc=scan.location)
    b = Builder.at_end(func.block, scan.location)
    inside: dict[Value, Value] = dict(zip(scan.block.args, func.args, strict=True))
    for op in scan.block.ops[:-1]:
        b.insert(op.clone(inside))
    b.insert(Return([inside[v] for v in scan.block.terminator.operands]))
    return func.finish()
