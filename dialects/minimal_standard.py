"""Numbers of the linear congruential generator that C++ calls `minstd_rand`, and what libstdc++'s distributions make of them.

Operators of Paddle 1 that have a seed draw so. A state is the last number; each is 48271 times the one before, modulo 2^31 - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["normal", "uniform"]

Array = np.ndarray[Any, Any]

_FACTOR, _MODULUS = 48271, 2**31 - 1


def uniform(seed: int, count: int, low: float, high: float, dtype: Any) -> Array:
    """`count` numbers in [low, high), the first ones after `seed`."""
    kind = np.dtype(dtype).type
    return _units(seed, count, kind) * (kind(high) - kind(low)) + kind(low)


def normal(seed: int, count: int, mean: float, std: float, dtype: Any) -> Array:
    """`count` normal numbers by the polar method: of points in a square those within the circle give two each, the second one first."""
    kind = np.dtype(dtype).type
    pairs = (count + 1) // 2
    made = np.empty((0, 2), kind)
    tried = 0
    while len(made) < pairs:
        tried = 2 * max(tried, pairs, 16)
        points = (2 * _units(seed, 2 * tried, kind) - 1).reshape(-1, 2)
        far = (points * points).sum(1, dtype=kind)
        inside = (far <= 1) & (far != 0)
        points, far = points[inside], far[inside]
        made = points[:, ::-1] * np.sqrt(-2 * np.log(far) / far)[:, None]
    return made.reshape(-1)[:count] * kind(std) + kind(mean)


def _numbers(seed: int, count: int) -> Array:
    """The first `count` numbers, less one. Each half is the one before, times a power of the factor."""
    state = seed % _MODULUS or 1
    made = np.empty(max(count, 1), np.int64)
    made[0] = state * _FACTOR % _MODULUS
    done, power = 1, _FACTOR
    while done < count:
        more = min(done, count - done)
        made[done : done + more] = made[:more] * power % _MODULUS
        done, power = done + more, power * power % _MODULUS
    return made[:count] - 1


def _units(seed: int, count: int, kind: Any) -> Array:
    """Numbers in [0, 1): of one number each, or of two if there are more digits."""
    span = _MODULUS - 1
    if kind is not np.float64:
        made = _numbers(seed, count).astype(kind) / kind(span)
    else:
        parts = _numbers(seed, 2 * count).reshape(count, 2).astype(kind)
        made = (parts[:, 0] + parts[:, 1] * span) / (kind(span) * span)
    return np.minimum(made, np.nextafter(kind(1), kind(0)))
