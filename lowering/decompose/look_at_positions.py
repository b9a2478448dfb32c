"""Positions that are computed: a run tells the least and the greatest of them, so that its caller can say that they are none of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from polyreme.dialects import host
from polyreme.dialects.control import local_sizes
from polyreme.dialects.nn import (
    Cast,
    Concat,
    DimValue,
    Full,
    GreaterEqual,
    If,
    Less,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    Max,
    Min,
    Neg,
    Reshape,
    Scan,
    Slice,
    Where,
    While,
    Within,
)
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Module, Return
from polyreme.ir.core import Block, Op, OpResult, Value
from polyreme.ir.dims import Dim
from polyreme.ir.dims import told as told_by
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, i64
from polyreme.lowering.transforms.solve_sizes import specialize

__all__ = ["LookAtPositions", "look"]

# The least and the greatest position, and the size of their axis.
_TOLD = TensorType((3,), i64)


@register_pass
@dataclass(frozen=True)
class LookAtPositions(Pass):
    """within(x)  ->  x, and the least and the greatest of x and the size of their axis in the last result of `main`

    Before: any module.  After: no `nn.within` is left. With `looks`, `main` has as its last result three whole numbers for each of those,
    and says in the attribute of that name where they stand; the result that it `proceeds` by is false where they fit none. What a branch
    tells is one of its results; a loop carries what the first round told in which a position fitted none, or what the last one told. What
    the condition of a loop reads at is computed once more, in front of the loop and at the end of its body; but for what a call of a Python
    function says, which would be called twice. Runs once sizes are solved.
    """

    name: ClassVar[str] = "look-at-positions"
    takes: ClassVar[tuple[str, ...]] = ("nn", "tensor")
    looks: bool = True

    def run(self, module: Module) -> None:
        for func in module.functions:
            look(func, self.looks and func.sym_name == "main")


@dataclass(frozen=True)
class _Told:
    """What is told of the positions of one op, as a value of the block that is looked at."""

    numbers: Value
    wraps: bool
    place: str


def look(func: Func, looks: bool) -> None:
    """What the pass does to one function."""
    told = _told_in(func.block.ops) if looks else []
    for op in [op for op in func.walk() if isinstance(op, Within)]:
        op.replace_with(op.x)
    if not told:
        return
    end = func.block.terminator
    b = Builder.before_op(end)
    returned = list(end.operands)
    if func.proceeds:
        at = func.result_names.index(func.proceeds)
        for one in told:
            fits = b(Reshape, b(LogicalNot, _fits_none(b, one.numbers, one.wraps)), shape=())
            returned[at] = b(LogicalAnd, returned[at], fits)
    b.insert(Return([*returned, b(Concat, [one.numbers for one in told], axis=0)]))
    end.erase()
    func.attributes["looks"] = (*func.looks, *(f"{'wraps' if one.wraps else 'from 0'} at {one.place}" for one in told))
    if func.result_names:
        func.attributes["result_names"] = (*func.result_names, "looks")
    func.finish()


def _told_in(ops: Sequence[Op]) -> list[_Told]:
    """What is told of the positions among these ops and in the branches and loops among them."""
    told: list[_Told] = []
    for op in ops:
        if isinstance(op, Within) and op.x.type.elements != 0:
            told.append(_Told(_ends(op), op.wraps, str(op.place or op.location)))
        elif isinstance(op, If):
            told += _told_by_branch(op)
        elif isinstance(op, (While, Scan)):
            told += _told_by_loop(op)
    return told


def _ends(op: Any) -> Value:
    b = Builder.before_op(op)
    wide = op.x if op.x.type.dtype == i64 else b(Cast, op.x, dtype=i64)
    axes = tuple(range(wide.type.rank))
    size = b(Full, value=op.size, dtype=i64) if isinstance(op.size, int) else b(DimValue, size=op.size, dtype=i64)
    ends = [b(end, wide, axis=axes, keepdims=False) if axes else wide for end in (Min, Max)]
    made: Value = b(Concat, [b(Reshape, part, shape=(1,)) for part in (*ends, size)], axis=0)
    return made


def _told_by_branch(op: If) -> list[_Told]:
    """Of each body; the other one tells of nothing."""
    bodies = [region.block for region in op.regions]
    told = [_told_in(body.ops) for body in bodies]
    count = len(told[0]) + len(told[1])
    for body, own, before in zip(bodies, told, (0, len(told[0])), strict=True):
        b = Builder.before_op(body.terminator)
        values = [_nothing(b) for _ in range(count)]
        values[before : before + len(own)] = [one.numbers for one in own]
        _yield_more(body, len(body.terminator.operands), values)
    results = _add_results(op, len(op.results), count)
    return [_Told(value, one.wraps, one.place) for value, one in zip(results, [*told[0], *told[1]], strict=True)]


def _told_by_loop(op: While | Scan) -> list[_Told]:
    """Of its rounds, carried from one to the next; and of its condition, once more often."""
    body = op.body.block
    before: list[_Told] = []
    if isinstance(op, While):
        before = _told_in(_condition_again(op, Builder.before_op(op), op.inits, op.captured))
        _condition_again(op, Builder.before_op(body.terminator), body.terminator.operands, body.args[len(op.inits) :])
    told = _told_in(body.ops)
    if not told:
        return before
    first = len(op.xs) if isinstance(op, Scan) else 0
    carried = len(op.inits)
    b = Builder.before_op(op)
    operands = list(op.operands)
    operands[first + carried : first + carried] = [_nothing(b) for _ in told]
    segments = list(op.segments or ())
    segments[1 if isinstance(op, Scan) else 0] += len(told)
    op.set_operands(operands, tuple(segments))
    for region in op.regions:
        args = [_add_arg(region.block, first + carried + i) for i in range(len(told))]
    inside = Builder.before_op(body.terminator)
    kept = [inside(Where, _fits_none(inside, arg, one.wraps), arg, one.numbers) for arg, one in zip(args, told, strict=True)]
    _yield_more(body, carried, kept)
    results = _add_results(op, carried, len(told))
    return [*before, *(_Told(value, one.wraps, one.place) for value, one in zip(results, told, strict=True))]


def _condition_again(op: While, b: Builder, carried: Sequence[Value], captured: Sequence[Value]) -> list[Op]:
    """What positions in the condition come from, and what reads at them, written once more for these values of a round."""
    block = op.condition.block
    needed: set[Op] = set()
    waiting = [inner for inner in block.ops if any(isinstance(part, Within) for part in inner.walk())]
    while waiting:
        one = waiting.pop()
        if any(isinstance(part, host.Call) for part in one.walk()):
            return []
        if one not in needed:
            needed.add(one)
            waiting += [made for value in one.operands if (made := value.producer()) is not None]
    kinds = [arg.type for arg in block.args[: len(carried)]]
    local = local_sizes(kinds, [v.type for v in op.inits], [v.type for v in op.captured])
    sizes: dict[str, Dim] = {}
    for kind, value in zip(kinds, carried, strict=True):
        for dim, size in zip(kind.shape, value.type.shape, strict=True):
            if (found := told_by(dim, size)) is not None and found[0] in local:
                sizes.setdefault(*found)
    inside: dict[Value, Value] = dict(zip(block.args, [*carried, *captured], strict=True))
    made_again = []
    for inner in block.ops:
        if inner in needed:
            again = inner.clone(inside)
            specialize(again, sizes)
            made_again.append(b.insert_op(again))
    return made_again


def _fits_none(b: Builder, numbers: Value, wraps: bool) -> Value:
    """Whether some position is outside of its axis, [1]."""
    low, high, size = (b(Slice, numbers, starts=(i,), stops=(i + 1,), strides=(1,)) for i in range(3))
    least = b(Neg, size) if wraps else b(Full, value=0, shape=(1,), dtype=i64)
    made: Value = b(LogicalOr, b(Less, low, least), b(GreaterEqual, high, size))
    return made


def _nothing(b: Builder) -> Value:
    """What tells of positions that fit: both are 0, of an axis of one element."""
    made: Value = b(Concat, [b(Full, value=n, shape=(1,), dtype=i64) for n in (0, 0, 1)], axis=0)
    return made


# --- ops with more operands, arguments and results


def _yield_more(block: Block, at: int, values: Sequence[Value]) -> None:
    end = block.terminator
    operands = [*end.operands[:at], *values, *end.operands[at:]]
    end.set_operands(operands, (len(operands),))


def _add_arg(block: Block, at: int) -> Value:
    arg = block.add_arg(_TOLD)
    block.args.insert(at, block.args.pop())
    for i, other in enumerate(block.args):
        other.index = i
    return arg


def _add_results(op: Op, at: int, count: int) -> list[Value]:
    made = [OpResult(_TOLD, op, at + i) for i in range(count)]
    op.results[at:at] = made
    for i, result in enumerate(op.results):
        result.index = i
    return list(made)
