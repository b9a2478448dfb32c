"""Neighbouring axes that all values of a group walk together become one axis.

A relu of 8x16x24x24 is a relu of 73728: longer vectors, fewer loops, no tails inside. Only groups of elementwise ops, broadcasts,
reductions, gathers, slices, concatenations and transposes of operands are collapsed. An axis that is cut or put together stays one of its
own, and so does that along which a gather reads its table; views that look at single axes keep them all.
"""

from __future__ import annotations

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import BlockArgument, Op, Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.types import TensorType
from polyreme.lowering.analysis.rows import shape_of

_PLAIN = (
    tensor.Map,
    tensor.Reduce,
    tensor.Broadcast,
    tensor.Full,
    tensor.DimValue,
    tensor.Constant,
    tensor.Transpose,
    tensor.Slice,
    tensor.Concat,
    tensor.Gather,
)
# The axis of a table that a gather reads by position: none of the common space.
_BY_POSITION = -1


def collapse_axes(func: Func) -> Func:
    """A copy of `func` whose values have fewer axes but the same elements in the same order; `func` itself when nothing can be joined."""
    ops = [op for op in func.block if not isinstance(op, Return)]
    alone = len(ops) == len(func.args) == len(func.block.terminator.operands) == 1
    if alone and isinstance(ops[0], tensor.Reshape) and ops[0].x is func.args[0]:
        return _flat_copy(func)
    axes = _axes_of_values(func, ops)
    if axes is None:
        return func
    cut = _cut_axes(ops, axes)
    space = _space(axes, cut)
    if space is None:
        return func
    groups = _groups(ops, axes, space, cut)
    if all(len(g) == 1 for g in groups):
        return func
    return _rebuild(func, ops, axes, groups)


def _flat_copy(func: Func) -> Func:
    type = func.args[0].type
    flat = Func.empty(func.sym_name, [TensorType((product(type.shape),), type.dtype)], arg_names=func.arg_names, loc=func.location)
    Builder.at_end(flat.block, func.location)(Return, tuple(flat.args))
    return flat.finish()


def _axes_of_values(func: Func, ops: list[Op]) -> dict[Value, tuple[int, ...]] | None:
    """The axes of the common space that each value's axes are; None when there is no common space."""
    if not all(isinstance(op, _PLAIN) for op in ops) or any(isinstance(op, tensor.Constant) and op.value.size != 1 for op in ops):
        return None
    values = [*func.args, *(v for op in ops for v in op.results)]
    tables = {op.x for op in ops if isinstance(op, tensor.Gather)}
    rank = max((len(shape_of(v)) for v in values if v not in tables), default=0)
    axes: dict[Value, tuple[int, ...]] = {v: tuple(range(rank)) for v in values if len(shape_of(v)) == rank and v not in tables}
    axes.update({v: () for v in values if len(shape_of(v)) == 0})
    for op in ops:
        if isinstance(op, tensor.Transpose):
            if not isinstance(op.x, BlockArgument) or len(op.perm) != rank:
                return None
            axes[op.x] = tuple(op.perm.index(axis) for axis in range(rank))
    # Values of lower rank get theirs from the ops that join them with others, in either direction.
    changed = True
    while changed:
        changed = False
        for op in ops:
            if isinstance(op, (tensor.Map, tensor.Broadcast)):
                joined = [v for v in (*op.operands, *op.results) if len(shape_of(v))]
                known = next((axes[v] for v in joined if v in axes), None)
                fresh = {v: known for v in joined if known is not None and v not in axes}
            elif isinstance(op, tensor.Reduce) and op.x in axes and op.result not in axes:
                fresh = {op.result: axes[op.x] if op.keepdims else tuple(a for i, a in enumerate(axes[op.x]) if i not in op.axes)}
            elif isinstance(op, tensor.Gather) and op.result in axes:
                fresh = {v: places for v, places in _read_by(op, axes[op.result]).items() if v not in axes}
            elif isinstance(op, (tensor.Slice, tensor.Concat)):
                joined = [*op.operands, op.result]
                known = next((axes[v] for v in joined if v in axes), None)
                fresh = {v: known for v in joined if known is not None and v not in axes}
            else:
                continue
            changed = changed or bool(fresh)
            axes.update(fresh)
    return axes if all(v in axes and len(axes[v]) == len(shape_of(v)) for v in values) and _agree(ops, axes) else None


def _read_by(op: tensor.Gather, axes: tuple[int, ...]) -> dict[Value, tuple[int, ...]]:
    """The axes of a gather's table and positions, from those of its result."""
    behind = op.axis + len(shape_of(op.index))
    return {op.x: (*axes[: op.axis], _BY_POSITION, *axes[behind:]), op.index: axes[op.axis : behind]}


def _agree(ops: list[Op], axes: dict[Value, tuple[int, ...]]) -> bool:
    for op in ops:
        if isinstance(op, (tensor.Map, tensor.Broadcast)):
            if any(len(shape_of(x)) and axes[x] != axes[op.results[0]] for x in op.operands):
                return False
        elif isinstance(op, tensor.Reduce):
            wanted = axes[op.x] if op.keepdims else tuple(a for i, a in enumerate(axes[op.x]) if i not in op.axes)
            if axes[op.result] != wanted:
                return False
        elif isinstance(op, tensor.Gather) and any(axes[v] != places for v, places in _read_by(op, axes[op.result]).items()):
            return False
        elif isinstance(op, (tensor.Slice, tensor.Concat)):
            if any(axes[x] != axes[op.result] for x in op.operands):
                return False
        elif isinstance(op, tensor.Transpose) and tuple(axes[op.x][i] for i in op.perm) != axes[op.result]:
            return False
    return True


def _cut_axes(ops: list[Op], axes: dict[Value, tuple[int, ...]]) -> set[int]:
    """The axes along which something is sliced, or laid end to end."""
    cut = {axes[op.result][op.axis] for op in ops if isinstance(op, tensor.Concat)}
    for op in ops:
        if isinstance(op, tensor.Slice):
            parts = zip(axes[op.x], shape_of(op.x), op.starts, op.stops, op.strides, strict=True)
            cut |= {a for a, size, start, stop, stride in parts if (start, stop, stride) != (0, size, 1)}
    return cut


def _space(axes: dict[Value, tuple[int, ...]], cut: set[int]) -> list[Dim] | None:
    """The size of each axis; of those in `cut` that of some value."""
    rank = max((a + 1 for places in axes.values() for a in places), default=0)
    space: list[Dim] = [1] * rank
    for value, places in axes.items():
        for a, n in zip(places, shape_of(value), strict=True):
            if a == _BY_POSITION:
                continue
            if n != 1 and space[a] not in (1, n) and a not in cut:
                return None
            space[a] = n if n != 1 else space[a]
    return space


def _groups(ops: list[Op], axes: dict[Value, tuple[int, ...]], space: list[Dim], cut: set[int]) -> list[list[int]]:
    """Runs of axes that become one."""
    reduced = [{axes[op.x][i] for i in op.axes} for op in ops if isinstance(op, tensor.Reduce)]

    def together(group: list[int]) -> bool:
        """Whether each value has all of these axes side by side, repeats all of them, or has none."""
        if any(len({a in r for a in group}) > 1 for r in reduced) or not cut.isdisjoint(group):
            return False
        for value, places in axes.items():
            sizes = dict(zip(places, shape_of(value), strict=True))
            present = [a in sizes for a in group]
            if any(present) and not (all(present) and (all(sizes[a] == 1 for a in group) or all(sizes[a] == space[a] for a in group))):
                return False
            # A transpose may part them, and the axis of a table that is read by position may lie between two.
            if any(present) and (*group,) != places[(first := places.index(group[0])) : first + len(group)]:
                return False
        return True

    groups: list[list[int]] = []
    for a in range(len(space)):
        if groups and together([*groups[-1], a]):
            groups[-1].append(a)
        else:
            groups.append([a])
    return groups


def _rebuild(func: Func, ops: list[Op], axes: dict[Value, tuple[int, ...]], groups: list[list[int]]) -> Func:
    def joined(value: Value) -> TensorType:
        assert isinstance(value.type, TensorType)
        sizes = dict(zip(axes[value], value.type.shape, strict=True))
        return value.type.with_shape(tuple(product(sizes[a] for a in g) for g in present(axes[value])))

    def present(places: tuple[int, ...]) -> list[list[int]]:
        """The groups of a value's axes, in their order; a gather's own axis by itself."""
        first = {g[0]: g for g in groups}
        return [[a] if a == _BY_POSITION else first[a] for a in places if a == _BY_POSITION or a in first]

    made = Func.empty(func.sym_name, [joined(a) for a in func.args], arg_names=func.arg_names, loc=func.location)
    mapping: dict[Value, Value] = dict(zip(func.args, made.args, strict=True))
    b = Builder.at_end(made.block, func.location)
    for op in ops:
        copy = op.clone(mapping)
        for old, new in zip(op.results, copy.results, strict=True):
            new.type = joined(old)
        if isinstance(op, tensor.Reduce):
            reduced = {axes[op.x][i] for i in op.axes}
            copy.attributes = {**copy.attributes, "axes": tuple(i for i, g in enumerate(present(axes[op.x])) if g[0] in reduced)}
        elif isinstance(op, tensor.Gather):
            copy.attributes = {**copy.attributes, "axis": present(axes[op.x]).index([_BY_POSITION])}
        elif isinstance(op, tensor.Concat):
            copy.attributes = {**copy.attributes, "axis": present(axes[op.result]).index([axes[op.result][op.axis]])}
        elif isinstance(op, tensor.Slice):
            first = [axes[op.x].index(g[0]) for g in present(axes[op.x])]
            alone = [len(g) == 1 for g in present(axes[op.x])]
            copy.attributes = {
                **copy.attributes,
                "starts": tuple(op.starts[i] if one else 0 for i, one in zip(first, alone, strict=True)),
                "stops": tuple(op.stops[i] if one else n for i, one, n in zip(first, alone, joined(op.x).shape, strict=True)),
                "strides": tuple(op.strides[i] if one else 1 for i, one in zip(first, alone, strict=True)),
            }
        elif isinstance(op, tensor.Transpose):
            before = present(axes[op.x])
            copy.attributes = {**copy.attributes, "perm": tuple(before.index(g) for g in present(axes[op.result]))}
        elif "shape" in copy.attributes:
            copy.attributes = {**copy.attributes, "shape": copy.results[0].type.shape}
        b.insert(copy)
    b.insert(Return([mapping[v] for v in func.block.terminator.operands]))
    return made.finish()
