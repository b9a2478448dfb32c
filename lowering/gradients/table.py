"""The table of gradient rules, and what the rules share.

    @gradient(Tanh)
    def tanh(op, b, dy):
        '''dx = dy (1 - y²)'''
        return (b(Mul, dy, b(Sub, one(b, dy), b(Square, op.result))),)

A rule gets the op (operands, attributes and results by name), an emitter `b(Class, *operands, **attributes)` and the gradients of
the results (of several, None for those that no gradient reaches), and returns one gradient per declared operand: None where there is none,
a tuple for a variadic operand. (Those of branches and loops
also tell when a gradient is there: `presence.py`.) A rule emits `nn` ops only and
looks at values through `.type` alone, so that the compiler and the eager tape share it, and gradients have gradients. An emitter that is no
`Builder` has `fresh_size()`, a name for a size that is
known once an op has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyreme.dialects.nn import BroadcastTo, Conj, DimValue, Full, Reshape, Sum
from polyreme.ir.core import Op
from polyreme.ir.dims import Dim, Expr, product
from polyreme.ir.types import ScalarType, TensorType

Value = Any  # an IR value, or an eager tensor: anything with `.type`
Emitter = Callable[..., Any]
Rule = Callable[..., Sequence[Any]]

GRADIENTS: dict[type[Op], Rule] = {}


def gradient(*kinds: type[Op]) -> Callable[[Rule], Rule]:
    """Make the decorated function the gradient rule of ops of exactly these classes."""

    def add(rule: Rule) -> Rule:
        for kind in kinds:
            GRADIENTS[kind] = rule
        return rule

    return add


def number(b: Emitter, value: float, like: Value | ScalarType) -> Value:
    """`value` as a tensor of rank 0, of the element type of `like`."""
    return b(Full, value=value, dtype=like if isinstance(like, ScalarType) else like.type.dtype)


def size_number(b: Emitter, size: Dim, dtype: ScalarType) -> Value:
    """A size as a tensor of rank 0: a constant when it is known."""
    return b(DimValue, size=size, dtype=dtype) if isinstance(size, Expr) else b(Full, value=size, dtype=dtype)


def zeros_like(b: Emitter, value: Value) -> Value:
    return b(Full, value=0, shape=value.type.shape, dtype=value.type.dtype)


def has_gradient(value: Value) -> bool:
    """Whether a value is of floating or complex numbers; others have no gradients."""
    return isinstance(value.type, TensorType) and value.type.dtype.kind in "fc"


def conjugate(b: Emitter, value: Value) -> Value:
    """Complex numbers conjugated; any other value itself."""
    return b(Conj, value) if value.type.dtype.kind == "c" else value


def unbroadcast(b: Emitter, grad: Value, wanted: TensorType) -> Value:
    """The gradient of an operand of type `wanted` that was repeated to the shape of `grad`: sums over what was repeated."""
    shape: tuple[Dim, ...] = grad.type.shape
    if shape == wanted.shape:
        return grad
    extra = len(shape) - wanted.rank
    repeated = [i for i, size in enumerate(shape) if i < extra or (wanted.shape[i - extra] == 1 and size != 1)]
    if repeated:
        grad = b(Sum, grad, axis=tuple(repeated), keepdims=True)
    return grad if grad.type.shape == wanted.shape else b(Reshape, grad, shape=wanted.shape)


def expand_reduced(b: Emitter, value: Value, shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Value:
    """A reduced value with the reduced `axes` of the original `shape` back, as sizes of 1."""
    kept = tuple(1 if i in axes else d for i, d in enumerate(shape))
    return value if value.type.shape == kept else b(Reshape, value, shape=kept)


def repeat_to(b: Emitter, value: Value, shape: tuple[Dim, ...]) -> Value:
    return value if value.type.shape == shape else b(BroadcastTo, value, shape=shape)


def count_of(shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Dim:
    return product(shape[a] for a in axes)
