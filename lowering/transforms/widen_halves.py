"""16-bit floats in products: float16 and bfloat16 are storage, float32 is what is computed with.

`tensor.contract` of 16-bit floats sums in float32 and rounds once. This pass writes it so, as casts around a float32 contract, which the
float32 builders take. The cast behind it joins its group. The casts in front join the groups that make the operands, which hand on their
rounded results in the form that the product reads. Every op still rounds its own result, as it does eagerly.

Weights are widened at compile time. Those of products of few rows, which are bound by reading the weights, stay 16 bits in memory and are
widened in registers. So do constants that a product of float32 takes by way of a cast, as a program with 16-bit weights says it: there
memory is to be saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from polyreme.dialects import tensor
from polyreme.ir.attributes import Dense
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func
from polyreme.ir.core import Block, BlockArgument, Op, Value
from polyreme.ir.dims import product
from polyreme.ir.passes import FuncPass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import element_type, f32
from polyreme.lowering.analysis.half_floats import HALVES, is_widening
from polyreme.lowering.machines.memory import ROWS_OF_WEIGHTS

_VIEWS = (tensor.Transpose, tensor.Window, tensor.Slice, tensor.Reverse, tensor.Broadcast, tensor.Reshape)


@register_pass
@dataclass(frozen=True)
class WidenHalves(FuncPass):
    """contract(x, y)  ->  cast(contract(cast(x), cast(y))), for 16-bit floats, the inner casts being to float32 and in front of views

    Before and after: `tensor` ops.  Runs before what is the same in all steps of a scan leaves it, since casts of weights do, and before
    layouts are chosen, for which a contract of windows reads its windows directly.
    """

    name: ClassVar[str] = "widen-halves"
    takes: ClassVar[tuple[str, ...]] = ("tensor",)

    def run_on(self, func: Func) -> None:
        wide: dict[Value, Value] = {}
        ops = list(func.walk())
        for op in ops:
            if isinstance(op, tensor.Contract) and element_type(op.result.type) in HALVES:
                _widen(op, wide)
            elif isinstance(op, tensor.Scan):
                _share_narrow(op)
        for op in ops:
            if op.parent is not None and is_widening(op) and isinstance(op.operands[0].owner, tensor.Constant) and not widens_weights(op):
                op.replace_with(_wide(op.operands[0], wide))


def _widen(op: tensor.Contract, wide: dict[Value, Value]) -> None:
    b = Builder.before_op(op)
    operands = [_narrow_weight(x) if _is_weight(x) and _has_few_rows(op, x) else _wide(x, wide) for x in (op.a, op.b)]
    inner = b(tensor.Contract, *operands, spec=op.spec)
    rounded = b(tensor.Map, inner, fn="cast", dtype=element_type(op.result.type))
    rounded.name = op.result.name
    op.replace_with(rounded)


def _wide(x: Value, wide: dict[Value, Value]) -> Value:
    """`x` as float32, made right behind it; views of it are views of its source's wide form."""
    if x in wide:
        return wide[x]
    made = x.producer()
    b = _behind(x)
    if isinstance(made, tensor.Constant):
        found = b(tensor.Constant, value=Dense.taking(made.value.array.astype(f32.np)))
    elif made is not None and _is_view(made):
        found = b(type(made), _wide(made.operands[0], wide), **made.attributes)
    else:
        found = b(tensor.Map, x, fn="cast", dtype=f32)
    wide[x] = found
    return found


def _narrow_weight(x: Value) -> Value:
    """The same with a cast in front of the views, which is for this reader alone."""
    made = x.producer()
    if isinstance(made, tensor.Transpose):
        return _behind(x)(tensor.Transpose, _narrow_weight(made.x), perm=made.perm)
    return _behind(x)(tensor.Map, x, fn="cast", dtype=f32)


def _share_narrow(scan: tensor.Scan) -> None:
    """scan(shared = cast(w)) { … contract(x, w) … }  ->  scan(shared = w) { … contract(x, cast(w)) … } where the product has few rows"""
    first = len(scan.xs) + len(scan.inits)
    for i, given in enumerate(scan.shared):
        cast, inner = given.producer(), scan.block.args[first + i]
        if cast is None or not is_widening(cast) or not _is_weight(cast.operands[0]) or not _is_read_by_few_rows(inner):
            continue
        scan.set_operand(first + i, cast.operands[0])
        inner.type = cast.operands[0].type
        wide = _behind(inner)(tensor.Map, inner, fn="cast", dtype=f32)
        inner.replace_all_uses_with(wide)
        wide.owner.set_operand(0, inner)


def _behind(x: Value) -> Builder:
    made = x.producer()
    if made is not None:
        return Builder.after_op(made)
    assert isinstance(x.owner, Block)
    return Builder(x.owner, next(iter(x.owner), None))


def _is_view(op: Op) -> bool:
    """Whether `op` gives elements of its operand, or zeros, whatever their type is."""
    return isinstance(op, _VIEWS) or (isinstance(op, tensor.Pad) and op.value == 0)


# --- weights that stay narrow


def _is_weight(x: Value) -> bool:
    """Whether `x` is an argument of the function or a constant, transposed or not."""
    while (view := x.producer(tensor.Transpose)) is not None:
        x = view.x
    return isinstance(x.owner, tensor.Constant) or _is_argument(x)


def _has_few_rows(op: tensor.Contract, weight: Value) -> bool:
    """Whether `op` is a product of few rows by an operand that has more columns than those."""
    spec = tensor.ContractSpec(op.spec)
    sizes = spec.sizes(op.a.type.shape, op.b.type.shape)
    free, others = (spec.free_a, spec.free_b) if weight is op.b else (spec.free_b, spec.free_a)
    rows, columns = (product(sizes[c] for c in letters) for letters in (free, others))
    return not spec.batch and isinstance(rows, int) and rows <= ROWS_OF_WEIGHTS and isinstance(columns, int) and rows < columns


def _is_argument(value: Value) -> bool:
    """Whether `value` is an argument of a function, or one that all steps of a scan share."""
    if not isinstance(value, BlockArgument):
        return False
    around = value.owner.parent_op
    return isinstance(around, Func) or (isinstance(around, tensor.Scan) and value.index >= len(around.xs) + len(around.inits))


def widens_weights(op: Op) -> bool:
    """Whether `op` is a cast that the products which read it make in registers, for each element once: it needs no kernel, and no memory
    for its result.
    """
    if not is_widening(op) or not _is_weight(op.operands[0]):
        return False
    return _is_read_by_few_rows(op.results[0]) or (op.operands[0].producer(tensor.Constant) is not None and _is_for_products(op.results[0]))


def _is_read_by_few_rows(x: Value) -> bool:
    """Whether all that read `x`, transposed or not, are products of few rows by it."""
    return all(isinstance(reader, tensor.Contract) and _has_few_rows(reader, value) for reader, value in _readers(x, (tensor.Transpose,)))


def _is_for_products(x: Value) -> bool:
    """Whether all that read `x`, in another order or not, are products, and not of groups."""
    readers = _readers(x, (tensor.Transpose, tensor.Reshape))
    return all(isinstance(reader, tensor.Contract) and not tensor.ContractSpec(reader.spec).batch for reader, _ in readers)


def _readers(x: Value, views: tuple[type[Op], ...]) -> Iterator[tuple[Op, Value]]:
    """All ops that read `x` or a view of it of these kinds, each with the view."""
    pending = [x]
    while pending:
        value = pending.pop()
        for user in value.users:
            if isinstance(user, views):
                pending.append(user.results[0])
            else:
                yield user, value
