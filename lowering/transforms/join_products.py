"""Products of one operand by several known ones become one product: the queries, keys and values of an attention are one matrix.

What a product does with the shared operand, such as combining its parts for Strassen's algorithm, is done once, and threads have more tasks
to share. The results are slices, which cost nothing for those who read them as views.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Value
from polyreme.ir.dims import Dim, product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type
from polyreme.lowering.analysis.axes import matching_groups
from polyreme.lowering.analysis.rows import shape_of

Array = np.ndarray[Any, Any]


@register_pass
@dataclass(frozen=True)
class JoinProducts(FuncPass):
    """contract(x, v) + b, contract(x, w) + c  ->  slices of contract(x, concat(v, w)) + concat(b, c)

    Before and after: `tensor` ops on values.  For floats and constants, where the results are read by products and as transposed views
    only: what follows a
    product element by element belongs to its own kernel.
    Runs before attentions are grouped, which read their operands through slices.
    """

    name: ClassVar[str] = "join-products"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        alike: dict[tuple[Any, ...], list[_Branch]] = {}
        for op in func.block:
            branch = _branch(op) if isinstance(op, tensor.Contract) else None
            if branch is not None:
                alike.setdefault((branch.contract.a, branch.contract.spec, branch.steps), []).append(branch)
        for branches in alike.values():
            if len(branches) > 1:
                _join(branches)


@dataclass(frozen=True)
class _Branch:
    """A product by constants along the last axis of its result, and the elementwise ops with constants behind it."""

    contract: tensor.Contract
    weight: Array
    maps: tuple[tensor.Map, ...]

    @property
    def result(self) -> Value:
        return self.maps[-1].result if self.maps else self.contract.result

    @property
    def size(self) -> int:
        size = shape_of(self.result)[-1]
        assert isinstance(size, int)
        return size

    @property
    def steps(self) -> tuple[tuple[str, int, Any], ...]:
        """What the maps do, and which of their operands is the product's."""
        values = [self.contract.result, *(op.result for op in self.maps)]
        return tuple((op.fn, op.xs.index(x), op.dtype) for op, x in zip(self.maps, values, strict=False))


def _branch(contract: tensor.Contract) -> _Branch | None:
    spec, weight = tensor.ContractSpec(contract.spec), contract.b.producer(tensor.Constant)
    if weight is None or not spec.out or spec.out[-1] not in spec.free_b:
        return None
    if element_type(contract.result.type).kind != "f" or 0 in shape_of(contract.result):
        return None
    maps: list[tensor.Map] = []
    value: Value = contract.result
    while (
        len(value.uses) == 1
        and isinstance(op := next(iter(value.users)), tensor.Map)
        and all(x is value or _row(x) is not None for x in op.xs)
    ):
        maps.append(op)
        value = op.result
    return _Branch(contract, weight.value.array, tuple(maps))


def _row(value: Value) -> Array | None:
    """The numbers of a constant along its last axis, the only one that may be longer than 1."""
    op, shape = value.producer(), shape_of(value)
    if any(n != 1 for n in shape[:-1]) or not all(isinstance(n, int) for n in shape):
        return None
    if isinstance(op, tensor.Constant):
        return op.value.array.reshape(-1)
    return np.full(product(shape), op.value, op.dtype.np) if isinstance(op, tensor.Full) else None


def _join(branches: Sequence[_Branch]) -> None:
    starts = [sum(x.size for x in branches[:i]) for i in range(len(branches) + 1)]
    axis = len(shape_of(branches[0].result)) - 1
    if not all(_may_be_part(x.result, axis, start, starts[-1]) for x, start in zip(branches, starts, strict=False)):
        return
    first = branches[0].contract
    b = Builder.before_op(first)
    spec = tensor.ContractSpec(first.spec)
    weight = b(tensor.Constant, value=Dense.taking(np.concatenate([x.weight for x in branches], spec.b.index(spec.out[-1]))))
    weight.name = _common_name([x.contract.b.name for x in branches])
    joined = b(tensor.Contract, first.a, weight, spec=first.spec)
    for steps in zip(*(x.maps for x in branches), strict=True):
        fn, place, dtype = branches[0].steps[branches[0].maps.index(steps[0])]
        operands = [
            joined if k == place else _joined_row(b, [op.xs[k] for op in steps], [x.size for x in branches], axis)
            for k in range(len(steps[0].xs))
        ]
        joined = b(tensor.Map, *operands, fn=fn, dtype=dtype)
    for x, start in zip(branches, starts, strict=False):
        _read_part(b, x.result, joined, axis, start)
    for x in branches:
        for op in (*reversed(x.maps), x.contract):
            op.erase()


def _common_name(names: Sequence[str | None]) -> str:
    """What the names of weights have in common, by which their layer is known."""
    parts = zip(*((name or "").split(".") for name in names), strict=False)
    return ".".join([*(same[0] for same in takewhile(lambda p: len(set(p)) == 1, parts)), "joined"])


def _joined_row(b: Builder, values: Sequence[Value], sizes: Sequence[int], axis: int) -> Value:
    """The numbers of the branches end to end."""
    rows = [np.broadcast_to(_row(v), (n,)) for v, n in zip(values, sizes, strict=True)]  # type: ignore[arg-type]
    row = np.concatenate(rows)
    if (row == row[0]).all():
        made: Value = b(tensor.Full, value=row[0].item(), dtype=element_type(values[0].type))
    else:
        made = b(tensor.Constant, value=Dense.taking(row.reshape((1,) * axis + row.shape)))
    return made


# --- results as parts of a larger one


def _may_be_part(value: Value, axis: int, start: Dim, total: Dim) -> bool:
    """Whether all who read `value` can as well read the part from `start` on of a larger one, which is `total` long along `axis`."""
    for op in value.users:
        if isinstance(op, tensor.Reshape):
            split = _split(value, axis, op)
            if (
                split is None
                or start % split[1]
                or total % split[1]
                or not _may_be_part(op.result, split[0], start // split[1], total // split[1])
            ):
                return False
        elif not isinstance(op, (tensor.Contract, tensor.Transpose)):
            return False
    return True


def _split(value: Value, axis: int, reshape: tensor.Reshape) -> tuple[int, int] | None:
    """The outermost axis of a reshape's result among those that `axis` is split into, and how many elements of `axis` go to one of its;
    None where `axis` is joined with others.
    """
    shape = shape_of(reshape.result)
    before, after = next(groups for groups in matching_groups(shape_of(value), shape) if axis in groups[0])
    longer = [i for i in after if shape[i] != 1]
    inner = product(shape[i] for i in longer[1:])
    return (longer[0], inner) if before == [axis] and longer and isinstance(inner, int) else None


def _read_part(b: Builder, value: Value, joined: Value, axis: int, start: int) -> None:
    """Let all who read `value` read the part of `joined` that begins at `start` along `axis`; reshapes come in front of the slice."""
    count = shape_of(value)[axis]
    for op in list(value.users):
        if isinstance(op, tensor.Reshape):
            split = _split(value, axis, op)
            assert split is not None
            at, inner = split
            shape = tuple(shape_of(joined)[axis] // inner if i == at else n for i, n in enumerate(shape_of(op.result)))
            _read_part(b, op.result, b(tensor.Reshape, joined, shape=shape), at, start // inner)
            op.erase()
    if value.uses:
        whole = shape_of(joined)
        starts = tuple(start if i == axis else 0 for i in range(len(whole)))
        stops = tuple(start + count if i == axis else n for i, n in enumerate(whole))
        value.replace_all_uses_with(b(tensor.Slice, joined, starts=starts, stops=stops, strides=(1,) * len(whole)))
