"""Operands whose sizes are equal in every call that is let through, though types cannot say so: made to fit by taking all their elements.

A pyramid that halves an image and doubles it again adds `2*floordiv(H, 4)` rows to `floordiv(H, 2)`. No number in place of `H` makes both
the same for all calls that fit. So a call checks that they are equal, and the op sees a slice of one operand that has as many rows as the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyreme.dialects import nn as ops
from polyreme.ir.core import Block, Op, Value
from polyreme.ir.diagnostics import InferError
from polyreme.ir.dims import Dim, product
from polyreme.ir.python.records import dataclass
from polyreme.ir.sizes.facts import assuming
from polyreme.ir.types import substitute_type
from polyreme.jit.capture.learned_sizes import Equation
from polyreme.lowering.transforms.solve_sizes import with_sizes

__all__ = ["CheckedSlice", "fits_with", "fitted", "needed"]


@dataclass(frozen=True)
class CheckedSlice:
    """How a value is changed: `take(value, axis, size)` has `size` elements along an axis, None if no call can check that; `reshape(value,
    shape)`.
    """

    take: Callable[[Value, int, Dim], Value | None]
    reshape: Callable[[Value, Sequence[Dim]], Value]


def needed(cls: type[Op], values: Sequence[Any], attributes: dict[str, Any]) -> list[Equation] | None:
    """The sizes that have to be equal for the op to take its operands; None if it takes them in no case."""
    definition = cls.definition
    with assuming() as equations:
        try:
            flat, segments = definition.bind_operands(values)
            definition.infer(flat, segments, definition.bind_attributes(attributes))
        except InferError:
            return None
    return equations


def fitted(
    cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], equations: Sequence[Equation], slices: CheckedSlice
) -> list[Any]:
    """The operands, some of them cut to sizes that equal theirs by `equations`; as they are where that does not help."""
    if cls is ops.Reshape:
        (x,) = values
        count, shape = product(x.type.shape), attributes["shape"]
        flat = slices.take(x if x.type.rank == 1 else slices.reshape(x, [count]), 0, product(shape))
        return [x if flat is None else flat]
    groups = [list(v) if isinstance(v, (list, tuple)) else [v] for v in values]
    for equation in equations:
        left = needed(cls, _ungrouped(values, groups), attributes) or []
        for group, place, axis, size in _candidates(groups, equation):
            old = group[place]
            # What the result would be is told by a type alone: nothing is recorded for a trial.
            group[place] = _resized(old, axis, size)
            trial = needed(cls, _ungrouped(values, groups), attributes)
            group[place] = old
            if trial is not None and len(trial) < len(left):
                made = slices.take(old, axis, size)
                if made is not None:
                    group[place] = made
                break
    return _ungrouped(values, groups)


def fits_with(
    cls: type[Op], values: Sequence[Any], attributes: dict[str, Any], sizes: Mapping[str, Dim], equations: Sequence[Equation]
) -> bool:
    """Whether the op needs fewer sizes to be equal than `equations` says if some names stand for `sizes`."""

    def like(value: Value | None) -> Value | None:
        return None if value is None else Block().add_arg(substitute_type(value.type, dict(sizes)), "")

    given = [[like(v) for v in value] if isinstance(value, (list, tuple)) else like(value) for value in values]
    trial = needed(cls, given, {name: with_sizes(value, sizes) for name, value in attributes.items()})
    return trial is not None and len(trial) < len(equations)


def _candidates(groups: list[list[Any]], equation: Equation) -> list[tuple[list[Any], int, int, Dim]]:
    """The axes that have one of two sizes, with the other: those that become known first, and then those of later operands."""
    a, b = equation
    found = []
    for group in reversed(groups):
        for place in reversed(range(len(group))):
            if group[place] is None:
                continue
            for axis, size in enumerate(group[place].type.shape):
                if size == a or size == b:
                    found.append((group, place, axis, b if size == a else a))
    return sorted(found, key=lambda candidate: not isinstance(candidate[3], int))


def _resized(value: Value, axis: int, size: Dim) -> Value:
    """Something that has the type of `value` with another size."""
    shape = value.type.shape
    return Block().add_arg(value.type.with_shape((*shape[:axis], size, *shape[axis + 1 :])), "")


def _ungrouped(values: Sequence[Any], groups: list[list[Any]]) -> list[Any]:
    return [group if isinstance(value, (list, tuple)) else group[0] for value, group in zip(values, groups, strict=True)]
