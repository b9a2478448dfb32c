"""What branches and loops are at every level: the rules that `nn.if`, `nn.while` and `nn.scan` share with the ops of the `tensor` level
that they become.

Their regions are isolated: what they read from outside is an operand, and an argument of their block. So a region is a function in all but
name, which passes over functions go into (`ir/passes.py`), and which the host compiles by itself where it runs the branch or loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from polyreme.dialects.arrays import Array
from polyreme.dialects.shape_rules import check_sizes
from polyreme.ir.core import Block, Op, Region
from polyreme.ir.define import BindsSizes
from polyreme.ir.diagnostics import check, check_type
from polyreme.ir.dims import SYMBOL, Dim, symbols, told
from polyreme.ir.evaluate import check_rounds, learn_sizes, resolve, resolve_all
from polyreme.ir.types import TensorType, Type, i1, i64, substitute_type, type_symbols

__all__ = [
    "TRIPS",
    "check_predicate",
    "differing_axes",
    "if_types",
    "is_true",
    "local_sizes",
    "run_if",
    "run_scan",
    "run_while",
    "scan_types",
    "while_types",
]

# How many rounds a loop made.
TRIPS = TensorType((), i64)


def _text(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def check_predicate(kind: Type, what: str) -> None:
    """A predicate is one bool, of any rank: Paddle has them of shape [] and [1]."""
    check_type(isinstance(kind, TensorType) and kind.dtype == i1, f"expected a bool as {what} but got {kind}")
    assert isinstance(kind, TensorType)
    check(kind.elements == 1, f"expected {what} to be one bool but got {kind}")


def is_true(predicate: Array) -> bool:
    """What a predicate says."""
    return bool(np.asarray(predicate).reshape(-1)[0])


def _block(region: Region, what: str, end: type[Op], wanted: Sequence[Type]) -> tuple[Block, list[Any]]:
    """The block of a region, whose arguments have the types `wanted`, and the types that it yields."""
    block = region.block
    taken = [a.type for a in block.args]
    check(taken == list(wanted), f"expected {what} to take {_text(wanted)} but it takes {_text(taken)}", code="E0305")
    return block, _yielded(region, what, end)


def _yielded(region: Region, what: str, end: type[Op]) -> list[Any]:
    last = region.block.last
    check(isinstance(last, end), f"expected {what} to end with '{end.name}'", code="E0305")
    assert last is not None
    return [v.type for v in last.operands]


# --- branches


def if_types(
    cond: Type, captured: Sequence[Type], sizes: Sequence[Dim], then_body: Region, else_body: Region, end: type[Op]
) -> tuple[Type, ...]:
    """The result types of a branch."""
    check_predicate(cond, "the condition")
    _, first = _block(then_body, "the first body", end, captured)
    _, second = _block(else_body, "the second body", end, captured)
    check(len(first) == len(second), f"expected both bodies to yield as many values but got {len(first)} and {len(second)}", code="E0305")
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        check(
            a.dtype == b.dtype and a.rank == b.rank,
            f"expected both bodies to yield values of one element type and rank but value {i} is {a} in the first and {b} in the second",
            code="E0305",
        )
    differing = differing_axes(captured, then_body, else_body)
    check(
        len(differing) == len(sizes),
        f"expected {len(differing)} names in 'sizes', one for each size that is known only once a body has run "
        f"({', '.join(f'axis {axis} of result {i}' for i, axis in differing) or 'none is'}), but got {len(sizes)}",
        code="E0305",
    )
    check(
        all(SYMBOL.match(str(s)) for s in sizes) and len(set(sizes)) == len(sizes),
        f"expected different names in 'sizes' but got {', '.join(map(str, sizes))}",
    )
    shapes = [list(t.shape) for t in first]
    for (i, axis), size in zip(differing, sizes, strict=True):
        shapes[i][axis] = size
    return tuple(t.with_shape(tuple(shape)) for t, shape in zip(first, shapes, strict=True))


def differing_axes(captured: Sequence[Type], then_body: Region, else_body: Region) -> list[tuple[int, int]]:
    """Which sizes of what two bodies yield, as (result, axis), are known only once one of them has run: those that differ, and those that
    are learnt inside.
    """
    outside: frozenset[str] = frozenset().union(*map(type_symbols, captured))
    hidden = _learnt_inside(then_body, outside) | _learnt_inside(else_body, outside)
    pairs = zip(then_body.block.terminator.operands, else_body.block.terminator.operands, strict=True)
    return [
        (i, axis)
        for i, (x, y) in enumerate(pairs)
        for axis, (a, b) in enumerate(zip(x.type.shape, y.type.shape, strict=True))
        if a != b or symbols(a) & hidden
    ]


def _learnt_inside(region: Region, outside: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    for op in region.block:
        if op.has(BindsSizes):
            found.update(*(type_symbols(r.type) for r in op.results))
    return frozenset(found) - outside


def run_if(op: Any, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
    """A branch on arrays."""
    cond, *captured = args
    results: Sequence[Any] = run_region(op.then_body if is_true(cond) else op.else_body, captured)
    return results


# --- loops


def local_sizes(carried: Sequence[Type], inits: Sequence[Type], captured: Sequence[Type]) -> frozenset[str]:
    """The names of sizes that change from round to round: those of carried values that no value from outside has."""
    outside: frozenset[str] = frozenset().union(*map(type_symbols, inits), *map(type_symbols, captured))
    return frozenset().union(*map(type_symbols, carried)) - outside


def while_types(inits: Sequence[Type], captured: Sequence[Type], condition: Region, body: Region, end: type[Op]) -> tuple[Type, ...]:
    """The result types of a loop: those of its carried values, and of the number of rounds."""
    carried: list[Any] = [a.type for a in body.block.args[: len(inits)]]
    _, made = _block(body, "the body", end, [*carried, *captured])
    _, predicate = _block(condition, "the condition", end, [*carried, *captured])
    check(len(predicate) == 1, f"expected the condition to yield one bool but got {_text(predicate)}", code="E0305")
    check_predicate(predicate[0], "what the condition yields")
    local = local_sizes(carried, inits, captured)
    _check_carried(carried, inits, local, "the loop to start with")
    _check_carried(carried, made, local, "the body to yield")
    return (*carried, TRIPS)


def _check_carried(carried: Sequence[Any], given: Sequence[Any], local: frozenset[str], what: str) -> None:
    """That values are of the types of the carried ones, whose `local` sizes may be any."""
    same = len(carried) == len(given) and all(a.dtype == b.dtype and a.rank == b.rank for a, b in zip(carried, given, strict=True))
    if same:
        sizes: dict[str, Dim] = {}
        for kind, value in zip(carried, given, strict=True):
            for dim, size in zip(kind.shape, value.shape, strict=True):
                found = told(dim, size)
                if found is not None and found[0] in local:
                    sizes.setdefault(*found)
        same = all(substitute_type(kind, sizes) == value for kind, value in zip(carried, given, strict=True))
    hint = (
        "; a size that changes from round to round has a name of its own in the types of the body's arguments"
        if len(carried) == len(given)
        else ""
    )
    check(same, f"expected {what} {_text(carried)} but got {_text(given)}{hint}", code="E0305")


def run_while(op: Any, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
    """A loop on arrays. Sizes that change are learnt anew in each round."""
    count = len(op.inits)
    carried, captured = list(args[:count]), list(args[count:])
    kinds = [a.type for a in op.body.block.args[:count]]
    local = local_sizes(kinds, [v.type for v in op.inits], [v.type for v in op.captured])
    trips = 0
    while True:
        learn_sizes(kinds, carried, local)
        if not is_true(run_region(op.condition, [*carried, *captured])[0]):
            return [*carried, np.asarray(trips, np.int64)]
        check_rounds(trips, op)
        carried = list(run_region(op.body, [*carried, *captured]))
        trips += 1


# --- scans


def scan_types(
    xs: Sequence[TensorType], inits: Sequence[TensorType], shared: Sequence[TensorType], steps: Dim, body: Region, end: type[Op]
) -> tuple[Type, ...]:
    """The result types of a scan: what the last step handed on, and what all steps gave."""
    check_sizes((steps,))
    for x in xs:
        check(x.rank > 0 and x.shape[0] == steps, f"expected operands of {steps} steps but got {x}", code="E0305")
    _, made = _block(body, "the body", end, [*(x.with_shape(x.shape[1:]) for x in xs), *inits, *shared])
    handed = made[: len(inits)]
    check(handed == list(inits), f"expected values of the types {_text(inits)} to be handed on but got {_text(handed)}", code="E0305")
    return (*inits, *(t.with_shape((steps, *t.shape)) for t in made[len(inits) :]))


def steps_of(steps: Dim, reverse: bool) -> Iterator[int]:
    """The numbers of the steps as they run, in the run under way."""
    count = resolve(steps)
    return iter(range(count - 1, -1, -1) if reverse else range(count))


def run_scan(op: Any, args: Sequence[Any], run_region: Callable[..., Any]) -> Sequence[Any]:
    """A scan on arrays."""
    xs, carried, shared = op.definition.split(args, op.segments)
    kinds: list[Any] = [r.type for r in op.results[len(carried) :]]
    given: list[Array] = [np.empty(resolve_all(k.shape), k.dtype.np) for k in kinds]
    for t in steps_of(op.steps, op.reverse):
        made = run_region(op.body, [*(np.asarray(x[t]) for x in xs), *carried, *shared])
        carried = made[: len(carried)]
        for array, value in zip(given, made[len(carried) :], strict=True):
            array[t] = value
    return [*carried, *given]
