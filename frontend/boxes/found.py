"""What operators that choose among boxes of several classes give, and what they begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from polyreme import dispatch, math
from polyreme.boxes.lists import flat, numbers, single, take
from polyreme.ir.dims import Dim
from polyreme.ir.types import ScalarType, i32, i64
from polyreme.math.common import cast_to, number_like, same_sizes
from polyreme.tensor import Tensor

__all__ = ["Found", "above", "check_shape", "columns_of", "of_classes", "rows_of", "size"]


class Found(NamedTuple):
    """What is found: rows of class, score, x1, y1, x2, y2; where each stands among the boxes, int32 [n, 1]; and how many there are in each
    image, int32.
    """

    rows: Tensor
    places: Tensor
    counts: Tensor


def check_shape(x: Tensor, wanted: Sequence[Dim], what: str) -> None:
    """A `ValueError` unless `x` has these sizes; free ones have them from here on."""
    if x.ndim != len(wanted) or not same_sizes(x.type.shape, wanted):
        raise ValueError(f"expected {what} of shape {list(wanted)} but got {list(x.shape)}")


def size(count: Any, dtype: ScalarType = i64) -> Tensor:
    """A size as a number."""
    return dispatch.full((), count, dtype)


def above(scores: Tensor, threshold: float) -> Tensor:
    return math.greater_than(scores, number_like(scores, single(threshold)))


def of_classes(classes: Any, background: int) -> Tensor:
    """Which classes are none of the background, bools [classes, 1]."""
    return math.not_equal(math.reshape(numbers(classes), [-1, 1]), number_like(numbers(1), background))


def columns_of(kept: Tensor, label: Tensor, scores: Tensor, edges: Sequence[Tensor]) -> Tensor:
    """Rows of class, score, x1, y1, x2, y2 of the boxes at some places, in the element type of the boxes."""
    dtype = edges[0].type.dtype
    return math.stack([cast_to(take(flat(x), kept), dtype) for x in (label, scores, *edges)], 1)


def rows_of(kept: Tensor, places: Tensor) -> Tensor:
    return math.unsqueeze(cast_to(take(flat(places), kept), i32), 1)
