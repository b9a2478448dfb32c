"""Cases of a name over sizes: derived from one form of its arguments, `lambda n: given(…)` with `n` for the size of a batch.

    over_sizes("paddle.nn.functional.conv1d", lambda n: given(normal(n, 2, 7), normal(3, 2, 3), stride=2))

makes a case of no batch, of a batch of one, and of an odd batch in non-contiguous tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.api.table import Recipe

EMPTY, ONE, ODD = 0, 1, 7


@dataclass(frozen=True)
class Given:
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def strided(self) -> Given:
        """The same with non-contiguous tensors; a vector has no other order, and stays."""
        return Given(tuple(map(_strided, self.args)), {k: _strided(v) for k, v in self.kwargs.items()})


def given(*args: Any, **kwargs: Any) -> Given:
    return Given(args, kwargs)


def _strided(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_strided, value))
    return value.strided() if isinstance(value, Recipe) and len(value.shape) > 1 and not value.is_raw else value


def over_sizes(add: Callable[..., None], form: Callable[[int], Given], *, refused: tuple[int, ...] = ()) -> None:
    """`add` cases of the form with a batch of each size; `refused` are the sizes that Paddle refuses, as we do."""
    for size in (EMPTY, ONE, ODD):
        call = form(size) if size != ODD else form(size).strided()
        add(*call.args, **call.kwargs, **({"_raises": True} if size in refused else {}))
