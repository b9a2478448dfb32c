"""What is known of a tensor's contents while a program is built.

Paddle's programs compute shapes by operators: the shape of a tensor is sliced, multiplied, concatenated and handed to a reshape. Such
contents are whole numbers and symbolic sizes, found by following the `nn` ops that make a tensor back to constants and sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from polyreme.dialects import nn as ops
from polyreme.ir import dims
from polyreme.ir.core import Op, OpResult, Value
from polyreme.ir.dims import Expr
from polyreme.provided import provided, provides
from polyreme.tensor import Tensor

__all__ = ["is_small", "known_contents"]

Contents = np.ndarray[Any, Any]

# Larger tensors are data, not sizes.
MAX_ELEMENTS = 4096
MAX_DEPTH = 200
MAX_TERMS = 16
# As many elements may be told apart of a tensor of which some are not known: what is fed beside numbers of the program in one list.
MAX_UNKNOWN = 64
UNKNOWN = object()


@provides
def known_contents(tensor: Tensor) -> Contents | None:
    """The elements as an array of Python numbers and symbolic sizes, or None when they are only known when the program runs."""
    value = tensor._held()
    if isinstance(value, np.ndarray):
        return value.astype(object) if value.size <= MAX_ELEMENTS else None
    if not isinstance(value, Value):
        return None
    # What stands for something that is computed later says nothing, whatever op made it.
    unknown: Iterable[Value] = getattr(provided.active_trace(), "unknown", ())
    found = _of_value(value, dict.fromkeys(unknown), MAX_DEPTH)
    return None if found is None or _has_unknown(found) else found


def _of_value(value: Value, done: dict[Value, Contents | None], depth: int) -> Contents | None:
    """`done` keeps what was found on the way: a value may be reached by more paths than could ever be walked."""
    if value not in done:
        follow = _of_result if isinstance(value, OpResult) else _of_argument
        done[value] = follow(value, done, depth) if depth else None
    return done[value]


def _of_argument(value: Value, done: dict[Value, Contents | None], depth: int) -> Contents | None:
    """What the body of a branch or loop reads from outside, if the recorder tells what that is."""
    told = getattr(provided.active_trace(), "outside_of", None)
    outer = None if told is None else told(value)
    if isinstance(outer, Tensor):
        return outer._known()
    return None if outer is None else _of_value(outer, done, depth - 1)


def _of_result(value: Any, done: dict[Value, Contents | None], depth: int) -> Contents | None:
    op = value.op
    rule = _RULES.get(type(op))
    size = dims.product(value.type.shape)
    if rule is None or not isinstance(size, int) or size > MAX_ELEMENTS:
        return None
    operands = []
    for operand in op.operands:
        known = _of_value(operand, done, depth - 1)
        if known is None:
            count = dims.product(operand.type.shape)
            if type(op) not in _MOVES or not isinstance(count, int) or count > MAX_UNKNOWN:
                return None
            known = _filled(operand.type.shape, UNKNOWN)
        elif type(op) not in _MOVES and _has_unknown(known):
            return None
        operands.append(known)
    try:
        made = rule(op, *operands)
    except (TypeError, ZeroDivisionError, OverflowError):
        return None  # such as the order of two symbolic sizes
    elements = made.reshape(-1)
    return made if all(map(is_small, elements)) and (not elements.size or any(v is not UNKNOWN for v in elements)) else None


def _has_unknown(contents: Contents) -> bool:
    return any(v is UNKNOWN for v in contents.reshape(-1))


def is_small(value: Any) -> bool:
    """Whether a number or size is like those of genuine models. Products of products would grow without bounds."""
    if isinstance(value, Expr):
        return len(value.terms) <= MAX_TERMS and all(len(atoms) <= MAX_TERMS and abs(n) < 1 << 63 for atoms, n in value.terms)
    return not isinstance(value, int) or abs(value) < 1 << 63


def _cast(op: Any, x: Contents) -> Contents:
    convert: Callable[[Any], Any] = bool if op.dtype.kind == "b" else float if op.dtype.kind == "f" else int
    # A size is a whole number that floats have, too.
    return _each(lambda v: v if v is UNKNOWN or isinstance(v, Expr) and op.dtype.kind in "iuf" else convert(v), x)


def _each(function: Callable[..., Any], *xs: Contents) -> Contents:
    result = np.frompyfunc(function, len(xs), 1)(*xs)
    return result if isinstance(result, np.ndarray) else _scalar(result)


def _scalar(value: Any) -> Contents:
    array = np.empty((), object)
    array[()] = value
    return array


def _filled(shape: Any, value: Any) -> Contents:
    array = np.empty(shape, object)
    array.fill(value)
    return array


def _slice(op: Any, x: Contents) -> Contents:
    return x[tuple(map(slice, op.starts, op.stops, op.strides))]


def _divide(x: Any, y: Any) -> Any:
    if isinstance(x, Expr) or isinstance(y, Expr):
        raise TypeError("a quotient of sizes need not be whole")
    return x / y


def _reduce(total: Callable[[Any], Any]) -> Callable[..., Contents]:
    def rule(op: Any, x: Contents) -> Contents:
        if op.axis and len({a % x.ndim for a in op.axis}) != x.ndim:
            raise TypeError("sizes are only reduced as a whole")
        made = _scalar(total(x.reshape(-1).tolist()))
        return made.reshape([1] * x.ndim) if op.keepdims else made

    return rule


def _equal(x: Any, y: Any) -> bool:
    answer = dims.asked_equal(x, y) if isinstance(x, (int, Expr)) and isinstance(y, (int, Expr)) else x == y
    if answer is None:
        raise TypeError("whether sizes are equal is not known")
    return answer


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Contents]:
    return lambda op, x, y: _each(function, x, y)


_RULES: dict[type[Op], Callable[..., Contents]] = {
    ops.Constant: lambda op: op.value.array.astype(object),
    ops.Full: lambda op: _filled(op.shape, op.value),
    ops.DimValue: lambda op: _scalar(op.size),
    ops.Iota: lambda op: ops.Iota.reference(shape=op.shape, axis=op.axis, dtype=op.dtype).astype(object),
    ops.Reshape: lambda op, x: x.reshape(op.shape),
    ops.Transpose: lambda op, x: x.transpose(op.perm),
    ops.BroadcastTo: lambda op, x: np.broadcast_to(x, op.shape),
    ops.Slice: _slice,
    ops.Concat: lambda op, *xs: np.concatenate(xs, op.axis),
    ops.Gather: lambda op, x, index: np.take(x, np.asarray(index, np.int64), axis=op.axis, mode="wrap"),
    ops.Cast: _cast,
    ops.StopGradient: lambda op, x: x,
    ops.Within: lambda op, x: x,
    ops.Add: _binary(lambda x, y: x + y),
    ops.Sub: _binary(lambda x, y: x - y),
    ops.Mul: _binary(lambda x, y: x * y),
    ops.Div: _binary(_divide),
    ops.FloorDivide: _binary(lambda x, y: x // y),
    ops.Mod: _binary(lambda x, y: x % y),
    ops.Maximum: _binary(dims.maximum),
    ops.Minimum: _binary(dims.minimum),
    ops.Neg: lambda op, x: _each(lambda v: -v, x),
    ops.Floor: lambda op, x: _each(lambda v: v if isinstance(v, Expr) else float(math.floor(v)), x),
    ops.Ceil: lambda op, x: _each(lambda v: v if isinstance(v, Expr) else float(math.ceil(v)), x),
    ops.Less: _binary(lambda x, y: bool(x < y)),
    ops.LessEqual: _binary(lambda x, y: bool(x <= y)),
    ops.Greater: _binary(lambda x, y: bool(x > y)),
    ops.GreaterEqual: _binary(lambda x, y: bool(x >= y)),
    ops.Equal: _binary(_equal),
    ops.NotEqual: _binary(lambda x, y: not _equal(x, y)),
    ops.Sum: _reduce(lambda items: sum(items)),
    ops.Prod: _reduce(dims.product),
}
# These put elements in other places, so that some of them may be known and others not.
_MOVES = frozenset(
    [ops.Reshape, ops.Transpose, ops.BroadcastTo, ops.Slice, ops.Concat, ops.Gather, ops.Cast, ops.StopGradient, ops.Within]
)
