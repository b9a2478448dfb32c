"""Cleaning up at every level: canonical forms, common subexpressions, dead code.

Each pattern's docstring is its equation. None makes anything worse, none is needed for correctness, and none changes a bit of any result.
What holds for real numbers but not for floats (`x + 0` turns -0 into 0) is left alone.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from polyreme.dialects import kernel, nn
from polyreme.dialects import tensor as tt
from polyreme.dialects.nn.elementwise import ScalarOp
from polyreme.dialects.shape_rules import broadcast_shapes, normal_axes
from polyreme.ir.attributes import Dense, attribute_key
from polyreme.ir.builder import Builder
from polyreme.ir.builtin import Module
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.define import Commutative, ConstantLike, Elementwise, IsolatedFromAbove, Pure
from polyreme.ir.dims import Expr, known_nonnegative
from polyreme.ir.passes import Pass, register_pass
from polyreme.ir.python.records import dataclass
from polyreme.ir.rewrite import Pattern, erase_unused, pattern, rewrite_greedily
from polyreme.ir.scalar import FUNCTIONS
from polyreme.ir.types import ScalarType, TensorType, scalar_type
from polyreme.lowering.transforms.control_cleanup import CONTROL_PATTERNS

# --- what is known of a value


def known_number(value: Value) -> float | int | bool | None:
    """The number that every element of `value` is, when its producer says so, and it is real."""
    op = value.producer()
    if isinstance(op, (nn.Full, tt.Full, kernel.Constant)):
        number: float | int | bool = op.value
        return number
    if isinstance(op, (nn.Constant, tt.Constant)):
        constant: Dense = op.value
        return constant.array.item() if constant.size == 1 and constant.array.dtype.kind != "c" else None
    if isinstance(op, (nn.DimValue, tt.DimValue)) and not isinstance(op.size, Expr):
        size: int = op.size
        return size
    if isinstance(op, (kernel.Broadcast, nn.BroadcastTo, tt.Broadcast, nn.Reshape, tt.Reshape)):
        return known_number(op.operands[0])
    return None


def _function_of(op: Op) -> str:
    """The scalar function that an elementwise op applies."""
    named = op.attributes.get("fn") or getattr(op, "scalar_fn", "")
    return str(named)


def _emit_map(op: Op, b: Builder, fn: str, *xs: Value) -> Value:
    """An elementwise op of the same level as `op`."""
    if isinstance(op, ScalarOp):
        made: Value = b(_NN_BY_FUNCTION[fn], *xs)
    else:
        made = b(type(op), *xs, fn=fn)
    return made


_NN_BY_FUNCTION = {cls.scalar_fn: cls for cls in vars(nn).values() if isinstance(cls, type) and issubclass(cls, ScalarOp)}
_SCALAR_OPS: tuple[type[Op], ...] = (*_NN_BY_FUNCTION.values(), tt.Map, kernel.Apply)

CANONICAL: list[Pattern] = []


def _canonical(made: Pattern) -> Pattern:
    CANONICAL.append(made)
    return made


# --- arithmetic


@_canonical
@pattern(*_SCALAR_OPS)
def drop_neutral_operand(op: Any, b: Builder) -> Value | None:
    """x * 1 -> x,  x / 1 -> x,  x - 0 -> x,  x ** 1 -> x;  for integers also x + 0 -> x"""
    fn = _function_of(op)
    if len(op.operands) != 2 or fn not in _NEUTRAL:
        return None
    neutral, both_sides = _NEUTRAL[fn]
    if fn == "add" and _dtype(op.result).kind not in "iux":
        return None
    for at in (1, 0) if both_sides else (1,):
        number = known_number(op.operands[at])
        other: Value = op.operands[1 - at]
        # 0.0 == -0.0, but x - (-0.0) changes the sign of -0.0.
        if number is not None and number == neutral and math.copysign(1, number) > 0 and other.type == op.result.type:
            return other
    return None


_NEUTRAL = {"mul": (1, True), "div": (1, False), "sub": (0, False), "pow": (1, False), "add": (0, True)}


def _dtype(value: Value) -> ScalarType:
    kind: Any = value.type
    return kind if isinstance(kind, ScalarType) else kind.dtype


@_canonical
@pattern(*_SCALAR_OPS)
def undo_involution(op: Any, b: Builder) -> Value | None:
    """neg(neg(x)) -> x,  not(not(x)) -> x"""
    fn = _function_of(op)
    if fn not in ("neg", "not"):
        return None
    inner = op.operands[0].producer(type(op))
    return inner.operands[0] if inner is not None and _function_of(inner) == fn else None


@_canonical
@pattern(*_SCALAR_OPS)
def merge_equal_operands(op: Any, b: Builder) -> Value | None:
    """max(x, x) -> x,  min(x, x) -> x,  and(x, x) -> x,  or(x, x) -> x"""
    if _function_of(op) not in ("max", "min", "and", "or") or op.operands[0] is not op.operands[1]:
        return None
    value: Value = op.operands[0]
    return value


@_canonical
@pattern(nn.Where, tt.Map, kernel.Apply)
def decide_choice(op: Any, b: Builder) -> Value | None:
    """select(true, x, y) -> x,  select(false, x, y) -> y,  select(c, x, x) -> x"""
    if not isinstance(op, nn.Where) and op.fn != "select":
        return None
    condition, x, y = op.operands
    known = known_number(condition)
    chosen: Value | None = x if x is y else None if known is None else x if known else y
    return chosen if chosen is not None and chosen.type == op.result.type else None


@_canonical
@pattern(*_SCALAR_OPS)
def multiply_by_exact_reciprocal(op: Any, b: Builder) -> Value | None:
    """x / 2ⁿ -> x * 2⁻ⁿ, which gives the same bits when 2⁻ⁿ is a normal number"""
    if _function_of(op) != "div" or not _dtype(op.result).is_float:
        return None
    number = known_number(op.operands[1])
    if number is None or not math.isfinite(number) or abs(number) == 1 or abs(math.frexp(number)[0]) != 0.5:
        return None
    if not -14 <= math.frexp(number)[1] <= 14:
        return None  # beyond what float16 has on both sides
    divisor = op.operands[1]
    if isinstance(divisor.type, TensorType):
        full: Any = nn.Full if isinstance(op, ScalarOp) else tt.Full
        factor = b(full, value=1 / number, shape=divisor.type.shape, dtype=divisor.type.dtype)
    else:
        factor = b(kernel.Constant, value=1 / number, dtype=_dtype(divisor))
        if divisor.type != factor.type:
            factor = b(kernel.Broadcast, factor, lanes=divisor.type.lanes)
    return _emit_map(op, b, "mul", op.operands[0], factor)


@_canonical
@pattern(nn.Cast, tt.Map, kernel.Apply)
def drop_cast(op: Any, b: Builder) -> Value | None:
    """cast(x) -> x when nothing changes;  cast(cast(x)) -> x when the middle type holds every value of x"""
    if not isinstance(op, nn.Cast) and op.fn != "cast":
        return None
    (x,) = op.operands
    if x.type == op.result.type:
        return x
    inner = x.producer(type(op))
    if inner is None or not (isinstance(inner, nn.Cast) or inner.fn == "cast"):
        return None
    original: Value = inner.operands[0]
    return original if original.type == op.result.type and _holds(_dtype(x), _dtype(original)) else None


def _holds(wide: ScalarType, narrow: ScalarType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if narrow.kind == "b":
        return wide.kind in "fiux"
    if narrow.name == "bf16" and wide.name == "f16":
        return False
    if narrow.kind == wide.kind:
        return wide.kind in "fiu" and wide.bits > narrow.bits
    digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
    if wide.kind == "f" and narrow.kind in "iu":
        return digits[wide.name] >= narrow.bits and wide.name != "f16"
    return narrow.kind == "u" and wide.kind in "ix" and wide.bits > narrow.bits


@_canonical
@pattern(nn.DimValue, tt.DimValue)
def name_known_size(op: Any, b: Builder) -> Value | None:
    """dim_value(7) -> full(7)"""
    if isinstance(op.size, Expr):
        return None
    return _full_like(op, b, op.size)


def _full_like(op: Any, b: Builder, number: Any) -> Value:
    kind = op.result.type
    made: Value = b(nn.Full if op.dialect == "nn" else tt.Full, value=number, shape=kind.shape, dtype=kind.dtype)
    return made


# --- views


@_canonical
@pattern(nn.Transpose, tt.Transpose)
def merge_transposes(op: Any, b: Builder) -> Value | None:
    """transpose(x, [0, 1, …]) -> x,  transpose(transpose(x, p), q) -> transpose(x, p[q])"""
    if op.perm == tuple(range(len(op.perm))):
        return op.x
    inner = op.x.producer(type(op))
    if inner is None:
        return None
    return b(type(op), inner.x, perm=tuple(inner.perm[i] for i in op.perm))


@_canonical
@pattern(nn.Reshape, tt.Reshape)
def merge_reshapes(op: Any, b: Builder) -> Value | None:
    """reshape(x, shape of x) -> x,  reshape(reshape(x)) -> reshape(x)"""
    if op.x.type == op.result.type:
        return op.x
    inner = op.x.producer(type(op))
    return None if inner is None else b(type(op), inner.x, shape=op.shape)


@_canonical
@pattern(nn.Transpose, tt.Transpose)
def transpose_of_sizes_one(op: Any, b: Builder) -> Value | None:
    """transpose(x) -> reshape(x) when the axes longer than 1 keep their order"""
    shape = op.x.type.shape
    long = [p for p in op.perm if shape[p] != 1]
    if long != sorted(long):
        return None
    return b(nn.Reshape if isinstance(op, nn.Transpose) else tt.Reshape, op.x, shape=op.result.type.shape)


@_canonical
@pattern(nn.BroadcastTo, tt.Broadcast)
def merge_broadcasts(op: Any, b: Builder) -> Value | None:
    """broadcast(x, shape of x) -> x,  broadcast(broadcast(x)) -> broadcast(x),  broadcast(full) -> full"""
    if op.x.type == op.result.type:
        return op.x
    inner = op.x.producer(type(op))
    if inner is not None:
        return b(type(op), inner.x, shape=op.shape)
    return _full_of_full(op, b)


@_canonical
@pattern(nn.Reshape, tt.Reshape, nn.Transpose, tt.Transpose, nn.Slice, tt.Slice, nn.Flip, tt.Reverse, nn.Window, tt.Window)
def view_of_full(op: Any, b: Builder) -> Value | None:
    """view(full(c)) -> full(c)"""
    return _full_of_full(op, b)


def _full_of_full(op: Any, b: Builder) -> Value | None:
    source = op.x.producer()
    return _full_like(op, b, source.value) if isinstance(source, (nn.Full, tt.Full)) else None


@_canonical
@pattern(tt.Map, *(cls for cls in _SCALAR_OPS if issubclass(cls, ScalarOp)), nn.Where)
def repeat_in_map(op: Any, b: Builder) -> Value | None:
    """map(broadcast(x), y) -> map(x, y) when y still gives the result its shape: maps repeat sizes of 1 by themselves"""
    operands = [_unrepeated(x) for x in op.operands]
    if all(new is old for new, old in zip(operands, op.operands, strict=True)):
        return None
    attributes = dict(op.attributes)
    for i, old in enumerate(op.operands):
        # Take off as many repetitions as the shape can spare, from the left.
        trial = [*operands[: i + 1], *op.operands[i + 1 :]]
        if _map_shape(trial) != op.result.type.shape:
            operands[i] = old
    if all(new is old for new, old in zip(operands, op.operands, strict=True)):
        return None
    return b(type(op), *operands, **attributes)


def _unrepeated(x: Value) -> Value:
    op = x.producer(tt.Broadcast) or x.producer(nn.BroadcastTo)
    source: Value = x if op is None else op.x
    return source


def _map_shape(xs: list[Value]) -> tuple[Any, ...]:
    return broadcast_shapes([x.type.shape for x in xs])


@_canonical
@pattern(tt.Slice)
def slice_of_joined(op: Any, b: Builder) -> Value | None:
    """slice(concat(x, y), of y alone) -> slice(y), along an axis that steps by 1"""
    joined = op.x.producer(tt.Concat)
    if joined is None or op.strides[joined.axis] != 1:
        return None
    axis, start = joined.axis, 0
    for x in joined.xs:
        stop = start + x.type.shape[axis]
        if known_nonnegative(op.starts[axis] - start) and known_nonnegative(stop - op.stops[axis]):
            starts, stops = list(op.starts), list(op.stops)
            starts[axis], stops[axis] = op.starts[axis] - start, op.stops[axis] - start
            return b(tt.Slice, x, starts=tuple(starts), stops=tuple(stops), strides=op.strides)
        start = stop
    return None


@_canonical
@pattern(nn.Slice, tt.Slice)
def merge_slices(op: Any, b: Builder) -> Value | None:
    """slice(x, all of it) -> x,  slice(slice(x, s, t), p, q) -> slice(x, s + p t, …)"""
    if op.x.type == op.result.type and all(s == 1 for s in op.strides):
        return op.x
    inner = op.x.producer(type(op))
    if inner is None:
        return None
    starts, stops, strides = [], [], []
    for axis, size in enumerate(op.result.type.shape):
        stride = inner.strides[axis] * op.strides[axis]
        start = inner.starts[axis] + op.starts[axis] * inner.strides[axis]
        if inner.strides[axis] == 1:
            stop = inner.starts[axis] + op.stops[axis]
        elif isinstance(size, int) and size > 0:
            stop = start + (size - 1) * stride + 1
        else:
            return None
        starts.append(start)
        stops.append(stop)
        strides.append(stride)
    return b(type(op), inner.x, starts=tuple(starts), stops=tuple(stops), strides=tuple(strides))


@_canonical
@pattern(nn.Flip, tt.Reverse)
def merge_flips(op: Any, b: Builder) -> Value | None:
    """flip(x, axes of size 1) -> x,  flip(flip(x, a), c) -> flip(x, a xor c)"""
    shape = op.x.type.shape
    axes = {a for a in normal_axes(op.axes, len(shape)) if shape[a] != 1}
    inner = op.x.producer(type(op))
    source = op.x
    if inner is not None:
        axes ^= set(normal_axes(inner.axes, len(shape)))
        source = inner.x
    if not axes:
        return source
    if inner is None and len(axes) == len(op.axes):
        return None
    return b(type(op), source, axes=tuple(sorted(axes)))


@_canonical
@pattern(nn.Pad, tt.Pad)
def drop_empty_pad(op: Any, b: Builder) -> Value | None:
    """pad(x, nothing) -> x"""
    amounts = (*op.padding, *op.interior) if isinstance(op, nn.Pad) else (*op.low, *op.high, *op.interior)
    return op.x if all(a == 0 for a in amounts) else None


@_canonical
@pattern(nn.Concat, tt.Concat)
def drop_empty_parts(op: Any, b: Builder) -> Value | None:
    """concat(x) -> x,  concat(x, nothing, y) -> concat(x, y)"""
    axis = op.axis % op.result.type.rank
    parts = [x for x in op.xs if x.type.shape[axis] != 0] or [op.xs[0]]
    if len(parts) == 1:
        return parts[0]
    return None if len(parts) == len(op.xs) else b(type(op), parts, axis=op.axis)


@_canonical
@pattern(nn.Concat, tt.Concat)
def merge_concats(op: Any, b: Builder) -> Value | None:
    """concat(concat(x, y), z) -> concat(x, y, z), along one axis, where nobody else reads the inner one"""
    rank = op.result.type.rank
    parts: list[Value] = []
    for x in op.xs:
        inner = x.producer(type(op))
        merged = inner is not None and inner.axis % rank == op.axis % rank and len(x.uses) == 1
        parts += inner.xs if inner is not None and merged else [x]
    return None if len(parts) == len(op.xs) else b(type(op), parts, axis=op.axis)


@_canonical
@pattern(tt.Reduce)
def reduce_nothing(op: Any, b: Builder) -> Value | None:
    """reduce(x, axes of size 1) -> reshape(x),  reduce(x, axes of which some have size 1) -> reduce(x, the others)"""
    shape = op.x.type.shape
    axes = tuple(a for a in op.axes if shape[a] != 1)
    if len(axes) == len(op.axes) and axes:
        return None
    x = op.x if not axes else b(tt.Reduce, op.x, fn=op.fn, axes=axes, keepdims=True)
    return b(tt.Reshape, x, shape=op.result.type.shape)


@_canonical
@pattern(nn.Relu)
def merge_relus(op: Any, b: Builder) -> Value | None:
    """relu(relu(x)) -> relu(x)"""
    return op.x if op.x.producer(nn.Relu) is not None else None


@_canonical
@pattern(nn.Dropout)
def drop_nothing(op: Any, b: Builder) -> Value | None:
    """dropout(x, p = 0) -> x"""
    return op.x if op.p == 0 else None


# --- constant folding


def fold_constants(limit: int) -> Pattern:
    """The pattern that runs ops whose operands are constants, for results (and operands) of at most `limit` elements."""
    kinds = tuple(cls for module in (nn, tt, kernel) for cls in vars(module).values() if _may_fold(cls))

    @pattern(*dict.fromkeys(kinds))
    def fold_constant(op: Any, b: Builder) -> Value | None:
        """op(constants) -> constant"""
        if not op.operands or len(op.results) != 1 or not all(_is_small_constant(v, limit) for v in op.operands):
            return None
        kind = op.result.type
        if isinstance(kind, TensorType):
            if not kind.is_static or kind.elements > limit:
                return None
        elif not isinstance(kind, ScalarType) or kind.kind == "c":
            return None
        (value,) = op.evaluate([_constant_array(v) for v in op.operands], _no_regions)
        return _constant(op, b, kind, np.asarray(value))

    return fold_constant


def _may_fold(cls: Any) -> bool:
    if cls is nn.DequantizeLinear:  # weights in eight bits stay what they are until it is known who takes them
        return False
    foldable = isinstance(cls, type) and issubclass(cls, Op) and Pure in cls.traits and ConstantLike not in cls.traits
    return foldable and hasattr(cls, "reference") and not cls.definition.regions and cls is not kernel.View


def _is_small_constant(value: Value, limit: int) -> bool:
    op = value.producer()
    if isinstance(op, kernel.Constant):
        return True
    if not isinstance(op, (nn.Full, tt.Full, nn.Constant, tt.Constant, nn.Iota, tt.Iota)):
        return False
    kind = value.type
    return isinstance(kind, TensorType) and kind.is_static and kind.elements <= limit


def _constant_array(value: Value) -> Any:
    (array,) = value.owner.evaluate([], _no_regions)  # type: ignore[union-attr]
    return array


def _no_regions(*_: Any) -> Any:
    raise AssertionError("a constant has no regions")


def _constant(op: Op, b: Builder, kind: Any, array: Any) -> Value:
    if isinstance(kind, ScalarType):
        scalar: Value = b(kernel.Constant, value=array.item(), dtype=kind)
        return scalar
    # A number for all elements is worth knowing as one, but not at the price of a bit: nan and -0 compare strangely, so bytes decide.
    flat = array.reshape(-1)
    if flat.size and kind.dtype.kind != "c" and scalar_type(array.dtype) == kind.dtype and flat.tobytes() == flat[:1].tobytes() * flat.size:
        number = flat[0].item()
        if not (isinstance(number, float) and math.isnan(number)):
            return _full_like(op, b, number)
    made: Value = b(nn.Constant if op.dialect == "nn" else tt.Constant, value=Dense(array))
    return made


# --- passes


@register_pass
@dataclass(frozen=True)
class Canonicalize(Pass):
    """Bring ops to their canonical forms, and compute what is constant.

    Before: any module.  After: the same results, bit for bit; no pattern of this file applies; ops on constants with results of up to
    `fold_limit` elements are constants. Erases pure ops that nothing uses on its way. Runs after every lowering, since lowerings are
    written for clarity and leave the obvious to this pass.
    """

    name: ClassVar[str] = "canonicalize"
    fold_limit: int = 4096

    def run(self, module: Module) -> None:
        rewrite_greedily(module, [*CANONICAL, *CONTROL_PATTERNS, fold_constants(self.fold_limit)])


@register_pass
@dataclass(frozen=True)
class Cse(Pass):
    """Merge pure ops with equal operands and attributes.

    Before: any module.  After: of equal pure ops of which one dominates the others, only it is left. Operands of commutative ops may be
    swapped. Runs after `canonicalize`, which makes equal things look equal.
    """

    name: ClassVar[str] = "cse"

    def run(self, module: Module) -> None:
        _merge_equal(module.block, {})


def _merge_equal(block: Block, outer: dict[Any, Op]) -> None:
    """Merge ops of `block` into each other and into those of `outer`, which dominate it."""
    seen = dict(outer)
    for op in block:
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    _merge_equal(inner, {} if op.has(IsolatedFromAbove) else seen)
        elif op.results and op.has(Pure):
            first = seen.setdefault(_key(op), op)
            if first is not op:
                op.replace_with(*first.results)


def _key(op: Op) -> Any:
    """Equal for ops that make the same results. Operands are told by identity: the ops that a key was made of keep them alive."""
    operands = [id(v) for v in op._operands]
    if len(operands) > 1:
        row = FUNCTIONS.get(_function_of(op)) if op.has(Elementwise) else None
        if op.has(Commutative) or (row is not None and row.commutative):
            operands = [*sorted(operands[:2]), *operands[2:]]
    key: tuple[Any, ...] = (op.__class__, op.segments, *operands)
    if op.attributes:
        key = (key, *map(attribute_key, op.attributes.values()))
    return key if op.definition.infers else (key, *(r.type for r in op.results))


@register_pass
@dataclass(frozen=True)
class Dce(Pass):
    """Erase what no result depends on.

    Before: any module.  After: every pure op has a use. Runs last in a stage.
    """

    name: ClassVar[str] = "dce"

    def run(self, module: Module) -> None:
        for func in module.functions:
            erase_unused(func)
