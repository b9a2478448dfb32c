"""Row form: what a group of ops looks like to the loops that compute it.

A group with reductions has a space, the shape that is reduced, and the reduced axes. A *row* is a place along the other axes. For each row
the loops run over the reduced axes once per *stage*: a reduction that needs another one of the same row, as softmax's sum needs its
maximum, runs a stage later. Values that depend on a reduction are known for the current row only. So each of their axes must be one of the
space's, which their `axes` name.

Reductions of windows (pooling) are no rows: they are computed where an element of them is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyreme.dialects import tensor
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """The row form of a group.

    `level` counts the stages before a value is known: 0 without reductions. `axes` maps values that depend on reductions, and results, to
    the space's axes.
    """

    space: tuple[Dim, ...]
    reduced: Axes
    staged: tuple[tensor.Reduce, ...]
    level: dict[Value, int]
    axes: dict[Value, Axes]

    @property
    def outer(self) -> Axes:
        return tuple(i for i in range(len(self.space)) if i not in self.reduced)

    def is_full(self, value: Value) -> bool:
        """Whether the value varies along the reduced axes, so that a row of it is more than one element."""
        shape = shape_of(value)
        return any(a in self.reduced and shape[i] != 1 for i, a in enumerate(self.axes[value]))


def shape_of(value: Value) -> tuple[Dim, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.shape


def behind_reshapes(value: Value) -> Value:
    """What a value shows under another shape."""
    while (op := value.producer(tensor.Reshape)) is not None:
        value = op.x
    return value


def is_pooling(op: tensor.Reduce, inside: set[Op] | None = None) -> bool:
    """Whether `op` reduces the windows of a `window` that (through elementwise ops) makes its operand; `inside` bounds the search."""
    pending, seen = [op.x], set()
    while pending:
        producer = pending.pop().producer()
        if producer is None or producer in seen or (inside is not None and producer not in inside):
            continue
        seen.add(producer)
        if isinstance(producer, tensor.Window):
            if min(op.axes, default=0) >= shape_rank(producer.x):
                return True
        elif isinstance(producer, (tensor.Map, tensor.Pad)):
            pending += producer.operands
    return False


def shape_rank(value: Value) -> int:
    return len(shape_of(value))


def rows_of(ops: Sequence[Op], results: Sequence[Value]) -> Rows | None:
    """The row form of `ops` (in order) with these results; None when there is none.

    Without row reductions the space is the results' common shape and nothing is reduced.
    """
    inside = set(ops)
    staged = [op for op in ops if isinstance(op, tensor.Reduce) and not is_pooling(op, inside)]
    if not staged:
        shapes = {shape_of(v) for v in results}
        if len(shapes) != 1:
            return None
        (space,) = shapes
        everything = tuple(range(len(space)))
        return Rows(space, (), (), {}, dict.fromkeys(results, everything))
    space, reduced = shape_of(staged[0].x), staged[0].axes
    if any(shape_of(op.x) != space or op.axes != reduced for op in staged):
        return None
    level: dict[Value, int] = {}
    axes: dict[Value, Axes] = {}
    whole = tuple(range(len(space)))
    for op in ops:
        depth = max((level.get(v, 0) for v in op.operands), default=0)
        if isinstance(op, tensor.Reduce) and op in staged:
            if level.get(op.x, 0) and axes[op.x] != whole:
                return None
            level[op.result] = depth + 1
            axes[op.result] = whole if op.keepdims else tuple(a for a in whole if a not in reduced)
        elif depth:
            found = _axes_of(op, level, axes, space)
            if found is None:
                return None
            for made in op.results:
                level[made] = depth
                axes[made] = found
    for value in results:
        if value not in axes:
            if shape_of(value) != space:
                return None
            axes[value] = whole
    return Rows(space, reduced, tuple(staged), level, axes)


def _axes_of(op: Op, level: dict[Value, int], axes: dict[Value, Axes], space: tuple[Dim, ...]) -> Axes | None:
    """Where the axes of an op's result stand in the space, when some of its operands depend on reductions; None when they do not fit."""
    if not isinstance(op, (tensor.Map, tensor.Broadcast)):
        return None
    shape = shape_of(op.result)
    found: Axes | None = None
    for x in op.operands:
        if level.get(x, 0) and shape_rank(x):
            if found is not None and found != axes[x]:
                return None
            found = axes[x]
    if found is None:
        # Only scalars depend on the reductions (all axes are reduced): the others set the shape.
        found = tuple(range(len(space))) if len(shape) == len(space) else ()
    if len(found) != len(shape) or any(n not in (1, space[a]) for n, a in zip(shape, found, strict=True)):
        return None
    return found


def needed_ops(ops: Sequence[Op], values: Sequence[Value]) -> list[Op]:
    """The ops that the values are made by, in order."""
    wanted: set[Op] = set()
    pending = list(values)
    while pending:
        op = pending.pop().producer()
        if op is not None and op not in wanted:
            wanted.add(op)
            pending += op.operands
    return [op for op in ops if op in wanted]
