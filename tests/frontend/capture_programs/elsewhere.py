"""A module of helpers, as programs import them."""

from __future__ import annotations

from typing import Any

import polyreme as paddle

OFFSET = 1.5
HISTORY: list[Any] = []


def shifted(x: Any) -> Any:
    return paddle.tanh(x) + OFFSET


def helper(x: Any) -> Any:
    return x * 3


def through_helper(x: Any) -> Any:
    return helper(x) + 1


def remembered(x: Any) -> Any:
    HISTORY.append(x.shape[0])
    return x * 2
