"""Operands of products on tensor cores that do not lie so that 16 bytes can be copied at once are turned in front of the product.

A convolution of images with channels in front of pixels reads windows whose neighbours lie at any address. Its image, and its weights,
are copied to scratch memory with the channels last, by a kernel each; then 16 bytes of neighbouring channels belong to one pixel. What the
product reads is the copy, seen through the same pads and windows. Channels that do not fill 16 bytes are filled up with zeros.

The copies are chosen that write the fewest bytes: along a contracted letter that both operands have alone on an axis, or each along a
letter of its own. A small product goes through registers, as it lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from polyreme.dialects import tensor
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Func, Return
from polyreme.ir.core import Op, Value
from polyreme.ir.dims import Dim, ceildiv, mod, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.types import BufferType, TensorType, element_type
from polyreme.lowering.analysis.access import Linear, axes_behind_views, side_by_side
from polyreme.lowering.analysis.estimates import estimate
from polyreme.lowering.analysis.rows import needed_ops, shape_of
from polyreme.lowering.kernels.gpu.elementwise import build_elements
from polyreme.lowering.kernels.gpu.product import GpuProduct, see_product
from polyreme.lowering.kernels.gpu.transposes import build_transposes
from polyreme.lowering.kernels.plan import KernelPlan, Pack, Request, Slot, Step, operand, pack, result, scratch
from polyreme.lowering.machines.gpu import MMA_COSTS as COSTS
from polyreme.lowering.machines.gpu import VECTOR_BYTES


@dataclass(frozen=True)
class Turned:
    """A product, and the functions that make its last operands of the root's operands, with the numbers of those that they take."""

    product: GpuProduct
    copies: tuple[tuple[Func, tuple[int, ...]], ...] = ()


def turn_operands(p: GpuProduct) -> Turned:
    """The product as it is, or of copies of its operands that lie as they should."""
    if estimate(product(p.sizes.values())) < COSTS.copied:
        return Turned(p)
    ways = list(_ways(p))
    if not ways:
        return Turned(p)
    letters, _ = min(ways, key=lambda way: way[1])
    return _turned(p, letters)


def plan_of_copies(turned: Turned, request: Request, plan: KernelPlan) -> KernelPlan:
    """The plan of the root, from that of the product. A copy of one operand is a pack: made once of a constant, and once for all products
    that read it. Others go to scratch memory.
    """
    given = len(request.func.args)
    steps: list[Step] = []
    packs: list[Pack] = []
    boards: list[BufferType] = []
    slots: list[Slot] = []
    for func, args in turned.copies:
        if len(args) == 1:
            slots.append(pack(len(packs)))
            packs.append(Pack(args[0], func))
            continue
        of_copy = Request(func, request.target)
        made = build_transposes(of_copy) or build_elements(of_copy)
        assert made is not None and not made.scratch
        slots.append(scratch(len(boards)))
        places = {**{operand(i): operand(n) for i, n in enumerate(args)}, result(0): slots[-1]}
        steps += [_moved(step, places) for step in made.steps]
        kind = func.block.terminator.operands[0].type
        boards.append(BufferType(kind.shape, kind.dtype))
    moved = {operand(given + i): slot for i, slot in enumerate(slots)}
    moved |= {scratch(i): scratch(len(boards) + i) for i in range(len(plan.scratch))}
    steps += [_moved(step, moved) for step in plan.steps]
    return replace(plan, steps=tuple(steps), packs=(*plan.packs, *packs), scratch=(*boards, *plan.scratch))


def _moved(step: Step, places: Mapping[Slot, Slot]) -> Step:
    return replace(step, slots=tuple(places.get(slot, slot) for slot in step.slots))


# --- which copies


@dataclass(frozen=True)
class _Source:
    """What an operand is a view of: the value, and its axes by letters (`padded` ones are none of them)."""

    value: Value
    axes: tuple[Linear, ...]
    padded: frozenset[int]

    def axis_of(self, letter: str) -> int | None:
        """The axis that the letter has for itself."""
        found = [i for i, (_, terms) in enumerate(self.axes) if letter in terms]
        alone = len(found) == 1 and found[0] not in self.padded and self.axes[found[0]] == (0, {letter: 1})
        return found[0] if alone else None


def _source(value: Value, letters: str) -> _Source | None:
    found = axes_behind_views(value, letters)
    return None if found is None else _Source(*found)


def _ways(p: GpuProduct) -> Iterator[tuple[tuple[str, str], float]]:
    """Letters along which the operands are to lie ("" for one that is left as it is), and the bytes that copies write."""
    lanes = VECTOR_BYTES // element_type(p.contract.result.type).bytes
    values = ((p.left, p.left_letters), (p.right, p.right_letters))
    sources = [_source(v, letters) for v, letters in values]
    lying = [_lying(p, v, letters, lanes) for v, letters in values]
    if all(lying):
        return
    for c in p.contracted:
        if any(s is None or s.axis_of(c) is None for s in sources) or not isinstance(p.sizes[c], int):
            continue
        filled = mod(p.sizes[c], lanes) == 0
        # Filled up, a letter is longer; shapes that are written out would not be right any more.
        if filled or all(not _has_reshape(v, s.value) for (v, _), s in zip(values, sources, strict=True) if s is not None):
            along = ["" if filled and lies == c else c for lies in lying]
            yield (along[0], along[1]), _bytes(sources, along) * (1.0 if filled else -(-p.sizes[c] // lanes) * lanes / p.sizes[c])
    own = []
    for lies, source, (_, letters) in zip(lying, sources, values, strict=True):
        if lies:
            own.append([""])
            continue
        free = [c for c in letters if c not in p.contracted and c not in p.batch and mod(p.sizes[c], lanes) == 0]
        own.append([c for c in free if source is not None and source.axis_of(c) is not None])
    for left in own[0]:
        for right in own[1]:
            yield (left, right), _bytes(sources, (left, right))


def _lying(p: GpuProduct, value: Value, letters: str, lanes: int) -> str:
    """The letter along which an operand lies as it should; "" where it does not."""
    found = side_by_side(value, letters, lanes) or ""
    group = next((g for g in (p.contracted, p.row_letters, p.column_letters) if found in g), [])
    alone = [c for c in group if p.sizes[c] != 1] == [found] and found not in p.contracted
    return found if found and group and (alone or mod(p.sizes[found], lanes) == 0) else ""


def _bytes(sources: Sequence[_Source | None], letters: Sequence[str]) -> float:
    return float(sum(estimate(product(shape_of(s.value))) for s, c in zip(sources, letters, strict=True) if c and s is not None))


def _chain(value: Value, source: Value) -> list[Op]:
    """The views from the source to the operand."""
    found: list[Op] = []
    while value is not source:
        op = value.producer()
        assert op is not None
        found.append(op)
        value = op.operands[0]
    return found[::-1]


def _has_reshape(value: Value, source: Value) -> bool:
    return any(isinstance(op, tensor.Reshape) for op in _chain(value, source))


# --- the copies, and the product of them


def _turned(p: GpuProduct, letters: tuple[str, str]) -> Turned:
    lanes = VECTOR_BYTES // element_type(p.contract.result.type).bytes
    old = p.request.func
    copies: list[tuple[Func, tuple[int, ...]]] = []
    by_value: dict[Value, int] = {}
    for value, of_value, letter in ((p.left, p.left_letters, letters[0]), (p.right, p.right_letters, letters[1])):
        if letter:
            source = _source(value, of_value)
            assert source is not None
            axis = source.axis_of(letter)
            assert axis is not None
            size = shape_of(source.value)[axis]
            copies.append(_copy(old, source.value, axis, ceildiv(size, lanes) * lanes if letter in p.contracted else size))
            by_value[value] = axis
    new_types = [f.block.terminator.operands[0].type for f, _ in copies]
    func = Func.empty("root", [*(a.type for a in old.args), *new_types], loc=old.location)
    b = Builder.at_end(func.block, old.location)
    mapping: dict[Value, Value] = dict(zip(old.args, func.args, strict=False))
    operands: dict[Value, Value] = {}
    for i, (value, axis) in enumerate(by_value.items()):
        source = _source(value, p.left_letters if value is p.left else p.right_letters)
        assert source is not None
        rank = len(shape_of(source.value))
        # Back to the order of axes that the views expect.
        order = [*range(axis), rank - 1, *range(axis, rank - 1)]
        found: Value = b(tensor.Transpose, func.args[len(old.args) + i], perm=tuple(order))
        for op in _chain(value, source.value):
            found = b(type(op), found, **op.attributes)
        operands[value] = found
    contract: Any = None
    for op in p.request.ops():
        if op is p.contract:
            pair = [operands.get(v, mapping.get(v)) for v in (op.a, op.b)]
            mapping[op.result] = b(tensor.Contract, *pair, spec=op.spec)
            contract = mapping[op.result].producer()
        else:
            b.insert(op.clone(mapping))
    b(Return, [mapping[v] for v in p.request.results])
    made = replace(p.request, func=func.finish())
    again = see_product(made, contract)
    assert again is not None
    return Turned(again, tuple(copies))


def _copy(old: Func, value: Value, axis: int, filled: Dim) -> tuple[Func, tuple[int, ...]]:
    """The function to `value` with this axis last, filled up with zeros, and the numbers of the root's operands that it takes."""
    needed = needed_ops([op for op in old.block if not isinstance(op, Return)], [value])
    used = {v for op in needed for v in op.operands} | {value}
    args = [a for a in old.args if a in used]
    func = Func.empty("copy", [a.type for a in args], loc=old.location)
    b = Builder.at_end(func.block, old.location)
    mapping: dict[Value, Value] = dict(zip(args, func.args, strict=True))
    for op in needed:
        b.insert(op.clone(mapping))
    rank = len(shape_of(value))
    found: Value = b(tensor.Transpose, mapping[value], perm=(*(i for i in range(rank) if i != axis), axis))
    assert isinstance(found.type, TensorType)
    missing = filled - shape_of(found)[-1]
    if missing != 0:
        zeros = (0,) * rank
        found = b(tensor.Pad, found, low=zeros, high=(*zeros[1:], missing), interior=zeros, value=0)
    b(Return, [found])
    return func.finish(), tuple(a.index for a in args)
