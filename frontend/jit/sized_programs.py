"""Numbers in place of free sizes, where a function, or a call, does not go with free ones.

A program of free sizes serves every call that its guards let through. Where a guard does not, or where the function wants the number behind a free size, a call
gets a program with numbers in place of the sizes that stand in the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.ir.dims import Dim, Expr, evaluate, told
from polyreme.ir.facts import Guard
from polyreme.ir.types import TensorType
from polyreme.jit.traced import Traced

__all__ = ["MOST_SIZES", "Axes", "Shapes", "fits", "free_axes", "shapes_of", "with_numbers"]

# Of programs with numbers in place of free sizes, or that took branches by sizes, per signature.
MOST_SIZES = 64

Shapes = tuple[tuple[int, ...], ...]
Axes = frozenset[tuple[int, int]]  # numbers of inputs and axes


def free_axes(types: Sequence[TensorType]) -> Axes:
    """The axes of inputs whose sizes are free."""
    return frozenset((i, axis) for i, type in enumerate(types) for axis, size in enumerate(type.shape) if isinstance(size, Expr))


def with_numbers(types: Sequence[TensorType], shapes: Shapes, axes: Axes) -> list[TensorType]:
    """The types with the sizes of a call at these axes."""
    return [
        type.with_shape(tuple(shapes[i][axis] if (i, axis) in axes else size for axis, size in enumerate(type.shape))) for i, type in enumerate(types)
    ]


def fits(traced: Traced, shapes: Shapes) -> bool:
    """Whether inputs of these shapes are those that a program is for, by its types and guards."""
    values: dict[str, int] = {}
    axes: list[tuple[Dim, int]] = []
    for arg, source in zip(traced.func.args, traced.sources, strict=True):
        if isinstance(source, int) and source < len(shapes):
            axes += zip(arg.type.shape, shapes[source], strict=True)
    for size, number in axes:
        if (found := told(size, number)) is not None:
            values.setdefault(found[0], int(found[1]))
    try:
        return all(evaluate(size, values) == number for size, number in axes) and all(_holds(Guard.parse(text), values) for text in traced.func.guards)
    except KeyError:  # a size that no axis tells, which is an error when the program is compiled
        return True


def _holds(guard: Guard, values: dict[str, int]) -> bool:
    size, low, high = guard.measured
    measured = evaluate(size, values)
    return (low is None or measured >= low) and (high is None or measured <= high)


def shapes_of(inputs: Sequence[Any]) -> Shapes:
    """The shapes of tensors with values."""
    return tuple(tuple(tensor.type.shape) for tensor in inputs)
