"""Whether a body keeps the rows of different sequences apart: which axis of each of its values has a row for each sequence.

In Paddle a step of a `DynamicRNN` sees only the sequences that have not ended, here all of them. Both give the same for one if no op of
the body lets a row depend on others, or on how many there are. `check_rowwise` shows that for the ops of the `nn` dialect, by a rule for
each; an op without one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects import nn
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import Elementwise
from polyreme.ir.dims import Dim, Expr, product, symbols
from polyreme.ir.types import TensorType, type_symbols
from polyreme.lowering.transforms.solve_sizes import attribute_sizes

__all__ = ["MixedRows", "check_rowwise"]

# The axis of a value that has a row for each sequence; None where the value is the same for all.
Axis = int | None

_MIXES = "it puts the rows of several sequences together"
_FOREIGN = "it joins the rows of sequences with rows from outside of the block, which static_input brings in"


class MixedRows(Exception):
    """What is wrong with `op`, or with something that a step gives or hands on."""

    def __init__(self, why: str, op: Op | None = None):
        super().__init__(why)
        self.why, self.op = why, op


def check_rowwise(scan: nn.Scan, states: int, static: Sequence[Value]) -> None:
    """`MixedRows` where a step lets a row depend on others. Its operands `xs`, the first `states` of `inits`, and `static` have rows of the
    sequences; they are the first axis of what a step gives.
    """
    count = scan.xs[0].type.shape[1]
    if not symbols(count):
        raise MixedRows(f"expected a free number of sequences but there are {count}")
    inputs = [x.type.with_shape(x.type.shape[1:]) for x in scan.xs]
    firsts = [v.type for v in (*scan.inits[:states], *static)]
    for kind in firsts:
        if not kind.shape or not _same_size(kind.shape[0], count):
            raise MixedRows(f"expected a row for each sequence, [{count}, ...], but got the shape {list(kind.shape)}")
    given = [0] * (len(inputs) + states) + [None] * (len(scan.inits) - states)
    known = dict(zip(scan.body.block.args, [*given, *(0 if v in static else None for v in scan.shared)], strict=True))
    found = _Rows(count).of_body(scan.body.block, known)
    for axis in (*found[:states], *found[len(scan.inits) :]):
        if axis != 0:
            raise MixedRows("a step gives or hands on what has no row for each sequence")
    if any(axis is not None for axis in found[states : len(scan.inits)]):
        raise MixedRows("a step changes a tensor from outside by the rows of sequences")


def _need(holds: bool, why: str = _MIXES) -> None:
    if not holds:
        raise MixedRows(why)


class _Rows:
    """The axes of values, of bodies in which `count` is how many sequences there are."""

    def __init__(self, count: Dim):
        self.count, self.names = count, symbols(count)

    def of_body(self, block: Block, known: dict[Value, Axis]) -> list[Axis]:
        """The axes of what a block yields, of those of its arguments."""
        for op in block:
            if isinstance(op, nn.Yield):
                break
            try:
                found = self.of_results(op, [known[v] for v in op.operands])
            except MixedRows as error:
                raise MixedRows(error.why, error.op or op) from None
            known.update(zip(op.results, found, strict=True))
        return [known[v] for v in block.terminator.operands]

    def of_results(self, op: Op, axes: list[Axis]) -> Sequence[Axis]:
        """The axes of an op's results, of those of its operands."""
        rule = _RULES.get(type(op))
        if rule is None and Elementwise in op.traits:
            rule = _elementwise
        if all(axis is None for axis in axes) and not self._speaks_of_count(op):
            return [None] * len(op.results)
        if rule is None:
            raise MixedRows("nothing tells that it keeps the rows of sequences apart")
        found = rule(self, op, axes)
        for axis, result in zip(found, op.results, strict=True):
            if axis is not None and not _same_size(result.type.shape[axis], self.count):
                raise MixedRows(_MIXES)
        return found

    def _speaks_of_count(self, op: Op) -> bool:
        """Whether an op brings in the number of sequences, which no operand of its has."""
        if any(self._mentioned(v.type) for v in op.operands):
            return False
        return any(self.names & attribute_sizes(value) for value in op.attributes.values()) or any(
            self._mentioned(v.type) for v in op.results
        )

    def _mentioned(self, kind: Any) -> bool:
        return isinstance(kind, TensorType) and bool(type_symbols(kind) & self.names)

    def new(self, kind: TensorType) -> Axis:
        """The axis of a value that an op makes of nothing: where its size is the number of sequences."""
        places = [i for i, size in enumerate(kind.shape) if symbols(size) & self.names]
        _need(len(places) < 2)
        return places[0] if places else None

    def aligned(self, op: Op, axes: Sequence[Axis], operands: Sequence[Value] | None = None) -> Axis:
        """The axis of the result of operands that broadcast to each other."""
        result = op.results[0].type
        values = op.operands if operands is None else operands
        found = {axis + result.rank - v.type.rank for axis, v in zip(axes, values, strict=True) if axis is not None}
        if len(found) != 1:
            raise MixedRows(_MIXES)
        (at,) = found
        for axis, v in zip(axes, values, strict=True):
            own = at - result.rank + v.type.rank
            if axis is None and own >= 0 and v.type.shape[own] != 1:
                raise MixedRows(_FOREIGN)
        return at


def _same_size(a: Dim, b: Dim) -> bool:
    """Whether sizes are written alike. (`==` may ask a trace, and so make a condition of it.)"""
    return a.terms == b.terms if isinstance(a, Expr) and isinstance(b, Expr) else a is b


Rule = Callable[[_Rows, Any, list[Axis]], Sequence[Axis]]
_RULES: dict[type[Op], Rule] = {}


def _rule(*kinds: type[Op]) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return declare


def _only(axes: Sequence[Axis]) -> int:
    """The axis of the first operand, the only one of the sequences."""
    first, *others = axes
    _need(all(axis is None for axis in others))
    assert first is not None
    return first


# --- rules: of an op at least one of whose operands has rows, or whose result does


def _elementwise(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    return [rows.aligned(op, axes)]


@_rule(nn.StopGradient, nn.Overwrite)
def _same(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    _need(len(set(axes)) == 1, _FOREIGN)
    return axes[:1]


@_rule(nn.Full, nn.Constant)
def _made(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    return [rows.new(op.result.type)]


@_rule(nn.Iota)
def _counted(rows: _Rows, op: nn.Iota, axes: list[Axis]) -> Sequence[Axis]:
    at = rows.new(op.result.type)
    _need(at != op.axis % op.result.type.rank, "it numbers the rows of sequences")
    return [at]


@_rule(nn.DimValue)
def _size(rows: _Rows, op: nn.DimValue, axes: list[Axis]) -> Sequence[Axis]:
    raise MixedRows("it depends on how many sequences there are")


@_rule(nn.Uniform)
def _drawn(rows: _Rows, op: nn.Uniform, axes: list[Axis]) -> Sequence[Axis]:
    _need(axes == [None])
    return [rows.new(op.results[0].type), None]


@_rule(nn.Softmax, nn.LogSoftmax, nn.Cumsum, nn.Argsort)
def _along_one_axis(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    _need(_only(axes) != op.axis % op.operands[0].type.rank)
    return axes


@_rule(nn.CrossEntropy)
def _loss(rows: _Rows, op: nn.CrossEntropy, axes: list[Axis]) -> Sequence[Axis]:
    _need(None not in axes, _FOREIGN)
    _need(len(set(axes)) == 1 and axes[0] != op.axis % op.logits.type.rank)
    return axes[:1]


def _without(axis: int, dropped: Sequence[int], keepdims: bool) -> int:
    """Where an axis stands in the result of a reduction along others."""
    _need(axis not in dropped)
    return axis if keepdims else axis - sum(a < axis for a in dropped)


@_rule(nn.Sum, nn.Mean, nn.Max, nn.Min, nn.Prod, nn.Any, nn.All)
def _reduction(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    rank = op.x.type.rank
    return [_without(_only(axes), [a % rank for a in op.axis] or range(rank), op.keepdims)]


@_rule(nn.ArgMax, nn.ArgMin)
def _place(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    return [_without(_only(axes), [op.axis % op.x.type.rank], op.keepdims)]


@_rule(nn.Standardize)
def _standardize(rows: _Rows, op: nn.Standardize, axes: list[Axis]) -> Sequence[Axis]:
    at, rank = _only(axes), op.x.type.rank
    _need(at not in [a % rank for a in op.affine], _FOREIGN)
    rest = _without(at, [a % rank for a in op.axes], False)
    return [at, rest, rest]


@_rule(nn.BatchNorm)
def _batch_norm(rows: _Rows, op: nn.BatchNorm, axes: list[Axis]) -> Sequence[Axis]:
    _need(_only(axes) != op.axis % op.x.type.rank, _FOREIGN)
    return axes[:1]


@_rule(nn.Reshape)
def _reshape(rows: _Rows, op: nn.Reshape, axes: list[Axis]) -> Sequence[Axis]:
    at, old, new = _only(axes), op.x.type.shape, op.result.type.shape
    for i, size in enumerate(new):
        if _same_size(size, rows.count) and str(product(new[:i])) == str(product(old[:at])):
            return [i]
    raise MixedRows(_MIXES)


@_rule(nn.Transpose)
def _transpose(rows: _Rows, op: nn.Transpose, axes: list[Axis]) -> Sequence[Axis]:
    return [op.perm.index(_only(axes))]


@_rule(nn.BroadcastTo)
def _broadcast(rows: _Rows, op: nn.BroadcastTo, axes: list[Axis]) -> Sequence[Axis]:
    if axes == [None]:
        return [rows.new(op.result.type)]
    return [_only(axes) + op.result.type.rank - op.x.type.rank]


@_rule(nn.Slice)
def _slice(rows: _Rows, op: nn.Slice, axes: list[Axis]) -> Sequence[Axis]:
    at = _only(axes)
    _need((op.starts[at], op.strides[at]) == (0, 1) and _same_size(op.stops[at], rows.count))
    return [at]


@_rule(nn.Flip, nn.Window)
def _not_along(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    _need(_only(axes) not in [a % op.operands[0].type.rank for a in op.axes])
    return axes


@_rule(nn.Fold)
def _fold(rows: _Rows, op: nn.Fold, axes: list[Axis]) -> Sequence[Axis]:
    rank = op.result.type.rank
    _need(_only(axes) < rank and _only(axes) not in [a % rank for a in op.axes])
    return axes


@_rule(nn.Pad)
def _pad(rows: _Rows, op: nn.Pad, axes: list[Axis]) -> Sequence[Axis]:
    at = _only(axes)
    _need(op.padding[2 * at : 2 * at + 2] == (0, 0) and not (op.interior and op.interior[at]))
    return [at]


@_rule(nn.Concat)
def _concat(rows: _Rows, op: nn.Concat, axes: list[Axis]) -> Sequence[Axis]:
    _need(None not in axes, _FOREIGN)
    _need(len(set(axes)) == 1 and axes[0] != op.axis % op.result.type.rank)
    return axes[:1]


@_rule(nn.Gather)
def _gather(rows: _Rows, op: nn.Gather, axes: list[Axis]) -> Sequence[Axis]:
    (x, index), along = axes, op.axis % op.x.type.rank
    if x is None:
        assert index is not None
        return [along + index]
    _need(index is None and x != along)
    return [x if x < along else x + op.index.type.rank - 1]


@_rule(nn.MatMul)
def _matmul(rows: _Rows, op: nn.MatMul, axes: list[Axis]) -> Sequence[Axis]:
    batch = max(op.x.type.rank, op.y.type.rank, 2) - 2
    # Of either operand: which of its last two axes is summed over, and where the other stands in the result.
    ways = ((op.x, 0 if op.transpose_x else 1, batch), (op.y, 1 if op.transpose_y else 0, batch + (op.x.type.rank > 1)))
    found = set()
    for axis, (value, summed, kept) in zip(axes, ways, strict=True):
        if axis is not None:
            own = axis - value.type.rank + 2
            _need(value.type.rank > 1 and own != summed)
            found.add(own + batch if own < 0 else kept)
    _need(len(found) == 1)
    (at,) = found
    _need(None in axes or at < batch)
    for axis, (value, *_) in zip(axes, ways, strict=True):
        own = at - batch + value.type.rank - 2
        _need(axis is not None or at >= batch or own < 0 or value.type.shape[own] == 1, _FOREIGN)
    return [at]


@_rule(nn.Linear)
def _linear(rows: _Rows, op: nn.Linear, axes: list[Axis]) -> Sequence[Axis]:
    _need(_only(axes) != op.x.type.rank - 1)
    return axes[:1]


@_rule(nn.Conv, nn.ConvTranspose, nn.MaxPool, nn.AvgPool)
def _images(rows: _Rows, op: Any, axes: list[Axis]) -> Sequence[Axis]:
    _need(_only(axes) == 0)
    return axes[:1]


# --- bodies in the body


def _body(rows: _Rows, region: Region, axes: Sequence[Axis]) -> list[Axis]:
    return rows.of_body(region.block, dict(zip(region.block.args, axes, strict=True)))


def _met(first: Sequence[Axis], second: Sequence[Axis]) -> list[Axis]:
    """The axes of values that are one of two."""
    _need(all(a == b for a, b in zip(first, second, strict=True)), "its value has a row for each sequence in one case only")
    return list(first)


@_rule(nn.If)
def _if(rows: _Rows, op: nn.If, axes: list[Axis]) -> Sequence[Axis]:
    _need(axes[0] is None, "the rows of all sequences decide which way it goes")
    return _met(_body(rows, op.then_body, axes[1:]), _body(rows, op.else_body, axes[1:]))


@_rule(nn.While)
def _while(rows: _Rows, op: nn.While, axes: list[Axis]) -> Sequence[Axis]:
    _need(_body(rows, op.condition, axes) == [None], "the rows of all sequences decide how often it runs")
    ends = _met(axes[: len(op.inits)], _body(rows, op.body, axes))
    return [*ends, *[None] * (len(op.results) - len(ends))]


@_rule(nn.Scan)
def _scan(rows: _Rows, op: nn.Scan, axes: list[Axis]) -> Sequence[Axis]:
    count = len(op.xs)
    _need(0 not in axes[:count])
    inside = [None if axis is None else axis - 1 for axis in axes[:count]]
    found = _body(rows, op.body, [*inside, *axes[count:]])
    ends = _met(axes[count : count + len(op.inits)], found[: len(op.inits)])
    return [*ends, *(None if axis is None else axis + 1 for axis in found[len(op.inits) :])]
