"""Whether a body keeps the rows of different sequences apart: which axis of each of its values has a row for each sequence.

In Paddle a step of a `DynamicRNN` sees only the sequences that have not ended, here all of them. Both give the same for one if no op of
the body lets a row depend on others, or on how many there are. `check_rowwise` shows that for the ops of the `nn` dialect, by a rule for
each; an op without one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from polyreme.dialects import nn
from polyreme.ir.core import Block, Op, Region, Value
from polyreme.ir.define import Elementwise
from polyreme.ir.dims import Dim, Expr, product, symbols
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType, type_symbols
from polyreme.lowering.transforms.solve_sizes import attribute_sizes

__all__ = ["SEQUENCE_OPERATORS", "MixedRows", "OfSequences", "check_rowwise"]

# The axis of a value that has a row for each sequence, or for each row of sequences; None where the value is the same for all.
Axis = int | None

_MIXES = "it puts the rows of several sequences together"
_FOREIGN = "it joins the rows of sequences with rows from outside of the block, which static_input brings in"
_GROUPS = "it joins rows of different sequences, or a row for each with all of theirs, of which sequence_expand makes as many"

# The operators on sequences in a body: the slot of their rows, and whether they give rows of sequences too, or a row for each.
SEQUENCE_OPERATORS = {
    "sequence_conv": ("X", True),
    "sequence_expand": ("Y", True),
    "sequence_expand_as": ("Y", True),
    "sequence_pool": ("X", False),
    "sequence_softmax": ("X", True),
}


class MixedRows(Exception):
    """What is wrong with `op`, or with something that a step gives or hands on."""

    def __init__(self, why: str, op: Op | None = None):
        super().__init__(why)
        self.why, self.op = why, op


@dataclass(frozen=True, eq=False)
class RowGroup:
    """What has a place along an axis, and how many there are: sequences, or the rows of those with these offsets."""

    count: Dim
    offsets: Any = None


class OfSequences(NamedTuple):
    """An operator on sequences that a body has applied: its type, the values that it read by slot, and the offsets of the sequences."""

    type: str
    given: Mapping[str, Sequence[Value]]
    offsets: Any


# Where a value has a place for what, None where it has none, or the error of an op that it depends on.
Placed = tuple[int, RowGroup] | MixedRows | None


def check_rowwise(
    scan: nn.Scan, states: int, static: Sequence[tuple[Value, Any]] = (), marks: Mapping[Value, OfSequences] = MappingProxyType({})
) -> None:
    """`MixedRows` where a step lets a row depend on others. Its operands `xs` and the first `states` of `inits` have rows of the sequences,
    as has each of `static`, or if it has offsets, the rows of sequences that are as many. Rows of the sequences are the first axis of what
    a step gives. `marks` says which values operators on sequences have made.
    """
    count = scan.xs[0].type.shape[1]
    if not symbols(count):
        raise MixedRows(f"expected a free number of sequences but there are {count}")
    sequences = RowGroup(count)
    for value in (*scan.inits[:states], *(v for v, offsets in static if offsets is None)):
        if not value.type.shape or not _same_size(value.type.shape[0], count):
            raise MixedRows(f"expected a row for each sequence, [{count}, ...], but got the shape {list(value.type.shape)}")
    groups = {None: sequences}
    placed: dict[Value, Placed] = {}
    for value, offsets in static:
        placed[value] = 0, groups.setdefault(offsets, RowGroup(value.type.shape[0], offsets))
    given: list[Placed] = [(0, sequences)] * (len(scan.xs) + states) + [None] * (len(scan.inits) - states)
    known = dict(zip(scan.body.block.args, [*given, *(placed.get(v) for v in scan.shared)], strict=True))
    found = _Rows(list(groups.values()), marks).of_body(scan.body.block, known)
    for place in found:
        if isinstance(place, MixedRows):
            raise place
    for place in (*found[:states], *found[len(scan.inits) :]):
        if place != (0, sequences):
            raise MixedRows("a step gives or hands on what has no row for each sequence")
    if any(place is not None for place in found[states : len(scan.inits)]):
        raise MixedRows("a step changes a tensor from outside by the rows of sequences")


def _same_size(a: Dim, b: Dim) -> bool:
    """Whether sizes are written alike. (`==` may ask a trace, and so make a condition of it.)"""
    return a.terms == b.terms if isinstance(a, Expr) and isinstance(b, Expr) else a is b


def _need(holds: bool, why: str = _MIXES) -> None:
    if not holds:
        raise MixedRows(why)


class _Rows:
    """The places of values. While a rule is asked, `group` is what its op has places for, and `count` how many."""

    def __init__(self, groups: Sequence[RowGroup], marks: Mapping[Value, OfSequences]):
        self.groups, self.marks = groups, marks
        self.group = groups[0]

    @property
    def count(self) -> Dim:
        return self.group.count

    @property
    def names(self) -> frozenset[str]:
        return symbols(self.count)

    def of_body(self, block: Block, known: dict[Value, Placed]) -> list[Placed]:
        """The places of what a block yields, of those of its arguments."""
        for op in block:
            if isinstance(op, nn.Yield):
                break
            # The error of an op stands in place of its results: who does not use these is not concerned.
            places: Sequence[Placed]
            try:
                places = self.of_results(op, [known[v] for v in op.operands])
            except MixedRows as error:
                places = [MixedRows(error.why, error.op or op)] * len(op.results)
            for result, place in zip(op.results, places, strict=True):
                known[result] = self._of_mark(self.marks[result], result, known) if result in self.marks else place
        return [known[v] for v in block.terminator.operands]

    def _of_mark(self, mark: OfSequences, result: Value, known: Mapping[Value, Placed]) -> Placed:
        """The place of what an operator on sequences gives, or its error."""
        op = result.producer()
        rows = next((group for group in self.groups[1:] if group.offsets is mark.offsets), None)
        if rows is None:
            return MixedRows("its sequences are none that static_input brings in", op)
        slot, gives_rows = SEQUENCE_OPERATORS[mark.type]
        for name, values in mark.given.items():
            wanted = (0, rows) if name == slot else (0, self.groups[0]) if name == "X" else None
            for place in map(known.get, values):
                if place != wanted:
                    return place if isinstance(place, MixedRows) else MixedRows(_GROUPS, op)
        group = rows if gives_rows else self.groups[0]
        if not _same_size(result.type.shape[0], group.count):
            return MixedRows(f"expected {self.groups[0].count} sequences but got {result.type.shape[0]}", op)
        return 0, group

    def of_results(self, op: Op, places: Sequence[Placed]) -> Sequence[Placed]:
        """The places of an op's results, of those of its operands."""
        wrong = next((place for place in places if isinstance(place, MixedRows)), None)
        if wrong is not None:
            raise wrong
        groups = list(dict.fromkeys(place[1] for place in places if isinstance(place, tuple)))
        if not groups:
            groups = [group for group in self.groups if self._speaks_of(op, symbols(group.count))]
        if not groups:
            return [None] * len(op.results)
        _need(len(groups) == 1, _GROUPS)
        axes = [place[0] if isinstance(place, tuple) else None for place in places]
        around, self.group = self.group, groups[0]
        try:
            found = self._by_rule(op, axes)
            return [None if axis is None else (axis, self.group) for axis in found]
        finally:
            self.group = around

    def _by_rule(self, op: Op, axes: list[Axis]) -> Sequence[Axis]:
        rule = _RULES.get(type(op))
        if rule is None and Elementwise in op.traits:
            rule = _elementwise
        if rule is None:
            raise MixedRows("nothing tells that it keeps the rows of sequences apart")
        found = rule(self, op, axes)
        for axis, result in zip(found, op.results, strict=True):
            _need(axis is None or _same_size(result.type.shape[axis], self.count))
        return found

    @staticmethod
    def _speaks_of(op: Op, names: frozenset[str]) -> bool:
        """Whether an op brings in a size that no operand of its has."""
        if any(_mentions(v.type, names) for v in op.operands):
            return False
        return any(names & attribute_sizes(value) for value in op.attributes.values()) or any(
            _mentions(v.type, names) for v in op.results
        )

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


def _mentions(kind: Any, names: frozenset[str]) -> bool:
    return isinstance(kind, TensorType) and bool(type_symbols(kind) & names)


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


@_rule(nn.Softmax, nn.LogSoftmax, nn.Cumsum, nn.Cumprod, nn.Cummax, nn.Cummin, nn.Argsort)
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
    places: list[Placed] = [None if axis is None else (axis, rows.group) for axis in axes]
    found: list[Axis] = []
    for place in rows.of_body(region.block, dict(zip(region.block.args, places, strict=True))):
        if isinstance(place, MixedRows):
            raise place
        _need(place is None or place[1] == rows.group, _GROUPS)
        found.append(None if place is None else place[0])
    return found


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
