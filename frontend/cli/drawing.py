"""Inputs that a command draws: of which sizes, where a model leaves them free."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["SIZES", "first_taken"]

# Of axes that a model leaves free: what few models refuse comes first.
SIZES = (1, 2, 4, 8, 16, 32, 64)

Result = TypeVar("Result")


def first_taken(sizes: Iterable[int], attempt: Callable[[int], Result]) -> Result:
    """What `attempt` gives for the first of `sizes` that the model takes. Where it takes none, the error is that of the first one."""
    from polyreme.ir.evaluate import EvaluateError
    from polyreme.runtime.errors import CallError

    refused: EvaluateError | CallError | None = None
    for size in sizes:
        try:
            return attempt(size)
        except (EvaluateError, CallError) as error:
            refused = refused or error
    raise refused or ValueError("expected a size to try")
