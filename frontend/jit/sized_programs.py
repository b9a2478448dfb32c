"""Numbers in place of free sizes, where a function, or a call, does not go with free ones.

A program of free sizes serves every call that its guards let through. Where a guard does not, or where the function wants the number behind
a free size, a call gets a program with numbers in place of the sizes that stand in the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from polyreme.ir.dims import Dim, Expr, evaluate, symbols, told
from polyreme.ir.sizes.facts import Guard
from polyreme.ir.types import TensorType
from polyreme.jit.traced import Traced

__all__ = ["MOST_SIZES", "Axes", "Shapes", "fits", "free_axes", "is_accepted", "shapes_of", "sizes_of", "with_numbers"]

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
        type.with_shape(tuple(shapes[i][axis] if (i, axis) in axes else size for axis, size in enumerate(type.shape)))
        for i, type in enumerate(types)
    ]


def fits(traced: Traced, shapes: Shapes) -> bool:
    """Whether inputs of these shapes are those that a program is for, by its types and guards, and by what its ops refuse of known sizes.
    """
    return is_accepted(traced, shapes) and all(
        evaluate(room, values) >= 0 for values in [sizes_of(traced, shapes)] for room in _facts(traced).windows
    )


def is_accepted(traced: Traced, shapes: Shapes) -> bool:
    """Whether the program takes inputs of these shapes when it is called."""
    values = sizes_of(traced, shapes)
    try:
        return all(evaluate(size, values) == number for size, number in _axes(traced, shapes)) and all(
            _holds(g, values) for g in _facts(traced).guards
        )
    except KeyError:  # a size that no axis tells, which is an error when the program is compiled
        return True


def _axes(traced: Traced, shapes: Shapes) -> list[tuple[Dim, int]]:
    """The sizes of the inputs as the program has them, with what they are."""
    pairs = [
        (arg.type.shape, shapes[source])
        for arg, source in zip(traced.func.args, traced.sources, strict=True)
        if isinstance(source, int) and source < len(shapes)
    ]
    return [pair for sizes, shape in pairs for pair in zip(sizes, shape, strict=True)]


def sizes_of(traced: Traced, shapes: Shapes) -> dict[str, int]:
    """The values of the names in the program's types."""
    values: dict[str, int] = {}
    for size, number in _axes(traced, shapes):
        if (found := told(size, number)) is not None:
            values.setdefault(found[0], int(found[1]))
    return values


class _Facts(NamedTuple):
    """What a call of a program checks: its guards, and that no size becomes negative on the way; and what is not negative where windows
    fit.
    """

    guards: list[Guard]
    windows: list[Dim]


def _facts(traced: Traced) -> _Facts:
    """The facts of a program, which are found once."""
    found: _Facts | None = vars(traced).get("_size_facts")
    if found is None:
        from polyreme.lowering.transforms.solve_sizes import bound_sizes, bounds_of, windows_of

        told = bound_sizes(traced.func)
        windows = [room for room in windows_of(traced.func) if symbols(room) <= told]
        found = vars(traced)["_size_facts"] = _Facts([*map(Guard.parse, traced.func.guards), *bounds_of(traced.func)], windows)
    return found


def _holds(guard: Guard, values: dict[str, int]) -> bool:
    size, low, high = guard.measured
    measured = evaluate(size, values)
    return (low is None or measured >= low) and (high is None or measured <= high)


def shapes_of(inputs: Sequence[Any]) -> Shapes:
    """The shapes of tensors with values."""
    return tuple(tuple(tensor.type.shape) for tensor in inputs)
