"""Lists of things with scores: their order, and those that a mask keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyreme import dispatch, math
from polyreme.dialects import nn
from polyreme.ir.types import ScalarType, i32, i64
from polyreme.math.common import cast_to, number_like, select
from polyreme.math.manipulation import positions_along
from polyreme.tensor import Tensor

__all__ = [
    "along", "best_first", "count_of", "ends_of", "flat", "kept_places", "numbers", "order_of", "put_back", "single", "take",
]  # fmt: skip


def single(value: float) -> float:
    """An attribute of Paddle's, which is a float32, as a number of any precision."""
    return float(np.float32(value))


def numbers(count: Any, dtype: ScalarType = i64) -> Tensor:
    """0, 1, … below a size."""
    return dispatch.call(nn.Iota, shape=(count,), axis=0, dtype=dtype)


def flat(x: Tensor) -> Tensor:
    return math.reshape(x, [-1])


def take(x: Tensor, places: Tensor, axis: int = 0) -> Tensor:
    """Slices of `x` along `axis` at places that are known to be there."""
    return dispatch.call(nn.Gather, x, places, axis=axis % x.ndim)


def along(x: Tensor, order: Tensor) -> Tensor:
    """The elements of each list [..., n] at its own places [..., k], which are known to be there."""
    return take(flat(x), positions_along(order, x.type.shape, x.ndim - 1))


def put_back(x: Tensor, order: Tensor) -> Tensor:
    """Undoes `along` with an order of all places: the first element of each list goes to the place that comes first, and so on."""
    places = positions_along(order, x.type.shape, x.ndim - 1)
    return math.reshape(dispatch.call(nn.Scatter, flat(x), flat(x), flat(places), axis=0), list(x.type.shape))


def count_of(mask: Tensor, axes: tuple[int, ...]) -> Tensor:
    """How many hold along some axes, int32."""
    return cast_to(dispatch.call(nn.Sum, cast_to(mask, i64), axis=axes, keepdims=False), i32)


def ends_of(counts: Tensor) -> Tensor:
    """0 and where each of so many parts ends, int64: the offsets of sequences."""
    return math.concat([math.zeros([1], "int64"), math.cumsum(cast_to(counts, i64), 0)], 0)


def order_of(x: Tensor, most: int = -1, descending: bool = False) -> Tensor:
    """The places that sort along the last axis, int64, equal elements in their order; the first `most` of them if that is above 0."""
    return dispatch.call(nn.Argsort, x, axis=x.ndim - 1, descending=descending, count=most if most > 0 else None)


def best_first(scores: Tensor, wanted: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Where the wanted ones of each list stand, the highest score first, int64, and then others; and which are wanted ones.

    No more than `most` places of a list are given if that is not negative.
    """
    order = order_of(select(wanted, scores, number_like(scores, float("-inf"))), max(most, 1) if most >= 0 else -1, True)
    held = along(wanted, order)
    return order, held if most else math.zeros_like(held)


def kept_places(mask: Tensor) -> Tensor:
    """The places where bools [n] hold: how many these are is known once the program has run."""
    return math.nonzero(mask)[:, 0]
