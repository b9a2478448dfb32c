"""Cleaning up branches and loops: decided branches are taken, loop invariants are hoisted, unread values are dropped.

The patterns are among those of `canonicalize`, at the `nn` and the `tensor` level. They change an op in place: its operands, the arguments
of its blocks, what these yield, and its results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from polyreme.dialects import nn
from polyreme.dialects import tensor as tt
from polyreme.dialects.control import TRIPS, differing_axes, is_true
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, OpResult, Region, Value
from polyreme.ir.define import ConstantLike, is_pure, tells_sizes
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import Pattern, pattern
from polyreme.ir.types import TensorType
from polyreme.lowering.analysis.counted_loops import known_rounds
from polyreme.lowering.transforms.fuse import is_free
from polyreme.lowering.transforms.solve_sizes import used_sizes

__all__ = ["CONTROL_PATTERNS", "HoistFromLoops"]

CONTROL_PATTERNS: list[Pattern] = []

# Up to so many elements a constant is looked at to decide whether a loop runs at all.
SMALL = 64


def _canonical(made: Pattern) -> Pattern:
    CONTROL_PATTERNS.append(made)
    return made


Changed = tuple[Value, ...] | None


def _first_captured(op: Any) -> int:
    """Which of the operands is the first captured one."""
    return sum(op.segments[:-1])


def _first_argument(op: Any) -> int:
    """Which of the blocks' arguments stands for the first captured value."""
    return 0 if isinstance(op, (nn.If, tt.If)) else _first_captured(op)


def _end_with(region: Region, values: Sequence[Value]) -> None:
    region.block.terminator.set_operands(values, (len(values),))


def _keep_results(op: Op, kept: Sequence[int]) -> None:
    results = [op.results[i] for i in kept]
    for i, result in enumerate(results):
        result.index = i
    op.results = results


# --- what is captured


@_canonical
@pattern(nn.If, nn.While, nn.Scan, tt.If, tt.While)
def sink_constants(op: Any, b: Builder) -> Changed:
    """if(c, constant) {f(arg)} -> if(c) {f(constant)},  and so for loops"""
    at, first = _first_captured(op), _first_argument(op)
    found = [
        i
        for i, v in enumerate(op.operands[at:])
        if (made := v.producer()) is not None and made.has(ConstantLike) and any(r.block.args[first + i].uses for r in op.regions)
    ]
    for i in found:
        made = op.operands[at + i].producer()
        for region in op.regions:
            arg = region.block.args[first + i]
            if arg.uses:
                arg.replace_all_uses_with(region.block.insert(made.clone(), region.block.first).result)
    return tuple(op.results) if found and op.results else None


@_canonical
@pattern(nn.If, nn.While, nn.Scan, tt.If, tt.While)
def drop_captured(op: Any, b: Builder) -> Changed:
    """if(c, x, x, unused) {f(a, b)} -> if(c, x) {f(a, a)},  and so for loops"""
    at, first = _first_captured(op), _first_argument(op)
    captured = op.operands[at:]
    where: dict[Value, int] = {}
    kept = []
    for i, value in enumerate(captured):
        args = [region.block.args[first + i] for region in op.regions]
        if value in where:
            for region, arg in zip(op.regions, args, strict=True):
                arg.replace_all_uses_with(region.block.args[first + where[value]])
        elif any(arg.uses for arg in args):
            where[value] = i
            kept.append(i)
    if len(kept) == len(captured) or not op.results:
        return None
    for region in op.regions:
        for i in reversed(range(len(captured))):
            if i not in kept:
                region.block.erase_arg(first + i)
    op.set_operands([*op.operands[:at], *(captured[i] for i in kept)], (*op.segments[:-1], len(kept)))
    return tuple(op.results)


# --- branches


@_canonical
@pattern(nn.If, tt.If)
def take_decided_branch(op: Any, b: Builder) -> Changed:
    """if(true, x) {f} {g} -> f(x),  if(false, x) {f} {g} -> g(x)"""
    known = _constant(op.cond)
    if known is None:
        return None
    region = op.then_body if is_true(known) else op.else_body
    values = region.block.terminator.operands
    if [v.type for v in values] != [r.type for r in op.results]:
        return None  # the result's sizes have names of their own
    return _inlined(region, op.captured, b)


def _inlined(region: Region, args: Sequence[Value], b: Builder) -> tuple[Value, ...]:
    inside: dict[Value, Value] = dict(zip(region.block.args, args, strict=True))
    for inner in region.block.ops[:-1]:
        b.insert_op(inner.clone(inside))
    return tuple(inside[v] for v in region.block.terminator.operands)


@_canonical
@pattern(nn.If, tt.If)
def drop_results_of_branch(op: Any, b: Builder) -> Changed:
    """(unused, y) = if(c) {x, y} {v, w} -> y = if(c) {y} {w};  (x, y) = if(c) {a, a} {b, b} -> x for both"""
    ends = [region.block.terminator.operands for region in op.regions]
    first_of: dict[tuple[Value, ...], int] = {}
    for i, pair in enumerate(zip(*ends, strict=True)):
        j = first_of.setdefault(pair, i)
        if j != i and op.results[i].uses and op.results[i].type == op.results[j].type:
            op.results[i].replace_all_uses_with(op.results[j])
    kept = [i for i, r in enumerate(op.results) if r.uses]
    if not kept or len(kept) == len(op.results):
        return None
    named = dict(zip(differing_axes([v.type for v in op.captured], *op.regions), op.sizes, strict=True))
    op.attributes["sizes"] = tuple(size for (i, _), size in named.items() if i in kept)
    for region, values in zip(op.regions, ends, strict=True):
        _end_with(region, [values[i] for i in kept])
    _keep_results(op, kept)
    return tuple(op.results)


@_canonical
@pattern(nn.If, tt.If)
def result_from_outside(op: Any, b: Builder) -> Changed:
    """if(c, x) {x, …} {x, …} -> x for that result"""
    changed = False
    for result, a, other in zip(op.results, *(region.block.terminator.operands for region in op.regions), strict=True):
        if not result.uses or isinstance(a, OpResult) or isinstance(other, OpResult) or a.index != other.index:
            continue
        value = op.captured[a.index]
        if value.type == result.type:
            result.replace_all_uses_with(value)
            changed = True
    return tuple(op.results) if changed else None


# --- loops


def _carried(op: Any) -> tuple[int, int]:
    """Which operands, and arguments of the blocks, are carried: from one number to another."""
    first = len(op.xs) if isinstance(op, nn.Scan) else 0
    return first, first + len(op.inits)


@_canonical
@pattern(nn.While, tt.While, nn.Scan)
def free_what_stays(op: Any, b: Builder) -> Changed:
    """while(x) {c(a)} {yield a} -> while(captured x) {c(x)} {},  the result x: what no round changes is not carried"""
    first, last = _carried(op)
    ends = op.body.block.terminator.operands
    stays = [
        i for i in range(last - first) if ends[i] is op.body.block.args[first + i] and op.operands[first + i].type == op.results[i].type
    ]
    if not stays:
        return None
    operands, count = list(op.operands), last - first
    moved = [operands[first + i] for i in stays]
    for region in op.regions:
        for i in stays:
            old = region.block.args[first + i]
            old.replace_all_uses_with(region.block.add_arg(old.type, old.name))
    for i in stays:
        op.results[i].replace_all_uses_with(operands[first + i])
    ends = op.body.block.terminator.operands
    _end_with(op.body, [v for i, v in enumerate(ends) if i not in stays])
    _drop_carried(op, first, stays)
    kept = [v for i, v in enumerate(operands[first:last]) if i not in stays]
    op.set_operands(
        [*operands[:first], *kept, *operands[last:], *moved], (*op.segments[:-2], count - len(stays), op.segments[-1] + len(stays))
    )
    return tuple(op.results) if op.results else None


def _drop_carried(op: Any, first: int, gone: Collection[int]) -> None:
    """Remove arguments, which have no uses, and results of carried values."""
    for region in op.regions:
        for i in sorted(gone, reverse=True):
            region.block.erase_arg(first + i)
    _keep_results(op, [i for i in range(len(op.results)) if i not in gone])


@_canonical
@pattern(nn.While, tt.While, nn.Scan)
def drop_unread(op: Any, b: Builder) -> Changed:
    """while(x, y) {c(x)} {f(x), g(y)} with y unused -> while(x) {c(x)} {f(x)},  and what a scan gives and nobody reads"""
    first, last = _carried(op)
    count = last - first
    ends = op.body.block.terminator.operands
    needed = {i for i in range(count) if op.results[i].uses}
    given = [i for i in range(count, len(ends)) if op.results[i].uses] if isinstance(op, nn.Scan) else []
    if any(not is_pure(inner) for region in op.regions for inner in region.block.ops[:-1]):
        # What has effects is run, whoever reads what it gives.
        needed |= {i for i in range(count) if _read_by_effects(op, op.body.block.args[first + i])}
    seeds = [ends[i] for i in given]
    conditions = [op.condition.block.terminator.operands[0]] if not isinstance(op, nn.Scan) else []
    while True:
        read = _read(op, [*seeds, *(ends[i] for i in needed)], op.body) | {i for r in conditions for i in _read(op, [r], op.condition)}
        wider = needed | {i - first for i in read if first <= i < last}
        if wider == needed:
            break
        needed = wider
    gone = [i for i in range(count) if i not in needed]
    unread = [i for i in range(count, len(ends)) if i not in given]
    if not (gone or unread) or len(gone) + len(unread) == len(op.results):
        return None
    _end_with(op.body, [v for i, v in enumerate(ends) if i not in gone and i not in unread])
    for region in op.regions:
        _erase_unread(region)
    if any(region.block.args[first + i].uses for region in op.regions for i in gone):
        raise AssertionError("what is not needed is not read")
    if unread:
        _keep_results(op, [i for i in range(len(op.results)) if i not in unread])
    _drop_carried(op, first, gone)
    operands = op.operands
    kept = [v for i, v in enumerate(operands[first:last]) if i not in gone]
    op.set_operands([*operands[:first], *kept, *operands[last:]], (*op.segments[:-2], len(kept), op.segments[-1]))
    return tuple(op.results)


@_canonical
@pattern(nn.Scan)
def drop_unread_slices(op: Any, b: Builder) -> Changed:
    """scan(xs, ys) {f(x)} -> scan(xs) {f(x)}:  what no step reads its slice of is not taken"""
    count, block = len(op.xs), op.body.block
    kept = [i for i in range(count) if block.args[i].uses]
    if len(kept) == count or not op.results:
        return None
    for i in reversed(range(count)):
        if i not in kept:
            block.erase_arg(i)
    op.set_operands([*(op.operands[i] for i in kept), *op.operands[count:]], (len(kept), *op.segments[1:]))
    return tuple(op.results)


def _read(op: Any, values: Sequence[Value], region: Region) -> set[int]:
    """Which arguments of a body what makes `values` in it reads."""
    seen: set[Op] = set()
    found: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        made = value.producer()
        if made is None:
            found.add(value.index)  # type: ignore[attr-defined]
        elif made not in seen:
            seen.add(made)
            waiting += made.operands
    return found


def _read_by_effects(op: Any, arg: Value) -> bool:
    """Whether an op with effects depends on an argument."""
    waiting, seen = [arg], {arg}
    while waiting:
        for user in waiting.pop().users:
            if not is_pure(user) and user is not op.body.block.terminator:
                return True
            waiting += [r for r in user.results if r not in seen]
            seen.update(user.results)
    return False


def _erase_unread(region: Region) -> None:
    for inner in reversed(region.block.ops[:-1]):
        if not inner.is_used and is_pure(inner) and not tells_sizes(inner):
            inner.erase()


@_canonical
@pattern(nn.While, tt.While)
def skip_loop_that_never_runs(op: Any, b: Builder) -> Changed:
    """while(inits) {false} {…} -> inits, 0 rounds"""
    *carried, _ = op.results
    if [v.type for v in op.inits] != [r.type for r in carried]:
        return None
    known = {arg: array for arg, v in zip(op.condition.block.args, op.operands, strict=True) if (array := _constant(v)) is not None}
    for inner in op.condition.block.ops[:-1]:
        if (
            len(inner.results) != 1
            or inner.regions
            or not is_pure(inner)
            or used_sizes(inner)
            or not all(v in known for v in inner.operands)
        ):
            continue
        kind = inner.result.type
        if isinstance(kind, TensorType) and kind.is_static and kind.elements <= SMALL:
            (known[inner.result],) = inner.evaluate([known[v] for v in inner.operands], _no_regions)
    (again,) = op.condition.block.terminator.operands
    if again not in known or is_true(known[again]):
        return None
    full = nn.Full if isinstance(op, nn.While) else tt.Full
    return (*op.inits, b(full, value=0, dtype=TRIPS.dtype))


@_canonical
@pattern(nn.While)
def scan_of_counting_loop(op: Any, b: Builder) -> Changed:
    """while(i = a, x) {i < n} {i + c, f(x)} -> scan(i = a, x, steps = (n - a) / c) {i + c, f(x)}, whose rounds need no look at a condition
    """
    steps = known_rounds(op)
    *carried, rounds = op.results
    if (
        steps is None
        or [v.type for v in op.inits] != [r.type for r in carried]
        or any(not is_pure(inner) for inner in op.condition.block.ops[:-1])
    ):
        return None
    dtype = rounds.type.dtype
    trips = b(nn.Full, value=steps, dtype=dtype) if isinstance(steps, int) else b(nn.DimValue, size=steps, dtype=dtype)
    body = op.regions.pop()
    made: Any = b.insert_op(
        nn.Scan.build(op.operands, {"steps": steps, "reverse": False}, [body], [r.type for r in carried], op.location, (0, *op.segments))
    )
    return (*made.results, trips)


@_canonical
@pattern(nn.Scan)
def skip_scan_of_no_steps(op: Any, b: Builder) -> Changed:
    """scan(xs, inits, steps = 0) -> inits, and nothing given"""
    if op.steps != 0:
        return None
    given = [b(nn.Full, value=0, shape=r.type.shape, dtype=r.type.dtype) for r in op.results[len(op.inits) :]]
    return (*op.inits, *given)


def _no_regions(*_: Any) -> Any:
    raise AssertionError("an op without regions")


def _constant(value: Value) -> Any:
    """The array of a small constant."""
    made: Any = value.producer()
    kind = value.type
    if made is None or not made.has(ConstantLike) or not isinstance(kind, TensorType) or not kind.is_static or kind.elements > SMALL:
        return None
    if isinstance(made, (nn.DimValue, tt.DimValue)) and not isinstance(made.size, int):
        return None
    (array,) = made.evaluate([], _no_regions)
    return np.asarray(array)


# --- what does not change


@register_pass
@dataclass(frozen=True)
class HoistFromLoops(FuncPass):
    """while(inits, w) {c} {… y = f(w) …}  ->  y = f(w), while(inits, w, y) {c} {…}

    Before and after: `tensor` ops. What has no kernel of its own, a view or a number, stays where it is read; so does all that has effects,
    and what stands in a branch, which may not run. Runs before fusion, as `hoist-from-scans` does, which is the same for scans.
    """

    name: ClassVar[str] = "hoist-from-loops"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        for op in func.block:
            if isinstance(op, tt.While):
                for region in op.regions:
                    _hoist(op, region, lambda inner: is_free(inner) or isinstance(inner, tt.Reshape))


def _hoist(loop: tt.While, region: Region, stays: Callable[[Op], bool]) -> None:
    count = len(loop.inits)
    outside: dict[Value, Value] = dict(zip(region.block.args[count:], loop.captured, strict=True))
    b = Builder.before_op(loop)
    hoisted: list[Op] = []
    for op in region.block.ops[:-1]:
        if not is_pure(op) or op.regions or not all(v in outside for v in op.operands):
            continue
        copy = b.insert_op(op.clone(outside))
        outside.update(zip(op.results, copy.results, strict=True))
        if not stays(op):
            hoisted.append(op)
    added: list[Value] = []
    for op in hoisted:
        for value in op.results:
            if any(user not in hoisted for user in value.users):
                added.append(outside[value])
                # Both regions take what is captured.
                args = [r.block.add_arg(value.type, value.name) for r in loop.regions]
                value.replace_all_uses_with(args[loop.regions.index(region)])
    for op in reversed(hoisted):
        if not op.is_used:
            op.erase()
    if added:
        loop.set_operands([*loop.operands, *added], (count, len(loop.captured) + len(added)))
