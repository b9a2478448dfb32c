"""What a root costs, counted on the tensor level: operations on elements and bytes of memory, as sizes, which may be symbolic.

It is rough, for reading and for comparing kernels. Each elementwise function counts as one operation, a product with its sum as two, and
every operand and result is moved once. Caches, and functions that cost more than others, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from polyreme.dialects import tensor
from polyreme.ir.builtin import Func
from polyreme.ir.core import Op, Value
from polyreme.ir.define import ConstantLike, Elementwise, Terminator, View
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import TensorType

__all__ = ["Cost", "cost_of"]


@dataclass(frozen=True, slots=True)
class Cost:
    """`operations` on elements, and the bytes that are `read` and `written`."""

    operations: Dim
    read: Dim
    written: Dim

    def __str__(self) -> str:
        moved = self.read + self.written
        known = isinstance(self.operations, int) and isinstance(moved, int) and moved
        ratio = f", {self.operations / moved:.2f} per byte" if known else ""
        return f"{_short(self.operations)} operations{ratio}, {_short(self.read)} bytes read, {_short(self.written)} written"


def cost_of(root: Func) -> Cost:
    """The cost of a root as `schedule.Request` holds it: a function at tensor level."""
    return Cost(_within(root), _bytes(root.args), _bytes(root.block.terminator.operands))


def _within(op: Op) -> Dim:
    """The operations of all ops inside; those of a scan are counted for each of its steps."""
    total: Dim = 0
    for region in op.regions:
        for inner in region.block:
            total = total + (_within(inner) if inner.regions else _operations(inner))
    return total * op.steps if isinstance(op, tensor.Scan) else total


def _operations(op: Op) -> Dim:
    if op.has(Terminator) or op.has(ConstantLike) or op.has(View):
        return 0
    if isinstance(op, tensor.Contract):
        return 2 * product(tensor.ContractSpec(op.spec).sizes(op.a.type.shape, op.b.type.shape).values())
    if op.has(Elementwise) or not op.operands:
        return _elements(op.results)
    return max((_elements([v]) for v in op.operands), key=lambda n: n if isinstance(n, int) else float("inf"))


def _elements(values: Iterable[Value]) -> Dim:
    total: Dim = 0
    for value in values:
        total = total + (product(value.type.shape) if isinstance(value.type, TensorType) else 1)
    return total


def _bytes(values: Iterable[Value]) -> Dim:
    total: Dim = 0
    for value in dict.fromkeys(values):
        total = total + product(value.type.shape) * value.type.dtype.bytes
    return total


def _short(count: Dim) -> str:
    if not isinstance(count, int):
        return str(count)
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
