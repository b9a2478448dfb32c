"""Gradients clipped on a GPU: all of them by a few launches (`compiled/for_each.py`), and nothing of it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from polyreme.compiled.for_each import for_each, reduced_each
from polyreme.device import current_place
from polyreme.ir.types import f64
from polyreme.math import elementwise, reduction
from polyreme.math.creation import full_like
from polyreme.tensor import Tensor

__all__ = ["clipped_by_global_norm", "clipped_by_norm", "clipped_by_value"]


def clipped_by_value(gradients: Sequence[Tensor], low: float, high: float) -> Iterable[Tensor]:
    """As `ClipGradByValue`."""
    return _each("clip_by_value", (low, high), lambda g: elementwise.clip(g, low, high), [[g._value] for g in gradients])


def clipped_by_norm(gradients: Sequence[Tensor], limit: float) -> Iterable[Tensor]:
    """As `ClipGradByNorm`."""
    squares = _squares(gradients)
    clipped = lambda g, square: _scaled(g, _factor(square, limit))
    return _each("clip_by_norm", limit, clipped, [[g._value, squares.part(i, 1)] for i, g in enumerate(gradients)])


def clipped_by_global_norm(gradients: Sequence[Tensor], limit: float) -> Iterable[Tensor]:
    """As `ClipGradByGlobalNorm`."""
    total = lambda squares: [_factor(reduction.sum(squares), limit)]
    ((factor,),) = for_each(current_place(), "clip_factor", limit, total, [[_squares(gradients)]], 1)
    return _each("clip_by_global_norm", None, _scaled, [[g._value, factor] for g in gradients])


def _each(name: str, key: Any, formula: Callable[..., Tensor], sets: Sequence[Sequence[Any]]) -> Iterable[Tensor]:
    """What `formula` makes of each gradient, the first of its set; the others are single numbers."""
    made = for_each(current_place(), name, key, lambda *operands: [formula(*operands)], sets, 1)
    return [Tensor._wrap(result.reshaped(given[0].shape)) for (result,), given in zip(made, sets, strict=True)]


def _squares(gradients: Sequence[Tensor]) -> Any:
    """The sum of the squares of each gradient: a row of float32, or of float64 where one of them is that."""
    wide = "float64" if any(g.type.dtype == f64 for g in gradients) else "float32"
    add = lambda row: reduction.sum(elementwise.cast(row * row, wide))
    return reduced_each(current_place(), f"squares_{wide}", add, reduction.sum, [g._value for g in gradients])


def _factor(square: Tensor, limit: float) -> Tensor:
    """What a gradient of this square is multiplied by: 1 below the limit, so that it keeps its bits."""
    norm = elementwise.sqrt(square)
    return limit / elementwise.maximum(norm, full_like(norm, limit))


def _scaled(gradient: Tensor, factor: Tensor) -> Tensor:
    return gradient * elementwise.cast(factor, gradient.dtype)
